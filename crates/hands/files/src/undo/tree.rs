//! Copying and removing what stands under a name, through handles, and never
//! onto another mount.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use portcullis_proto::{Entity, Failure, Reason};
use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, Statx, fchmod, mkdirat, openat, readlinkat, symlinkat, unlinkat,
};
use rustix::io::{Errno, pread, retry_on_intr, write};

use crate::errno::failure;
use crate::meta::Meta;
use crate::sys;

/// No tree is deeper than any path may be.
const MAX_DEPTH: usize = 512;
/// More than this is not copied, only moved.
const MAX_ENTRIES: u64 = 100_000;
/// More bytes than this are not copied, only moved.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

struct Budget {
    entries: u64,
    bytes: u64,
}

impl Budget {
    fn spend(&mut self, bytes: u64) -> Result<(), Failure> {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.entries > MAX_ENTRIES || self.bytes > MAX_BYTES {
            return Err(Failure::new(
                Reason::TooLarge,
                "It is too large to be copied for undo, so it was left as it is.",
            )
            .hint("Remove or move it in smaller parts."));
        }
        Ok(())
    }
}

/// Copies the entry `name` of `from` as `to` in `into`, where nothing is.
pub(crate) fn copy_tree(
    from: BorrowedFd<'_>,
    name: &str,
    into: BorrowedFd<'_>,
    to: &str,
) -> Result<(), Failure> {
    let mut budget = Budget {
        entries: 0,
        bytes: 0,
    };
    let copied = copy_entry(from, name.as_bytes(), into, to.as_bytes(), &mut budget, 0);
    // What was there before is somebody's; what this call began is not.
    if copied
        .as_ref()
        .is_err_and(|why| why.reason() != Reason::AlreadyExists)
    {
        let _half = remove_tree(into, to);
    }
    copied
}

fn copy_entry(
    from: BorrowedFd<'_>,
    name: &[u8],
    into: BorrowedFd<'_>,
    to: &[u8],
    budget: &mut Budget,
    depth: usize,
) -> Result<(), Failure> {
    let meta = Meta::of_statx(&sys::child_meta(from, name).map_err(failure)?);
    budget.spend(meta.size)?;
    match meta.entity {
        Entity::File => {
            let file = sys::open_child(from, name, OFlags::RDONLY).map_err(failure)?;
            copy_file_as(file.as_fd(), into, to)
        }
        Entity::Directory if depth < MAX_DEPTH => {
            let dir = open_directory(from, name)?;
            mkdirat(into, to, Mode::RWXU).map_err(failure)?;
            let copy = open_directory(into, to)?;
            for child in names(&dir)? {
                copy_entry(dir.as_fd(), &child, copy.as_fd(), &child, budget, depth + 1)?;
            }
            let mut lost = Vec::new();
            crate::writing::carry_over(&dir, &meta, &copy, &mut lost)
        }
        Entity::Symlink => {
            let target = readlinkat(from, name, Vec::new()).map_err(failure)?;
            symlinkat(target, into, to).map_err(failure)
        }
        Entity::Directory | Entity::Mount | Entity::Special => Err(Reason::SpecialFile.into()),
    }
}

/// Copies the file behind `file` as `name` in `into`, metadata and all.
pub(super) fn copy_file(
    file: BorrowedFd<'_>,
    into: BorrowedFd<'_>,
    name: &str,
) -> Result<(), Failure> {
    let copied = copy_file_as(file, into, name.as_bytes());
    if copied.is_err() {
        let _half = unlinkat(into, name, AtFlags::empty());
    }
    copied
}

