//! A directory made beside a destination, filled, and gone again unless it is
//! put in place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use portcullis_gate::Live;
use portcullis_proto::{Failure, Reason, RelPath, Staged};
use rustix::fs::{Mode, OFlags, RenameFlags, fchmod, mkdirat, openat, renameat, renameat_with};
use rustix::io::{Errno, retry_on_intr, write};

use super::left::Left;
use crate::errno::failure;
use crate::meta::Meta;
use crate::options::NewModes;
use crate::sys;
use crate::undo::remove_tree;
use crate::writing::{Place, moved_on, staged_name};

/// A directory of ours that nobody else has seen.
#[derive(Debug)]
pub(super) struct Staging {
    parent: Arc<OwnedFd>,
    name: String,
    top: OwnedFd,
    pub(super) dev: u64,
    pub(super) ino: u64,
    modes: NewModes,
    /// The directory something was made in last, with those above it.
    open: Vec<(String, OwnedFd)>,
    left: Left,
    /// Still ours alone: removed when dropped.
    unpublished: bool,
}

impl Staging {
    /// Makes an empty one beside the leaf of `place`, and has that written down
    /// before and after.
    pub(super) fn create(place: &Place, modes: NewModes, live: &Live<'_>) -> Result<Self, Failure> {
        let (parent, root) = (&place.parent, place.root.identity());
        live.stage(Staged { root, made: None })?;
        let name = staged_name(live.request_id());
        mkdirat(parent, &name, Mode::RWXU).map_err(failure)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = sys::open_child(parent.as_fd(), name.as_str(), flags)
            .and_then(|top| rustix::fs::fstat(&top).map(|stat| (top, stat)));
        let (top, stat) = opened.map_err(|errno| {
            let _not_made = remove_tree(parent.as_fd(), &name);
            failure(errno)
        })?;
        // From here on it is removed again whatever happens.
        let staging = Self {
            parent: Arc::clone(parent),
            name,
            top,
            dev: stat.st_dev,
            ino: stat.st_ino,
            modes,
            open: Vec::new(),
            left: Left::default(),
            unpublished: true,
        };
        live.stage(Staged {
            root,
            made: Some((staging.dev, staging.ino)),
        })?;
        Ok(staging)
    }

    /// Makes the directory `path` in it, and those above it.
    pub(super) fn directory(&mut self, path: &RelPath) -> Result<BorrowedFd<'_>, Failure> {
        let shared = self
            .open
            .iter()
            .zip(path.components())
            .take_while(|((open, _), name)| open == name)
            .count();
        self.open.truncate(shared);
        for name in path.components().skip(shared) {
            let parent = self
                .open
                .last()
                .map_or(self.top.as_fd(), |(_, dir)| dir.as_fd());
            let made = match mkdirat(parent, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(failure(errno)),
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let dir = sys::open_child(parent, name, flags).map_err(failure)?;
            self.open.push((name.to_owned(), dir));
            let Some((_, dir)) = self.open.last().filter(|_| made) else {
                continue;
            };
            fchmod(dir, Mode::from_raw_mode(self.modes.directory & 0o777)).map_err(failure)?;
            let meta = Meta::of_stat(&rustix::fs::fstat(dir).map_err(failure)?);
            let names: Vec<&str> = self.open.iter().map(|(name, _)| name.as_str()).collect();
            self.left.add(names.join("/").as_bytes(), &meta);
        }
        Ok(self
            .open
            .last()
            .map_or(self.top.as_fd(), |(_, dir)| dir.as_fd()))
    }

    /// Makes the file `path` in it, with what `fill` writes.
    pub(super) fn file<E: From<Failure>>(
        &mut self,
        path: &RelPath,
        executable: bool,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (Some(name), Some(above)) = (path.name(), path.parent()) else {
            return Err(Failure::from(Reason::Bug).into());
        };
        let dir = self.directory(&above)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            retry_on_intr(|| openat(dir, name, flags, Mode::RUSR | Mode::WUSR)).map_err(failure)?;
        let mut put = |mut bytes: &[u8]| {
            while !bytes.is_empty() {
                let done = retry_on_intr(|| write(&file, bytes)).map_err(failure)?;
                bytes = match bytes.get(done..) {
                    Some(rest) if done > 0 => rest,
                    _ => return Err(Failure::from(Reason::Io).detail("a write took nothing")),
                };
            }
            Ok(())
        };
        fill(&mut put)?;
        let mut mode = self.modes.file & 0o777;
        if executable {
            // Whoever may read it may run it.
            mode |= (mode & 0o444) >> 2;
        }
        if mode != 0o600 {
            fchmod(&file, Mode::from_raw_mode(mode)).map_err(failure)?;
        }
        let meta = Meta::of_stat(&rustix::fs::fstat(&file).map_err(failure)?);
        self.left.add(path.as_str().as_bytes(), &meta);
        Ok(())
    }

    /// Sends all of it to the disk. One call for the whole file system costs an
    /// eighth of one for each file.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        retry_on_intr(|| rustix::fs::syncfs(&self.top)).map_err(failure)
    }

    /// Puts it where nothing is, under its own name; what stands there then.
    pub(super) fn publish(&mut self, place: &Place) -> Result<Meta, Failure> {
        let mode = Mode::from_raw_mode(self.modes.directory & 0o777);
        fchmod(&self.top, mode).map_err(failure)?;
        let (parent, own, leaf) = (&self.parent, self.name.as_str(), place.leaf.as_str());
        match renameat_with(parent, own, parent, leaf, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(moved_on(Reason::AlreadyExists)),
            // Without that flag a directory replaces an empty one at most.
            Err(Errno::INVAL | Errno::NOSYS) => match renameat(parent, own, parent, leaf) {
                Ok(()) => {}
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {
                    return Err(moved_on(Reason::AlreadyExists));
                }
                Err(errno) => return Err(failure(errno)),
            },
            Err(errno) => return Err(failure(errno)),
        }
        self.unpublished = false;
        let why = match place.landed(self.dev, self.ino) {
            Ok(meta) => return Ok(meta),
            // It stands in a directory that is no longer where it was judged to be.
            Err(why) if why.reason() == Reason::NotFound => moved_on(Reason::VersionMismatch),
            Err(why) => why,
        };
        // It goes as it came.
        let back = renameat_with(parent, leaf, parent, own, RenameFlags::NOREPLACE);
        self.unpublished = back.is_ok();
        Err(why)
    }

    /// What was made in it.
    pub(super) fn left(&mut self) -> Left {
        std::mem::take(&mut self.left)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.unpublished {
            return;
        }
        let is_ours = sys::child_meta(self.parent.as_fd(), self.name.as_str()).is_ok_and(|seen| {
            let meta = Meta::of_statx(&seen);
            (meta.dev, meta.ino) == (self.dev, self.ino)
        });
        if is_ours {
            // What cannot be removed now is removed by the next start.
            let _left = remove_tree(self.parent.as_fd(), &self.name);
        }
    }
}
