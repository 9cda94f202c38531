//! Links: the machines people lend, the keys their daemons come with, and the
//! calls that are under way to them.

mod bindings;
mod calls;
mod keys;
mod machines;

pub use bindings::Binding;
pub use calls::{BegunCall, CallName, CallReply, KeptCall, KeptState, NewCall, WaitingCall};
pub use keys::{LinkKey, LinkKeyKind, Pairing};
pub use machines::{Lent, LinkedMachine, Paired, Wider, machine_name};
