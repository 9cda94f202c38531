//! Our own state, in SQLite: rules, trust, questions, what counts once, who may
//! come in, and which machines are lent.
//!
//! One database, `state.db`, in a directory that hands/files vouches for. It is
//! opened when it is first needed, and by as many processes as like: every
//! `portcullis mcp` of a person, and the commands they type meanwhile. What one
//! writes, the others see with their next read.
//!
//! This is the only crate that names SQLite. It reads no clock: whoever asks
//! brings the time.
#![forbid(unsafe_code)]

mod accounts;
mod approver;
mod db;
mod desk;
mod error;
mod links;
mod nonces;
mod parked;
mod questions;
mod rules;
mod schema;
mod store;
mod trust;
mod waiting;
mod watchers;

pub use accounts::{
    Credential, CredentialBook, Extension, ExtensionState, NewToken, Revealed, SignedIn, Switch,
    Token, User, is_user_name, sign_in_url,
};
pub use approver::DurableApprover;
pub use error::{StoreError, Trouble};
pub use links::{
    BegunCall, Binding, CallName, CallReply, KeptCall, KeptState, Lent, LinkKey, LinkKeyKind,
    LinkedMachine, NewCall, Paired, Pairing, WaitingCall, Wider, machine_name,
};
pub use parked::ParkedApprover;
pub use questions::{Said, Stage};
pub use rules::{RuleId, StoredRule};
pub use store::Store;
pub use trust::Trusted;
