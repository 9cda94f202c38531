//! A move that a crash interrupted.

use std::os::fd::AsFd as _;

use portcullis_proto::{Entity, Failure, RelPath};
use rustix::io::Errno;

use super::case::{Case, look, nearest};
use super::{Leftover, Outcomes};
use crate::errno::failure;
use crate::sys;

impl Case<'_> {
    pub(super) fn finish_move(&self) -> Result<Outcomes, Failure> {
        let operation = self.operation;
        let Some(to) = &operation.to else {
            return Ok(Outcomes::not_done());
        };
        if operation.to_root.is_some() {
            // One rename into another root, where nothing is overwritten.
            let here = self.at(&operation.path)?;
            return Ok(Outcomes::of(Leftover::Nothing, here != operation.base));
        }
        self.finish_relocation(&operation.path, to, operation.base, operation.over)
    }

    /// What stands at a path, by its identity and whatever it is.
    pub(super) fn at(&self, path: &RelPath) -> Result<Option<(u64, u64)>, Failure> {
        let Some(near) = nearest(self.declared, path)?.filter(|near| near.is_parent) else {
            return Ok(None);
        };
        let seen = look(near.handle.as_fd(), path.name().unwrap_or_default())?;
        Ok(seen.map(|seen| (seen.dev, seen.ino)))
    }

    /// A move of `moved` from one path to another, over `over`. Under our own
    /// name beside the destination is what was moved, on its way there, or what
    /// it displaced.
    pub(super) fn finish_relocation(
        &self,
        from: &RelPath,
        to: &RelPath,
        moved: Option<(u64, u64)>,
        over: Option<(u64, u64)>,
    ) -> Result<Outcomes, Failure> {
        let leaf = to.name().unwrap_or_default();
        if let Some(near) = nearest(self.declared, to)? {
            let dir = near.handle.as_fd();
            if let Some(left) = look(dir, &self.own)? {
                let thing = Some((left.dev, left.ino));
                return if thing == moved {
                    self.put_home(dir, leaf, from)
                } else if thing == over {
                    self.keep(dir, leaf, from, &left, Some(to))
                } else if left.entity == Entity::Directory {
                    self.drop_directory(dir, &left)
                } else {
                    self.beside(dir, leaf)
                };
            }
        }
        if moved.is_none() || self.at(to)? != moved {
            // Nothing was moved, or somebody has moved it on since.
            let done = self.at(from)? != moved && self.entry()?.is_some();
            if !done {
                self.forget()?;
            }
            return Ok(Outcomes::of(Leftover::Nothing, done));
        }
        self.write_down(from, Some(to))?;
        Ok(Outcomes::done())
    }

    /// What was on its way goes back to where it was.
    fn put_home(
        &self,
        dir: std::os::fd::BorrowedFd<'_>,
        leaf: &str,
        from: &RelPath,
    ) -> Result<Outcomes, Failure> {
        if self.dry_run {
            return Ok(Outcomes::of(Leftover::PutBack, false));
        }
        self.forget()?;
        let Some(home) = nearest(self.declared, from)?.filter(|near| near.is_parent) else {
            return self.beside(dir, leaf);
        };
        let name = from.name().unwrap_or_default();
        match sys::rename_new(dir, &self.own, home.handle.as_fd(), name) {
            Ok(()) => Ok(Outcomes::of(Leftover::PutBack, false)),
            Err(Errno::EXIST) => self.beside(dir, leaf),
            Err(errno) => Err(failure(errno)),
        }
    }
}
