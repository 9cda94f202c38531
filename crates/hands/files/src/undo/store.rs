//! One root's store.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use portcullis_proto::{Failure, Reason};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, RenameFlags, openat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::entry::Entry;
use super::place::{Where, open};
use super::prune::{MAX_BYTES, MAX_OPERATIONS};
use super::tree;
use crate::errno::failure;
use crate::private_dir::PrivateDir;
use crate::root::Root;
use crate::sys;

/// An entry is small; what is larger is none of ours.
const MAX_ENTRY: u64 = 64 * 1024;
/// The largest file copied where it cannot be moved.
const MAX_COPY: u64 = 64 * 1024 * 1024;

/// How something came into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The very thing was moved there.
    Moved,
    /// A copy of it was made there.
    Copied,
    /// It is too large to be copied.
    Nothing,
}

/// One root's store.
#[derive(Debug)]
pub(crate) struct UndoStore {
    pub(super) dir: OwnedFd,
    place: Where,
    /// How many entries this process has written.
    written: AtomicU32,
}

/// After how many entries a store is looked at for what is too old.
const PRUNE_EVERY: u32 = 1024;

/// What was displaced, as it stands in the store.
#[derive(Debug)]
pub(crate) enum Pre {
    /// A file.
    File(OwnedFd),
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

impl UndoStore {
    /// Opens the store of `root`, making it where it is missing.
    pub(crate) fn open(data: &PrivateDir, root: &Root) -> Result<Self, Failure> {
        let (dir, place) = open(data, root)?;
        let store = Self {
            dir,
            place,
            written: AtomicU32::new(0),
        };
        let _pruned = store.prune(MAX_OPERATIONS, MAX_BYTES);
        Ok(store)
    }

    /// Where it is.
    pub(crate) fn place(&self) -> Where {
        self.place
    }

    /// Takes the entry `name` of `parent` over as what `id` displaced. Moved
    /// where the mount is the same, else copied and then removed.
    pub(crate) fn take(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        id: &str,
    ) -> Result<Kept, Failure> {
        let pre = pre(id);
        if self.place != Where::Copy {
            match renameat_with(parent, name, &self.dir, &pre, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(Kept::Moved),
                // Another mount inside the root, or a directory of a lower layer.
                Err(Errno::XDEV) => {}
                Err(errno) => return Err(failure(errno)),
            }
        }
        self.copy_in(parent, name, id)?;
        // The copy is whole: whatever of the original cannot be removed stays
        // under its hidden name, and nothing is lost.
        let _left = tree::remove_tree(parent, name);
        Ok(Kept::Copied)
    }

    /// Keeps a copy of the entry `name` of `parent`, whatever it is. It has its
    /// name only when it is whole: recovery trusts what it finds under that.
    pub(crate) fn copy_in(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        id: &str,
    ) -> Result<(), Failure> {
        let part = format!("{id}.part");
        let _of_an_earlier_try = tree::remove_tree(self.dir.as_fd(), &part);
        tree::copy_tree(parent, name, self.dir.as_fd(), &part)?;
        let named = renameat_with(&self.dir, &part, &self.dir, pre(id), RenameFlags::NOREPLACE);
        named.map_err(|errno| {
            let _not_kept = tree::remove_tree(self.dir.as_fd(), &part);
            failure(errno)
        })
    }

    /// Keeps a copy of the file behind `file`, before it is written in place.
    pub(crate) fn copy(&self, file: BorrowedFd<'_>, id: &str) -> Result<Kept, Failure> {
        let size = rustix::fs::fstat(file).map_err(failure)?.st_size;
        if u64::try_from(size).unwrap_or(u64::MAX) > MAX_COPY {
            return Ok(Kept::Nothing);
        }
        tree::copy_file(file, self.dir.as_fd(), &pre(id))?;
        Ok(Kept::Copied)
    }

