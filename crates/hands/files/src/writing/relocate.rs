//! Moving: one rename, or one swap where something is overwritten.
//!
//! What overwrites goes under a name of ours beside its target first, and is
//! swapped in from there: what it displaces is then under that name, where
//! nobody else writes, until it is kept.

use std::os::fd::{AsFd, BorrowedFd};

use portcullis_gate::Live;
use portcullis_policy::Terms;
use portcullis_proto::{Digest, Entity, Failure, Reason, RelPath, Staged, Verb};
use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::names::{conflict_name, staged_name};
use super::place::{Base, Place, moved_on};
use super::publish::entry_of;
use super::receipt::{Cas, Label, Receipt};
use crate::errno::{failure, hinted};
use crate::meta::Meta;
use crate::pinning::Moved;
use crate::sys;
use crate::undo::{Entry, Kept, State, UndoStore, same_mount};

/// What else a move depends on.
pub(crate) struct Circumstances<'a> {
    /// Directories made on the way to where it goes.
    pub(crate) made: &'a [RelPath],
    /// Digest of what a yes holds it to; nothing else that is protected below it
    /// comes along.
    pub(crate) pinned: Option<Digest>,
    /// What its caller may read.
    pub(crate) terms: &'a Terms,
    /// Whether what was moved, and what it displaced, is still what the caller
    /// expects; if not, the move is taken back.
    pub(crate) still: &'a dyn Fn() -> Result<(), Failure>,
}

/// Moves what stands at `from` to `to`.
pub(crate) fn relocate(
    from: &Place,
    to: &Place,
    verb: Verb,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
    under: &Circumstances<'_>,
) -> Result<Receipt, Failure> {
    let moved = from.base.as_ref().ok_or(Reason::NotFound)?;
    let crosses_roots = from.root.identity() != to.root.identity();
    admit(from, to, moved, crosses_roots)?;
    from.is_still()?;
    to.is_still()?;
    from.parent_is_still()?;
    to.parent_is_still()?;
    same_mount(from.parent.as_fd(), &from.leaf)?;
    live.still()?;
    live.stage(Staged {
        root: from.root.identity(),
        made: None,
    })?;
    let mut moving = Moving {
        from,
        to,
        moved,
        staged: staged_name(live.request_id()),
        live,
        undo: undo.filter(|_| !crosses_roots),
        landed: Landed::Alone,
        labels: Vec::new(),
        cas: Cas::Exact,
    };
    match &to.base {
        None => moving.land_where_nothing_is()?,
        Some(over) => moving.land_over(over)?,
    }
    let looked = (under.still)().and_then(|()| moving.look(verb, under));
    let now = match looked {
        Ok(now) => now,
        Err(why) => return Err(moving.back(why)),
    };
    if crosses_roots {
        moving.labels.push(Label::NotKept);
    }
    let kept = moving.keep(verb, &now, under.made)?;
    for dir in [&from.parent, &to.parent] {
        if retry_on_intr(|| rustix::fs::fsync(dir)).is_err() {
            moving.labels.push(Label::NotSynced);
        }
    }
    let Moving {
        mut labels, cas, ..
    } = moving;
    labels.sort_unstable();
    labels.dedup();
    Ok(Receipt {
        path: to.path.clone(),
        dev: now.dev,
        ino: now.ino,
        version: now.version(),
        bytes: Some(now.size),
        hash: None,
        created: to.base.is_none(),
        containment: to.containment,
        cas,
        labels,
        kept_in: undo.filter(|_| kept.is_some()).map(UndoStore::place),
        undo: kept,
    })
}

/// What makes no sense, wherever things stand.
fn admit(from: &Place, to: &Place, moved: &Base, crosses_roots: bool) -> Result<(), Failure> {
    if !crosses_roots && to.path.is_under(&from.path) {
        return Err(Failure::new(
            Reason::BadArguments,
            "A directory cannot be moved into itself.",
        ));
    }
    if let Some(over) = &to.base
        && (over.meta.entity == Entity::Directory || moved.meta.entity == Entity::Directory)
    {
        return Err(Failure::from(Reason::AlreadyExists)
            .hint("Only a file is overwritten, and only by a file. Remove what is there first."));
    }
    // An entry tells one root: what goes to another cannot be undone from here,
    // so nothing is overwritten there.
    if crosses_roots && to.base.is_some() {
        return Err(Failure::from(Reason::AlreadyExists)
            .hint("A move to another root overwrites nothing. Remove what is there first."));
    }
    Ok(())
}

/// How it came to stand where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Landed {
    /// Where nothing was.
    Alone,
    /// In place of what is under our own name beside it now.
    Swapped,
    /// Over what was there, of which a copy was kept.
    Over(Kept),
}

/// One move under way.
struct Moving<'a> {
    from: &'a Place,
    to: &'a Place,
    moved: &'a Base,
    /// Our own name beside the destination.
    staged: String,
    live: &'a Live<'a>,
    undo: Option<&'a UndoStore>,
    landed: Landed,
    labels: Vec<Label>,
    cas: Cas,
}