fn copy_file_as(file: BorrowedFd<'_>, into: BorrowedFd<'_>, to: &[u8]) -> Result<(), Failure> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(into, to, flags, Mode::RUSR | Mode::WUSR);
    let copy = retry_on_intr(create).map_err(failure)?;
    // A clone shares the blocks until one of the two changes.
    if rustix::fs::ioctl_ficlone(&copy, file).is_err() {
        let mut buffer = vec![0; 256 * 1024];
        let mut at = 0;
        loop {
            let got = retry_on_intr(|| pread(file, &mut buffer[..], at)).map_err(failure)?;
            let Some(mut rest) = buffer.get(..got).filter(|read| !read.is_empty()) else {
                break;
            };
            while !rest.is_empty() {
                let put = retry_on_intr(|| write(&copy, rest)).map_err(failure)?;
                rest = rest.get(put.max(1)..).unwrap_or_default();
            }
            at += got as u64;
        }
    }
    let from = file
        .try_clone_to_owned()
        .map_err(|e| crate::errno::from_io(&e))?;
    let meta = Meta::of_stat(&rustix::fs::fstat(&from).map_err(failure)?);
    crate::writing::carry_over(&from, &meta, &copy, &mut Vec::new())
}

/// Removes the entry `name` of `parent` and all below it. A mount on the way
/// stops it: what is behind one is not this tree's.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &str) -> Result<(), Failure> {
    remove_entry(parent, name.as_bytes(), 0)
}

fn remove_entry(parent: BorrowedFd<'_>, name: &[u8], depth: usize) -> Result<(), Failure> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(failure(errno)),
    }
    if depth >= MAX_DEPTH {
        return Err(Reason::NameTooLong.into());
    }
    // An empty one need not be opened.
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(errno) => return Err(failure(errno)),
    }
    let dir = open_even_if_closed(parent, name)?;
    let _opened = fchmod(&dir, Mode::RWXU);
    for child in names(&dir)? {
        remove_entry(dir.as_fd(), &child, depth + 1)?;
    }
    drop(dir);
    unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(failure)
}

/// Removes the entry `name` of `parent` and what is below it, as far as `copy`
/// in `store` is the same. What differs stays, since nobody else has it; says
/// whether nothing did.
pub(crate) fn remove_copied(
    parent: BorrowedFd<'_>,
    name: &str,
    store: BorrowedFd<'_>,
    copy: &str,
) -> Result<bool, Failure> {
    remove_if_same(parent, name.as_bytes(), store, copy.as_bytes(), 0)
}

fn remove_if_same(
    parent: BorrowedFd<'_>,
    name: &[u8],
    store: BorrowedFd<'_>,
    copy: &[u8],
    depth: usize,
) -> Result<bool, Failure> {
    let look = |dir, name: &[u8]| match sys::child_meta(dir, name) {
        Ok(seen) => Ok(Some(Meta::of_statx(&seen))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failure(errno)),
    };
    let Some(here) = look(parent, name)? else {
        return Ok(true);
    };
    let Some(there) = look(store, copy)?.filter(|there| there.entity == here.entity) else {
        return Ok(false);
    };
    match here.entity {
        Entity::File => {
            let open = |dir, name| sys::open_child(dir, name, OFlags::RDONLY).map_err(failure);
            let same = here.size == there.size
                && crate::writing::digest_file(open(parent, name)?)?
                    == crate::writing::digest_file(open(store, copy)?)?;
            if same {
                unlinkat(parent, name, AtFlags::empty()).map_err(failure)?;
            }
            Ok(same)
        }
        Entity::Symlink => {
            let target = |dir, name| readlinkat(dir, name, Vec::new()).map_err(failure);
            let same = target(parent, name)? == target(store, copy)?;
            if same {
                unlinkat(parent, name, AtFlags::empty()).map_err(failure)?;
            }
            Ok(same)
        }
        Entity::Directory if depth < MAX_DEPTH => {
            let (dir, kept) = (open_directory(parent, name)?, open_directory(store, copy)?);
            for child in names(&dir)? {
                remove_if_same(dir.as_fd(), &child, kept.as_fd(), &child, depth + 1)?;
            }
            match unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(true),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
                Err(errno) => Err(failure(errno)),
            }
        }
        Entity::Directory | Entity::Mount | Entity::Special => Ok(false),
    }
}

