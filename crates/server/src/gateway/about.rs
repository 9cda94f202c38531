//! What is known of a machine that is linked, as its daemon said it.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_link::{Dialect, Files};
use portcullis_proto::{RootId, RootKind};

use super::seed::Tree;
use super::surface::Offer;

/// What a machine is, as its daemon said last.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) root: String,
    pub(crate) dialect: Dialect,
    pub(crate) offer: Arc<Offer>,
    /// What the seed's dialect uploads.
    pub(crate) tree: Tree,
    /// Its files, where our own dialect asks for them beside its tools.
    pub(crate) files: Option<Lends>,
    /// When it was linked, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// The how manyth link of this server it is: the newest comes first.
    pub(crate) number: u64,
    /// Whether the store has a key of its own for it.
    pub(crate) keyed: bool,
    /// What remembers the calls it was sent, as its daemon says; empty where it
    /// says nothing of it.
    pub(crate) instance: Arc<str>,
}

/// The root whose files a machine of ours lends.
#[derive(Clone, Debug)]
pub(crate) struct Lends {
    pub(crate) root: RootId,
    pub(crate) kind: RootKind,
    pub(crate) trusted: bool,
}

impl Lends {
    /// Its entry among the tools a machine is pinned to. No tool has such a name.
    const PINNED: &str = "files of";

    pub(super) fn pin(&self) -> (String, String) {
        let what = format!("{} {}", self.kind.as_str(), self.root.as_str());
        (Self::PINNED.to_owned(), what)
    }

    /// Whether a machine that is pinned so lends these.
    pub(super) fn is_in(&self, pinned: &str) -> bool {
        let pinned: BTreeMap<String, String> = serde_json::from_str(pinned).unwrap_or_default();
        let (name, what) = self.pin();
        pinned.get(&name) == Some(&what)
    }

    /// What a daemon says of it, where that makes sense.
    pub(crate) fn of(files: &Files) -> Option<Self> {
        Some(Self {
            root: RootId::parse(&files.root).filter(|_| files.operations >= Files::OPERATIONS)?,
            kind: RootKind::parse(&files.kind)?,
            trusted: files.trusted,
        })
    }
}