    /// Writes down what was done.
    pub(crate) fn record(&self, entry: &Entry) -> Result<(), Failure> {
        let text = serde_json::to_vec(entry).map_err(|e| Failure::from(Reason::Bug).detail(e))?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = json(&entry.id);
        let file = openat(&self.dir, &name, flags, Mode::RUSR | Mode::WUSR).map_err(failure)?;
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, &text));
        if written == Ok(text.len()) {
            let written = self.written.fetch_add(1, Ordering::Relaxed);
            if written % PRUNE_EVERY == PRUNE_EVERY - 1 {
                let _next_time = self.prune(MAX_OPERATIONS, MAX_BYTES);
            }
            return Ok(());
        }
        let _half = unlinkat(&self.dir, &name, AtFlags::empty());
        Err(written.map_or_else(failure, |_| Reason::NoSpace.into()))
    }

    /// Writes down what was done in place of what a dying process left of that.
    pub(crate) fn record_again(&self, entry: &Entry) -> Result<(), Failure> {
        let _torn = unlinkat(&self.dir, json(&entry.id), AtFlags::empty());
        self.record(entry)
    }

    /// The entry called `id`.
    pub(crate) fn entry(&self, id: &str) -> Result<Option<Entry>, Failure> {
        if id.contains('/') {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match openat(&self.dir, json(id), flags, Mode::empty()) {
            Ok(file) => {
                let text = crate::writing::read_all(&file, MAX_ENTRY)?.unwrap_or_default();
                Ok(serde_json::from_slice(&text).ok())
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// Every entry, oldest first.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let mut entries = Vec::new();
        for name in self.names()? {
            if let Some(id) = name.strip_suffix(".json")
                && let Some(entry) = self.entry(id)?
            {
                entries.push(entry);
            }
        }
        entries.sort_by(|a, b| (a.at, order(&a.id)).cmp(&(b.at, order(&b.id))));
        Ok(entries)
    }

    /// Whether something is kept for `id`.
    pub(crate) fn holds(&self, id: &str) -> bool {
        sys::child_meta(self.dir.as_fd(), pre(id)).is_ok()
    }

    /// What `id` displaced.
    pub(crate) fn pre(&self, id: &str) -> Result<Option<Pre>, Failure> {
        use portcullis_proto::Entity;
        let meta = match sys::child_meta(self.dir.as_fd(), pre(id)) {
            Ok(seen) => crate::meta::Meta::of_statx(&seen),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failure(errno)),
        };
        Ok(match meta.entity {
            Entity::File => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(&self.dir, pre(id), flags, Mode::empty()).map_err(failure)?;
                Some(Pre::File(file))
            }
            Entity::Directory => Some(Pre::Directory),
            Entity::Symlink => Some(Pre::Link),
            Entity::Mount | Entity::Special => None,
        })
    }

    /// Puts what `id` displaced back as `name` in `parent`, where nothing is.
    pub(crate) fn put_back(
        &self,
        id: &str,
        parent: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), Failure> {
        match renameat_with(&self.dir, pre(id), parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::XDEV) => {
                tree::copy_tree(self.dir.as_fd(), &pre(id), parent, name)?;
                tree::remove_tree(self.dir.as_fd(), &pre(id))
            }
            Err(errno) => Err(failure(errno)),
        }
    }

    /// Swaps what `id` displaced with `name` in `parent`: each stands where the
    /// other stood, the very same files. Done again, it undoes itself.
    pub(crate) fn swap(&self, id: &str, parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        renameat_with(&self.dir, pre(id), parent, name, RenameFlags::EXCHANGE)
    }

    /// What `id` displaced counts as displaced by `other` from now on.
    pub(crate) fn hand_over(&self, id: &str, other: &str) -> Result<(), Failure> {
        renameat_with(
            &self.dir,
            pre(id),
            &self.dir,
            pre(other),
            RenameFlags::NOREPLACE,
        )
        .map_err(failure)
    }

    /// Forgets `id` and what it displaced.
    pub(crate) fn forget(&self, id: &str) -> Result<(), Failure> {
        match tree::remove_tree(self.dir.as_fd(), &pre(id)) {
            Ok(()) => {}
            Err(failure) if failure.reason() == Reason::NotFound => {}
            Err(failure) => return Err(failure),
        }
        match unlinkat(&self.dir, json(id), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// The names of all that is in it.
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        // A handle of its own: reading a directory moves its position.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.dir, ".", flags, Mode::empty()).map_err(failure)?;
        let mut buffer = sys::list_buffer();
        let mut names = Vec::new();
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failure)?;
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

fn pre(id: &str) -> String {
    format!("{id}.pre")
}

fn json(id: &str) -> String {
    format!("{id}.json")
}

/// Requests of one process are numbered: `r_…_9` comes before `r_…_10`.
pub(super) fn order(id: &str) -> (&str, u64) {
    match id.rsplit_once('_') {
        Some((chain, number)) => (chain, number.parse().unwrap_or(u64::MAX)),
        None => (id, 0),
    }
}
