//! What unpacking left, so that undo can tell whether anybody changed it since.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use portcullis_proto::{Digest, Entity, Failure};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::errno::failure;
use crate::meta::Meta;
use crate::sys;
use crate::undo::names;

/// A tree, entry by entry.
#[derive(Debug, Default)]
pub(super) struct Left {
    entries: Vec<(Vec<u8>, Trace)>,
}

/// What changes when an entry does; of a directory, only that it is one.
#[derive(Debug, PartialEq, Eq)]
enum Trace {
    Directory,
    Other(u64, u64, i128),
}

impl Left {
    pub(super) fn add(&mut self, path: &[u8], meta: &Meta) {
        let trace = match meta.entity {
            Entity::Directory => Trace::Directory,
            Entity::File | Entity::Symlink | Entity::Mount | Entity::Special => {
                Trace::Other(meta.ino, meta.size, meta.mtime_ns)
            }
        };
        self.entries.push((path.to_vec(), trace));
    }

    pub(super) fn digest(mut self) -> Digest {
        self.entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut hasher = Sha256::new();
        for (path, trace) in &self.entries {
            hasher.update(path);
            hasher.update([0]);
            if let Trace::Other(ino, size, mtime) = trace {
                hasher.update(ino.to_le_bytes());
                hasher.update(size.to_le_bytes());
                hasher.update(mtime.to_le_bytes());
            }
        }
        Digest(hasher.finalize().into())
    }
}

/// The digest of what stands below the directory `name` of `parent` now.
pub(crate) fn digest_of_tree(parent: BorrowedFd<'_>, name: &str) -> Result<Digest, Failure> {
    let mut left = Left::default();
    let mut path = Vec::new();
    below(&open(parent, name.as_bytes())?, &mut path, &mut left)?;
    Ok(left.digest())
}

fn below(dir: &OwnedFd, path: &mut Vec<u8>, left: &mut Left) -> Result<(), Failure> {
    for name in names(dir)? {
        let seen = sys::child_meta(dir.as_fd(), name.as_slice()).map_err(failure)?;
        let meta = Meta::of_statx(&seen);
        let length = path.len();
        if length > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        left.add(path, &meta);
        if meta.entity == Entity::Directory {
            below(&open(dir.as_fd(), &name)?, path, left)?;
        }
        path.truncate(length);
    }
    Ok(())
}

fn open(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Failure> {
    sys::open_child(parent, name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failure)
}
