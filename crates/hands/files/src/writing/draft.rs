//! A file made beside its target, and gone again unless it is put in place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use portcullis_gate::Live;
use portcullis_proto::{Digest, Failure, Reason, Staged};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{retry_on_intr, write};

use super::base::digest_file;
use super::names::staged_name;
use super::place::Place;
use crate::errno::failure;
use crate::meta::Meta;
use crate::sys;

/// A file of ours that nobody else has seen.
#[derive(Debug)]
pub(crate) struct Draft {
    parent: Arc<OwnedFd>,
    pub(crate) name: String,
    pub(crate) file: OwnedFd,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// SHA-256 of what was written into it, once that is all.
    pub(crate) written: Option<Digest>,
    /// Still ours alone: removed when dropped.
    unpublished: bool,
}

impl Draft {
    /// Makes an empty one beside the leaf of `place`, and has that written down
    /// before a single byte goes into it.
    pub(crate) fn create(place: &Place, live: &Live<'_>) -> Result<Self, Failure> {
        let (parent, root) = (&place.parent, place.root.identity());
        live.stage(Staged { root, made: None })?;
        let name = staged_name(live.request_id());
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = retry_on_intr(|| openat(parent, &name, flags, Mode::RUSR | Mode::WUSR))
            .map_err(failure)?;
        let made = rustix::fs::fstat(&file).map_err(failure);
        // From here on it is removed again whatever happens.
        let mut draft = Self {
            parent: Arc::clone(parent),
            name,
            file,
            dev: 0,
            ino: 0,
            written: None,
            unpublished: true,
        };
        let made = made?;
        (draft.dev, draft.ino) = (made.st_dev, made.st_ino);
        live.stage(Staged {
            root,
            made: Some((draft.dev, draft.ino)),
        })?;
        Ok(draft)
    }

    /// Writes all of `bytes`.
    pub(crate) fn write(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let put = retry_on_intr(|| write(&self.file, bytes)).map_err(failure)?;
            bytes = match bytes.get(put..) {
                Some(rest) if put > 0 => rest,
                _ => return Err(Failure::from(Reason::Io).detail("a write took nothing")),
            };
        }
        Ok(())
    }

    /// Copies all of `from`, chunk by chunk, and hashes it on the way.
    pub(crate) fn copy_from(
        &self,
        from: BorrowedFd<'_>,
        most: u64,
        live: &Live<'_>,
    ) -> Result<(u64, Digest), Failure> {
        use sha2::Digest as _;
        let mut hasher = sha2::Sha256::new();
        let mut buffer = vec![0; 256 * 1024];
        let mut at = 0;
        loop {
            let got =
                retry_on_intr(|| rustix::io::pread(from, &mut buffer[..], at)).map_err(failure)?;
            let Some(read) = buffer.get(..got).filter(|read| !read.is_empty()) else {
                return Ok((at, Digest(hasher.finalize().into())));
            };
            hasher.update(read);
            self.write(read)?;
            at += got as u64;
            if at > most {
                return Err(Reason::TooLarge.into());
            }
            live.still()?;
        }
    }

    /// Sends its bytes to the disk.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.file)).map_err(failure)
    }

    /// Whether what `name` means in the parent is this very file.
    pub(crate) fn is_at(&self, name: &str) -> bool {
        sys::child_meta(self.parent.as_fd(), name).is_ok_and(|seen| {
            let meta = Meta::of_statx(&seen);
            (meta.dev, meta.ino) == (self.dev, self.ino)
        })
    }

    /// Whether it holds what was written into it, and nobody wrote since. What
    /// cannot be read is not known to be ours.
    pub(crate) fn is_as_written(&self) -> bool {
        self.written.is_some() && digest_file(&self.file).ok() == self.written
    }

    /// It stands under its target's name now: it is everybody's.
    pub(crate) fn published(&mut self) {
        self.unpublished = false;
    }

    /// It is back under its own name, and ours again.
    pub(crate) fn withdrawn(&mut self) {
        self.unpublished = true;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Tried once more where that fails: nobody else removes it.
        let is_ours = || self.ino == 0 || self.is_at(&self.name) || self.is_at(&self.name);
        if self.unpublished && is_ours() {
            let remove = || unlinkat(&self.parent, &self.name, AtFlags::empty());
            let _left = remove().or_else(|_| remove());
        }
    }
}
