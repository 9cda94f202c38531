//! Removing: first out of sight in one step, then kept or gone.

use std::os::fd::AsFd;
use std::time::Duration;

use portcullis_gate::Live;
use portcullis_proto::{Failure, Reason, Staged, Verb};
use rustix::io::{Errno, retry_on_intr};

use super::names::{conflict_name, staged_name};
use super::place::{Base, Place, moved_on};
use super::publish::entry_of;
use super::receipt::Label;
use crate::errno::failure;
use crate::meta::Meta;
use crate::sys;
use crate::text::Diff;
use crate::undo::{
    Entry, Kept, State, Surveyed, UndoStore, Where, remove_tree, same_mount, survey,
};

/// How often, a millisecond apart, something that is in use is put back.
const PATIENCE: u32 = 200;

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
    /// Where it is kept, where it can be undone.
    pub kept_in: Option<Where>,
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
    same_mount(parent, &place.leaf)?;
    live.still()?;
    live.stage(Staged {
        root: place.root.identity(),
        made: None,
    })?;
    let away = staged_name(live.request_id());
    match sys::rename_new(parent, &place.leaf, parent, &away) {
        Ok(()) => {}
        // A directory of a lower layer, which cannot be renamed.
        Err(Errno::XDEV) => return remove_by_copy(place, verb, base, live, undo),
        Err(Errno::NOENT) => return Err(moved_on(Reason::VersionMismatch)),
        Err(errno) => return Err(failure(errno)),
    }
    let put_back = |why: Failure| put_back(place, &away, live, why);
    // Looked at where nobody else looks for it. What is mounted below would
    // vanish with it.
    let looked = match sys::child_meta(parent, away.as_str()) {
        Ok(seen) => {
            let seen = Meta::of_statx(&seen);
            if (seen.dev, seen.ino, seen.entity) == (base.meta.dev, base.meta.ino, base.meta.entity)
            {
                place.parent_is_still()
            } else {
                Err(moved_on(Reason::VersionMismatch))
            }
        }
        Err(errno) => Err(failure(errno)),
    };
    let looked = looked.and_then(|()| still());
    let looked = looked.and_then(|()| survey(parent, &away, &mut |_| Ok(())));
    let Surveyed { entries, bytes } = looked.map_err(put_back)?;
    let mut labels = Vec::new();
    let kept = if let Some(undo) = undo {
        let entry = Entry {
            before: Some(State::of(&base.meta, None).weighing(bytes)),
            ..entry_of(place, verb, live)
        };
        let kept = undo
            .record(&entry)
            .and_then(|()| undo.take(parent, &away, &entry.id));
        match kept {
            Ok(Kept::Copied) => labels.push(Label::CopiedForUndo),
            Ok(Kept::CopiedInPart) => {
                let why = Failure::new(
                    Reason::VersionMismatch,
                    "Part of it was changed while it was removed, or would not go, and is still there; the rest is gone and can be undone.",
                );
                return Err(put_back(why.hint("Look at what is there now.")));
            }
            Ok(Kept::Moved | Kept::Nothing) => {}
            Err(failure) => {
                let _not_done = undo.forget(&entry.id);
                return Err(put_back(failure));
            }
        }
        Some(entry.id)
    } else {
        remove_tree(parent, &away).map_err(put_back)?;
        None
    };
    if retry_on_intr(|| rustix::fs::fsync(&place.parent)).is_err() {
        labels.push(Label::NotSynced);
    }
    Ok(Removed {
        entries,
        labels,
        kept_in: undo.map(UndoStore::place),
        undo: kept,
        diff: None,
    })
}

/// Puts what was renamed away back, and says where it is if its name is taken.
fn put_back(place: &Place, away: &str, live: &Live<'_>, why: Failure) -> Failure {
    let parent = place.parent.as_fd();
    // What somebody mounts over it meanwhile keeps it where it is: they are given
    // a moment to take that away again.
    let mut back = sys::rename_new(parent, away, parent, &place.leaf);
    for _ in 0..PATIENCE {
        if back != Err(Errno::BUSY) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        back = sys::rename_new(parent, away, parent, &place.leaf);
    }
    if back.is_ok() {
        return why;
    }
    // Its name is taken again: it stays beside what took it.
    let beside = conflict_name(&place.leaf, live.request_id());
    match sys::rename_new(parent, away, parent, &beside) {
        Ok(()) => why.hint(format!(
            "Its name was taken meanwhile: it is kept beside that as {beside:?}."
        )),
        Err(_) => why.hint(format!(
            "It could not be put back: it stands beside its place as {away:?}."
        )),
    }
}

/// Where nothing can be renamed: a copy is kept first, then what is there is
/// removed entry by entry. A crash on the way leaves part of it, and the copy.
fn remove_by_copy(
    place: &Place,
    verb: Verb,
    base: &Base,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
) -> Result<Removed, Failure> {
    let parent = place.parent.as_fd();
    let Surveyed { entries, bytes } = survey(parent, &place.leaf, &mut |_| Ok(()))?;
    let mut labels = Vec::new();
    let mut kept = None;
    if let Some(undo) = undo {
        let entry = Entry {
            before: Some(State::of(&base.meta, None).weighing(bytes)),
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
        kept_in: undo.map(UndoStore::place),
        undo: kept,
        diff: None,
    })
}
