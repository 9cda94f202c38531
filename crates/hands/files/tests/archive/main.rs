//! Archives, from outside: through `ScopedFs` alone.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_macros,
    reason = "tests plant what Portcullis is tried on"
)]

mod craft_tar;
mod craft_zip;
mod hostile;
mod hostile_zip;
mod legitimate;
mod memory;
mod mutated;
mod packing;
mod support;
mod verbs;
