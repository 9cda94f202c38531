//! MCP over a pipe, spoken line by line as clients do, and over HTTP, both eras.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests build a world of their own and may fail loudly"
)]

mod asks;
mod calls;
mod client;
mod heavy;
mod http;
mod http_asks;
mod http_client;
mod http_sessions;
mod http_tasks;
mod resources;
mod schemas;
mod subscriptions;
mod writes;
