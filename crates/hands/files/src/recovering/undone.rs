//! An undoing that a crash interrupted: the store says what was to be undone,
//! and what stands where says how far it came.

use std::os::fd::AsFd as _;

use portcullis_policy::Symlinks;
use portcullis_proto::{Entity, Failure, RelPath, Verb};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::case::{Case, look, nearest};
use super::{Leftover, Outcomes};
use crate::errno::failure;
use crate::sys;
use crate::undo::{Entry, State, UndoStore, remove_tree};
use crate::undoing::unmake;
use crate::writing::digest_file;

impl Case<'_> {
    pub(super) fn finish_undo(&self) -> Result<Outcomes, Failure> {
        let Some(undo) = &self.undo else {
            return Ok(Outcomes::not_done());
        };
        let Some(id) = undo.intended(self.id())? else {
            return Ok(Outcomes::not_done());
        };
        let entry = undo.entry(&id)?;
        if self.dry_run {
            let left = match &entry {
                Some(entry) => self.own_beside(&entry.path)?,
                None => false,
            };
            let found = if left {
                Leftover::PutBack
            } else {
                Leftover::Nothing
            };
            return Ok(Outcomes::of(found, entry.is_none()));
        }
        let outcome = match &entry {
            // Forgotten, which is the last step.
            None => Outcomes::done(),
            Some(entry) => self.finish_undoing(undo, entry)?,
        };
        if outcome.done {
            undo.forget(&id)?;
        }
        undo.settle(self.id());
        Ok(outcome)
    }

    fn own_beside(&self, path: &RelPath) -> Result<bool, Failure> {
        match nearest(self.declared, path)? {
            Some(near) => Ok(look(near.handle.as_fd(), &self.own)?.is_some()),
            None => Ok(false),
        }
    }

    fn finish_undoing(&self, undo: &UndoStore, entry: &Entry) -> Result<Outcomes, Failure> {
        let path = &entry.path;
        match (&entry.to, &entry.before, &entry.after) {
            (Some(to), _, Some(after)) => self.finish_moving_back(undo, entry, to, after),
            (None, Some(_), None) => self.finish_bringing_back(undo, entry),
            (None, None, Some(after)) if entry.verb == Verb::Mkdir => {
                // Innermost first: if that is there still, nothing was done.
                let begun = self.at(path)? != Some(after.thing());
                if begun {
                    unmake(self.declared.root(), entry)?;
                }
                Ok(Outcomes::of(Leftover::Nothing, begun))
            }
            (None, None, Some(after)) => {
                let outcome = self.finish_removal(path, Some(after.thing()))?;
                if outcome.done {
                    let _kept_if_used = unmake(self.declared.root(), entry);
                }
                Ok(outcome)
            }
            (None, Some(before), Some(after)) => {
                if self.own_beside(path)? || self.stands_there(path) {
                    return self.finish_write(path);
                }
                if !undo.holds(&entry.id) && !self.holds() {
                    return self.finish_mode(path);
                }
                self.finish_swapping_back(undo, entry, before, after)
            }
            (_, None, None) | (Some(_), _, None) => Ok(Outcomes::not_done()),
        }
    }

    fn finish_swapping_back(
        &self,
        undo: &UndoStore,
        entry: &Entry,
        before: &State,
        after: &State,
    ) -> Result<Outcomes, Failure> {
        if self.holds() {
            return Ok(Outcomes::done());
        }
        let held = undo.held(&entry.id);
        let swapped = held.is_some_and(|held| (held.dev, held.ino) == after.thing());
        if !swapped {
            self.forget()?;
            return Ok(Outcomes::not_done());
        }
        if self.entry()?.is_none() {
            let mut redo = self.told(&entry.path, Some(after.clone()), None);
            if let Some(now) = &mut redo.after {
                now.hash = before.hash.or(now.hash);
            }
            undo.record_again(&redo)?;
        }
        undo.hand_over(&entry.id, self.id())?;
        Ok(Outcomes::of(Leftover::Displaced, true))
    }

    /// What was removed was moved to its place, or copied beside it and then
    /// renamed there.
    fn finish_bringing_back(&self, undo: &UndoStore, entry: &Entry) -> Result<Outcomes, Failure> {
        let Some(near) = nearest(self.declared, &entry.path)? else {
            return Ok(Outcomes::not_done());
        };
        let dir = near.handle.as_fd();
        let mut found = Leftover::Nothing;
        if look(dir, &self.own)?.is_some() {
            // A directory on the way, or a copy that is not whole.
            remove_tree(dir, &self.own)?;
            found = Leftover::Unpublished;
        }
        let here = look(dir, entry.path.name().unwrap_or_default())?;
        let root = self.declared.root().identity();
        let copied = here.filter(|_| near.is_parent).is_some_and(|here| {
            let thing = (here.dev, here.ino);
            self.operation.has_made(root, thing)
        });
        if undo.holds(&entry.id) && !copied {
            self.forget()?;
            return Ok(Outcomes::of(found, false));
        }
        if self.entry()?.is_none() {
            let redo = self.told(&entry.path, None, None);
            let after = redo
                .after
                .or_else(|| here.map(|here| State::of(&here, None)));
            undo.record_again(&Entry { after, ..redo })?;
        }
        Ok(Outcomes::of(found, true))
    }

    fn finish_moving_back(
        &self,
        undo: &UndoStore,
        entry: &Entry,
        to: &RelPath,
        after: &State,
    ) -> Result<Outcomes, Failure> {
        let (path, moved) = (&entry.path, Some(after.thing()));
        let is_back = self.at(path)? == moved;
        let there = nearest(self.declared, to)?.filter(|near| near.is_parent);
        if let Some(there) = &there
            && is_back
            && entry.before.is_some()
            && look(there.handle.as_fd(), &self.own)?.is_some()
        {
            // A copy of what it had overwritten, which is not whole.
            remove_tree(there.handle.as_fd(), &self.own)?;
        }
        let over = entry.back.as_ref().map(State::thing);
        let outcome = self.finish_relocation(to, path, moved, over)?;
        if !outcome.done {
            return Ok(outcome);
        }
        if let Some(there) = there
            && undo.holds(&entry.id)
        {
            let (dir, leaf) = (there.handle.as_fd(), to.name().unwrap_or_default());
            match undo.put_back(&entry.id, dir, leaf) {
                Err(Errno::XDEV) => {
                    if !self.is_copied_there(to)? {
                        undo.copy_out(&entry.id, dir, &self.own)?;
                        sys::rename_new(dir, &self.own, dir, leaf).map_err(failure)?;
                    }
                }
                // Somebody took the place: what was overwritten stays kept.
                Err(Errno::EXIST) if !self.is_copied_there(to)? => {
                    return Ok(Outcomes::of(Leftover::Displaced, false));
                }
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failure(errno)),
            }
        }
        if entry.before.is_some() {
            self.tell_what_came_back(undo, to)?;
        }
        let _kept_if_used = unmake(self.declared.root(), entry);
        Ok(outcome)
    }

    /// Whether what stands there is a copy this operation made.
    fn is_copied_there(&self, path: &RelPath) -> Result<bool, Failure> {
        let root = self.declared.root().identity();
        let here = self.at(path)?;
        Ok(here.is_some_and(|here| self.operation.has_made(root, here)))
    }

    fn tell_what_came_back(&self, undo: &UndoStore, to: &RelPath) -> Result<(), Failure> {
        let root = self.declared.root();
        let Ok(now) = root.open(to, OFlags::RDONLY, Symlinks::Reject) else {
            return Ok(());
        };
        let hash = if now.meta.entity == Entity::File {
            Some(digest_file(&now.handle)?)
        } else {
            None
        };
        if let Some(redo) = undo.entry(self.id())? {
            undo.record_again(&Entry {
                back: Some(State::of(&now.meta, hash)),
                ..redo
            })?;
        }
        Ok(())
    }

    /// Whether a draft of this operation stands at `path`.
    fn stands_there(&self, path: &RelPath) -> bool {
        let root = self.declared.root();
        root.open(path, OFlags::PATH, Symlinks::Reject)
            .is_ok_and(|now| {
                let thing = (now.meta.dev, now.meta.ino);
                now.meta.entity == Entity::File && self.operation.has_made(root.identity(), thing)
            })
    }
}
