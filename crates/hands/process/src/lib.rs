//! The only crate that starts processes.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "this crate is the one that starts processes"
)]

mod hook;

pub use hook::{BadHook, Events, ProgramHook};
