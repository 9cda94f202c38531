//! The gate, from outside: every module drives it through its public face only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    unreachable_pub,
    missing_debug_implementations,
    reason = "tests"
)]

mod answers;
mod cancelled;
mod closing;
mod compile_fail;
mod grants;
mod hidden;
mod hooks;
mod mutations;
mod parked;
mod relay;
mod rig;
mod roots;
mod waits;
