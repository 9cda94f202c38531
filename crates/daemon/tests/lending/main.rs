//! The daemon against a server of our own making, over loopback: what it says,
//! in which order, and what no server can make it do.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests listen on loopback and stop where something is odd"
)]

mod breaks;
mod deadlines;
mod door;
mod fake;
mod frames;
mod kit;
mod links;
mod operations;
mod questions;
mod seed;
mod ways;
