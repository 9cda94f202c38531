//! Permission strings of an extension's manifest, `filesystem:workspace:read`,
//! and what an approved one comes to.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use portcullis_policy::RootPolicy;
use portcullis_proto::{Access, AccessSet, Principal, RootId, RootKind, Subject};

/// What a manifest string asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestPermission {
    /// On roots of which kind.
    pub kind: RootKind,
    /// To do what.
    pub access: AccessSet,
}

/// A manifest string that says nothing we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadManifest(pub String);

impl fmt::Display for BadManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a permission: write `filesystem:<root kind>:<access>`, with a root kind of {}, and an access of read, write, readwrite, list, metadata, watch, delete, move, archive",
            self.0,
            RootKind::ALL.map(RootKind::as_str).join(", "),
        )
    }
}

impl std::error::Error for BadManifest {}

impl ManifestPermission {
    /// Reads one string. What a kind never grants (a secret root is not listed)
    /// is left out.
    pub fn parse(text: &str) -> Result<Self, BadManifest> {
        let bad = || BadManifest(text.to_owned());
        let mut parts = text.split(':');
        let (Some("filesystem"), Some(kind), Some(access), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let kind = RootKind::parse(kind).ok_or_else(bad)?;
        let reads = AccessSet::of(&[Access::Read, Access::List, Access::Metadata, Access::Watch]);
        let writes = AccessSet::of(&[Access::Write, Access::Delete, Access::Move, Access::Archive]);
        let access = match access {
            "read" => reads,
            "write" => writes,
            "readwrite" => reads.union(writes),
            word => AccessSet::of(&[Access::parse(word).ok_or_else(bad)?]),
        };
        let grantable = RootPolicy::grantable(kind);
        let access = access
            .iter()
            .filter(|access| grantable.has(*access))
            .collect();
        Ok(Self { kind, access })
    }
}

/// An extension as its owner approved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedExtension {
    /// Which.
    pub id: Arc<str>,
    /// Who approved it, and whom it acts for.
    pub user: Arc<str>,
    /// The root of its own files. It is of this registration alone: whoever
    /// registers the same id later has another.
    pub storage: RootId,
    /// What was approved.
    pub permissions: Box<[ManifestPermission]>,
    /// What it has at most: no more than its owner, or than it asked for anywhere.
    pub most: AccessSet,
}

/// Every approved extension, by id, as it was at one moment.
pub type ApprovedBook = HashMap<Arc<str>, Arc<ApprovedExtension>>;

impl ApprovedExtension {
    /// Who acts.
    pub fn principal(&self) -> Principal {
        Principal::Extension {
            id: Arc::clone(&self.id),
        }
    }

    /// Who acts, and for whom.
    pub fn subject(&self) -> Subject {
        Subject::of(self.principal()).on_behalf_of(Arc::clone(&self.user))
    }

    /// What it is granted on roots of `kind`: what its permissions say of it.
    /// Of its own storage and scratch it has all, where they say nothing.
    pub fn access(&self, kind: RootKind) -> AccessSet {
        let said = self
            .permissions
            .iter()
            .filter(|one| one.kind == kind)
            .map(|one| one.access)
            .reduce(AccessSet::union);
        let access = said.unwrap_or(match kind {
            RootKind::ExtensionStorage | RootKind::Temp => RootPolicy::grantable(kind),
            RootKind::Workspace
            | RootKind::Artifact
            | RootKind::Knowledge
            | RootKind::Downloads
            | RootKind::Secret => AccessSet::NONE,
        });
        access.and(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<(RootKind, &[Access])>) {
        let got = ManifestPermission::parse(text).ok();
        let want = want.map(|(kind, access)| ManifestPermission {
            kind,
            access: AccessSet::of(access),
        });
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn an_extension_has_what_its_permissions_say_and_its_own_files() {
        let of = |strings: &[&str], most| ApprovedExtension {
            id: "notes".into(),
            user: "ada".into(),
            storage: RootId::parse("storage-1").unwrap(),
            permissions: strings
                .iter()
                .map(|text| ManifestPermission::parse(text).unwrap())
                .collect(),
            most,
        };
        let reads = AccessSet::of(&[Access::Read, Access::List, Access::Metadata, Access::Watch]);
        let notes = of(&["filesystem:workspace:read"], AccessSet::ALL);
        for (kind, want) in [
            (RootKind::Workspace, reads),
            (RootKind::ExtensionStorage, AccessSet::ALL),
            (RootKind::Temp, AccessSet::ALL),
            (RootKind::Artifact, AccessSet::NONE),
            (RootKind::Knowledge, AccessSet::NONE),
            (RootKind::Downloads, AccessSet::NONE),
            (RootKind::Secret, AccessSet::NONE),
        ] {
            assert_eq!(notes.access(kind), want, "{kind}");
        }
        let both = of(
            &["filesystem:workspace:read", "filesystem:workspace:write"],
            AccessSet::ALL,
        );
        assert_eq!(both.access(RootKind::Workspace), AccessSet::ALL);
        // What it says of its own files is what it has, and never more than may be.
        let less = of(&["filesystem:extension-storage:read"], AccessSet::ALL);
        assert_eq!(less.access(RootKind::ExtensionStorage), reads);
        let bound = of(&["filesystem:workspace:readwrite"], reads);
        assert_eq!(bound.access(RootKind::Workspace), reads);
        assert_eq!(bound.access(RootKind::Temp), reads);
    }

    #[test]
    fn a_manifest_string_becomes_kind_and_access() {
        check(
            "filesystem:workspace:read",
            Some((
                RootKind::Workspace,
                &[Access::Read, Access::List, Access::Metadata, Access::Watch],
            )),
        );
        check(
            "filesystem:extension-storage:readwrite",
            Some((RootKind::ExtensionStorage, &Access::ALL)),
        );
        check(
            "filesystem:secret:read",
            Some((RootKind::Secret, &[Access::Read, Access::Metadata])),
        );
        check(
            "filesystem:temp:delete",
            Some((RootKind::Temp, &[Access::Delete])),
        );
        for bad in [
            "",
            "filesystem",
            "filesystem:workspace",
            "filesystem:workspace:read:x",
            "network:all:read",
            "filesystem:home:read",
            "filesystem:workspace:execute",
        ] {
            check(bad, None);
        }
    }
}
