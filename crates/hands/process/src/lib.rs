//! Portcullis: the only crate that starts processes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this hand is the one place where processes are started"
)]

mod stdio_child;

pub use stdio_child::Piped;
