//! Which directories are watched, and where each stands.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{self, AtomicUsize};

use portcullis_gate::Live;
use portcullis_policy::{Symlinks, Terms};
use portcullis_proto::{Counts, Entity, Failure, Reason, RelPath};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::admitted;
use super::super::pinned::Pinned;
use super::is_gone;
use super::pending::Pending;
use crate::dirs::each_name;
use crate::hiding::Hiding;
use crate::meta::Meta;
use crate::sys::{Notices, Told};

/// How many directories one watch holds: each costs the kernel a kilobyte.
const MAX_DIRECTORIES: usize = 65_536;
/// How many all watches hold together, less than the kernel allows a user: an
/// editor wants some too.
const MAX_OF_ALL: usize = 131_072;
static OF_ALL: AtomicUsize = AtomicUsize::new(0);
/// How long the paths of one watch are together.
const MAX_PATHS: usize = 16 * 1024 * 1024;
/// The deepest a watch goes.
const MAX_DEPTH: usize = 128;

/// A path, in the order of the tree: what is below it stands right behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InTree(pub(super) RelPath);

impl Ord for InTree {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.components().cmp(other.0.components())
    }
}

impl PartialOrd for InTree {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The keys of `map` at `top` and below it.
pub(super) fn below<V>(map: &BTreeMap<InTree, V>, top: &RelPath) -> Vec<InTree> {
    map.range(InTree(top.clone())..)
        .map(|(place, _)| place)
        .take_while(|place| place.0.is_under(top))
        .cloned()
        .collect()
}

/// The directories watched.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) notices: Notices,
    directories: BTreeMap<InTree, Watched>,
    by_number: HashMap<i32, RelPath>,
    /// How long their paths are together.
    bytes: usize,
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

impl Drop for Ground {
    fn drop(&mut self) {
        OF_ALL.fetch_sub(self.directories.len(), atomic::Ordering::Relaxed);
    }
}

impl Ground {
    pub(super) fn new(notices: Notices, is_local: bool) -> Self {
        Self {
            notices,
            directories: BTreeMap::new(),
            by_number: HashMap::new(),
            bytes: 0,
            look: 0,
            // Of what happens on a server far away the kernel here tells nothing.
            complete: is_local,
        }
    }

    /// Where the directory of a notice stands.
    pub(super) fn place(&self, number: i32) -> Option<&RelPath> {
        self.by_number.get(&number)
    }

    /// What the directory at `path` was when it was watched.
    pub(super) fn meta(&self, path: &RelPath) -> Option<&Meta> {
        let watched = self.directories.get(&InTree(path.clone()));
        watched.map(|watched| &watched.meta)
    }

    fn identity(&self, path: &RelPath) -> Option<(u64, u64)> {
        self.meta(path).map(|meta| (meta.dev, meta.ino))
    }

    pub(super) fn len(&self) -> usize {
        self.directories.len()
    }

    /// Watches the directory at `path` alone.
    pub(super) fn watch_one(&mut self, eyes: &Eyes<'_>, path: &RelPath) -> Result<(), Failure> {
        self.watch(eyes, path).map(|_| ())
    }

    /// Watches the directory at `top` and all below it that may be shown, and
    /// lets go of what was watched there and is not found any more. What stands
    /// in a directory that was not watched before is told to `pending`, if there
    /// is one: it may have come unseen.
    pub(super) fn look(
        &mut self,
        eyes: &Eyes<'_>,
        top: &RelPath,
        mut pending: Option<&mut Pending>,
    ) -> Result<(), Failure> {
        self.look += 1;
        // With what holds in the directory above; of the top, in itself.
        let mut left = vec![(top.clone(), None)];
        let mut bytes = 0;
        while let Some((path, above)) = left.pop() {
            eyes.live.still()?;
            bytes -= if path == *top { 0 } else { path.as_str().len() };
            let was = self.identity(&path);
            let watched = if path.components().count() >= MAX_DEPTH || !self.has_room_for(&path) {
                Err(too_much())
            } else {
                self.watch(eyes, &path)
            };
            let opened = match watched {
                Ok(opened) => opened,
                Err(failure) if path == *top => return Err(failure),
                Err(failure) if is_gone(&failure) => continue,
                Err(_) => {
                    self.complete = false;
                    continue;
                }
            };
            // Of one that stands in two places, one is watched.
            let Some(now) = self.identity(&path) else {
                continue;
            };
            let is_new = was != Some(now);
            let hiding: Hiding = match &above {
                None => eyes.hiding(&path),
                Some(above) => {
                    Hiding::below(above, &eyes.at.root, opened.as_fd(), &path, eyes.terms)
                }
            };
            // Only what is told is counted, and this tells nothing yet.
            let mut uncounted = Counts::default();
            let mut seen = 0u64;
            let room = MAX_DIRECTORIES.saturating_sub(left.len());
            let mut entered = 0;
            let of_this = self.bytes;
            let read = each_name(opened.as_fd(), &path, |name| {
                seen += 1;
                if seen.is_multiple_of(hiding.look_every()) {
                    eyes.live.still()?;
                }
                if !admitted(eyes.terms, &path, &name, &mut uncounted) {
                    return Ok(());
                }
                let is_directory = name.entity == Entity::Directory;
                if is_new && let Some(pending) = &mut pending {
                    pending.add(&path, name.bytes(), is_directory, Told::Appeared);
                }
                if !is_directory {
                    return Ok(());
                }
                let Some(at) = name.path else {
                    self.complete = false;
                    return Ok(());
                };
                if hiding.hides(&at, Entity::Directory) {
                    return Ok(());
                }
                let length = at.as_str().len();
                if entered < room && of_this + bytes + length <= MAX_PATHS {
                    entered += 1;
                    bytes += length;
                    left.push((at, Some(hiding.clone())));
                } else {
                    self.complete = false;
                }
                Ok(())
            });
            if read.is_err() {
                eyes.live.still()?;
                self.complete = false;
            }
        }
        let look = self.look;
        self.let_go(top, |watched| watched.look != look);
        Ok(())
    }

