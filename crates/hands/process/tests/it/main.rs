//! Hook programs from outside: whatever one does, the answer is right or a no.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests start programs and look into /proc"
)]

mod hook;
