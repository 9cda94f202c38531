//! The reading half of the file hand, from outside: through `ScopedFs` alone.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests plant what Portcullis is tried on"
)]

mod attempts;
mod audit;
mod errors;
mod fallback;
mod handles;
mod ignored;
mod kinds;
mod links;
mod lists;
mod matrix;
mod places;
mod search;
mod search_hard;
mod secrets;
mod windows;
