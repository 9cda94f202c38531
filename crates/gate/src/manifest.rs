//! Permission strings of an extension's manifest: `filesystem:workspace:read`.

use std::fmt;

use portcullis_policy::RootPolicy;
use portcullis_proto::{Access, AccessSet, RootKind};

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
            "{:?} is not a permission: write `filesystem:<root kind>:<access>`, with access read, write, readwrite or one of list, metadata, watch, delete, move, archive",
            self.0
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
