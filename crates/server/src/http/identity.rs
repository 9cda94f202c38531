//! Who a credential stands for.

use std::sync::Arc;

use portcullis_proto::{Principal, Scope, ScopeSet, Subject};

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
    /// Who it is in questions and in the record, where an extension is named
    /// with the person it acts for.
    pub fn subject(&self) -> Subject {
        let subject = Subject::of(self.principal.clone());
        match &self.principal {
            Principal::Extension { .. } => subject.on_behalf_of(Arc::clone(&self.user)),
            Principal::Core { .. }
            | Principal::User { .. }
            | Principal::Token { .. }
            | Principal::Automation { .. } => subject,
        }
    }

    /// Whether its credential is for `scope`.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }
}
