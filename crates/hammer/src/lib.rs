//! The swap hammer: races any stdio MCP file server, found by its command line, until it leaks.
//!
//! A scratch tree is built with an inside and an outside. Attackers swap one for the other in a
//! tight loop while the server is asked, through its own tools, for what lies inside. Every byte
//! outside carries a mark no honest reply can hold.
//!
//! Invariants:
//! - the hammer never calls a tool that looks as if it could change anything;
//! - an attack that could not run, or a verb that does not work in calm, is never counted as passed;
//! - whatever ends a run, the scratch tree, its mounts and the server's process group are gone.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the hammer attacks scratch trees of its own with raw system calls; no permit is involved"
)]

mod attack;
mod attacker;
mod calibrate;
mod dice;
mod error;
mod lines;
mod marks;
mod plan;
mod race;
mod report;
mod run;
mod scratch;
mod session;
mod table;
mod verb;

pub use attack::Attack;
pub use error::Error;
pub use plan::{Expectation, Plan, ScratchPlace};
pub use report::{AttackOutcome, AttackState, Cell, Escape, Report, Trouble, TroubleKind, Verdict};
pub use run::{Progress, Quiet, run};
pub use verb::Verb;
