//! The HTTP surface: who a credential stands for.

mod identity;

pub use identity::{Identity, Via};
