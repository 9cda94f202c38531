//! What every deed on a directory begins with: the directory, pinned.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use portcullis_gate::RootEntry;
use portcullis_policy::Terms;
use portcullis_proto::{Entity, Facts, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;

use super::facts_of;
use crate::meta::Meta;
use crate::root::{Opened, Root};
use crate::sys;

/// A directory (or for a search, a file), open. Proves that it is the one its facts tell of, whatever
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
        Ok(Self::of(entry, root, opened))
    }

    fn of(entry: &Arc<RootEntry>, root: &Arc<Root>, opened: Opened) -> Self {
        Self {
            entry: Arc::clone(entry),
            root: Arc::clone(root),
            handle: opened.handle,
            path: opened.path,
            meta: opened.meta,
        }
    }

    /// Opens the directory or file at `path`; a file only where a read of it
    /// would be let through.
    fn resolve_either(
        entry: &Arc<RootEntry>,
        root: &Arc<Root>,
        path: &RelPath,
        terms: &Terms,
    ) -> Result<Self, Failure> {
        let opened = root.open(path, OFlags::RDONLY, terms.symlinks())?;
        if opened.meta.entity == Entity::Directory {
            opened.meta.admit_private(entry.policy())?;
        } else {
            let named = || sys::is_named(opened.handle.as_fd(), &opened.path);
            opened.meta.admit_file(entry.policy(), named)?;
        }
        Ok(Self::of(entry, root, opened))
    }

    /// What doing `verb` on it looks like from outside.
    pub(super) fn facts(&self, verb: Verb) -> Facts {
        facts_of(verb, &self.entry, &self.path, &self.meta)
    }
}

/// A directory or file that was looked at and closed again: what waits for its
/// turn holds no handle. Proves that it stood at its path when it was judged.
#[derive(Debug)]
pub(crate) struct Sighted {
    entry: Arc<RootEntry>,
    root: Arc<Root>,
    path: RelPath,
    meta: Meta,
}

impl Sighted {
    /// Looks at the directory or file at `path` by the terms of the root.
    pub(crate) fn resolve(
        entry: &Arc<RootEntry>,
        root: &Arc<Root>,
        path: &RelPath,
        terms: &Terms,
    ) -> Result<Self, Failure> {
        Pinned::resolve_either(entry, root, path, terms).map(Self::from)
    }

    /// What doing `verb` on it looks like from outside.
    pub(super) fn facts(&self, verb: Verb) -> Facts {
        facts_of(verb, &self.entry, &self.path, &self.meta)
    }

    /// Opens it again, which must be the very thing that was judged.
    pub(super) fn pin(self, terms: &Terms) -> Result<Pinned, Failure> {
        let again = Pinned::resolve_either(&self.entry, &self.root, &self.path, terms)?;
        let is_it = (again.meta.dev, again.meta.ino, again.meta.entity)
            == (self.meta.dev, self.meta.ino, self.meta.entity);
        // Where links are followed the path is where the first look led.
        if !is_it || again.path != self.path {
            return Err(Failure::new(
                Reason::Changed,
                "Something else stands there now, so nothing was looked at.",
            )
            .hint("Ask for it again."));
        }
        Ok(again)
    }
}

impl From<Pinned> for Sighted {
    fn from(pinned: Pinned) -> Self {
        Self {
            entry: pinned.entry,
            root: pinned.root,
            path: pinned.path,
            meta: pinned.meta,
        }
    }
}
