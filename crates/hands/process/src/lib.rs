//! The process hand: the only crate that starts processes.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "this hand is the one place where processes are started"
)]

mod hook;
mod room;
mod stdio_child;

pub use hook::{BadHook, Events, ProgramHook};
pub use room::take_all_handles;
pub use stdio_child::Piped;
