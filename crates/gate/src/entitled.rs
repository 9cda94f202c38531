//! What people may be granted on the roots of a server: the default of each
//! kind, and the operator's own grants.
//!
//! A server does not put these into the book when it starts. It enters them
//! when a credential comes, as far as the credential's scopes go, and takes
//! them back with it.

use std::sync::Arc;

use portcullis_proto::{AccessSet, Principal, RootId, RootKind};

use crate::grant::{Grant, GrantSource};
use crate::root::RootEntry;

/// Roots, and who was granted what on them by the operator.
#[derive(Debug, Default)]
pub struct Entitlements {
    roots: Vec<Arc<RootEntry>>,
    granted: Vec<Arc<Grant>>,
}

impl Entitlements {
    /// With the grants that the operator's settings give to users and tokens.
    pub fn new(roots: Vec<Arc<RootEntry>>, granted: Vec<Arc<Grant>>) -> Self {
        Self { roots, granted }
    }

    /// Every grant for a credential that stands for `principal` and gives at
    /// most `most`.
    pub fn of(&self, principal: &Principal, most: AccessSet) -> Vec<Grant> {
        self.roots
            .iter()
            .flat_map(|root| self.on(root, principal, most))
            .collect()
    }

    /// The grants on one root: at most one without an end, and one for each of
    /// the operator's grants that expires.
    pub fn on(&self, root: &RootEntry, principal: &Principal, most: AccessSet) -> Vec<Grant> {
        let grant = |access, expires_at, source| {
            Grant::new(
                principal.clone(),
                root.id().clone(),
                access,
                expires_at,
                source,
            )
        };
        let mut lasting = unasked(root, principal).and(most);
        let mut source = GrantSource::Core;
        let mut all = Vec::new();
        for given in self.given(root.id(), principal) {
            let access = given.access.and(most);
            if access == AccessSet::NONE {
                continue;
            }
            if given.expires_at.is_some() {
                all.push(grant(access, given.expires_at, given.source));
            } else {
                if lasting == AccessSet::NONE {
                    source = given.source;
                }
                lasting = lasting.union(access);
            }
        }
        if lasting != AccessSet::NONE {
            all.insert(0, grant(lasting, None, source));
        }
        all
    }

    /// What the operator gave `principal`, or the person it acts for, there. A
    /// grant that was revoked is none.
    fn given<'a>(
        &'a self,
        root: &'a RootId,
        principal: &'a Principal,
    ) -> impl Iterator<Item = &'a Arc<Grant>> {
        let person = person(principal);
        self.granted.iter().filter(move |grant| {
            grant.root == *root
                && grant.holds(0).is_ok()
                && (grant.principal == *principal || Some(&grant.principal) == person.as_ref())
        })
    }
}

/// What `root` gives `principal` with nothing said by the operator. A workspace
/// gives as much as the credential is for; every other kind, its default.
fn unasked(root: &RootEntry, principal: &Principal) -> AccessSet {
    match root.kind() {
        RootKind::Workspace => AccessSet::ALL,
        RootKind::ExtensionStorage
        | RootKind::Artifact
        | RootKind::Temp
        | RootKind::Knowledge
        | RootKind::Downloads
        | RootKind::Secret => {
            let own = root.ambient(principal);
            person(principal).map_or(own, |person| own.union(root.ambient(&person)))
        }
    }
}

/// The person a token acts for: what is theirs is their tokens', as far as the
/// scopes of each go.
fn person(principal: &Principal) -> Option<Principal> {
    match principal {
        Principal::Token { user, .. } => Some(Principal::User {
            id: Arc::clone(user),
        }),
        Principal::Core { .. }
        | Principal::User { .. }
        | Principal::Extension { .. }
        | Principal::Automation { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use portcullis_policy::RootPolicy;
    use portcullis_proto::Access;

    use super::*;
    use crate::root::RootSpec;

    fn user(id: &str) -> Principal {
        Principal::User { id: id.into() }
    }

    fn token(user: &str, id: &str) -> Principal {
        let (user, id) = (user.into(), id.into());
        Principal::Token { user, id }
    }

    fn root(kind: RootKind) -> Arc<RootEntry> {
        RootEntry::new(RootSpec {
            id: RootId::parse(kind.as_str()).unwrap(),
            kind,
            display_name: None,
            policy: RootPolicy::of(kind),
            owner: Some(user("owner")),
            trusted: true,
        })
    }

    fn given(to: Principal, access: AccessSet, until: Option<u64>) -> Arc<Grant> {
        let root = RootId::parse("knowledge").unwrap();
        Arc::new(Grant::new(to, root, access, until, GrantSource::Core))
    }

    const CHANGES: AccessSet = AccessSet::of(&[Access::Write, Access::Delete]);

    /// What is granted on the knowledge root: accesses and end.
    fn held(
        entitled: &Entitlements,
        to: &Principal,
        most: AccessSet,
    ) -> Vec<(AccessSet, Option<u64>)> {
        let grants = entitled.of(to, most);
        grants.iter().map(|g| (g.access, g.expires_at)).collect()
    }

    #[test]
    fn a_token_has_what_its_user_was_granted_as_far_as_its_scopes_go() {
        let granted = vec![
            given(user("ada"), AccessSet::LOOK, None),
            given(token("ada", "t"), CHANGES, Some(9)),
        ];
        let entitled = Entitlements::new(vec![root(RootKind::Knowledge)], granted);
        let all = AccessSet::ALL;
        assert_eq!(
            held(&entitled, &user("ada"), all),
            [(AccessSet::LOOK, None)]
        );
        assert_eq!(
            held(&entitled, &token("ada", "t"), all),
            [(AccessSet::LOOK, None), (CHANGES, Some(9))]
        );
        assert_eq!(
            held(&entitled, &token("ada", "u"), all),
            [(AccessSet::LOOK, None)]
        );
        assert_eq!(
            held(&entitled, &token("ada", "t"), CHANGES),
            [(CHANGES, Some(9))]
        );
        for other in [user("bob"), token("bob", "t"), token("bob", "ada")] {
            assert_eq!(held(&entitled, &other, all), []);
        }
    }

    #[test]
    fn what_is_somebodys_own_is_their_tokens_too_and_nobody_elses() {
        for kind in RootKind::ALL {
            let entitled = Entitlements::new(vec![root(kind)], Vec::new());
            let access = |to: &Principal| {
                let grants = entitled.of(to, AccessSet::ALL);
                grants
                    .iter()
                    .map(|grant| grant.access)
                    .fold(AccessSet::NONE, AccessSet::union)
            };
            let is_workspace = kind == RootKind::Workspace;
            let all = RootPolicy::grantable(kind);
            assert_eq!(access(&user("owner")), all, "{kind}");
            assert_eq!(access(&token("owner", "t")), all, "{kind}");
            let rest = if is_workspace {
                all
            } else {
                RootPolicy::of(kind).ambient
            };
            assert_eq!(access(&user("ada")), rest, "{kind}");
            assert_eq!(access(&token("ada", "owner")), rest, "{kind}");
        }
    }
}
