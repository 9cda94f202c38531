//! One interrupted operation, and what becomes of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use portcullis_policy::Symlinks;
use portcullis_proto::{Entity, Failure, Reason, RelPath, RequestId, Verb};
use rustix::fs::{AtFlags, OFlags, unlinkat};
use rustix::io::Errno;

use super::{Leftover, Outcomes, target};
use crate::archive::digest_of_tree;
use crate::authority::Declared;
use crate::errno::failure;
use crate::ledger::Unfinished;
use crate::meta::Meta;
use crate::sys;
use crate::undo::{Entry, Pre, State, UndoStore, remove_tree};
use crate::writing::{conflict_name, digest_file, put, read_all, staged_name};

/// What is written in place is at most this large.
const MAX_IN_PLACE: u64 = 64 * 1024 * 1024;

/// A directory on the way to a place, the nearest that is there.
pub(super) struct Nearest {
    pub(super) handle: OwnedFd,
    /// Whether it is the very directory the place is in.
    pub(super) is_parent: bool,
}

pub(super) struct Case<'a> {
    pub(super) declared: &'a Arc<Declared>,
    pub(super) operation: &'a Unfinished,
    pub(super) undo: Option<Arc<UndoStore>>,
    pub(super) dry_run: bool,
    pub(super) request: RequestId,
    /// Our own name beside a target.
    pub(super) own: String,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        declared: &'a Arc<Declared>,
        operation: &'a Unfinished,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let request = RequestId::new(operation.request.clone());
        Ok(Self {
            declared,
            operation,
            undo: declared.undo()?,
            dry_run,
            own: staged_name(&request),
            request,
        })
    }

    pub(super) fn put_right(&self) -> Result<Outcomes, Failure> {
        let place = target(self.operation);
        match self.operation.verb {
            Verb::Move => self.finish_move(),
            Verb::Undo => self.finish_undo(),
            Verb::Remove => self.finish_removal(place, self.operation.base),
            Verb::Mkdir => self.finish_directory(place),
            Verb::Chmod => self.finish_mode(place),
            Verb::Write | Verb::Edit | Verb::Append | Verb::Copy | Verb::Archive => {
                self.finish_write(place)
            }
            Verb::Extract => self.finish_unpacked(place),
            Verb::Read
            | Verb::ReadRedacted
            | Verb::Administer
            | Verb::Relay
            | Verb::Stat
            | Verb::List
            | Verb::Tree
            | Verb::Glob
            | Verb::Search
            | Verb::Inspect
            | Verb::Watch => Ok(Outcomes::not_done()),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.operation.request
    }

    fn made(&self, meta: &Meta) -> bool {
        let root = self.declared.root().identity();
        self.operation.has_made(root, (meta.dev, meta.ino))
    }

    /// Its entry, if it came to write one.
    pub(super) fn entry(&self) -> Result<Option<Entry>, Failure> {
        match &self.undo {
            Some(undo) => undo.entry(self.id()),
            None => Ok(None),
        }
    }

    /// Whether what it displaced is in the store.
    pub(super) fn holds(&self) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.holds(self.id()))
    }

    /// Nothing was done, so there is nothing to undo.
    pub(super) fn forget(&self) -> Result<(), Failure> {
        match &self.undo {
            Some(undo) if !self.dry_run => undo.forget(self.id()),
            Some(_) | None => Ok(()),
        }
    }

    /// A draft, beside its target or in its place.
    pub(super) fn finish_write(&self, place: &RelPath) -> Result<Outcomes, Failure> {
        let Some(near) = nearest(self.declared, place)? else {
            return Ok(Outcomes::not_done());
        };
        let dir = near.handle.as_fd();
        let leaf = place.name().unwrap_or_default();
        let Some(left) = look(dir, &self.own)? else {
            return self.finish_published(place);
        };
        if left.entity == Entity::Directory {
            return self.drop_directory(dir, &left);
        }
        if self.made(&left) || (self.operation.untold && is_empty_file(&left)) {
            // Two names: it was linked in place, and has its own name still.
            let published = left.links > 1 && self.stands_at(place, &left);
            let done = published || self.finish_in_place(place, dir)?;
            if !self.dry_run {
                unlinkat(dir, &self.own, AtFlags::empty()).map_err(failure)?;
            }
            return Ok(Outcomes::of(Leftover::Unpublished, done));
        }
        if self.operation.base == Some((left.dev, left.ino)) {
            return self.keep(dir, leaf, place, &left, None);
        }
        self.beside(dir, leaf)
    }

    fn stands_at(&self, place: &RelPath, what: &Meta) -> bool {
        let root = self.declared.root();
        root.open(place, OFlags::PATH, Symlinks::Reject)
            .is_ok_and(|now| (now.meta.dev, now.meta.ino) == (what.dev, what.ino))
    }

    /// Nothing is beside the target: either nothing was put in place, or all.
    fn finish_published(&self, place: &RelPath) -> Result<Outcomes, Failure> {
        let root = self.declared.root();
        let now = root.open(place, OFlags::PATH, Symlinks::Reject);
        let stands = now.is_ok_and(|now| now.meta.entity == Entity::File && self.made(&now.meta));
        if !stands {
            // A copy that was made for nothing; what was displaced has an entry.
            let done = self.entry()?.is_some();
            if !done {
                self.forget()?;
            }
            return Ok(Outcomes::of(Leftover::Nothing, done));
        }
        self.write_down(place, None)?;
        Ok(Outcomes::done())
    }

    /// Writes down what is done and was not, with what it displaced if that is
    /// in the store.
    pub(super) fn write_down(&self, place: &RelPath, to: Option<&RelPath>) -> Result<(), Failure> {
        if let Some(undo) = &self.undo
            && !self.dry_run
            && undo.entry(self.id())?.is_none()
        {
            let before = undo.held(self.id()).map(|held| State::of(&held, None));
            undo.record_again(&self.told(place, before, to))?;
        }
        Ok(())
    }

    /// A file that is itself a mount is written in place: the draft beside it
    /// has all of the new content, the store all of the old. What was begun is
    /// finished; says whether anything was.
    fn finish_in_place(&self, place: &RelPath, dir: BorrowedFd<'_>) -> Result<bool, Failure> {
        let Some(undo) = &self.undo else {
            return Ok(false);
        };
        if undo.entry(self.id())?.is_some() {
            return Ok(true);
        }
        let Some(Pre::File(old)) = undo.pre(self.id())? else {
            self.forget()?;
            return Ok(false);
        };
        let root = self.declared.root();
        let now = match root.open(place, OFlags::RDONLY, Symlinks::Reject) {
            Ok(now) if self.operation.base == Some((now.meta.dev, now.meta.ino)) => now,
            // Somebody put another file there: it never came to writing.
            Ok(_) | Err(_) => {
                self.forget()?;
                return Ok(false);
            }
        };
        let draft = sys::open_child(dir, self.own.as_str(), OFlags::RDONLY).map_err(failure)?;
        let whole = |file: &OwnedFd| read_all(file, MAX_IN_PLACE)?.ok_or_else(too_large);
        let (before, after, here) = (whole(&old)?, whole(&draft)?, whole(&now.handle)?);
        if here == before {
            self.forget()?;
            return Ok(false);
        }
        if self.dry_run {
            return Ok(true);
        }
        if is_part(&here, &before, &after) {
            let file = root.open(place, OFlags::WRONLY, Symlinks::Reject)?;
            put(&file.handle, &after).map_err(failure)?;
        }
        // Whatever it is now, what was there can be put back.
        let before = Meta::of_stat(&rustix::fs::fstat(&old).map_err(failure)?);
        let before = State::of(&before, Some(digest_file(&old)?));
        undo.record_again(&self.told(place, Some(before), None))?;
        Ok(true)
    }

    /// Something was renamed away to be removed: nobody was told that it was.
    pub(super) fn finish_removal(
        &self,
        place: &RelPath,
        base: Option<(u64, u64)>,
    ) -> Result<Outcomes, Failure> {
        let Some(near) = nearest(self.declared, place)?.filter(|near| near.is_parent) else {
            return Ok(Outcomes::of(Leftover::Nothing, self.holds()));
        };
        let dir = near.handle.as_fd();
        let leaf = place.name().unwrap_or_default();
        let away = look(dir, &self.own)?;
        let here = look(dir, leaf)?.filter(|here| base == Some((here.dev, here.ino)));
        // What could not be renamed is removed entry by entry.
        let name = match (&away, here) {
            (Some(_), _) => self.own.as_str(),
            (None, Some(_)) if self.holds() && self.entry()?.is_some() => leaf,
            (None, here) => {
                let done = self.holds() && here.is_none();
                if !done {
                    self.forget()?;
                }
                return Ok(Outcomes::of(Leftover::Nothing, done));
            }
        };
        if let Some(undo) = self.undo.as_ref().filter(|undo| undo.holds(self.id())) {
            // A whole copy is kept: the removal had begun, and is finished.
            if self.dry_run || undo.finish_taking(dir, name, self.id())? {
                return Ok(Outcomes::of(Leftover::Displaced, true));
            }
            if away.is_none() {
                return Ok(Outcomes::of(Leftover::Conflict, true));
            }
            return self.beside(dir, leaf);
        }
        if self.dry_run {
            return Ok(Outcomes::of(Leftover::PutBack, false));
        }
        match sys::rename_new(dir, &self.own, dir, leaf) {
            Ok(()) => {
                self.forget()?;
                Ok(Outcomes::of(Leftover::PutBack, false))
            }
            Err(Errno::EXIST) => self.beside(dir, leaf),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// A directory that was made and told in undo was made; another goes.
    fn finish_directory(&self, place: &RelPath) -> Result<Outcomes, Failure> {
        if let Some(near) = nearest(self.declared, place)?
            && let Some(left) = look(near.handle.as_fd(), &self.own)?
        {
            return self.drop_directory(near.handle.as_fd(), &left);
        }
        Ok(Outcomes::of(Leftover::Nothing, self.entry()?.is_some()))
    }

    /// A tree that was unpacked under our own name, or has its place.
    fn finish_unpacked(&self, place: &RelPath) -> Result<Outcomes, Failure> {
        let Some(near) = nearest(self.declared, place)? else {
            return Ok(Outcomes::not_done());
        };
        let dir = near.handle.as_fd();
        if let Some(left) = look(dir, &self.own)? {
            if !self.made(&left) {
                // It was made, and nothing unpacked into it yet.
                return self.drop_directory(dir, &left);
            }
            if !self.dry_run {
                remove_tree(dir, &self.own)?;
            }
            return Ok(Outcomes::of(Leftover::Unpublished, false));
        }
        let now = self
            .declared
            .root()
            .open(place, OFlags::PATH, Symlinks::Reject);
        let stands =
            now.is_ok_and(|now| now.meta.entity == Entity::Directory && self.made(&now.meta));
        if !stands {
            return Ok(Outcomes::of(Leftover::Nothing, self.entry()?.is_some()));
        }
        if let Some(undo) = &self.undo
            && !self.dry_run
            && undo.entry(self.id())?.is_none()
        {
            let mut entry = self.told(place, None, None);
            let leaf = place.name().unwrap_or_default();
            if let Some(after) = &mut entry.after {
                after.hash = Some(digest_of_tree(dir, leaf)?);
            }
            undo.record_again(&entry)?;
        }
        Ok(Outcomes::done())
    }

    /// Bits are set in one step, after they are told in undo.
    pub(super) fn finish_mode(&self, place: &RelPath) -> Result<Outcomes, Failure> {
        let Some(Entry {
            before: Some(before),
            ..
        }) = self.entry()?
        else {
            return Ok(Outcomes::not_done());
        };
        let now = self
            .declared
            .root()
            .open(place, OFlags::PATH, Symlinks::Reject);
        let unset = now.is_ok_and(|now| {
            (now.meta.dev, now.meta.ino) == before.thing() && now.meta.mode == before.mode
        });
        if unset {
            self.forget()?;
        }
        Ok(Outcomes::of(Leftover::Nothing, !unset))
    }

    /// A directory under our own name, which was to be one on the way.
    pub(super) fn drop_directory(
        &self,
        dir: BorrowedFd<'_>,
        left: &Meta,
    ) -> Result<Outcomes, Failure> {
        if left.entity == Entity::Directory && !self.dry_run {
            match unlinkat(dir, &self.own, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failure(errno)),
            }
        }
        Ok(Outcomes::of(Leftover::Unpublished, false))
    }

    /// What was displaced, under our own name in `dir`, goes where the
    /// operation would have put it.
    pub(super) fn keep(
        &self,
        dir: BorrowedFd<'_>,
        leaf: &str,
        place: &RelPath,
        left: &Meta,
        to: Option<&RelPath>,
    ) -> Result<Outcomes, Failure> {
        let Some(undo) = &self.undo else {
            return self.beside(dir, leaf);
        };
        if self.dry_run {
            return Ok(Outcomes::of(Leftover::Displaced, true));
        }
        let id = self.id();
        // A copy may be whole already; what differs from it is somebody's.
        let kept = if undo.holds(id) {
            undo.finish_taking(dir, &self.own, id)?
        } else {
            undo.take(dir, &self.own, id)?;
            true
        };
        if undo.entry(id)?.is_none() {
            undo.record_again(&self.told(place, Some(State::of(left, None)), to))?;
        }
        if kept {
            return Ok(Outcomes::of(Leftover::Displaced, true));
        }
        self.beside(dir, leaf)
    }

    /// Nobody knows whose it is: it stays, under a name that says so.
    pub(super) fn beside(&self, dir: BorrowedFd<'_>, leaf: &str) -> Result<Outcomes, Failure> {
        let beside = conflict_name(leaf, &self.request);
        if !self.dry_run {
            sys::rename_new(dir, &self.own, dir, &beside).map_err(failure)?;
        }
        Ok(Outcomes {
            kept_as: Some(beside),
            ..Outcomes::of(Leftover::Conflict, false)
        })
    }

    /// What the operation would have written down.
    pub(super) fn told(
        &self,
        place: &RelPath,
        before: Option<State>,
        to: Option<&RelPath>,
    ) -> Entry {
        let operation = self.operation;
        let root = self.declared.root();
        let now = root.open(to.unwrap_or(place), OFlags::RDONLY, Symlinks::Reject);
        let after = now.ok().map(|now| {
            let hash = match (to, now.meta.entity) {
                (None, Entity::File) => digest_file(&now.handle).ok(),
                _ => None,
            };
            State::of(&now.meta, hash)
        });
        let subject = &operation.subject;
        Entry {
            id: operation.request.clone(),
            at: operation.at,
            root: self.declared.entry().id().as_str().to_owned(),
            root_identity: root.identity(),
            verb: operation.verb,
            path: place.clone(),
            to: to.cloned(),
            subject: subject.label(),
            run: subject.run_id.clone(),
            before,
            after,
            back: None,
            made: made_on_the_way(self.declared, operation),
            recovered: true,
        }
    }
}

