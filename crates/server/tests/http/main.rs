//! The HTTP surface through a real listener on loopback, spoken to byte by byte:
//! a real store, gate, authority and audit behind it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "tests build a world of their own and may fail loudly; how much was tried is printed"
)]

mod by_tools;
mod client;
mod daemon;
mod extension_roots;
mod extensions;
mod files;
mod floods;
mod gateway;
mod gateway_again;
mod gateway_away;
mod gateway_fixed;
mod gateway_heard;
mod gateway_keys;
mod gateway_ours;
mod gateway_replies;
mod gateway_retried;
mod gateway_seed;
mod guard;
mod headway;
mod heavy;
mod hostile;
mod isolation;
mod issuer;
mod kept;
mod key_timing;
mod kinds;
mod lasting;
mod lent;
mod linked;
mod matrix;
mod muffled;
mod openapi;
mod questions;
mod record_events;
mod recorded;
mod same;
mod scopes;
mod shares;
mod signer;
mod staying;
mod strangers;
mod streams;
mod surfaces;
mod timing;
mod watching;
mod world;

/// The record as `portcullis serve` reads it: the very same file.
#[path = "../../../cli/src/record.rs"]
mod record;
