//! What changed since somebody was last told, name by name.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use portcullis_policy::{Admit, Symlinks};
use portcullis_proto::{Counts, Entity, Failure, Reason, RelPath};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::ground::{Eyes, Ground, InTree, below};
use super::{Change, ChangeKind, is_gone};
use crate::meta::Meta;
use crate::sys::{self, Told};

/// How many names and directories wait to be told at most; more is an overflow.
/// As many as the kernel queues.
const MAX_PENDING: usize = 16_384;

/// What waits to be told.
#[derive(Debug, Default)]
pub(super) struct Pending {
    directories: BTreeMap<InTree, InDirectory>,
    /// How many names and directories.
    weight: usize,
    /// Whether something was lost: what is told is not all there is.
    pub(super) overflow: bool,
    pub(super) counts: Counts,
}

#[derive(Debug, Default)]
struct InDirectory {
    names: BTreeMap<String, Happened>,
    /// Whether something happened to a name that no path can ask for.
    unnamed: bool,
}

/// What happened to one name.
#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    appeared: bool,
    gone: bool,
    was_directory: bool,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.directories.is_empty() && !self.overflow
    }

    /// Something was lost: what waits is of no use any more, since whoever is
    /// told has to look again anyway.
    pub(super) fn overflowed(&mut self) {
        self.overflow = true;
        self.directories.clear();
        self.weight = 0;
    }

    /// The directory at `path` is gone, and what waits of it and of all below it
    /// goes with it: the name it stood under is told of in the one above.
    pub(super) fn forget(&mut self, path: &RelPath) {
        for place in below(&self.directories, path) {
            if let Some(directory) = self.directories.remove(&place) {
                self.weight -= 1 + directory.names.len();
            }
        }
    }

    /// Something happened to `name` in the directory at `path`.
    pub(super) fn add(&mut self, path: &RelPath, name: &[u8], is_directory: bool, told: Told) {
        if self.overflow {
            return;
        }
        if self.weight >= MAX_PENDING {
            self.overflowed();
            return;
        }
        let weight = &mut self.weight;
        let directory = self
            .directories
            .entry(InTree(path.clone()))
            .or_insert_with(|| {
                *weight += 1;
                InDirectory::default()
            });
        let named = std::str::from_utf8(name).ok();
        let Some(name) = named.filter(|name| path.join(name).is_ok()) else {
            directory.unnamed = true;
            return;
        };
        if !directory.names.contains_key(name) {
            *weight += 1;
        }
        let happened = directory.names.entry(name.to_owned()).or_default();
        happened.appeared |= told == Told::Appeared;
        happened.gone |= told == Told::Gone;
        happened.was_directory = is_directory;
    }

    /// Takes what may be told, in the order of the paths: only of directories
    /// that still stand where they were watched, and of names that a deed of
    /// its own could look at.
    ///
    /// What is told of a name is what stands there now. Notices alone do not
    /// say: two names that are exchanged are told as if the first were gone.
    pub(super) fn take(
        &mut self,
        eyes: &Eyes<'_>,
        ground: &Ground,
    ) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        self.weight = 0;
        for (InTree(path), directory) in std::mem::take(&mut self.directories) {
            eyes.live.still()?;
            match still(eyes, ground, &path) {
                Still::Stands(handle) => {
                    self.take_in(eyes, &path, &handle, directory, &mut changes)?;
                }
                Still::Moved => self.counts.moved += directory.names.len() as u64,
                Still::Unknown => self.overflow = true,
            }
        }
        changes.sort_unstable_by(|a, b| a.path.components().cmp(b.path.components()));
        Ok(changes)
    }

    fn take_in(
        &mut self,
        eyes: &Eyes<'_>,
        path: &RelPath,
        handle: &OwnedFd,
        directory: InDirectory,
        changes: &mut Vec<Change>,
    ) -> Result<(), Failure> {
        if directory.unnamed && eyes.terms.admits(path, Entity::Directory) == Admit::Yes {
            changes.push(Change {
                path: path.clone(),
                kind: ChangeKind::Modified,
                directory: true,
            });
        }
        let hiding = eyes.hiding(path);
        for ((name, happened), n) in directory.names.into_iter().zip(1u64..) {
            if n.is_multiple_of(hiding.look_every()) {
                eyes.live.still()?;
            }
            let Ok(at) = path.join(&name) else { continue };
            let found = sys::child_meta(handle.as_fd(), &*name);
            let entity = match &found {
                Ok(seen) => Meta::of_statx(seen).entity,
                Err(_) if happened.was_directory => Entity::Directory,
                Err(_) => Entity::File,
            };
            // What was asked for by name is judged by that name, before.
            let admits = if at == eyes.at.path {
                Admit::Yes
            } else {
                eyes.terms.admits(&at, entity)
            };
            match admits {
                Admit::Denied => self.counts.denied += 1,
                Admit::WouldAsk => self.counts.secret += 1,
                Admit::Yes if hiding.hides(&at, entity) => self.counts.ignored += 1,
                Admit::Yes => {
                    let stands = !matches!(found, Err(Errno::NOENT));
                    let kind = match (stands, happened.appeared, happened.gone) {
                        (false, _, _) => ChangeKind::Removed,
                        (true, true, false) => ChangeKind::Created,
                        (true, _, _) => ChangeKind::Modified,
                    };
                    changes.push(Change {
                        path: at,
                        kind,
                        directory: entity == Entity::Directory,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether a directory is where it was watched.
enum Still {
    Stands(OwnedFd),
    Moved,
    /// It could not be looked at: for want of handles, say.
    Unknown,
}

fn still(eyes: &Eyes<'_>, ground: &Ground, path: &RelPath) -> Still {
    let Some(was) = ground.meta(path) else {
        return Still::Moved;
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match eyes.at.root.open(path, flags, Symlinks::Reject) {
        Ok(now) if (now.meta.dev, now.meta.ino) != (was.dev, was.ino) => Still::Moved,
        // By who may list it now: the kernel asked that when it was watched.
        Ok(now) if now.meta.admit_private(eyes.at.entry.policy()).is_err() => Still::Moved,
        Ok(now) => Still::Stands(now.handle),
        Err(failure) => {
            if is_gone(&failure) || failure.reason() == Reason::MountBoundary {
                Still::Moved
            } else {
                Still::Unknown
            }
        }
    }
}