/// A file that was made and into which nothing was written yet.
fn is_empty_file(left: &Meta) -> bool {
    left.entity == Entity::File && left.size == 0 && left.links == 1
}

/// Whether `here` is what a write of `after` over `before` leaves on its way:
/// so much of the one, and then the rest of the other.
fn is_part(here: &[u8], before: &[u8], after: &[u8]) -> bool {
    let done = here
        .iter()
        .zip(after)
        .take_while(|(now, new)| now == new)
        .count();
    here == after || here.get(done..) == before.get(done..).or(Some(&[]))
}

fn too_large() -> Failure {
    Reason::TooLarge.into()
}

/// What stands under a name, if anything does.
pub(super) fn look(dir: BorrowedFd<'_>, name: &str) -> Result<Option<Meta>, Failure> {
    match sys::child_meta(dir, name) {
        Ok(seen) => Ok(Some(Meta::of_statx(&seen))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failure(errno)),
    }
}

/// The directory `place` is in, or the nearest above it that is there.
pub(super) fn nearest(declared: &Declared, place: &RelPath) -> Result<Option<Nearest>, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    for (steps, above) in ancestors(place).enumerate() {
        match declared.root().open(&above, flags, Symlinks::Reject) {
            Ok(opened) => {
                return Ok(Some(Nearest {
                    handle: opened.handle,
                    is_parent: steps == 0,
                }));
            }
            Err(why) if why.reason() == Reason::NotFound => {}
            // Something else stands on the way now: nothing of ours is below.
            Err(why) if matches!(why.reason(), Reason::NotDirectory | Reason::Symlink) => {
                return Ok(None);
            }
            Err(why) => return Err(why),
        }
    }
    Ok(None)
}

