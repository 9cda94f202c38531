//! Turns scopes into grants: what a credential is for becomes what the gate
//! lets its principal try.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use portcullis_gate::{Gate, Grant, GrantSource};
use portcullis_proto::{AccessSet, Principal, RootId, ScopeSet};

use super::identity::Identity;

/// Who has been let in, and with which scopes.
pub struct Guests {
    gate: Arc<Gate>,
    roots: Vec<RootId>,
    /// Looked at by every request, without a lock.
    known: ArcSwap<HashMap<Principal, ScopeSet>>,
    /// Held by who changes it.
    changing: Mutex<()>,
}

impl std::fmt::Debug for Guests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guests").finish_non_exhaustive()
    }
}

impl Guests {
    /// Nobody has been let in yet.
    pub fn new(gate: Arc<Gate>, roots: Vec<RootId>) -> Self {
        Self {
            gate,
            roots,
            known: ArcSwap::default(),
            changing: Mutex::default(),
        }
    }

    /// Sees to it that `identity` has the grants its scopes stand for, and no
    /// others of this kind.
    pub fn welcome(&self, identity: &Identity) {
        let is_known = || self.known.load().get(&identity.principal) == Some(&identity.scopes);
        if is_known() {
            return;
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known() {
            return;
        }
        self.take_back(&identity.principal);
        // An extension has what its manifest says, root by root, and nothing
        // for its scopes.
        let access = match &identity.principal {
            Principal::User { .. } | Principal::Token { .. } => identity.scopes.access(),
            Principal::Extension { .. } | Principal::Core { .. } | Principal::Automation { .. } => {
                AccessSet::NONE
            }
        };
        if access != AccessSet::NONE {
            for root in &self.roots {
                let grant = Grant::new(
                    identity.principal.clone(),
                    root.clone(),
                    access,
                    None,
                    GrantSource::UserApproval,
                );
                // A full book: without a grant the gate refuses, and says so.
                drop(self.gate.grants().issue(grant));
            }
        }
        let mut known = HashMap::clone(&self.known.load());
        known.insert(identity.principal.clone(), identity.scopes);
        self.known.store(Arc::new(known));
    }

    /// Takes back the grants of everyone whose credential `holds` no more, or
    /// holds with other scopes, for deeds already permitted too.
    pub fn review(&self, holds: impl Fn(&Principal) -> Option<ScopeSet>) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = HashMap::clone(&self.known.load());
        known.retain(|principal, scopes| {
            let stays = holds(principal) == Some(*scopes);
            if !stays {
                self.take_back(principal);
            }
            stays
        });
        self.known.store(Arc::new(known));
    }

    fn take_back(&self, principal: &Principal) {
        self.gate.grants().revoke(|grant| {
            grant.source == GrantSource::UserApproval && grant.principal == *principal
        });
    }
}
