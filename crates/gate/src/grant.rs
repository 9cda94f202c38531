//! Grants: subject × root × access, until revoked or expired.
//!
//! A permit remembers the grants it rests on and looks at them again inside
//! the act, so a grant revoked after the verdict still stops the deed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use portcullis_proto::{Access, AccessSet, Principal, Reason, RootId};
use serde::{Deserialize, Serialize};

/// Who gave a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantSource {
    /// An extension's manifest.
    Manifest,
    /// The conversation the agent runs in.
    Conversation,
    /// A person, asked.
    UserApproval,
    /// Portcullis: the operator's settings, or the default of a kind.
    Core,
}

/// One grant.
#[derive(Debug)]
pub struct Grant {
    /// To whom.
    pub principal: Principal,
    /// On which root.
    pub root: RootId,
    /// To do what.
    pub access: AccessSet,
    /// Until when, in milliseconds since 1970.
    pub expires_at: Option<u64>,
    /// By whom.
    pub source: GrantSource,
    revoked: AtomicBool,
}

impl Grant {
    /// A live grant.
    pub fn new(
        principal: Principal,
        root: RootId,
        access: AccessSet,
        expires_at: Option<u64>,
        source: GrantSource,
    ) -> Self {
        Self {
            principal,
            root,
            access,
            expires_at,
            source,
            revoked: AtomicBool::new(false),
        }
    }

    /// Takes it back, for deeds already permitted too.
    pub fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    /// Whether it still holds at `now`.
    pub fn holds(&self, now: u64) -> Result<(), Reason> {
        if self.revoked.load(Ordering::Acquire) {
            return Err(Reason::Revoked);
        }
        match self.expires_at {
            Some(end) if now >= end => Err(Reason::Expired),
            Some(_) | None => Ok(()),
        }
    }
}

/// What was asked of the book for one resource.
#[derive(Clone, Debug)]
pub enum Granted {
    /// This grant covers it.
    By(Arc<Grant>),
    /// None does.
    No,
}

/// Every grant in force. Reading it takes no lock.
#[derive(Debug, Default)]
pub struct GrantBook {
    grants: ArcSwap<Vec<Arc<Grant>>>,
}

/// How many grants a book holds at most: a runaway issuer must not slow every
/// deed down.
const MAX_GRANTS: usize = 4096;

impl GrantBook {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters a grant; `None` when the book is full.
    pub fn issue(&self, grant: Grant) -> Option<Arc<Grant>> {
        let grant = Arc::new(grant);
        let mut entered = false;
        self.grants.rcu(|grants| {
            let mut next: Vec<_> = grants
                .iter()
                .filter(|grant| grant.holds(0) != Err(Reason::Revoked))
                .cloned()
                .collect();
            entered = next.len() < MAX_GRANTS;
            if entered {
                next.push(Arc::clone(&grant));
            }
            next
        });
        entered.then_some(grant)
    }

    /// Revokes every grant `which` names; says how many.
    pub fn revoke(&self, which: impl Fn(&Grant) -> bool) -> usize {
        let grants = self.grants.load();
        let hit = grants.iter().filter(|grant| which(grant));
        hit.map(|grant| grant.revoke()).count()
    }

    /// The grants in force, for people to look at.
    pub fn list(&self) -> Vec<Arc<Grant>> {
        self.grants.load().to_vec()
    }

    /// The grant that covers `access` on `root` for `principal` at `now`.
    pub fn find(&self, principal: &Principal, root: &RootId, access: Access, now: u64) -> Granted {
        self.grants
            .load()
            .iter()
            .find(|grant| {
                grant.access.has(access)
                    && grant.root == *root
                    && grant.principal == *principal
                    && grant.holds(now).is_ok()
            })
            .map_or(Granted::No, |grant| Granted::By(Arc::clone(grant)))
    }
}