/// The directories above a path, innermost first.
fn ancestors(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(path.parent(), RelPath::parent)
}

/// Where the operation made directories on the way to.
pub(super) fn way_to(operation: &Unfinished) -> RelPath {
    let to = operation.to.as_ref();
    let end = to.unwrap_or(&operation.path);
    if operation.verb == Verb::Mkdir {
        // It is itself one.
        return end.join("x").unwrap_or_else(|_| end.clone());
    }
    end.clone()
}

/// The directories it made on the way that stand, outermost first.
fn made_on_the_way(declared: &Declared, operation: &Unfinished) -> Vec<RelPath> {
    let root = declared.root();
    let mut made: Vec<_> = ancestors(&way_to(operation))
        .take_while(|path| !path.is_root())
        .filter(|path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            root.open(path, flags, Symlinks::Reject)
                .is_ok_and(|now| operation.has_made(root.identity(), (now.meta.dev, now.meta.ino)))
        })
        .collect();
    made.reverse();
    made
}

/// Removes the directories that the operation made on the way to `place`, while
/// they are empty.
pub(super) fn remove_made(
    declared: &Declared,
    operation: &Unfinished,
    place: &RelPath,
) -> Result<(), Failure> {
    if let Some(near) = nearest(declared, place)? {
        // One that did not come to have its name.
        let own = staged_name(&RequestId::new(operation.request.clone()));
        let dir = near.handle.as_fd();
        if look(dir, &own)?.is_some_and(|left| left.entity == Entity::Directory) {
            let _used_by_somebody = unlinkat(dir, &own, AtFlags::REMOVEDIR);
        }
    }
    for path in made_on_the_way(declared, operation).iter().rev() {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else {
            continue;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = declared.root().open(&above, flags, Symlinks::Reject)?;
        match unlinkat(&dir.handle, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Somebody uses it.
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(failure(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_part;

    #[test]
    fn a_write_on_its_way_is_told_from_anything_else() {
        let (old, new) = (b"0123456789".as_slice(), b"abcdef".as_slice());
        for (here, part) in [
            ("0123456789", true),
            ("abc3456789", true),
            ("abcdef6789", true),
            ("abcdef", true),
            ("abc", false),
            ("abc345678", false),
            ("abcX456789", false),
            ("abcdef67890", false),
            ("", false),
        ] {
            assert_eq!(is_part(here.as_bytes(), old, new), part, "{here}");
        }
        // A longer one grows past the old end.
        for (here, part) in [("abcd6789", false), ("abcdefgh", true), ("abcdefghi", true)] {
            assert_eq!(is_part(here.as_bytes(), b"012345", b"abcdefghij"), part);
        }
    }
}
