//! Moving: one rename, or one swap where something is overwritten.

use std::os::fd::AsFd;

use portcullis_gate::Live;
use portcullis_proto::{Entity, Failure, Reason, RelPath, Staged, Verb};
use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::place::{Place, moved_on};
use super::publish::entry_of;
use super::receipt::{Cas, Label, Receipt};
use crate::errno::{failure, hinted};
use crate::guards::keeps_its_class;
use crate::meta::Meta;
use crate::sys;
use crate::undo::{Entry, State, UndoStore, survey};

/// Moves what stands at `from` to `to`.
pub(crate) fn relocate(
    from: &Place,
    to: &Place,
    verb: Verb,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
    made: &[RelPath],
    asked_about_what_is_below: bool,
) -> Result<Receipt, Failure> {
    let moved = from.base.as_ref().ok_or(Reason::NotFound)?;
    let crosses_roots = from.root.identity() != to.root.identity();
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
    from.is_still()?;
    to.is_still()?;
    from.parent_is_still()?;
    to.parent_is_still()?;
    survey(from.parent.as_fd(), &from.leaf, &mut |_| Ok(()))?;
    live.still()?;
    live.stage(Staged {
        root: from.root.identity(),
        made: None,
    })?;
    let flags = match &to.base {
        None => RenameFlags::NOREPLACE,
        Some(_) => RenameFlags::EXCHANGE,
    };
    let (source, target) = (from.parent.as_fd(), to.parent.as_fd());
    match renameat_with(source, &from.leaf, target, &to.leaf, flags) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(moved_on(Reason::AlreadyExists)),
        Err(Errno::NOENT) => return Err(moved_on(Reason::VersionMismatch)),
        Err(Errno::XDEV) => return Err(hinted(Reason::MountBoundary)),
        Err(errno) => return Err(failure(errno)),
    }
    let back = || {
        let _as_it_was = renameat_with(target, &to.leaf, source, &from.leaf, flags);
    };
    let is = |dir, name: &str, meta: &Meta| {
        sys::child_meta(dir, name).is_ok_and(|seen| {
            let seen = Meta::of_statx(&seen);
            (seen.dev, seen.ino, seen.entity) == (meta.dev, meta.ino, meta.entity)
        })
    };
    let displaced_is_base = to
        .base
        .as_ref()
        .is_none_or(|over| is(source, &from.leaf, &over.meta));
    if !is(target, &to.leaf, &moved.meta) || !displaced_is_base {
        back();
        return Err(moved_on(Reason::VersionMismatch));
    }
    if !asked_about_what_is_below {
        // What came into it since it was judged was not asked about: what would
        // come into a protected class by the move, or out of one, is.
        let same = survey(target, &to.leaf, &mut |below| {
            if keeps_its_class(&from.path, &to.path, below) {
                return Ok(());
            }
            Err(moved_on(Reason::VersionMismatch))
        });
        if let Err(failure) = same {
            back();
            return Err(failure);
        }
    }
    let landed = if moved.meta.entity == Entity::Symlink {
        // A link is not opened; that it stands there was looked at above.
        to.parent_is_still().map(|()| moved.meta)
    } else {
        to.landed(moved.meta.dev, moved.meta.ino)
    };
    let now = match landed {
        Ok(now) if from.parent_is_still().is_ok() => now,
        Ok(_) | Err(_) => {
            back();
            return Err(moved_on(Reason::VersionMismatch));
        }
    };
    let mut labels = Vec::new();
    if crosses_roots {
        labels.push(Label::NotKept);
    }
    let kept = if let Some(undo) = undo.filter(|_| !crosses_roots) {
        let entry = Entry {
            to: Some(to.path.clone()),
            before: to.base.as_ref().map(|over| State::of(&over.meta, None)),
            after: Some(State::of(&now, None)),
            made: made.to_vec(),
            ..entry_of(from, verb, live)
        };
        let done = undo.record(&entry).and_then(|()| match &to.base {
            Some(_) => undo.take(source, &from.leaf, &entry.id).map(drop),
            None => Ok(()),
        });
        if let Err(failure) = done {
            let _not_done = undo.forget(&entry.id);
            back();
            return Err(failure);
        }
        Some(entry.id)
    } else {
        if to.base.is_some()
            && let Err(errno) = unlinkat(source, &from.leaf, AtFlags::empty())
        {
            back();
            return Err(failure(errno));
        }
        None
    };
    for dir in [&from.parent, &to.parent] {
        if retry_on_intr(|| rustix::fs::fsync(dir)).is_err() {
            labels.push(Label::NotSynced);
        }
    }
    labels.dedup();
    Ok(Receipt {
        path: to.path.clone(),
        dev: now.dev,
        ino: now.ino,
        version: now.version(),
        bytes: now.size,
        hash: None,
        created: to.base.is_none(),
        containment: to.containment,
        cas: Cas::Exact,
        labels,
        undo: kept,
    })
}
