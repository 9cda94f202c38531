//! Grants: subject × root × access, until revoked or expired.
//!
//! A permit remembers the grants it rests on and looks at them again inside
//! the act, so a grant revoked after the verdict still stops the deed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use portcullis_proto::{Access, AccessSet, Principal, Reason, RootId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::clock::Clock;

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

    /// Takes it back, for deeds already permitted too. Says whether it was
    /// still there to take.
    pub fn revoke(&self) -> bool {
        !self.revoked.swap(true, Ordering::AcqRel)
    }

    /// Whether it still holds. Most grants have no end, and then nobody has to
    /// look at the clock.
    pub(crate) fn holds_by(&self, clock: &dyn Clock) -> Result<(), Reason> {
        self.holds(self.expires_at.map_or(0, |_| clock.now_ms()))
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

/// The grants a deed rests on: nearly always one.
pub(crate) type Grants = SmallVec<[Arc<Grant>; 1]>;

/// What was asked of the book for one resource.
#[derive(Clone, Debug)]
pub enum Granted {
    /// This grant covers it.
    By(Arc<Grant>),
    /// None does.
    No,
}

/// Every grant in force. Reading it takes no lock.
pub struct GrantBook {
    grants: ArcSwap<Vec<Arc<Grant>>>,
    clock: Arc<dyn Clock>,
}

/// How many grants a book holds at most: a runaway issuer must not slow every
/// deed down.
const MAX_GRANTS: usize = 4096;

impl GrantBook {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            grants: ArcSwap::default(),
            clock,
        }
    }

    /// Enters a grant; `None` when the book is full. What no longer holds makes
    /// room.
    pub fn issue(&self, grant: Grant) -> Option<Arc<Grant>> {
        let grant = Arc::new(grant);
        let now = self.clock.now_ms();
        let mut entered = false;
        self.grants.rcu(|grants| {
            let mut next: Vec<_> = in_force(grants, now).cloned().collect();
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
        self.grants
            .load()
            .iter()
            .filter(|grant| which(grant) && grant.revoke())
            .count()
    }

    /// Takes every grant that `which` names out of the book, unrevoked, for
    /// whoever enters it again when it is to hold.
    pub fn take(&self, which: impl Fn(&Grant) -> bool) -> Vec<Arc<Grant>> {
        let mut taken = Vec::new();
        self.grants.rcu(|grants| {
            let (out, stays) = grants.iter().cloned().partition(|grant| which(grant));
            taken = out;
            let stays: Vec<_> = stays;
            stays
        });
        taken
    }

    /// The grants in force, for people to look at.
    pub fn list(&self) -> Vec<Arc<Grant>> {
        in_force(&self.grants.load(), self.clock.now_ms())
            .cloned()
            .collect()
    }

    /// The grant that covers `access` on `root` for `principal` at `now`.
    pub fn find(&self, principal: &Principal, root: &RootId, access: Access, now: u64) -> Granted {
        self.find_by(principal, root, access, |grant| grant.holds(now))
    }

    /// The same at this moment, which is asked for only where a grant ends.
    pub(crate) fn find_now(&self, principal: &Principal, root: &RootId, access: Access) -> Granted {
        self.find_by(principal, root, access, |grant| {
            grant.holds_by(&*self.clock)
        })
    }

    fn find_by(
        &self,
        principal: &Principal,
        root: &RootId,
        access: Access,
        holds: impl Fn(&Grant) -> Result<(), Reason>,
    ) -> Granted {
        self.grants
            .load()
            .iter()
            .find(|grant| {
                grant.access.has(access)
                    && grant.root == *root
                    && grant.principal == *principal
                    && holds(grant).is_ok()
            })
            .map_or(Granted::No, |grant| Granted::By(Arc::clone(grant)))
    }
}

fn in_force(grants: &[Arc<Grant>], now: u64) -> impl Iterator<Item = &Arc<Grant>> {
    grants.iter().filter(move |grant| grant.holds(now).is_ok())
}

impl std::fmt::Debug for GrantBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.grants.load().iter()).finish()
    }
}
