//! One root's store.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Entity, Failure, Reason};
use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, RenameFlags, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::entry::Entry;
use super::place::{Where, open, open_existing};
use super::prune::{MAX_BYTES, MAX_OPERATIONS, Tally};
use super::tree;
use crate::errno::failure;
use crate::meta::Meta;
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
    /// A copy of a tree was made there, and something in the tree changed since:
    /// that is where it was, and the rest is gone.
    CopiedInPart,
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
    tally: Mutex<Tally>,
    /// When it was opened, by the clock files are stamped by and by one that
    /// nobody sets.
    pub(super) opened: (i128, i128),
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
        Ok(Self::over(dir, place))
    }

    /// Opens the store of `root` where there is one.
    pub(crate) fn existing(data: &PrivateDir, root: &Root) -> Option<Self> {
        open_existing(data, root).map(|(dir, place)| Self::over(dir, place))
    }

    fn over(dir: OwnedFd, place: Where) -> Self {
        let store = Self {
            dir,
            place,
            written: AtomicU32::new(0),
            tally: Mutex::default(),
            opened: (sys::stamping_clock(), sys::running_clock()),
        };
        store.look();
        store
    }

    /// Looks at what it holds, and forgets what has to go.
    pub(crate) fn look(&self) {
        let _next_time = self.prune(MAX_OPERATIONS, MAX_BYTES);
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time files are stamped by, in nanoseconds since 1970. A clock that is
    /// set forward meanwhile makes nothing old.
    pub(super) fn now(&self) -> i128 {
        let (stamped, running) = self.opened;
        let passed = sys::running_clock() - running;
        sys::stamping_clock().min(stamped + passed)
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
        if self.place != Where::Copy {
            match sys::rename_new(parent, name, self.dir.as_fd(), &pre(id)) {
                Ok(()) => return Ok(Kept::Moved),
                // Another mount inside the root, or a directory of a lower layer.
                Err(Errno::XDEV) => {}
                Err(errno) => return Err(failure(errno)),
            }
        }
        // A copy that is there already is whole: a crash came after it was made.
        if !self.holds(id) {
            self.copy_in(parent, name, id)?;
        }
        let is_tree = self
            .held(id)
            .is_some_and(|held| held.entity == Entity::Directory);
        // The copy is whole: what fails once is tried once more.
        let taken = self.finish_taking(parent, name, id);
        let taken = taken.or_else(|_| self.finish_taking(parent, name, id));
        match taken {
            Ok(true) => Ok(Kept::Copied),
            // Part of it is gone already, and only the copy is whole.
            Ok(false) | Err(_) if is_tree => Ok(Kept::CopiedInPart),
            Ok(false) => Err(Failure::new(
                Reason::VersionMismatch,
                "Somebody changed it while it was copied for undo, so it was left as it is.",
            )
            .hint("Read it again, then try again.")),
            Err(failure) => Err(failure),
        }
    }

    /// Removes what is left of the entry `name` of `parent`, of which a whole
    /// copy is kept as what `id` displaced; says whether nothing differed.
    pub(crate) fn finish_taking(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        id: &str,
    ) -> Result<bool, Failure> {
        tree::remove_copied(parent, name, self.dir.as_fd(), &pre(id))
    }

    /// Keeps a copy of the entry `name` of `parent`, whatever it is. It has its
    /// name only when it is whole: recovery trusts what it finds under that.
    pub(crate) fn copy_in(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        id: &str,
    ) -> Result<(), Failure> {
        let part = self.fresh_part(id);
        tree::copy_tree(parent, name, self.dir.as_fd(), &part)?;
        self.name_part(id)
    }

    /// Keeps a copy of the file behind `file`, before it is written in place.
    pub(crate) fn copy(&self, file: BorrowedFd<'_>, id: &str) -> Result<Kept, Failure> {
        let size = rustix::fs::fstat(file).map_err(failure)?.st_size;
        if u64::try_from(size).unwrap_or(u64::MAX) > MAX_COPY {
            return Ok(Kept::Nothing);
        }
        let part = self.fresh_part(id);
        tree::copy_file(file, self.dir.as_fd(), &part)?;
        self.name_part(id)?;
        Ok(Kept::Copied)
    }

    /// The name of a copy that is not whole, with nothing under it.
    fn fresh_part(&self, id: &str) -> String {
        let part = part(id);
        let _of_an_earlier_try = tree::remove_tree(self.dir.as_fd(), &part);
        part
    }

    /// The copy is whole.
    fn name_part(&self, id: &str) -> Result<(), Failure> {
        let dir = self.dir.as_fd();
        sys::rename_new(dir, &part(id), dir, &pre(id)).map_err(|errno| {
            self.fresh_part(id);
            failure(errno)
        })
    }

    /// Writes down what was done.
    pub(crate) fn record(&self, entry: &Entry) -> Result<(), Failure> {
        self.write_new(&json(&entry.id), &told(entry)?)?;
        if entry.displaces() {
            self.tally().add(entry.displaced_bytes());
        }
        let written = self.written.fetch_add(1, Ordering::Relaxed);
        if written % PRUNE_EVERY == PRUNE_EVERY - 1 {
            self.look();
        }
        Ok(())
    }

    fn write_new(&self, name: &str, mut text: &[u8]) -> Result<(), Failure> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR);
        let file = retry_on_intr(open).map_err(failure)?;
        while !text.is_empty() {
            match retry_on_intr(|| rustix::io::write(&file, text)) {
                Ok(put) if put > 0 => text = text.get(put..).unwrap_or_default(),
                taken => {
                    let _half = unlinkat(&self.dir, name, AtFlags::empty());
                    return Err(taken.map_or_else(failure, |_| Reason::Io.into()));
                }
            }
        }
        Ok(())
    }

    /// Writes down what was done in place of what stands there, in one step.
    pub(crate) fn record_again(&self, entry: &Entry) -> Result<(), Failure> {
        let part = self.fresh_part(&entry.id);
        self.write_new(&part, &told(entry)?)?;
        renameat(&self.dir, &part, &self.dir, json(&entry.id)).map_err(|errno| {
            self.fresh_part(&entry.id);
            failure(errno)
        })
    }

    /// The operation `undoing` is about to undo `id`. Written down first: after
    /// a crash it says what was under way.
    pub(crate) fn intend(&self, undoing: &str, id: &str) -> Result<(), Failure> {
        self.write_new(&undoes(undoing), id.as_bytes())
    }

    /// What the operation `undoing` was about to undo.
    pub(crate) fn intended(&self, undoing: &str) -> Result<Option<String>, Failure> {
        let text = self.small_file(&undoes(undoing))?;
        Ok(text.and_then(|text| String::from_utf8(text).ok()))
    }

    /// The operations that are being undone, or were when a process died.
    pub(crate) fn being_undone(&self) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for name in self.names()? {
            if let Some(undoing) = name.strip_suffix(".undoes") {
                all.extend(self.intended(undoing)?);
            }
        }
        Ok(all)
    }

    /// It is no longer under way.
    pub(crate) fn settle(&self, undoing: &str) {
        let _next_time = unlinkat(&self.dir, undoes(undoing), AtFlags::empty());
    }

    /// The entry called `id`.
    pub(crate) fn entry(&self, id: &str) -> Result<Option<Entry>, Failure> {
        if id.contains('/') {
            return Ok(None);
        }
        let text = self.small_file(&json(id))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    fn small_file(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match retry_on_intr(|| openat(&self.dir, name, flags, Mode::empty())) {
            Ok(file) => crate::writing::read_all(&file, MAX_ENTRY),
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
        self.held(id).is_some()
    }

    /// What is kept for `id`, as it looks from outside.
    pub(crate) fn held(&self, id: &str) -> Option<Meta> {
        let seen = sys::child_meta(self.dir.as_fd(), pre(id)).ok()?;
        Some(Meta::of_statx(&seen))
    }

    /// What `id` displaced.
    pub(crate) fn pre(&self, id: &str) -> Result<Option<Pre>, Failure> {
        let meta = match sys::child_meta(self.dir.as_fd(), pre(id)) {
            Ok(seen) => Meta::of_statx(&seen),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failure(errno)),
        };
        Ok(match meta.entity {
            Entity::File => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let open = || openat(&self.dir, pre(id), flags, Mode::empty());
                Some(Pre::File(retry_on_intr(open).map_err(failure)?))
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
    ) -> Result<(), Errno> {
        sys::rename_new(self.dir.as_fd(), &pre(id), parent, name)
    }

    /// Copies what `id` displaced as `name` in `parent`, where nothing is.
    pub(crate) fn copy_out(
        &self,
        id: &str,
        parent: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), Failure> {
        tree::copy_tree(self.dir.as_fd(), &pre(id), parent, name)
    }

    /// Swaps what `id` displaced with `name` in `parent`: each stands where the
    /// other stood, the very same files. Done again, it undoes itself.
    pub(crate) fn swap(&self, id: &str, parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        renameat_with(&self.dir, pre(id), parent, name, RenameFlags::EXCHANGE)
    }

    /// What `id` displaced counts as displaced by `other` from now on.
    pub(crate) fn hand_over(&self, id: &str, other: &str) -> Result<(), Failure> {
        let dir = self.dir.as_fd();
        sys::rename_new(dir, &pre(id), dir, &pre(other)).map_err(failure)
    }

    /// Forgets what `id` displaced.
    pub(crate) fn forget_kept(&self, id: &str) -> Result<(), Failure> {
        match tree::remove_tree(self.dir.as_fd(), &pre(id)) {
            Ok(()) => Ok(()),
            Err(failure) if failure.reason() == Reason::NotFound => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Forgets `id` and what it displaced.
    pub(crate) fn forget(&self, id: &str) -> Result<(), Failure> {
        self.fresh_part(id);
        self.forget_kept(id)?;
        match unlinkat(&self.dir, json(id), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// The names of all that is in it.
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        // A handle of its own: reading a directory moves its position.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || openat(&self.dir, ".", flags, Mode::empty());
        let dir = retry_on_intr(open).map_err(failure)?;
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

fn part(id: &str) -> String {
    format!("{id}.part")
}

fn undoes(undoing: &str) -> String {
    format!("{undoing}.undoes")
}

fn told(entry: &Entry) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(entry).map_err(|error| Failure::from(Reason::Bug).detail(error))
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
