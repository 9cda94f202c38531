//! What a root allows, and what each kind of root allows by default.

use std::sync::Arc;

use portcullis_proto::{Access, AccessSet, RelPath, RootKind};
use serde::{Deserialize, Serialize};

use crate::PatternSet;

/// What to do with a symbolic link inside a root. The strictest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symlinks {
    /// Refuse it.
    Reject,
    /// Follow it while it stays inside, and judge where it leads.
    AllowInRoot,
}

/// What to do with a file that has another name. The strictest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hardlinks {
    /// Refuse it.
    Reject,
    /// Read it when it belongs to the user we run as; never write through it.
    AllowOwn,
    /// Read it whoever it belongs to.
    Allow,
}

/// How firmly the kernel must hold a path inside the root. The strictest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Containment {
    /// One system call resolves and checks.
    KernelAtomic,
    /// A walk, component by component, where the kernel offers nothing better.
    BestEffort,
}

/// What a root allows.
#[derive(Clone, Debug)]
pub struct RootPolicy {
    /// Symbolic links inside it.
    pub symlinks: Symlinks,
    /// Files with another name.
    pub hardlinks: Hardlinks,
    /// The largest file that is read whole; windows of any file can be read.
    pub max_file_bytes: u64,
    /// Where not empty, nothing else is reached.
    pub allowed: PatternSet,
    /// Never reached, whether or not it exists.
    pub denied: PatternSet,
    /// The weakest containment accepted.
    pub containment: Containment,
    /// Places in the root where another file system may be entered.
    pub mounts: Vec<RelPath>,
    /// Our own state, where it lies inside the root, and the operator's key files.
    pub own_state: Vec<RelPath>,
    /// Device and inode of key files: another name of one is not read either.
    pub own_inodes: Vec<(u64, u64)>,
    /// What the operator named to be run or trusted (hook programs,
    /// certificates) and links on the way to it: read, and never changed.
    pub fixed: Vec<RelPath>,
    /// The protected directories the root itself begins in.
    pub above: Option<Arc<RelPath>>,
    /// Files must be ours and closed to others, as secrets have to be.
    pub private: bool,
    /// Whether a file must have been read before it is replaced.
    pub read_before_write: bool,
    /// What a subject may do here without an explicit grant.
    pub ambient: AccessSet,
}

/// The largest file read whole, unless a root says otherwise.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

impl RootPolicy {
    /// The default of each kind.
    pub fn of(kind: RootKind) -> Self {
        let shown = AccessSet::of(&[Access::Read, Access::List, Access::Metadata]);
        let (hardlinks, private, ambient) = match kind {
            RootKind::Workspace => (Hardlinks::AllowOwn, false, AccessSet::LOOK),
            RootKind::Artifact | RootKind::Downloads => (Hardlinks::Reject, false, shown),
            // Somebody's own, and explicit grants only: nothing is ambient.
            RootKind::Temp | RootKind::ExtensionStorage | RootKind::Secret => {
                (Hardlinks::Reject, true, AccessSet::NONE)
            }
            RootKind::Knowledge => (Hardlinks::Reject, false, AccessSet::NONE),
        };
        Self {
            symlinks: Symlinks::Reject,
            hardlinks,
            max_file_bytes: MAX_FILE_BYTES,
            allowed: PatternSet::none(),
            denied: PatternSet::none(),
            containment: Containment::BestEffort,
            mounts: Vec::new(),
            own_state: Vec::new(),
            own_inodes: Vec::new(),
            fixed: Vec::new(),
            above: None,
            private,
            read_before_write: false,
            ambient,
        }
    }

    /// What a grant may hold at all for this kind: a secret root is not listed
    /// unless its policy is made for it.
    pub const fn grantable(kind: RootKind) -> AccessSet {
        match kind {
            RootKind::Workspace
            | RootKind::ExtensionStorage
            | RootKind::Artifact
            | RootKind::Temp
            | RootKind::Knowledge
            | RootKind::Downloads => AccessSet::ALL,
            RootKind::Secret => AccessSet::ALL.without(AccessSet::of(&[
                Access::List,
                Access::Archive,
                Access::Watch,
            ])),
        }
    }

    /// Shares it.
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Whether `path` is Portcullis's own: its data directory, a directory of
    /// the name it keeps its own files under, or what it stages beside a target.
    pub fn is_own_state(&self, path: &RelPath) -> bool {
        (holds_hidden(path) && path.components().any(is_own_name))
            || self.own_state.iter().any(|own| path.is_under(own))
    }

    /// Whether Portcullis's own state, or a file that the operator named, stands
    /// at `path` or below it.
    pub(crate) fn holds_own_state(&self, path: &RelPath) -> bool {
        let mut own = self.own_state.iter().chain(&self.fixed);
        own.any(|own| own.is_under(path))
    }

    /// Whether the operator named `path` to be run or trusted.
    pub(crate) fn is_fixed(&self, path: &RelPath) -> bool {
        self.fixed.contains(path)
    }
}

/// Whether a component of `path` begins with a dot: what is not hidden is not
/// ours, and most of what is listed is neither.
fn holds_hidden(path: &RelPath) -> bool {
    let bytes = path.as_str().as_bytes();
    let after = bytes.iter().skip(1);
    // Counted, not found: that goes through many bytes at a time.
    let hidden = bytes
        .iter()
        .zip(after)
        .filter(|pair| *pair == (&b'/', &b'.'));
    hidden.count() > 0 || bytes.first() == Some(&b'.')
}

/// `.portcullis` and `.portcullis-…`, however they are spelled.
fn is_own_name(name: &str) -> bool {
    const OWN: &str = ".portcullis";
    name.starts_with('.')
        && name
            .split_at_checked(OWN.len())
            .is_some_and(|(head, rest)| {
                head.eq_ignore_ascii_case(OWN) && (rest.is_empty() || rest.starts_with('-'))
            })
}
