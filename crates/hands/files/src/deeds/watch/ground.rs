//! Which directories are watched, and where each stands.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;

use portcullis_gate::Live;
use portcullis_policy::{Symlinks, Terms};
use portcullis_proto::{Counts, Entity, Failure, Reason, RelPath};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::admitted;
use super::super::pinned::Pinned;
use super::pending::Pending;
use crate::dirs::each_name;
use crate::hiding::Hiding;
use crate::meta::Meta;
use crate::sys::{Notices, Told};

/// How many directories one watch holds: each costs the kernel a kilobyte.
pub(super) const MAX_DIRECTORIES: usize = 65_536;
/// The deepest a watch goes.
const MAX_DEPTH: usize = 128;

/// The directories watched.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) notices: Notices,
    /// By path, with `/` behind it: what is below one stands right behind it.
    directories: BTreeMap<String, Watched>,
    by_number: HashMap<i32, RelPath>,
    /// Tells what the latest look found from what an earlier one did.
    look: u64,
    /// Whether every directory that may be shown is watched: some may be too
    /// many or too deep, or cannot be opened, or the kernel has no room.
    pub(super) complete: bool,
}

#[derive(Debug)]
struct Watched {
    number: i32,
    meta: Meta,
    look: u64,
}

/// What a look goes by.
pub(super) struct Eyes<'a> {
    pub(super) at: &'a Pinned,
    pub(super) terms: &'a Terms,
    pub(super) live: &'a Live<'a>,
    pub(super) include_ignored: bool,
}

impl Eyes<'_> {
    /// What is left out of the directory at `path`.
    pub(super) fn hiding(&self, path: &RelPath) -> Hiding {
        if self.include_ignored {
            Hiding::nothing()
        } else {
            Hiding::at(&self.at.root, path, self.terms)
        }
    }
}

/// What stands below `path` begins with this.
fn key(path: &RelPath) -> String {
    if path.is_root() {
        String::new()
    } else {
        format!("{path}/")
    }
}

impl Ground {
    pub(super) fn new(notices: Notices) -> Self {
        Self {
            notices,
            directories: BTreeMap::new(),
            by_number: HashMap::new(),
            look: 0,
            complete: true,
        }
    }

    /// Where the directory of a notice stands.
    pub(super) fn place(&self, number: i32) -> Option<&RelPath> {
        self.by_number.get(&number)
    }

    /// What the directory at `path` was when it was watched.
    pub(super) fn meta(&self, path: &RelPath) -> Option<&Meta> {
        self.directories
            .get(&key(path))
            .map(|watched| &watched.meta)
    }

    pub(super) fn len(&self) -> usize {
        self.directories.len()
    }

    /// Watches the directory at `path` alone.
    pub(super) fn watch_one(&mut self, eyes: &Eyes<'_>, path: &RelPath) -> Result<(), Failure> {
        self.watch(eyes, path).map(|_| ())
    }

    /// Watches the directory at `top` and all below it that may be shown, and
    /// lets go of what was watched there and is not found any more. What is
    /// found is told to `pending`, if there is one: it may have come before its
    /// directory was watched.
    pub(super) fn look(
        &mut self,
        eyes: &Eyes<'_>,
        top: &RelPath,
        mut pending: Option<&mut Pending>,
    ) -> Result<(), Failure> {
        self.look += 1;
        let mut left = vec![(top.clone(), eyes.hiding(top))];
        while let Some((path, hiding)) = left.pop() {
            eyes.live.still()?;
            if path.components().count() >= MAX_DEPTH || self.is_full_for(&path) {
                self.complete = false;
                continue;
            }
            let opened = match self.watch(eyes, &path) {
                Ok(opened) => opened,
                Err(failure) if path == *top => return Err(failure),
                Err(failure) if failure.reason() == Reason::NotFound => continue,
                Err(_) => {
                    self.complete = false;
                    continue;
                }
            };
            // Only what is told is counted, and this tells nothing yet.
            let mut uncounted = Counts::default();
            let mut below = Vec::new();
            let mut seen = 0u64;
            let room = MAX_DIRECTORIES.saturating_sub(left.len());
            let read = each_name(opened.as_fd(), &path, |name| {
                seen += 1;
                if seen.is_multiple_of(hiding.look_every()) {
                    eyes.live.still()?;
                }
                if !admitted(eyes.terms, &path, &name, &mut uncounted) {
                    return Ok(());
                }
                let Some(at) = &name.path else {
                    return Ok(());
                };
                if hiding.hides(at, name.entity) {
                    return Ok(());
                }
                let is_directory = name.entity == Entity::Directory;
                if is_directory && below.len() < room {
                    below.push((at.clone(), name.shown.clone()));
                } else if is_directory {
                    self.complete = false;
                }
                if let Some(pending) = &mut pending {
                    let name = name.shown.as_bytes();
                    pending.add(eyes, &path, name, is_directory, Told::Appeared);
                }
                Ok(())
            });
            if read.is_err() {
                self.complete = false;
            }
            for (at, name) in below {
                let hiding = if eyes.include_ignored {
                    Hiding::nothing()
                } else {
                    let flags = OFlags::PATH | OFlags::DIRECTORY;
                    let root = &eyes.at.root;
                    match root.open_child(opened.as_fd(), &path, &name, flags) {
                        Ok(handle) => hiding.below(root, handle.as_fd(), &at, eyes.terms),
                        // Gone since, or a mount: looked at again when its turn comes.
                        Err(_) => hiding.clone(),
                    }
                };
                left.push((at, hiding));
            }
        }
        self.let_go_of_unseen(top);
        Ok(())
    }

