//! Who a credential stands for.

use std::sync::Arc;

use portcullis_proto::{Principal, Scope, ScopeSet};

/// Who makes a request. Proves that a credential was presented and held at
/// that moment; does not prove that anything may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who acts.
    pub principal: Principal,
    /// The person it is, or is on behalf of.
    pub user: Arc<str>,
    /// What the credential may be used for.
    pub scopes: ScopeSet,
    /// How it was presented.
    pub via: Via,
}

/// How a credential was presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A bearer token: an agent, or a program.
    Bearer,
    /// A cookie of a sign-in: a person at a browser.
    Cookie,
}

impl Identity {
    /// Whether its credential is for `scope`.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }
}
