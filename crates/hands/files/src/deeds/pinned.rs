//! What every deed on a directory begins with: the directory, pinned.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use portcullis_gate::RootEntry;
use portcullis_policy::Terms;
use portcullis_proto::{Facts, Failure, RelPath, Verb};
use rustix::fs::OFlags;

use super::facts_of;
use crate::meta::Meta;
use crate::root::Root;

/// A directory, open. Proves that it is the one its facts tell of, whatever
/// its path names by now; not that it is still in the root: what was read from
/// it is handed on only after [`Root::is_still`].
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) entry: Arc<RootEntry>,
    pub(crate) root: Arc<Root>,
    pub(crate) handle: OwnedFd,
    pub(crate) path: RelPath,
    pub(crate) meta: Meta,
}

impl Pinned {
    /// Opens the directory at `path` by the terms of the root.
    pub(crate) fn resolve(
        entry: &Arc<RootEntry>,
        root: &Arc<Root>,
        path: &RelPath,
        terms: &Terms,
    ) -> Result<Self, Failure> {
        let opened = root.open(path, OFlags::RDONLY | OFlags::DIRECTORY, terms.symlinks())?;
        opened.meta.admit_private(entry.policy())?;
        Ok(Self {
            entry: Arc::clone(entry),
            root: Arc::clone(root),
            handle: opened.handle,
            path: opened.path,
            meta: opened.meta,
        })
    }

    /// What doing `verb` on it looks like from outside.
    pub(super) fn facts(&self, verb: Verb) -> Facts {
        facts_of(verb, &self.entry, &self.path, &self.meta)
    }
}