    fn has_room_for(&self, path: &RelPath) -> bool {
        self.meta(path).is_some()
            || (self.directories.len() < MAX_DIRECTORIES
                && self.bytes + path.as_str().len() <= MAX_PATHS
                && OF_ALL.load(atomic::Ordering::Relaxed) < MAX_OF_ALL)
    }

    /// Opens and watches one directory, in that order: whatever changes in it
    /// after it is read is told.
    fn watch(&mut self, eyes: &Eyes<'_>, path: &RelPath) -> Result<OwnedFd, Failure> {
        let Pinned { root, entry, .. } = eyes.at;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = root.open(path, flags, Symlinks::Reject)?;
        opened.meta.admit_private(entry.policy())?;
        let mut number = self.notices.add(opened.handle.as_fd()).map_err(no_room)?;
        if let Some(old) = self.by_number.get(&number).cloned()
            && old != *path
        {
            if self.meta(&old).is_some_and(|was| root.is_still(&old, was)) {
                // It stands in two places, as a mount can make it: its notices
                // tell of one.
                self.complete = false;
                return Ok(opened.handle);
            }
            // It was moved here. By another number, since what the queue still
            // has of this one happened elsewhere, outside perhaps.
            self.forget(&old);
            number = self.notices.add(opened.handle.as_fd()).map_err(no_room)?;
        }
        let watched = Watched {
            number,
            meta: opened.meta,
            look: self.look,
        };
        match self.directories.insert(InTree(path.clone()), watched) {
            Some(other) if other.number != number => {
                self.by_number.remove(&other.number);
                self.notices.remove(other.number);
            }
            Some(_) => {}
            None => {
                self.bytes += path.as_str().len();
                OF_ALL.fetch_add(1, atomic::Ordering::Relaxed);
            }
        }
        self.by_number.insert(number, path.clone());
        Ok(opened.handle)
    }

    /// Lets go of the directory at `path` and of all below it.
    pub(super) fn forget(&mut self, path: &RelPath) {
        self.let_go(path, |_| true);
    }

    fn let_go(&mut self, top: &RelPath, which: impl Fn(&Watched) -> bool) {
        for place in below(&self.directories, top) {
            if self.directories.get(&place).is_some_and(&which) {
                self.drop_place(&place);
            }
        }
    }

    fn drop_place(&mut self, place: &InTree) {
        if let Some(watched) = self.directories.remove(place) {
            self.bytes -= place.0.as_str().len();
            OF_ALL.fetch_sub(1, atomic::Ordering::Relaxed);
            self.by_number.remove(&watched.number);
            self.notices.remove(watched.number);
        }
    }

    /// The kernel watches the directory of this number no more; where it stood.
    pub(super) fn unwatched(&mut self, number: i32) -> Option<RelPath> {
        let path = self.by_number.get(&number).cloned()?;
        self.drop_place(&InTree(path.clone()));
        Some(path)
    }
}

fn too_much() -> Failure {
    Failure::new(
        Reason::Overload,
        "It stands too deep, or so much is watched already that it was not begun.",
    )
    .hint("Watch a directory nearer to the root, or end another watch.")
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