/// What stands under a name and below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surveyed {
    /// How many entries, the one named included.
    pub(crate) entries: u64,
    /// How many bytes they have.
    pub(crate) bytes: u64,
}

/// Something below a directory that is gone through.
pub(crate) struct Found<'a> {
    /// Its path from that directory.
    pub(crate) path: &'a [u8],
    /// The directory it is in.
    pub(crate) dir: BorrowedFd<'a>,
    /// Its name there.
    pub(crate) name: &'a [u8],
    pub(crate) meta: Meta,
}

/// Whether the entry `name` of `parent` is on the same mount as `parent`.
pub(crate) fn same_mount(parent: BorrowedFd<'_>, name: &str) -> Result<Statx, Failure> {
    let top = sys::child_meta(parent, name).map_err(failure)?;
    let above = sys::handle_meta(parent).map_err(failure)?;
    if sys::mount_of(&top) != sys::mount_of(&above) {
        return Err(crate::errno::hinted(Reason::MountBoundary));
    }
    Ok(top)
}

/// Goes through the entry `name` of `parent` and all below it. `each` is told
/// of everything below it. A mount on the way stops it.
pub(crate) fn survey(
    parent: BorrowedFd<'_>,
    name: &str,
    each: &mut dyn FnMut(&Found<'_>) -> Result<(), Failure>,
) -> Result<Surveyed, Failure> {
    let top = same_mount(parent, name)?;
    let mut survey = Survey {
        mount: sys::mount_of(&top),
        seen: Surveyed {
            entries: 1,
            bytes: top.stx_size,
        },
        path: Vec::new(),
        each,
    };
    if Meta::of_statx(&top).entity == Entity::Directory {
        survey.below(parent, name.as_bytes(), 0)?;
    }
    Ok(survey.seen)
}

struct Survey<'a> {
    mount: u64,
    seen: Surveyed,
    /// From the entry named first.
    path: Vec<u8>,
    each: &'a mut dyn FnMut(&Found<'_>) -> Result<(), Failure>,
}

impl Survey<'_> {
    fn below(&mut self, parent: BorrowedFd<'_>, name: &[u8], depth: usize) -> Result<(), Failure> {
        if depth >= MAX_DEPTH {
            return Err(Reason::NameTooLong.into());
        }
        let dir = open_directory(parent, name)?;
        for child in names(&dir)? {
            let seen = match sys::child_meta(dir.as_fd(), child.as_slice()) {
                Ok(seen) => seen,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failure(errno)),
            };
            if sys::mount_of(&seen) != self.mount {
                return Err(crate::errno::hinted(Reason::MountBoundary));
            }
            self.seen.entries += 1;
            self.seen.bytes = self.seen.bytes.saturating_add(seen.stx_size);
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&child);
            let meta = Meta::of_statx(&seen);
            (self.each)(&Found {
                path: &self.path,
                dir: dir.as_fd(),
                name: &child,
                meta,
            })?;
            if meta.entity == Entity::Directory {
                self.below(dir.as_fd(), &child, depth + 1)?;
            }
            self.path.truncate(length);
        }
        Ok(())
    }
}

/// Its owner may have closed a directory to itself; what goes is not asked.
fn open_even_if_closed(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match sys::open_child(parent, name, flags) {
        Err(Errno::ACCESS) => {}
        other => return other.map_err(failure),
    }
    let pinned = sys::open_child(parent, name, OFlags::PATH | OFlags::DIRECTORY);
    let pinned = pinned.map_err(failure)?;
    // By the handle: only its own name in /proc leads to what is pinned.
    let own_name = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    rustix::fs::chmod(&own_name, Mode::RWXU).map_err(failure)?;
    sys::open_child(parent, name, flags).map_err(failure)
}

fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Failure> {
    sys::open_child(parent, name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failure)
}

/// The names in a directory, as bytes: some are no text.
pub(crate) fn names(dir: &OwnedFd) -> Result<Vec<Vec<u8>>, Failure> {
    let mut buffer = sys::list_buffer();
    let mut names = Vec::new();
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failure)?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}
