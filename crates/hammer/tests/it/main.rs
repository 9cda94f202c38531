//! The hammer against small servers of known temperament: it bites, and it is not fooled.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic, and make scratch directories of their own"
)]

mod temperaments;