impl Moving<'_> {
    fn land_where_nothing_is(&mut self) -> Result<(), Failure> {
        let (source, target) = (self.from.parent.as_fd(), self.to.parent.as_fd());
        let (leaf, name) = (self.from.leaf.as_str(), self.to.leaf.as_str());
        match renameat_with(source, leaf, target, name, RenameFlags::NOREPLACE) {
            // A file system that cannot be told to replace nothing.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.cas = Cas::Cooperative;
                self.to.is_still()?;
                renameat(source, leaf, target, name).map_err(not_moved)
            }
            done => done.map_err(not_moved),
        }
    }

    fn land_over(&mut self, over: &Base) -> Result<(), Failure> {
        let (source, target) = (self.from.parent.as_fd(), self.to.parent.as_fd());
        let name = self.to.leaf.as_str();
        sys::rename_new(source, &self.from.leaf, target, &self.staged).map_err(not_moved)?;
        let swapped = renameat_with(target, &self.staged, target, name, RenameFlags::EXCHANGE);
        match swapped {
            Ok(()) => self.landed = Landed::Swapped,
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.cas = Cas::Cooperative;
                let done = self.rename_over();
                return done.map_err(|why| self.home(target, why));
            }
            Err(errno) => return Err(self.home(target, not_moved(errno))),
        }
        // Asked before the look: what is written until then is in it.
        if self.to.root.has_writer(over.handle.as_fd()) {
            self.labels.push(Label::OpenWriter);
        }
        let displaced_is_base = sys::child_meta(target, self.staged.as_str()).map(|seen| {
            let (seen, was) = (Meta::of_statx(&seen), &over.meta);
            (seen.dev, seen.ino, seen.entity, seen.size, seen.mtime_ns)
                == (was.dev, was.ino, was.entity, was.size, was.mtime_ns)
        });
        match displaced_is_base {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.back(moved_on(Reason::VersionMismatch))),
            Err(errno) => Err(self.back(failure(errno))),
        }
    }

    /// Where nothing can be swapped: a copy of what is there is kept, then it
    /// is renamed over. Only writers that lock are kept apart.
    fn rename_over(&mut self) -> Result<(), Failure> {
        let mut kept = Kept::Nothing;
        if let Some(undo) = self.undo {
            let id = self.live.request_id().as_str();
            undo.copy_in(self.to.parent.as_fd(), &self.to.leaf, id)?;
            self.labels.push(Label::CopiedForUndo);
            kept = Kept::Copied;
        }
        let parent = &self.to.parent;
        let done = self.to.is_still().and_then(|()| {
            renameat(parent, &self.staged, parent, self.to.leaf.as_str()).map_err(failure)
        });
        if done.is_err()
            && let Some(undo) = self.undo
        {
            let _not_done = undo.forget(self.live.request_id().as_str());
        }
        self.landed = Landed::Over(kept);
        done
    }

    /// Looks whether what was judged stands where it was judged to go, and
    /// nothing else came along.
    fn look(&self, verb: Verb, under: &Circumstances<'_>) -> Result<Meta, Failure> {
        let (from, to) = (self.from, self.to);
        let (target, was) = (to.parent.as_fd(), &self.moved.meta);
        let seen = sys::child_meta(target, to.leaf.as_str());
        let seen = Meta::of_statx(&seen.map_err(failure)?);
        if (seen.dev, seen.ino, seen.entity) != (was.dev, was.ino, was.entity) {
            return Err(moved_on(Reason::VersionMismatch));
        }
        // What came into it, or was written, since it was judged was not asked about.
        let moved = Moved {
            from,
            to,
            back: verb == Verb::Undo,
            terms: under.terms,
        };
        moved.landed(target, &to.leaf, was.entity, under.pinned)?;
        from.parent_is_still()?;
        if was.entity == Entity::Symlink {
            // A link is not opened; that it stands there was looked at above.
            return to.parent_is_still().map(|()| seen);
        }
        to.landed(was.dev, was.ino)
    }

    /// Writes down what was done and keeps what was displaced. What cannot be
    /// kept is not displaced.
    fn keep(
        &mut self,
        verb: Verb,
        now: &Meta,
        made: &[RelPath],
    ) -> Result<Option<String>, Failure> {
        let target = self.to.parent.as_fd();
        let Some(undo) = self.undo else {
            if self.landed == Landed::Swapped
                && let Err(errno) = unlinkat(target, &self.staged, AtFlags::empty())
            {
                return Err(self.back(failure(errno)));
            }
            return Ok(None);
        };
        let entry = Entry {
            to: Some(self.to.path.clone()),
            before: self
                .to
                .base
                .as_ref()
                .map(|over| State::of(&over.meta, None)),
            after: Some(State::of(now, None)),
            made: made.to_vec(),
            ..entry_of(self.from, verb, self.live)
        };
        let done = undo.record(&entry).and_then(|()| match self.landed {
            Landed::Swapped => undo.take(target, &self.staged, &entry.id),
            Landed::Alone | Landed::Over(_) => Ok(Kept::Moved),
        });
        match (done, self.landed) {
            (Ok(Kept::Copied | Kept::CopiedInPart), _) => self.labels.push(Label::CopiedForUndo),
            (Ok(Kept::Moved | Kept::Nothing), _) => {}
            // It is done, and cannot be taken back exactly.
            (Err(_), Landed::Over(_)) => {
                self.labels.push(Label::NotKept);
                return Ok(None);
            }
            (Err(failure), Landed::Alone | Landed::Swapped) => {
                let _not_done = undo.forget(&entry.id);
                return Err(self.back(failure));
            }
        }
        Ok(Some(entry.id))
    }

    /// Takes the move back, and tells where things stand if that fails.
    fn back(&self, why: Failure) -> Failure {
        let target = self.to.parent.as_fd();
        match self.landed {
            Landed::Alone => {
                let source = self.from.parent.as_fd();
                match sys::rename_new(target, &self.to.leaf, source, &self.from.leaf) {
                    Ok(()) => why,
                    Err(Errno::NOENT) => self.gone(why),
                    Err(_) => self.beside(target, &self.to.leaf, why),
                }
            }
            Landed::Swapped => {
                let leaf = self.to.leaf.as_str();
                let swap = renameat_with(target, &self.staged, target, leaf, RenameFlags::EXCHANGE);
                let swap = match swap {
                    // Somebody took what was moved: what it displaced goes back.
                    Err(Errno::NOENT) => sys::rename_new(target, &self.staged, target, leaf),
                    other => other,
                };
                match swap {
                    Ok(()) if self.is_moved_at(target, &self.staged) => self.home(target, why),
                    Ok(()) if sys::child_meta(target, self.staged.as_str()).is_err() => {
                        self.gone(why)
                    }
                    // Somebody saved over it: that is theirs, and stays.
                    Ok(()) => self.save_of_somebody(target, why),
                    Err(_) => {
                        let why = told(why, format!("It stands at {:?} now", self.to.path.shown()));
                        self.save_of_somebody(target, why)
                    }
                }
            }
            Landed::Over(_) => told(
                why,
                format!(
                    "It stands at {:?} now, and a copy of what was there is kept for undo",
                    self.to.path.shown()
                ),
            ),
        }
    }

    /// What was moved goes from our own name back to where it was.
    fn home(&self, target: BorrowedFd<'_>, why: Failure) -> Failure {
        let source = self.from.parent.as_fd();
        match sys::rename_new(target, &self.staged, source, &self.from.leaf) {
            Ok(()) => why,
            Err(_) => self.beside(target, &self.staged, why),
        }
    }

    /// Its old name is taken: it is kept beside that, or else beside where it
    /// was to go; and if not even that can be done it is said where it is.
    fn beside(&self, dir: BorrowedFd<'_>, name: &str, why: Failure) -> Failure {
        let request = self.live.request_id();
        for place in [self.from, self.to] {
            let beside = conflict_name(&place.leaf, request);
            if sys::rename_new(dir, name, place.parent.as_fd(), &beside).is_ok() {
                let at = place.parent_path.join(&beside);
                let at = at.as_ref().map_or(beside.as_str(), RelPath::shown);
                return told(why, format!("It stands at {at:?} now"));
            }
        }
        let at = self.to.parent_path.join(name);
        let at = at.as_ref().map_or(name, RelPath::shown);
        told(why, format!("It stands at {at:?} now"))
    }

    /// What is under our own name is somebody's save: kept beside the target.
    fn save_of_somebody(&self, target: BorrowedFd<'_>, why: Failure) -> Failure {
        let beside = conflict_name(&self.to.leaf, self.live.request_id());
        match sys::rename_new(target, &self.staged, target, &beside) {
            Ok(()) => why.hint(format!(
                "Two saves met: the other one is kept beside the file as {beside:?}."
            )),
            Err(_) => why.hint(format!(
                "Two saves met: the other one is beside the file as {:?}.",
                self.staged
            )),
        }
    }

    fn gone(&self, why: Failure) -> Failure {
        told(
            why,
            format!("Somebody took it from {:?} meanwhile", self.to.path.shown()),
        )
    }

    fn is_moved_at(&self, dir: BorrowedFd<'_>, name: &str) -> bool {
        sys::child_meta(dir, name).is_ok_and(|seen| {
            let (seen, was) = (Meta::of_statx(&seen), &self.moved.meta);
            (seen.dev, seen.ino) == (was.dev, was.ino)
        })
    }
}

/// The same failure, with where things stand.
fn told(why: Failure, stands: String) -> Failure {
    let hint = match why.next_step() {
        Some(hint) => format!("{stands}. {hint}"),
        None => format!("{stands}."),
    };
    why.hint(hint)
}

fn not_moved(errno: Errno) -> Failure {
    match errno {
        Errno::EXIST => moved_on(Reason::AlreadyExists),
        Errno::NOENT => moved_on(Reason::VersionMismatch),
        Errno::XDEV => hinted(Reason::MountBoundary),
        other => failure(other),
    }
}
