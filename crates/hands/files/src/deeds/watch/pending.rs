//! What changed since somebody was last told, name by name.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;

use portcullis_policy::{Admit, Symlinks};
use portcullis_proto::{Counts, Entity, RelPath};
use rustix::fs::OFlags;

use super::ground::{Eyes, Ground};
use super::{Change, ChangeKind};
use crate::hiding::Hiding;
use crate::meta::Meta;
use crate::sys::{self, Told};

/// How many names wait to be told at most; more is an overflow. As many as the
/// kernel queues.
pub(super) const MAX_PENDING: usize = 16_384;

/// What waits to be told.
#[derive(Debug, Default)]
pub(super) struct Pending {
    directories: HashMap<RelPath, InDirectory>,
    names: usize,
    /// Whether something was lost: what is told is not all there is.
    pub(super) overflow: bool,
    pub(super) counts: Counts,
}

#[derive(Debug)]
struct InDirectory {
    hiding: Hiding,
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
        self.names = 0;
    }

    /// The directory at `path` is gone, and what waits of it and of all below it
    /// goes with it: the name it stood under is told of in the one above.
    pub(super) fn forget(&mut self, path: &RelPath) {
        let mut names = 0;
        self.directories.retain(|dir, directory| {
            let stays = !dir.is_under(path);
            names += if stays { 0 } else { directory.names.len() };
            stays
        });
        self.names -= names;
    }

    /// What the ignore files said of each directory may not hold any more.
    pub(super) fn look_again(&mut self, eyes: &Eyes<'_>) {
        for (path, directory) in &mut self.directories {
            directory.hiding = eyes.hiding(path);
        }
    }

    /// Something happened to `name` in the directory at `path`.
    pub(super) fn add(
        &mut self,
        eyes: &Eyes<'_>,
        path: &RelPath,
        name: &[u8],
        is_directory: bool,
        told: Told,
    ) {
        if self.overflow {
            return;
        }
        if self.names >= MAX_PENDING {
            self.overflowed();
            return;
        }
        let directory = match self.directories.get_mut(path) {
            Some(directory) => directory,
            None => self
                .directories
                .entry(path.clone())
                .or_insert_with(|| InDirectory {
                    hiding: eyes.hiding(path),
                    names: BTreeMap::new(),
                    unnamed: false,
                }),
        };
        let named = std::str::from_utf8(name)
            .ok()
            .and_then(|name| Some((name, path.join(name).ok()?)));
        let Some((name, at)) = named else {
            directory.unnamed = true;
            return;
        };
        let entity = if is_directory {
            Entity::Directory
        } else {
            Entity::File
        };
        if directory.hiding.hides(&at, entity) {
            self.counts.ignored += 1;
            return;
        }
        if !directory.names.contains_key(name) {
            self.names += 1;
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
    pub(super) fn take(&mut self, eyes: &Eyes<'_>, ground: &Ground) -> Vec<Change> {
        let root = &eyes.at.root;
        let mut changes = Vec::with_capacity(self.names);
        self.names = 0;
        for (path, directory) in std::mem::take(&mut self.directories) {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let still = ground.meta(&path).and_then(|was| {
                let now = root.open(&path, flags, Symlinks::Reject).ok()?;
                let same = (now.meta.dev, now.meta.ino) == (was.dev, was.ino);
                same.then_some(now.handle)
            });
            let Some(handle) = still else {
                self.counts.moved += directory.names.len() as u64;
                continue;
            };
            if directory.unnamed {
                changes.push(Change {
                    path: path.clone(),
                    kind: ChangeKind::Modified,
                    directory: true,
                });
            }
            for (name, happened) in directory.names {
                let Ok(at) = path.join(&name) else { continue };
                let found = sys::child_meta(handle.as_fd(), &*name).ok();
                let entity = match &found {
                    Some(seen) => Meta::of_statx(seen).entity,
                    None if happened.was_directory => Entity::Directory,
                    None => Entity::File,
                };
                match eyes.terms.admits(&at, entity) {
                    Admit::Yes => {}
                    Admit::Denied => {
                        self.counts.denied += 1;
                        continue;
                    }
                    Admit::WouldAsk => {
                        self.counts.secret += 1;
                        continue;
                    }
                }
                let kind = match (found.is_some(), happened.appeared, happened.gone) {
                    (false, _, _) => ChangeKind::Removed,
                    (true, true, false) => ChangeKind::Created,
                    (true, _, _) => ChangeKind::Modified,
                };
                let directory = entity == Entity::Directory;
                // Of a directory that stayed, what changed are its permissions,
                // or what is in it, which is told by its own name.
                changes.push(Change {
                    path: at,
                    kind,
                    directory,
                });
            }
        }
        changes.sort_unstable_by(|a, b| a.path.components().cmp(b.path.components()));
        changes
    }
}
