//! Removing: first out of sight in one step, then kept or gone.

use std::os::fd::AsFd;

use portcullis_gate::Live;
use portcullis_proto::{Failure, Reason, Staged, Verb};
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::{Errno, retry_on_intr};

use super::names::{conflict_name, staged_name};
use super::place::{Place, moved_on};
use super::publish::entry_of;
use super::receipt::Label;
use crate::errno::failure;
use crate::meta::Meta;
use crate::sys;
use crate::text::Diff;
use crate::undo::{Entry, Kept, State, UndoStore, remove_tree, survey};

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// How many entries, the one named included.
    pub entries: u64,
    /// What to know.
    pub labels: Vec<Label>,
    /// What to name to have it undone.
    pub undo: Option<String>,
    /// What was in it, for a file whose content the caller may see.
    pub diff: Option<Diff>,
}

/// Removes what stands at `place`: a file, a link, or a whole tree.
///
/// It is renamed away first, so that it is there or not there for everybody;
/// then looked at under its new name, and put back if it is not what was judged
/// or `still` says that it is not what the caller expects.
pub(crate) fn remove(
    place: &Place,
    verb: Verb,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
    still: &dyn Fn() -> Result<(), Failure>,
) -> Result<Removed, Failure> {
    let base = place.base.as_ref().ok_or(Reason::NotFound)?;
    place.is_still()?;
    place.parent_is_still()?;
    let parent = place.parent.as_fd();
    // What is mounted below would vanish with it.
    let entries = survey(parent, &place.leaf, &mut |_| Ok(()))?;
    let before = State::of(&base.meta, None);
    live.still()?;
    live.stage(Staged {
        root: place.root.identity(),
        made: None,
    })?;
    let away = staged_name(live.request_id());
    match renameat_with(parent, &place.leaf, parent, &away, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // A directory of a lower layer, which cannot be renamed.
        Err(Errno::XDEV) => return remove_by_copy(place, verb, before, entries, live, undo),
        Err(errno) => return Err(failure(errno)),
    }
    let put_back = || {
        let as_it_was = renameat_with(parent, &away, parent, &place.leaf, RenameFlags::NOREPLACE);
        if as_it_was.is_err() {
            // Its name is taken again: it stays beside what took it.
            let beside = conflict_name(&place.leaf, live.request_id());
            let _kept = renameat_with(parent, &away, parent, &beside, RenameFlags::NOREPLACE);
        }
    };
    let is_base = sys::child_meta(parent, away.as_str()).is_ok_and(|seen| {
        let seen = Meta::of_statx(&seen);
        (seen.dev, seen.ino, seen.entity) == (base.meta.dev, base.meta.ino, base.meta.entity)
    });
    if !is_base || place.parent_is_still().is_err() {
        put_back();
        return Err(moved_on(Reason::VersionMismatch));
    }
    if let Err(failure) = still() {
        put_back();
        return Err(failure);
    }
    let mut labels = Vec::new();
    let undo = if let Some(undo) = undo {
        let entry = Entry {
            before: Some(before),
            ..entry_of(place, verb, live)
        };
        let kept = undo
            .record(&entry)
            .and_then(|()| undo.take(parent, &away, &entry.id));
        match kept {
            Ok(Kept::Copied) => labels.push(Label::CopiedForUndo),
            Ok(Kept::Moved | Kept::Nothing) => {}
            Err(failure) => {
                let _not_done = undo.forget(&entry.id);
                put_back();
                return Err(failure);
            }
        }
        Some(entry.id)
    } else {
        remove_tree(parent, &away)?;
        None
    };
    if retry_on_intr(|| rustix::fs::fsync(&place.parent)).is_err() {
        labels.push(Label::NotSynced);
    }
    Ok(Removed {
        entries,
        labels,
        undo,
        diff: None,
    })
}

/// Where nothing can be renamed: a copy is kept first, then what is there is
/// removed entry by entry. A crash on the way leaves part of it, and the copy.
fn remove_by_copy(
    place: &Place,
    verb: Verb,
    before: State,
    entries: u64,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
) -> Result<Removed, Failure> {
    let parent = place.parent.as_fd();
    let mut labels = Vec::new();
    let mut kept = None;
    if let Some(undo) = undo {
        let entry = Entry {
            before: Some(before),
            ..entry_of(place, verb, live)
        };
        undo.copy_in(parent, &place.leaf, &entry.id)?;
        if let Err(failure) = undo.record(&entry) {
            let _not_done = undo.forget(&entry.id);
            return Err(failure);
        }
        labels.push(Label::CopiedForUndo);
        kept = Some(entry.id);
    }
    remove_tree(parent, &place.leaf)?;
    Ok(Removed {
        entries,
        labels,
        undo: kept,
        diff: None,
    })
}
