//! Where a change happens: a pinned directory, a name in it, and what stands
//! there now.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use portcullis_gate::{Live, RootEntry};
use portcullis_policy::{Containment, RootPolicy, Symlinks, Terms};
use portcullis_proto::{Access, Entity, Failure, Reason, RelPath, Resource, Staged};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, unlinkat};
use rustix::io::Errno;

use super::names::{admit_new_name, staged_name};
use crate::errno::{failure, hinted};
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;

/// What may stand at a place for a change to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// A file, or nothing: it is written. Its parents are made where missing.
    FileOrNothing,
    /// A file: part of it is changed, or it is copied.
    File,
    /// A directory, or nothing: it is made.
    DirectoryOrNothing,
    /// A file or a directory: who may do what with it is changed.
    Existing,
    /// Anything, not followed: it is moved or removed.
    Anything,
    /// Anything or nothing: what was there comes back, whatever its name.
    Back,
}

/// What stands there.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) handle: OwnedFd,
    pub(crate) meta: Meta,
}

/// An entry about to be changed.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) entry: Arc<RootEntry>,
    pub(crate) root: Arc<Root>,
    pub(crate) path: RelPath,
    pub(crate) leaf: String,
    /// The directory it stands in, or the nearest one above that exists.
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) parent_path: RelPath,
    pub(crate) parent_meta: Meta,
    /// Directories to make below `parent` before the leaf can be there.
    pub(crate) missing: Vec<String>,
    pub(crate) base: Option<Base>,
    pub(crate) containment: Containment,
}

impl Place {
    pub(crate) fn resolve(
        entry: &Arc<RootEntry>,
        root: &Arc<Root>,
        path: &RelPath,
        terms: &Terms,
        want: Want,
    ) -> Result<Self, Failure> {
        let (Some(leaf), Some(mut above)) = (path.name(), path.parent()) else {
            return Err(Failure::new(
                Reason::ProtectedState,
                "The root itself cannot be changed, moved or removed.",
            )
            .hint("Name something inside it."));
        };
        let makes = matches!(
            want,
            Want::FileOrNothing | Want::DirectoryOrNothing | Want::Back
        );
        let mut missing = Vec::new();
        let parent = loop {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            match root.open(&above, flags, terms.symlinks()) {
                Ok(opened) => break opened,
                Err(failure) if makes && failure.reason() == Reason::NotFound => {
                    let (Some(name), Some(next)) = (above.name(), above.parent()) else {
                        return Err(failure);
                    };
                    if want != Want::Back {
                        admit_new_name(name)?;
                    }
                    missing.push(name.to_owned());
                    above = next;
                }
                Err(failure) => return Err(failure),
            }
        };
        missing.reverse();
        let mut place = Self {
            entry: Arc::clone(entry),
            root: Arc::clone(root),
            path: path.clone(),
            leaf: leaf.to_owned(),
            parent: Arc::new(parent.handle),
            parent_path: parent.path,
            parent_meta: parent.meta,
            missing,
            base: None,
            containment: root.containment(),
        };
        let mut resolved = place.parent_path.clone();
        for name in place.missing.iter().map(String::as_str).chain([leaf]) {
            resolved = resolved.join(name)?;
        }
        place.path = resolved;
        if place.missing.is_empty() {
            place.base = place.look(want)?;
        }
        match (&place.base, want) {
            (None, Want::File | Want::Existing | Want::Anything) => {
                return Err(hinted(Reason::NotFound));
            }
            (None, Want::FileOrNothing | Want::DirectoryOrNothing) => admit_new_name(leaf)?,
            (None, Want::Back) | (Some(_), _) => {}
        }
        Ok(place)
    }

