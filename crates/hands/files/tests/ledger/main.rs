//! The audit on disk, from outside: what is kept, what is found, what is told.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "tests do to the files what an attacker would"
)]

mod crash;
mod keeping;
mod reading;
mod support;
mod tampering;
