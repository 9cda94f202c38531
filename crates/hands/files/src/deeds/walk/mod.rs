//! Going down a tree by directory handles, with as many workers as there are
//! processors.
//!
//! Every child is opened by one component under its parent's handle, with all
//! checks. What a directory held may be handed on only if the directory,
//! resolved again from the root, is still the same inode: whoever visits asks
//! that before anything leaves.

mod frontier;
mod gather;

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use portcullis_gate::{Headway, Live};
use portcullis_policy::{RootPolicy, Terms};
use portcullis_proto::{Counts, Entity, Failure, Reason, RelPath};
use rustix::fs::OFlags;

use super::admitted;
use crate::dirs::{Name, each_name};
use crate::hiding::Hiding;
use crate::root::Root;

pub(super) use frontier::Dir;
use frontier::{Frontier, Job};
pub(super) use gather::{Find, Gather, Weight};

/// The deepest a walk goes.
const MAX_DEPTH: usize = 128;
/// How many names of one directory are held and sorted at a time.
const CHUNK: usize = 65_536;
/// A walk that has seen so many names, and has more to do, gets company: for
/// less, a thread costs more than it brings.
const ALONE: u64 = 256;
/// At most so many workers, however many processors there are: walks share the
/// machine with everything else, and a disk serves few at a time.
const MAX_WORKERS: usize = 8;

/// How much later than asked for something may end that cannot be stopped once
/// it is begun: half of what is promised.
const OVERRUN_US: u64 = 50_000;

/// What a walk does with what it comes across.
pub(super) trait Visit: Sync {
    /// How many entries one worker looks at in one go.
    const PIECE: usize;
    /// What one worker works with.
    type Hand;

    /// Something to work with, for one more worker.
    fn hand(&self) -> Self::Hand;

    /// Whether nothing in `dir` or below it is wanted any more.
    fn is_beyond(&self, dir: &RelPath) -> bool;

    /// Looks at these entries of `dir`, which are admitted, not hidden, and in
    /// order. A failure ends the walk.
    fn visit(
        &self,
        hand: &mut Self::Hand,
        dir: &Dir,
        names: Vec<Name>,
        tally: &mut Tally,
    ) -> Result<(), Failure>;
}

/// What one worker, and in the end all of them, came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// Whether everything that may be shown was looked at.
    pub(super) complete: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            complete: true,
        }
    }
}

/// Whether names that begin with a dot are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// They are shown like any other.
    Shown,
    /// They are left out, and what is below them.
    LeftOut,
}

/// A walk.
pub(super) struct Walk<'a> {
    pub(super) root: &'a Root,
    pub(super) policy: &'a RootPolicy,
    pub(super) terms: &'a Terms,
    pub(super) live: &'a Live<'a>,
    /// Monotonic microseconds at which to stop with what there is.
    pub(super) deadline_us: u64,
    pub(super) include_ignored: bool,
    pub(super) hidden: Hidden,
}

/// What the workers of one walk share.
struct Shared<'a, V: Visit> {
    walk: &'a Walk<'a>,
    visit: &'a V,
    frontier: Frontier,
    /// Names looked at so far.
    seen: AtomicU64,
    late: AtomicBool,
    failed: Mutex<Option<Failure>>,
    total: Mutex<Tally>,
}

