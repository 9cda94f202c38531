//! `portcullis connect` from outside: a server, a terminal, and what is typed.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests start the binary and build what it looks at"
)]
#![allow(dead_code, reason = "the sandbox has more than these tests use")]

mod aliases;
mod approve;
mod door;
mod fake;
mod flags;
mod pair;
mod prompts;
#[path = "../it/sandbox.rs"]
mod sandbox;
#[path = "../serve/served.rs"]
mod served;
mod tmux;
mod ways;
