//! Which machine a caller works with: gateway before local before none.

use std::sync::Arc;

use portcullis_tools::Machine;
use serde_json::{Value, json};

use super::identity::Identity;

/// The machines there are, for whoever asks.
pub trait Machines: Send + Sync {
    /// The machine `identity` works with; nothing where it has none, and then
    /// it has no tools either.
    fn of(&self, identity: &Identity) -> Option<Arc<dyn Machine>>;

    /// What there is and why, for `/status`.
    fn status(&self, identity: &Identity) -> Value;
}

/// The machine this server runs on, or none.
pub struct Providers {
    local: Option<Arc<dyn Machine>>,
    /// On what it was decided, for `/status`.
    evidence: Vec<String>,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Providers")
            .field("local", &self.local.is_some())
            .field("evidence", &self.evidence)
            .finish()
    }
}

impl Providers {
    /// With the machine it runs on, if that is served, and why.
    pub fn new(local: Option<Arc<dyn Machine>>, evidence: Vec<String>) -> Self {
        Self { local, evidence }
    }
}

impl Machines for Providers {
    fn of(&self, _identity: &Identity) -> Option<Arc<dyn Machine>> {
        self.local.clone()
    }

    fn status(&self, identity: &Identity) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "user": &*identity.user,
            "scopes": identity.scopes.to_string(),
            "provider": if self.local.is_some() { "local" } else { "none" },
            "evidence": self.evidence,
        })
    }
}
