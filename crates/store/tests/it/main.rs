//! The store from outside: alone, under load, and between processes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests damage files, start processes and show what they measured"
)]

mod accounts;
mod approver;
mod content;
mod extensions;
mod file;
mod kit;
mod links;
mod processes;
