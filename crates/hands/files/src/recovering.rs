//! After a crash: what a dying process left beside its targets is put right,
//! from the opening lines of its audit. No tree is walked.
//!
//! Invariants: nothing is unlinked but a file its own audit says it made and
//! never put in place, and what is left of a tree of which the store holds a
//! whole copy; everything else goes to the undo store, back to its
//! place, or beside its target under a name of its own.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use portcullis_policy::Symlinks;
use portcullis_proto::{Entity, Failure, Reason, RelPath, RequestId, Verb};
use rustix::fs::{AtFlags, OFlags, RenameFlags, renameat_with, unlinkat};

use crate::authority::{Authority, Declared};
use crate::errno::failure;
use crate::ledger::{Unfinished, mark_swept, unfinished};
use crate::meta::Meta;
use crate::private_dir::PrivateDir;
use crate::sys;
use crate::temp::Abandoned;
use crate::undo::{Entry, State};
use crate::writing::{conflict_name, staged_name};

/// What was found of an operation that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Nothing: it had not begun, or it was complete.
    Nothing,
    /// A file of ours that was never put in place: removed.
    Unpublished,
    /// What it had displaced: moved to the undo store.
    Displaced,
    /// What it was about to remove: back where it was.
    PutBack,
    /// Somebody else's save: kept beside the file.
    Conflict,
    /// A private workspace whose owner is gone: removed.
    Abandoned,
}

/// One operation that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The request.
    pub request: String,
    /// What was to be done.
    pub verb: Verb,
    /// In which root.
    pub root: String,
    /// To what.
    pub path: RelPath,
    /// What was found.
    pub found: Leftover,
    /// The name a conflicting save was kept under.
    pub kept_as: Option<String>,
}

impl Interrupted {
    fn workspace(gone: &Abandoned) -> Self {
        Self {
            request: gone.name.clone(),
            verb: Verb::Mkdir,
            root: gone.name.clone(),
            path: RelPath::root(),
            found: Leftover::Abandoned,
            kept_as: None,
        }
    }
}

impl Authority {
    /// Puts right what dead processes left in the roots declared here; `data`
    /// holds their audit. With `dry_run` it only says what it would do.
    pub fn recover(&self, data: &PrivateDir, dry_run: bool) -> Result<Vec<Interrupted>, Failure> {
        // What was going on in them went with them.
        let abandoned = crate::temp::sweep(data, dry_run)?;
        let mut done: Vec<Interrupted> = abandoned.iter().map(Interrupted::workspace).collect();
        for chain in unfinished(data)? {
            let mut all_here = true;
            for operation in &chain.operations {
                let Some(root) = operation.root else {
                    // It never came to make anything.
                    continue;
                };
                if abandoned.iter().any(|gone| gone.identity == root) {
                    continue;
                }
                let declared = self.roots().find(|d| d.root().identity() == root);
                match declared {
                    Some(declared) => match put_right(declared, operation, dry_run) {
                        Ok(interrupted) => done.push(interrupted),
                        // One that cannot be looked at now keeps no other back.
                        Err(_) => all_here = false,
                    },
                    None => all_here = false,
                }
            }
            // What is left waits for its root to be served again.
            if all_here && !dry_run {
                mark_swept(data, &chain.name)?;
            }
        }
        Ok(done)
    }
}

fn put_right(
    declared: &Arc<Declared>,
    operation: &Unfinished,
    dry_run: bool,
) -> Result<Interrupted, Failure> {
    let copied_to = operation
        .to
        .as_ref()
        .filter(|_| matches!(operation.verb, Verb::Copy | Verb::Archive));
    let place = copied_to.unwrap_or(&operation.path);
    let mut interrupted = Interrupted {
        request: operation.request.clone(),
        verb: operation.verb,
        root: declared.entry().id().as_str().to_owned(),
        path: place.clone(),
        found: Leftover::Nothing,
        kept_as: None,
    };
    let Some(dir) = directory_of(declared, place)? else {
        return Ok(interrupted);
    };
    let case = Case {
        declared,
        operation,
        dir,
        leaf: place.name().unwrap_or_default(),
        dry_run,
    };
    if operation.verb == Verb::Move {
        interrupted.found = case.finish_move()?;
        return Ok(interrupted);
    }
    let request = RequestId::new(operation.request.clone());
    let name = staged_name(&request);
    let Ok(seen) = sys::child_meta(case.dir.as_fd(), name.as_str()) else {
        return Ok(interrupted);
    };
    let left = Meta::of_statx(&seen);
    let is = |thing: Option<(u64, u64)>| thing == Some((left.dev, left.ino));
    interrupted.found = if operation.verb == Verb::Remove
        || (operation.verb == Verb::Undo && operation.made.is_none())
    {
        case.put_back(&name, &request, &mut interrupted.kept_as)?
    } else if operation.verb == Verb::Extract
        && left.entity == Entity::Directory
        && (is(operation.made) || operation.made.is_none())
    {
        case.withdraw(&name)?
    } else if is(operation.made) || (operation.made.is_none() && is_empty_file(&left)) {
        if !dry_run {
            unlinkat(&case.dir, &name, AtFlags::empty()).map_err(failure)?;
        }
        Leftover::Unpublished
    } else if is(operation.base) {
        case.keep(&name, &left)?;
        Leftover::Displaced
    } else {
        case.beside(&name, &request, &mut interrupted.kept_as)?
    };
    Ok(interrupted)
}

/// A file that was made and into which nothing was written yet.
fn is_empty_file(left: &Meta) -> bool {
    left.entity == Entity::File && left.size == 0 && left.links == 1
}

