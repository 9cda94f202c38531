//! The binary from outside: what is typed, what comes back, how it ends.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests start the binary and build what it looks at"
)]

mod accounts;
mod approvals;
mod audit;
mod canary;
mod hammer;
mod help;
mod links;
mod mcp;
mod named;
mod policy;
mod recorded;
mod sandbox;
mod settings;
mod state;
mod undo;
mod writes;
