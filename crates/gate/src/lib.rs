//! Attempts, permits, hooks, approvals and the audit: the one way through.
//!
//! A guard in three states goes through every call. An [`Attempt`] exists
//! before anything is resolved, [`Attempt::enter`] turns it into a [`Permit`],
//! and [`Permit::spend`] settles it; dropped in any state it leaves its line.
//!
//! This crate does no I/O. What it needs from the machine it names as a trait
//! ([`Ledger`], [`Hook`], [`Approver`], [`Keeper`], [`Clock`]) that a hand, the
//! store or a surface implements.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod afterwards;
mod approve;
mod ask;
mod attempt;
mod book;
mod caller;
mod clock;
mod deed;
mod enter;
mod entitled;
mod gate;
mod grant;
mod hook;
mod ledger;
mod manifest;
mod permit;
mod question;
mod recent;
mod relay;
mod root;
mod session;

pub use approve::{Answered, Approver, Claim, Keeper, Reply};
pub use attempt::Attempt;
pub use caller::{Caller, CancelFlag, Headway, Progress, Warrant, Who};
pub use clock::Clock;
pub use deed::{Deed, Settled};
pub use entitled::Entitlements;
pub use gate::{Gate, GateParts};
pub use grant::{Grant, GrantBook, GrantSource, Granted};
pub use hook::{Hook, HookCall, HookSay};
pub use ledger::{Ledger, LedgerDown};
pub use manifest::{ApprovedBook, ApprovedExtension, BadManifest, ManifestPermission};
pub use permit::{Live, Permit};
pub use question::{Answer, Decision, Question, Surface};
pub use recent::RecentChange;
pub use relay::{Relay, Wanted};
pub use root::{RootEntry, RootSpec};