impl Walk<'_> {
    /// Visits what is below the directory `top`, which stands at `path`.
    pub(super) fn run<V: Visit>(
        &self,
        top: OwnedFd,
        path: RelPath,
        visit: &V,
    ) -> Result<Tally, Failure> {
        let hiding = if self.include_ignored {
            Hiding::nothing()
        } else {
            Hiding::at(self.root, &path, self.terms)
        };
        let shared = Shared {
            walk: self,
            visit,
            frontier: Frontier::default(),
            seen: AtomicU64::new(0),
            late: AtomicBool::new(false),
            failed: Mutex::new(None),
            total: Mutex::default(),
        };
        std::thread::scope(|scope| {
            let mut first = Worker::new(&shared);
            let top = Arc::new(Dir::of(top, path, hiding, 0)?);
            first.read(&top)?;
            let mut company = false;
            while let Some(job) = shared.frontier.take() {
                if !company
                    && shared.seen.load(Ordering::Relaxed) >= ALONE
                    && shared.frontier.has_work()
                {
                    company = true;
                    for _ in 1..workers() {
                        // Where no more can be started, fewer do it.
                        let _fewer = std::thread::Builder::new()
                            .spawn_scoped(scope, || Worker::new(&shared).work());
                    }
                }
                first.doing(job);
            }
            Ok::<(), Failure>(())
        })?;
        let failed = shared.failed.into_inner();
        if let Some(failure) = failed.unwrap_or_else(PoisonError::into_inner) {
            return Err(failure);
        }
        let mut tally = shared
            .total
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        tally.complete &= !shared.late.into_inner() && tally.counts.moved == 0;
        Ok(tally)
    }

    /// Whether `dir` is still where it was found, so that what was read from it
    /// may be handed on.
    pub(super) fn stands(&self, dir: &Dir, tally: &mut Tally) -> bool {
        let stands = self.root.is_still(&dir.path, &dir.meta);
        tally.counts.moved += u64::from(!stands);
        stands
    }

    /// Whether time is up; a failure where the deed may not go on at all.
    pub(super) fn is_late(&self) -> Result<bool, Failure> {
        self.live.still()?;
        Ok(self.live.monotonic_us() >= self.deadline_us)
    }

    /// Whether what takes so long at worst ends soon enough: time is not up, and
    /// is overrun by [`OVERRUN_US`] at most.
    pub(super) fn has_time_for(&self, us: u64) -> Result<bool, Failure> {
        let ends = self.live.monotonic_us().saturating_add(us);
        Ok(!self.is_late()? && ends <= self.deadline_us.saturating_add(OVERRUN_US))
    }
}

/// How many workers a walk has.
fn workers() -> usize {
    static WORKERS: OnceLock<usize> = OnceLock::new();
    *WORKERS.get_or_init(|| {
        std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_WORKERS))
    })
}

/// One worker. Leaving, by whatever way, it hands in what it came to and lets
/// those who wait for it go on.
struct Worker<'a, V: Visit> {
    shared: &'a Shared<'a, V>,
    hand: V::Hand,
    tally: Tally,
}

impl<V: Visit> Drop for Worker<'_, V> {
    fn drop(&mut self) {
        let mut total = self
            .shared
            .total
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        total.counts = total.counts.plus(self.tally.counts);
        total.complete &= self.tally.complete;
        drop(total);
        if std::thread::panicking() {
            self.shared.frontier.close();
        }
        self.shared.frontier.leave();
    }
}

impl<'a, V: Visit> Worker<'a, V> {
    fn new(shared: &'a Shared<'a, V>) -> Self {
        shared.frontier.join();
        Self {
            shared,
            hand: shared.visit.hand(),
            tally: Tally::default(),
        }
    }

    fn work(mut self) {
        while let Some(job) = self.shared.frontier.take() {
            self.doing(job);
        }
    }

    /// Does one job; a failure ends the whole walk.
    fn doing(&mut self, job: Job) {
        let done = match job {
            Job::Piece(dir, names) => self.piece(&dir, names),
            Job::Enter(dir, name) => self.enter(&dir, &name),
        };
        if let Err(failure) = done {
            let mut failed = self
                .shared
                .failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(failure);
            drop(failed);
            self.shared.frontier.close();
        }
    }

    /// Whether to go on; where time is up, everybody stops with what there is.
    fn goes_on(&self) -> Result<bool, Failure> {
        if self.shared.walk.is_late()? {
            self.shared.late.store(true, Ordering::Relaxed);
            self.shared.frontier.close();
        }
        Ok(!self.shared.late.load(Ordering::Relaxed))
    }

    fn piece(&mut self, dir: &Dir, names: Vec<Name>) -> Result<(), Failure> {
        // What was read is looked at, late or not: a visit that takes long looks
        // at the clock itself.
        self.shared.walk.live.still()?;
        if self.shared.visit.is_beyond(&dir.path) {
            return Ok(());
        }
        let visit = self.shared.visit;
        visit.visit(&mut self.hand, dir, names, &mut self.tally)
    }

