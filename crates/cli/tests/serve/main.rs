//! `portcullis serve` from outside, as whoever operates it meets it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests start the binary and build what it looks at; what was measured is printed"
)]

mod aliases;
mod collector;
mod issuer;
mod links;
mod logs;
mod named;
mod otlp;
#[path = "../it/sandbox.rs"]
#[allow(dead_code, reason = "the other test binary uses all of it")]
mod sandbox;
mod served;
/// The issuer of the server's own tests.
#[path = "../../../server/tests/http/signer.rs"]
#[allow(dead_code, reason = "the other test binary uses all of it")]
mod signer;
mod systemd;
mod telemetry;
mod toggle;
