//! Hook programs from outside: whatever one does, the answer is right or a no.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests start programs, look into /proc and show what they measured"
)]

mod hook;