    /// Goes into a directory. One that cannot be read (gone, a mount, closed to
    /// us) is passed over, and the reply is not complete. What ends the deed
    /// itself ends the walk.
    fn enter(&mut self, above: &Dir, name: &str) -> Result<(), Failure> {
        if !self.goes_on()? {
            return Ok(());
        }
        if above.depth + 1 >= MAX_DEPTH {
            self.tally.complete = false;
            return Ok(());
        }
        let entered = self.open(above, name).and_then(|dir| match dir {
            Some(dir) => self.read(&Arc::new(dir)),
            None => Ok(()),
        });
        if let Err(failure) = entered {
            self.shared.walk.live.still()?;
            if failure.reason() != Reason::NotFound {
                self.tally.counts.unread += 1;
                self.tally.complete = false;
            }
        }
        Ok(())
    }

    /// Opens a subdirectory; a private root wants it closed to others, as it
    /// would if it were asked for by name. `None` where nothing in it is wanted.
    fn open(&self, above: &Dir, name: &str) -> Result<Option<Dir>, Failure> {
        let walk = self.shared.walk;
        let path = above.path.join(name)?;
        if self.shared.visit.is_beyond(&path) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = walk
            .root
            .open_child(above.handle.as_fd(), &above.path, name, flags)?;
        let hiding = above
            .hiding
            .below(walk.root, handle.as_fd(), &path, walk.terms);
        let dir = Dir::of(handle, path, hiding, above.depth + 1)?;
        dir.meta.admit_private(walk.policy)?;
        Ok(Some(dir))
    }

    /// Reads one directory, and puts down what is to be done in it.
    fn read(&mut self, dir: &Arc<Dir>) -> Result<(), Failure> {
        let walk = self.shared.walk;
        let mut below = Vec::new();
        let mut chunk: Vec<Name> = Vec::new();
        let mut stopped = false;
        let mut seen = 0u64;
        let look_every = dir.hiding.look_every();
        let read = each_name(dir.handle.as_fd(), &dir.path, |name| {
            seen += 1;
            if seen.is_multiple_of(look_every) && !self.goes_on()? {
                stopped = true;
                // Not a failure: the way out of the loop.
                return Err(Reason::Deadline.into());
            }
            if !admitted(walk.terms, &dir.path, &name, &mut self.tally.counts) {
                return Ok(());
            }
            let is_hidden = walk.hidden == Hidden::LeftOut && name.bytes().first() == Some(&b'.');
            let is_ignored = || {
                let path = name.path.as_ref();
                path.is_some_and(|path| dir.hiding.hides(path, name.entity))
            };
            if is_hidden || is_ignored() {
                self.tally.counts.ignored += 1;
                return Ok(());
            }
            if name.entity == Entity::Directory && name.path.is_some() {
                below.push(name.shown.clone());
            }
            chunk.push(name);
            if chunk.len() >= CHUNK {
                self.hand_on(dir, std::mem::take(&mut chunk))?;
            }
            Ok(())
        });
        self.shared
            .frontier
            .add(Arc::clone(dir), pieces::<V>(chunk), below);
        let seen = self.shared.seen.fetch_add(seen, Ordering::Relaxed) + seen;
        walk.live.progress(Headway::entries(seen));
        if stopped { Ok(()) } else { read }
    }

    /// A part of a directory too wide to be held whole: looked at before more
    /// of it is read, with the help of whoever has nothing to do.
    fn hand_on(&mut self, dir: &Arc<Dir>, chunk: Vec<Name>) -> Result<(), Failure> {
        let frontier = &self.shared.frontier;
        frontier.add(Arc::clone(dir), pieces::<V>(chunk), Vec::new());
        while let Some(piece) = frontier.take_piece_of(dir) {
            self.piece(dir, piece)?;
        }
        Ok(())
    }
}

/// Sorts what was read, and divides it among whoever has time.
fn pieces<V: Visit>(mut chunk: Vec<Name>) -> VecDeque<Vec<Name>> {
    chunk.sort_unstable_by(|a, b| a.bytes().cmp(b.bytes()));
    if chunk.len() <= V::PIECE {
        return VecDeque::from_iter((!chunk.is_empty()).then_some(chunk));
    }
    let mut pieces = VecDeque::with_capacity(chunk.len() / V::PIECE + 1);
    let mut rest = chunk.into_iter();
    loop {
        let piece: Vec<Name> = rest.by_ref().take(V::PIECE).collect();
        if piece.is_empty() {
            return pieces;
        }
        pieces.push_back(piece);
    }
}
