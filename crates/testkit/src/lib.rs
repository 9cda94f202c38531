//! Portcullis: scaffolding for tests.
//!
//! A [`Scratch`] tree from a literal, and a [`World`]: a gate and an authority
//! over it with a ledger that remembers ([`Lines`]), a clock that is set
//! ([`FakeClock`]) and a person who answers from a list ([`ScriptedApprover`]);
//! besides, a kernel that refuses ([`answer_openat2_with`], [`answer_renameat2_with`]) and
//! how long tests wait ([`until`], [`promised`]).
//! Everything here may panic: it is called by tests alone.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    reason = "tests build the trees that Portcullis is tried on, and stop where that fails"
)]

mod approver;
mod clock;
mod filter;
mod lines;
mod patience;
mod scratch;
mod world;

pub use approver::ScriptedApprover;
pub use clock::{FakeClock, RealClock};
pub use filter::{Answer, answer_openat2_with, answer_renameat2_with};
pub use lines::{Line, Lines};
pub use patience::{PATIENCE, holds_times, promised, until};
pub use scratch::{Scratch, is_superuser};
pub use world::{World, WorldBuilder, agent, core, forgetful_keeper, user};
