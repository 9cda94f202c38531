//! Which machine a caller works with: gateway before local before none.

use std::sync::Arc;

use portcullis_tools::Machine;
use serde_json::Value;

use super::identity::Identity;

/// The machines there are, for whoever asks.
pub trait Machines: Send + Sync {
    /// The machine `identity` works with; nothing where it has none, and then
    /// it has no tools either.
    fn of(&self, identity: &Identity) -> Option<Arc<dyn Machine>>;

    /// What there is and why, for `/status`.
    fn status(&self, identity: &Identity) -> Value;
}