struct Case<'a> {
    declared: &'a Arc<Declared>,
    operation: &'a Unfinished,
    dir: OwnedFd,
    leaf: &'a str,
    dry_run: bool,
}

impl Case<'_> {
    /// An archive was being unpacked there. Without its identity on record it
    /// had only been made: then it goes if it is empty.
    fn withdraw(&self, name: &str) -> Result<Leftover, Failure> {
        if self.dry_run {
            return Ok(Leftover::Unpublished);
        }
        if self.operation.made.is_some() {
            crate::undo::remove_tree(self.dir.as_fd(), name)?;
        } else {
            unlinkat(&self.dir, name, AtFlags::REMOVEDIR).map_err(failure)?;
        }
        Ok(Leftover::Unpublished)
    }

    /// Something was renamed away to be removed: nobody was told that it was.
    fn put_back(
        &self,
        name: &str,
        request: &RequestId,
        kept_as: &mut Option<String>,
    ) -> Result<Leftover, Failure> {
        if self.dry_run {
            return Ok(Leftover::PutBack);
        }
        let (dir, leaf) = (&self.dir, self.leaf);
        if let Some(undo) = self.declared.undo()?
            && undo.holds(&self.operation.request)
        {
            // A whole copy is kept: the removal had begun, and is finished.
            crate::undo::remove_tree(dir.as_fd(), name)?;
            return Ok(Leftover::Displaced);
        }
        match renameat_with(dir, name, dir, leaf, RenameFlags::NOREPLACE) {
            Ok(()) => {
                // Nothing was removed, so there is nothing to undo.
                if let Some(undo) = self.declared.undo()? {
                    undo.forget(&self.operation.request)?;
                }
                Ok(Leftover::PutBack)
            }
            Err(rustix::io::Errno::EXIST) => self.beside(name, request, kept_as),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// What was displaced goes where the operation would have put it.
    fn keep(&self, name: &str, left: &Meta) -> Result<(), Failure> {
        if self.dry_run {
            return Ok(());
        }
        let Some(undo) = self.declared.undo()? else {
            let request = RequestId::new(self.operation.request.clone());
            return self.beside(name, &request, &mut None).map(drop);
        };
        let id = &self.operation.request;
        undo.take(self.dir.as_fd(), name, id)?;
        if undo.entry(id)?.is_none() {
            undo.record_again(&self.entry(Some(State::of(left, None)), None))?;
        }
        Ok(())
    }

    /// Nobody knows whose it is: it stays, under a name that says so.
    fn beside(
        &self,
        name: &str,
        request: &RequestId,
        kept_as: &mut Option<String>,
    ) -> Result<Leftover, Failure> {
        let beside = conflict_name(self.leaf, request);
        if !self.dry_run {
            let dir = &self.dir;
            renameat_with(dir, name, dir, &beside, RenameFlags::NOREPLACE).map_err(failure)?;
        }
        *kept_as = Some(beside);
        Ok(Leftover::Conflict)
    }

    /// A move that overwrote something may have left that under the old name.
    fn finish_move(&self) -> Result<Leftover, Failure> {
        let (Some(to), Some(over)) = (&self.operation.to, self.operation.over) else {
            return Ok(Leftover::Nothing);
        };
        let Ok(seen) = sys::child_meta(self.dir.as_fd(), self.leaf) else {
            return Ok(Leftover::Nothing);
        };
        let left = Meta::of_statx(&seen);
        let root = self.declared.root();
        let moved = root.open(to, OFlags::PATH, Symlinks::Reject);
        let moved = moved.ok().map(|moved| (moved.meta.dev, moved.meta.ino));
        if (left.dev, left.ino) != over || moved.is_none() || moved != self.operation.base {
            return Ok(Leftover::Nothing);
        }
        if !self.dry_run
            && let Some(undo) = self.declared.undo()?
        {
            let id = &self.operation.request;
            undo.take(self.dir.as_fd(), self.leaf, id)?;
            if undo.entry(id)?.is_none() {
                let entry = self.entry(Some(State::of(&left, None)), Some(to.clone()));
                undo.record_again(&entry)?;
            }
        }
        Ok(Leftover::Displaced)
    }

    fn entry(&self, before: Option<State>, to: Option<RelPath>) -> Entry {
        let operation = self.operation;
        let landed = to.as_ref().unwrap_or(&operation.path);
        let root = self.declared.root();
        let after = root
            .open(landed, OFlags::RDONLY, Symlinks::Reject)
            .ok()
            .map(|now| {
                let hash = match (&to, now.meta.entity) {
                    (None, Entity::File) => crate::writing::digest_file(&now.handle).ok(),
                    _ => None,
                };
                State::of(&now.meta, hash)
            });
        Entry {
            id: operation.request.clone(),
            at: operation.at,
            root: self.declared.entry().id().as_str().to_owned(),
            root_identity: root.identity(),
            verb: operation.verb,
            path: operation.path.clone(),
            to,
            subject: operation.subject.clone(),
            run: operation.run.clone(),
            before,
            after,
            made: Vec::new(),
            recovered: true,
        }
    }
}

/// The directory a path stands in, if it is still there.
fn directory_of(declared: &Declared, path: &RelPath) -> Result<Option<OwnedFd>, Failure> {
    let Some(above) = path.parent() else {
        return Ok(None);
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match declared.root().open(&above, flags, Symlinks::Reject) {
        Ok(opened) => Ok(Some(opened.handle)),
        Err(failure) if failure.reason() == Reason::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}
