//! The architecture, as tests: what the map, the lints and the papers promise
//! about this tree is read back from the tree.
//!
//! - [`map`]: which crate may use which, and where an outside crate may live.
//! - [`lints`]: who may lift the boundary, how long a file may grow.
//! - [`papers`]: a named test exists, a decision has its four parts.
//! - [`entrances`]: JSON is counted before it is parsed.
//! - [`dependencies`]: licences, bans and sources, from `deny.toml`.
//!
//! A failing test prints what is wrong and, after `hint:`, where to put it right.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these tests read the source tree itself, and may panic"
)]

mod dependencies;
mod entrances;
mod lints;
mod map;
mod papers;
mod tree;

/// Fails with every finding at once, and with the way out.
#[track_caller]
fn none(findings: Vec<String>, problem: &str, hint: &str) {
    assert!(
        findings.is_empty(),
        "{problem}:\n  {}\nhint: {hint}",
        findings.join("\n  ")
    );
}
