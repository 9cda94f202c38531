//! What ignore files said, and which names directories hold, kept for as long as
//! it is certain to be unchanged.
//!
//! Reading a file tells which ignore file names it, and three looks in every
//! directory above would cost more than the read. A directory whose stamp is
//! the same holds the same names; an ignore file whose stamp is the same says
//! the same. So a directory that has not changed costs one look, and one more
//! for each ignore file in it.
//!
//! A stamp is taken before what it stands for is looked at, and believed only
//! if it was old by then: two changes within a tick of the clock share a stamp,
//! and some file systems tick by the second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_proto::RelPath;
use rustix::fs::Statx;

use crate::ignores::{IgnoreKind, IgnoreLayer};
use crate::meta::Meta;
use crate::sys;

mod names;

pub(crate) use names::each_kept_name;

/// How old a stamp must be when it is taken: several ticks of any kernel.
const SETTLED_NS: i128 = 50_000_000;
/// The same for a stamp of whole seconds, perhaps all its file system has.
const SETTLED_SECONDS_NS: i128 = 3_000_000_000;
/// For how long anything is believed. A file written through a mapping can
/// change without a new stamp; this bounds for how long that goes unseen.
const BELIEVED_NS: i128 = 10_000_000_000;
/// How many directories are kept.
const MAX_DIRS: usize = 1024;
/// How many bytes of ignore files are kept, parsed. Parsed they take up to
/// fifty times as much, and the tree's author decides how many there are.
const MAX_TEXT: usize = 256 * 1024;

/// Which directory or file it is, and when it last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    dev: u64,
    ino: u64,
    mount: u64,
    mtime_ns: i128,
    ctime_ns: i128,
}

impl Stamp {
    pub(crate) fn of(seen: &Statx) -> Self {
        let meta = Meta::of_statx(seen);
        Self {
            dev: meta.dev,
            ino: meta.ino,
            mount: sys::mount_of(seen),
            mtime_ns: meta.mtime_ns,
            ctime_ns: meta.ctime_ns,
        }
    }

    /// Whether, at `now`, a change still to come cannot have the same stamp.
    fn is_settled(&self, now: i128) -> bool {
        let whole_seconds = self.ctime_ns % 1_000_000_000 == 0;
        let age = if whole_seconds {
            SETTLED_SECONDS_NS
        } else {
            SETTLED_NS
        };
        self.ctime_ns + age < now
    }

    /// Whether it is of `meta`, which was taken of a handle.
    pub(crate) fn is_of(&self, meta: &Meta) -> bool {
        (self.dev, self.ino) == (meta.dev, meta.ino)
    }
}

/// An ignore file as it was read.
#[derive(Debug)]
pub(crate) struct KeptFile {
    pub(crate) path: RelPath,
    pub(crate) kind: IgnoreKind,
    pub(crate) stamp: Stamp,
    pub(crate) meta: Meta,
    pub(crate) layer: Arc<IgnoreLayer>,
}

/// The ignore files of a directory: all it has.
#[derive(Clone, Debug)]
pub(crate) struct KeptDir {
    pub(crate) stamp: Stamp,
    /// When it was looked at.
    since: i128,
    pub(crate) files: Vec<Arc<KeptFile>>,
}

impl KeptDir {
    fn bytes(&self) -> usize {
        let sizes = self.files.iter().map(|file| file.meta.size);
        usize::try_from(sizes.sum::<u64>()).unwrap_or(usize::MAX)
    }
}

/// The directories of one root.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The clock files are stamped by.
    now: fn() -> i128,
    dirs: Mutex<Dirs>,
    names: names::Names,
}

#[derive(Debug, Default)]
struct Dirs {
    by_path: HashMap<Box<str>, KeptDir>,
    bytes: usize,
}

impl Kept {
    pub(crate) fn new(now: fn() -> i128) -> Self {
        Self {
            now,
            dirs: Mutex::default(),
            names: names::Names::default(),
        }
    }

    /// Begins a look at the directory that has `stamp`.
    pub(crate) fn look(&self, stamp: Stamp) -> KeptDir {
        KeptDir {
            stamp,
            since: (self.now)(),
            files: Vec::new(),
        }
    }

    /// What is kept of every directory from the root down to `path`, if
    /// something is of all of them. Whoever asks compares the stamps.
    pub(crate) fn down_to(&self, path: &RelPath) -> Option<Vec<KeptDir>> {
        let now = (self.now)();
        let path = path.as_str();
        let below = (!path.is_empty()).then_some(path);
        let above = path.match_indices('/').map(|(at, _)| path.get(..at));
        let dirs = self.lock();
        std::iter::once(Some(""))
            .chain(above)
            .chain(below.map(Some))
            .map(|path| {
                let dir = dirs.by_path.get(path?)?;
                (0..BELIEVED_NS)
                    .contains(&(now - dir.since))
                    .then(|| dir.clone())
            })
            .collect()
    }

    /// Keeps what a finished look at `path` found, if it can be believed.
    pub(crate) fn keep(&self, path: &RelPath, dir: KeptDir) {
        let bytes = dir.bytes();
        if !dir.stamp.is_settled(dir.since)
            || !dir.files.iter().all(|f| f.stamp.is_settled(dir.since))
            || bytes > MAX_TEXT
        {
            return;
        }
        let mut dirs = self.lock();
        if let Some(before) = dirs.by_path.remove(path.as_str()) {
            dirs.bytes -= before.bytes();
        }
        if dirs.by_path.len() >= MAX_DIRS || dirs.bytes + bytes > MAX_TEXT {
            // Rare, and to look again is cheap: nothing is chosen to stay.
            *dirs = Dirs::default();
        }
        dirs.bytes += bytes;
        dirs.by_path.insert(path.as_str().into(), dir);
    }

    /// The same, by another clock.
    #[cfg(test)]
    pub(crate) fn by(self, now: fn() -> i128) -> Self {
        Self { now, ..self }
    }

    #[cfg(test)]
    pub(crate) fn is_within_bounds(&self) -> bool {
        let dirs = self.lock();
        let bytes: usize = dirs.by_path.values().map(KeptDir::bytes).sum();
        bytes == dirs.bytes && bytes <= MAX_TEXT && dirs.by_path.len() <= MAX_DIRS
    }

    fn lock(&self) -> MutexGuard<'_, Dirs> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