    /// What stands at the leaf, pinned.
    fn look(&self, want: Want) -> Result<Option<Base>, Failure> {
        // First without opening it: a device acts on being opened.
        let seen = match sys::child_meta(self.parent.as_fd(), self.leaf.as_str()) {
            Ok(seen) => Meta::of_statx(&seen),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failure(errno)),
        };
        let flags = match (want, seen.entity) {
            (Want::FileOrNothing | Want::File | Want::Existing | Want::Back, Entity::File) => {
                OFlags::RDONLY
            }
            (Want::Anything | Want::Back, _) | (Want::DirectoryOrNothing, Entity::Directory) => {
                OFlags::PATH
            }
            (Want::Existing, Entity::Directory) => OFlags::RDONLY | OFlags::DIRECTORY,
            (Want::DirectoryOrNothing, _) => return Err(Reason::AlreadyExists.into()),
            (_, Entity::Directory) => return Err(hinted(Reason::IsDirectory)),
            (_, Entity::Symlink) => return Err(hinted(Reason::Symlink)),
            (_, Entity::Mount) => return Err(hinted(Reason::MountBoundary)),
            (_, Entity::Special) => return Err(hinted(Reason::SpecialFile)),
        };
        let handle =
            self.root
                .open_child(self.parent.as_fd(), &self.parent_path, &self.leaf, flags)?;
        let meta = Meta::of_stat(&rustix::fs::fstat(&handle).map_err(failure)?);
        if meta.entity == Entity::File && want != Want::Anything {
            let still = || sys::is_named(handle.as_fd(), &self.path);
            meta.admit_file(self.entry.policy(), still)?;
        }
        Ok(Some(Base { handle, meta }))
    }

    /// The policy of the root it is in.
    pub(crate) fn policy(&self) -> &RootPolicy {
        self.entry.policy()
    }

    /// Its path as the tables of protected names see it.
    pub(crate) fn classed(&self) -> Cow<'_, RelPath> {
        self.policy().classed(&self.path)
    }

    /// How a deed's facts tell of it.
    pub(crate) fn resource(&self, access: Access) -> Resource {
        Resource {
            root: self.entry.id().clone(),
            kind: self.entry.kind(),
            path: self.path.clone(),
            access,
            identity: self.base.as_ref().map(|base| base.meta.identity()),
            above: self.entry.policy().above.clone(),
        }
    }

    /// Whether the leaf still means what it meant when it was judged.
    pub(crate) fn is_still(&self) -> Result<(), Failure> {
        if !self.missing.is_empty() {
            // `parent` is further up: the same name there is another entry.
            return Ok(());
        }
        let now = match sys::child_meta(self.parent.as_fd(), self.leaf.as_str()) {
            Ok(seen) => Some(Meta::of_statx(&seen)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failure(errno)),
        };
        let thing = |meta: &Meta| (meta.dev, meta.ino, meta.entity);
        match (&self.base, now) {
            (Some(base), Some(now)) if thing(&base.meta) == thing(&now) => Ok(()),
            (None, None) => Ok(()),
            (None, Some(_)) => Err(moved_on(Reason::AlreadyExists)),
            (Some(_), _) => Err(moved_on(Reason::VersionMismatch)),
        }
    }

    /// Whether the directory still stands where it was judged to stand. What
    /// cannot be looked at is told as that, not as a change.
    pub(crate) fn parent_is_still(&self) -> Result<(), Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let now = self
            .root
            .open(&self.parent_path, flags, Symlinks::Reject)
            .map_err(elsewhere_now)?;
        if (now.meta.dev, now.meta.ino) == (self.parent_meta.dev, self.parent_meta.ino) {
            return Ok(());
        }
        Err(moved_on(Reason::VersionMismatch))
    }

    /// Makes the directory `name` below the parent where it is missing, and
    /// steps down into it. Says whether it was made.
    ///
    /// It is made under a name of ours, written down, and renamed: after a
    /// crash it can be told from one that somebody else made.
    pub(crate) fn step_into(
        &mut self,
        name: &str,
        mode: Mode,
        live: &Live<'_>,
    ) -> Result<bool, Failure> {
        let own = staged_name(live.request_id());
        mkdirat(&self.parent, &own, mode).map_err(failure)?;
        let made = self.name_directory(&own, name, live);
        if !matches!(made, Ok(Some(_))) {
            let _not_used = unlinkat(&self.parent, &own, AtFlags::REMOVEDIR);
        }
        let (next, made) = if let Some(next) = made? {
            (next, true)
        } else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let (parent, above) = (self.parent.as_fd(), &self.parent_path);
            (self.root.open_child(parent, above, name, flags)?, false)
        };
        let meta = rustix::fs::fstat(&next).map_err(failure);
        if made && meta.is_err() {
            let _not_used = unlinkat(&self.parent, name, AtFlags::REMOVEDIR);
        }
        self.parent_meta = Meta::of_stat(&meta?);
        self.parent_path = self.parent_path.join(name)?;
        self.parent = Arc::new(next);
        Ok(made)
    }

    /// Gives the directory we made as `own` its name; `None` where something
    /// has that name already.
    fn name_directory(
        &self,
        own: &str,
        name: &str,
        live: &Live<'_>,
    ) -> Result<Option<OwnedFd>, Failure> {
        let (parent, above) = (self.parent.as_fd(), &self.parent_path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let made = self.root.open_child(parent, above, own, flags)?;
        let meta = Meta::of_stat(&rustix::fs::fstat(&made).map_err(failure)?);
        live.stage(Staged {
            root: self.root.identity(),
            made: Some((meta.dev, meta.ino)),
        })?;
        match sys::rename_new(parent, own, parent, name) {
            Ok(()) => Ok(Some(made)),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// What stands at the path now, resolved anew from the root.
    pub(crate) fn landed(&self, dev: u64, ino: u64) -> Result<Meta, Failure> {
        let now = self
            .root
            .open(&self.path, OFlags::PATH, Symlinks::Reject)
            .map_err(elsewhere_now)?;
        if (now.meta.dev, now.meta.ino) == (dev, ino) {
            return Ok(now.meta);
        }
        Err(moved_on(Reason::VersionMismatch))
    }
}

/// What the failure of a second look at a path means: one that leads elsewhere
/// now has changed, and any other failure is that failure.
fn elsewhere_now(why: Failure) -> Failure {
    let leads_elsewhere = matches!(
        why.reason(),
        Reason::NotFound | Reason::Symlink | Reason::NotDirectory | Reason::MountBoundary
    );
    if leads_elsewhere {
        return moved_on(Reason::VersionMismatch);
    }
    why
}

/// The refusal when something moved between the judgement and the act.
pub(crate) fn moved_on(reason: Reason) -> Failure {
    Failure::new(
        reason,
        "It changed at the very moment it was to be changed, so it was left as it is.",
    )
    .hint("Read it again, then try again.")
}
