//! Going down a tree by directory handles.
//!
//! Every child is opened by one component under its parent's handle, with all
//! checks; what a directory held is handed on only if the directory, resolved
//! again from the root, is still the same inode. Handles open at once are at
//! most the depth.

use std::os::fd::{AsFd, OwnedFd};

use portcullis_gate::Live;
use portcullis_policy::{RootPolicy, Terms};
use portcullis_proto::{Counts, Entity, Failure, Reason, RelPath};
use rustix::fs::{OFlags, fstat};

use super::admitted;
use crate::dirs::{Name, each_name};
use crate::errno::failure;
use crate::hiding::Hiding;
use crate::meta::Meta;
use crate::root::Root;

/// The deepest a walk goes.
const MAX_DEPTH: usize = 128;
/// How many names of one directory are held and sorted at a time.
const CHUNK: usize = 65_536;
/// After how many names to look whether the walk may go on.
const LOOK_EVERY: u64 = 4096;

/// Whether the walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    On,
    Stop,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Complete,
    /// The visitor had enough, the depth or the deadline was reached, or a
    /// directory could not be entered.
    Stopped,
}

pub(super) struct Walk<'a> {
    pub(super) root: &'a Root,
    pub(super) policy: &'a RootPolicy,
    pub(super) terms: &'a Terms,
    pub(super) live: &'a Live<'a>,
    /// Monotonic microseconds at which to stop with what there is.
    pub(super) deadline_us: u64,
    pub(super) include_ignored: bool,
    pub(super) counts: Counts,
    /// Names looked at so far.
    pub(super) seen: u64,
}

struct Frame {
    handle: OwnedFd,
    path: RelPath,
    hiding: Hiding,
    /// Directories still to enter, last first.
    below: Vec<String>,
}

impl Walk<'_> {
    /// Visits what is below the directory `top`: the entries of a directory in
    /// order, then its subdirectories one by one.
    pub(super) fn run(
        &mut self,
        top: OwnedFd,
        path: RelPath,
        mut visit: impl FnMut(Name) -> Go,
    ) -> Result<Ended, Failure> {
        let hiding = if self.include_ignored {
            Hiding::nothing()
        } else {
            Hiding::at(self.root, &path, self.terms)
        };
        let Some(first) = self.read(top, path, hiding, &mut visit)? else {
            return Ok(Ended::Stopped);
        };
        let mut stack = vec![first];
        let mut ended = Ended::Complete;
        while let Some(frame) = stack.last_mut() {
            let Some(name) = frame.below.pop() else {
                stack.pop();
                continue;
            };
            self.live.still()?;
            if self.is_late() {
                return Ok(Ended::Stopped);
            }
            if stack.len() >= MAX_DEPTH {
                ended = Ended::Stopped;
                continue;
            }
            let Some(frame) = stack.last() else { break };
            let entered = self
                .enter(frame, &name)
                .and_then(|(handle, path, hiding)| self.read(handle, path, hiding, &mut visit));
            match entered {
                Ok(Some(next)) => stack.push(next),
                Ok(None) => return Ok(Ended::Stopped),
                Err(failure) => {
                    // A directory that cannot be read (gone, a mount, closed to
                    // us) is passed over, and the reply is not complete. What
                    // ends the deed itself ends the walk.
                    self.live.still()?;
                    if failure.reason() != Reason::NotFound {
                        ended = Ended::Stopped;
                    }
                }
            }
        }
        Ok(ended)
    }

    fn is_late(&self) -> bool {
        self.live.monotonic_us() >= self.deadline_us
    }

    /// Opens a subdirectory; a private root wants it closed to others, as it
    /// would if it were asked for by name.
    fn enter(&self, frame: &Frame, name: &str) -> Result<(OwnedFd, RelPath, Hiding), Failure> {
        let path = frame.path.join(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = self
            .root
            .open_child(frame.handle.as_fd(), &frame.path, name, flags)?;
        if self.policy.private {
            Meta::of_stat(&fstat(&handle).map_err(failure)?).admit_private(self.policy)?;
        }
        let hiding = frame
            .hiding
            .below(self.root, handle.as_fd(), &path, self.terms);
        Ok((handle, path, hiding))
    }

    /// Reads one directory, hands its entries on, and remembers what to enter;
    /// `None` when the walk is to stop.
    fn read(
        &mut self,
        handle: OwnedFd,
        path: RelPath,
        hiding: Hiding,
        visit: &mut impl FnMut(Name) -> Go,
    ) -> Result<Option<Frame>, Failure> {
        let meta = Meta::of_stat(&fstat(&handle).map_err(failure)?);
        let mut below = Vec::new();
        let mut chunk: Vec<Name> = Vec::new();
        let mut stopped = false;
        let mut moved = 0;
        let mut seen = 0u64;
        let (terms, root) = (self.terms, self.root);
        let mut counts = self.counts;
        let mut hand_on = |chunk: &mut Vec<Name>| {
            if !root.is_still(&path, &meta) {
                moved = 1;
                chunk.clear();
                below.clear();
                return Go::On;
            }
            chunk.sort_unstable_by(|a, b| a.bytes().cmp(b.bytes()));
            for name in chunk.drain(..) {
                if name.entity == Entity::Directory && name.path.is_some() {
                    below.push(name.shown.clone());
                }
                if visit(name) == Go::Stop {
                    return Go::Stop;
                }
            }
            Go::On
        };
        let read = each_name(handle.as_fd(), &path, |name| {
            seen += 1;
            if seen.is_multiple_of(LOOK_EVERY) {
                self.live.still()?;
                stopped |= self.is_late();
            }
            if stopped {
                // Not a failure: the way out of the loop.
                return Err(Reason::Deadline.into());
            }
            if !admitted(terms, &path, &name, &mut counts) {
                return Ok(());
            }
            if name
                .path
                .as_ref()
                .is_some_and(|path| hiding.hides(path, name.entity))
            {
                counts.ignored += 1;
                return Ok(());
            }
            chunk.push(name);
            if chunk.len() >= CHUNK {
                stopped = hand_on(&mut chunk) == Go::Stop;
            }
            Ok(())
        });
        if !chunk.is_empty() {
            stopped |= hand_on(&mut chunk) == Go::Stop;
        }
        counts.moved += moved;
        self.counts = counts;
        self.seen += seen;
        self.live.progress(self.seen);
        if stopped {
            return Ok(None);
        }
        read?;
        below.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Some(Frame {
            handle,
            path,
            hiding,
            below,
        }))
    }
}
