//! The writing half of the file hand, from outside: through `ScopedFs` alone.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_macros,
    clippy::format_collect,
    reason = "tests plant what Portcullis is tried on"
)]

mod course;
mod crash;
mod crowd;
mod emptied;
mod extension;
mod faults;
mod hard;
mod mended;
mod mounts;
mod named;
mod pinned;
mod pinned_calls;
mod plants;
mod race;
mod race_archives;
mod secret;
mod shown;
mod store;
mod support;
mod temp;
mod undo;
mod verbs;
mod versions;
mod victim;
