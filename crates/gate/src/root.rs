//! Roots as the gate knows them: a name, a kind, a policy. Never a path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_policy::RootPolicy;
use portcullis_proto::{Access, AccessSet, Principal, RootId, RootKind};

/// What is declared about a root.
#[derive(Clone, Debug)]
pub struct RootSpec {
    /// Its name.
    pub id: RootId,
    /// What it is for.
    pub kind: RootKind,
    /// Its name for people.
    pub display_name: Option<String>,
    /// What it allows.
    pub policy: RootPolicy,
    /// Whose it is, for kinds that belong to somebody.
    pub owner: Option<Principal>,
    /// Whether somebody trusts it to be changed.
    pub trusted: bool,
}

/// A root that was declared and registered.
#[derive(Debug)]
pub struct RootEntry {
    id: RootId,
    kind: RootKind,
    display_name: Option<String>,
    policy: Arc<RootPolicy>,
    owner: Option<Principal>,
    trusted: AtomicBool,
}

impl RootEntry {
    /// Registers what was declared.
    pub fn new(spec: RootSpec) -> Arc<Self> {
        Arc::new(Self {
            id: spec.id,
            kind: spec.kind,
            display_name: spec.display_name,
            policy: Arc::new(spec.policy),
            owner: spec.owner,
            trusted: AtomicBool::new(spec.trusted),
        })
    }

    /// Its name.
    pub fn id(&self) -> &RootId {
        &self.id
    }

    /// What it is for.
    pub fn kind(&self) -> RootKind {
        self.kind
    }

    /// Its name for people.
    pub fn display_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.id.as_str())
    }

    /// What it allows.
    pub fn policy(&self) -> &Arc<RootPolicy> {
        &self.policy
    }

    /// Whether somebody trusts it to be changed.
    pub fn trusted(&self) -> bool {
        self.trusted.load(Ordering::Acquire)
    }

    /// Trusts it, or takes the trust back.
    pub fn set_trusted(&self, trusted: bool) {
        self.trusted.store(trusted, Ordering::Release);
    }

    /// What `principal` may be granted here without anybody being asked: what
    /// the policy gives everyone; all that the kind ever grants to the owner
    /// and, for artifacts and downloads, to core. Never more than the kind grants.
    pub fn ambient(&self, principal: &Principal) -> AccessSet {
        let grantable = RootPolicy::grantable(self.kind);
        if self.owner.as_ref().is_some_and(|owner| owner == principal) {
            return grantable;
        }
        match (self.kind, principal) {
            // Artifacts are written through the artifact interface, which is core's.
            (RootKind::Artifact | RootKind::Downloads, Principal::Core { .. }) => grantable,
            (
                RootKind::Workspace
                | RootKind::ExtensionStorage
                | RootKind::Artifact
                | RootKind::Temp
                | RootKind::Knowledge
                | RootKind::Downloads
                | RootKind::Secret,
                Principal::Core { .. }
                | Principal::User { .. }
                | Principal::Token { .. }
                | Principal::Extension { .. }
                | Principal::Automation { .. },
            ) => self.policy.ambient.and(grantable),
        }
    }

    /// Whether a grant of `access` makes sense here at all.
    pub fn grantable(&self, access: Access) -> bool {
        RootPolicy::grantable(self.kind).has(access)
    }
}