    fn is_full_for(&self, path: &RelPath) -> bool {
        self.directories.len() >= MAX_DIRECTORIES && !self.directories.contains_key(&key(path))
    }

    /// Opens and watches one directory, in that order: whatever changes in it
    /// after it is read is told.
    fn watch(&mut self, eyes: &Eyes<'_>, path: &RelPath) -> Result<std::os::fd::OwnedFd, Failure> {
        let Pinned { root, entry, .. } = eyes.at;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = root.open(path, flags, Symlinks::Reject)?;
        opened.meta.admit_private(entry.policy())?;
        let number = match self.notices.add(opened.handle.as_fd()) {
            Ok(number) => number,
            Err(errno) => return Err(no_room(errno)),
        };
        // A directory that was moved keeps its number: it stands here now.
        if let Some(old) = self.by_number.insert(number, path.clone())
            && old != *path
        {
            self.directories.remove(&key(&old));
        }
        let watched = Watched {
            number,
            meta: opened.meta,
            look: self.look,
        };
        if let Some(other) = self.directories.insert(key(path), watched)
            && other.number != number
        {
            self.by_number.remove(&other.number);
            self.notices.remove(other.number);
        }
        Ok(opened.handle)
    }

    /// Lets go of the directory at `path` and of all below it.
    pub(super) fn forget(&mut self, path: &RelPath) {
        self.let_go(path, |_| true);
    }

    fn let_go_of_unseen(&mut self, top: &RelPath) {
        let look = self.look;
        self.let_go(top, |watched| watched.look != look);
    }

    fn let_go(&mut self, top: &RelPath, which: impl Fn(&Watched) -> bool) {
        let from = key(top);
        let gone: Vec<String> = self
            .directories
            .range(from.clone()..)
            .take_while(|(place, _)| place.starts_with(&from))
            .filter(|(_, watched)| which(watched))
            .map(|(place, _)| place.clone())
            .collect();
        for place in gone {
            if let Some(watched) = self.directories.remove(&place) {
                self.by_number.remove(&watched.number);
                self.notices.remove(watched.number);
            }
        }
    }

    /// The kernel watches the directory of this number no more.
    pub(super) fn unwatched(&mut self, number: i32) {
        if let Some(path) = self.by_number.remove(&number)
            && self
                .directories
                .get(&key(&path))
                .is_some_and(|watched| watched.number == number)
        {
            self.directories.remove(&key(&path));
        }
    }
}

/// Why a directory cannot be watched.
pub(super) fn no_room(errno: Errno) -> Failure {
    let (message, limit) = match errno {
        Errno::NOSPC => (
            "The kernel watches no more directories for this user.",
            "fs.inotify.max_user_watches",
        ),
        Errno::MFILE => (
            "The kernel keeps no more watches for this user.",
            "fs.inotify.max_user_instances",
        ),
        errno => return crate::errno::failure(errno),
    };
    Failure::new(Reason::Overload, message)
        .hint(format!(
            "Watch less, or have the operator raise {limit} with sysctl."
        ))
        .detail(errno)
}
