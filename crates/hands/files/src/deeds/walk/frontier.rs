//! What is still to be done in a tree, in the order of the tree.
//!
//! Whoever asks gets what comes first, so several workers go down the tree side
//! by side and nobody runs ahead. That bounds the handles: a directory is open
//! while something in it is left to do, and those of them that are not above
//! one another are as many as there are workers, at most. Open at once are the
//! depth times the workers.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Failure, RelPath};
use rustix::fs::fstat;

use crate::dirs::Name;
use crate::errno::failure;
use crate::hiding::Hiding;
use crate::meta::Meta;

/// A directory, open, with something in it left to do.
#[derive(Debug)]
pub(in crate::deeds) struct Dir {
    pub(in crate::deeds) handle: OwnedFd,
    pub(in crate::deeds) path: RelPath,
    pub(in crate::deeds) meta: Meta,
    pub(super) hiding: Hiding,
    pub(super) depth: usize,
}

impl Dir {
    pub(super) fn of(
        handle: OwnedFd,
        path: RelPath,
        hiding: Hiding,
        depth: usize,
    ) -> Result<Self, Failure> {
        Ok(Self {
            meta: Meta::of_stat(&fstat(&handle).map_err(failure)?),
            handle,
            path,
            hiding,
            depth,
        })
    }
}

/// What is left to do in one directory: some of its entries, then what is below.
struct Frame {
    dir: Arc<Dir>,
    pieces: VecDeque<Vec<Name>>,
    /// Directories still to enter, last first.
    below: Vec<String>,
}

/// The next thing to do.
pub(super) enum Job {
    /// Look at these entries of the directory.
    Piece(Arc<Dir>, Vec<Name>),
    /// Go into the directory of this name.
    Enter(Arc<Dir>, String),
}

/// What is still to be done.
#[derive(Default)]
pub(super) struct Frontier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What comes first stands last.
    frames: Vec<Frame>,
    /// Workers that may still find something to do.
    busy: usize,
    idle: usize,
    closed: bool,
}

impl Frontier {
    /// A worker begins; it is at work until it takes or leaves.
    pub(super) fn join(&self) {
        self.lock().busy += 1;
    }

    /// A worker ends, however it does.
    pub(super) fn leave(&self) {
        self.lock().busy -= 1;
        self.changed.notify_all();
    }

    /// Nothing more is wanted.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Adds what is left to do in `dir`; `below` need not be sorted.
    pub(super) fn add(&self, dir: Arc<Dir>, pieces: VecDeque<Vec<Name>>, mut below: Vec<String>) {
        if pieces.is_empty() && below.is_empty() {
            return;
        }
        below.sort_unstable_by(|a, b| b.cmp(a));
        let mut state = self.lock();
        let frames = &mut state.frames;
        let at = frames
            .iter()
            .rposition(|frame| comes_first(&dir.path, &frame.dir.path))
            .map_or(0, |before| before + 1);
        frames.insert(at, Frame { dir, pieces, below });
        if state.idle > 0 {
            self.changed.notify_all();
        }
    }

    /// Takes what comes first; waits while others may still find something.
    /// `None` when all is done.
    pub(super) fn take(&self) -> Option<Job> {
        let mut state = self.lock();
        state.busy -= 1;
        loop {
            if state.closed {
                // Whoever leaves was at work.
                state.busy += 1;
                return None;
            }
            if let Some(job) = state.next() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                state.closed = true;
                self.changed.notify_all();
                continue;
            }
            state.idle += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Takes one of the pieces of `dir` that nobody has taken.
    pub(super) fn take_piece_of(&self, dir: &Arc<Dir>) -> Option<Vec<Name>> {
        let mut state = self.lock();
        let at = state
            .frames
            .iter()
            .rposition(|frame| Arc::ptr_eq(&frame.dir, dir))?;
        let frame = state.frames.get_mut(at)?;
        let piece = frame.pieces.pop_front();
        if frame.pieces.is_empty() && frame.below.is_empty() {
            state.frames.remove(at);
        }
        piece
    }

    /// Whether there is something to do for one worker more.
    pub(super) fn has_work(&self) -> bool {
        !self.lock().frames.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<Job> {
        let frame = self.frames.last_mut()?;
        let dir = Arc::clone(&frame.dir);
        let job = match frame.pieces.pop_front() {
            Some(piece) => Some(Job::Piece(dir, piece)),
            None => frame.below.pop().map(|name| Job::Enter(dir, name)),
        };
        if frame.pieces.is_empty() && frame.below.is_empty() {
            self.frames.pop();
        }
        job
    }
}

/// Whether what is left to do in `a` comes before what is left in `b`. Of a
/// directory and one above it, the lower comes first: what is left in the upper
/// stands behind it.
fn comes_first(a: &RelPath, b: &RelPath) -> bool {
    if a.is_under(b) {
        return true;
    }
    !b.is_under(a) && in_order(a, b) == Ordering::Less
}

/// The order of directories in a walk: each before what is below it, and that
/// before its next sibling.
pub(in crate::deeds) fn in_order(a: &RelPath, b: &RelPath) -> Ordering {
    a.components().cmp(b.components())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str) {
        let parse = |text: &str| RelPath::parse(text).unwrap();
        assert!(comes_first(&parse(a), &parse(b)), "{a} before {b}");
        assert!(!comes_first(&parse(b), &parse(a)), "{b} behind {a}");
    }

    #[test]
    fn what_is_left_below_comes_before_what_is_left_above_and_siblings_in_order() {
        check("a/b", "a");
        check("a", "b");
        check("a/z", "a-b");
        check("x/y/z", "");
        check("a/b", "a/c");
        check("a/b/z", "a/c");
    }
}
