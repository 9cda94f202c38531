//! The small changes: a directory made, permission bits set.

use std::os::fd::AsFd as _;

use portcullis_gate::Live;
use portcullis_proto::{Entity, Failure, Reason, Staged, Verb};
use rustix::fs::{Mode, fchmod};
use rustix::io::retry_on_intr;

use super::parents::Parents;
use super::place::Place;
use super::publish::entry_of;
use super::receipt::{Cas, Label, Receipt};
use crate::errno::{failure, hinted};
use crate::meta::Meta;
use crate::sys;
use crate::undo::{Entry, State, UndoStore};

/// Makes the directory at `place`, and those above it.
pub(crate) fn make_directory(
    mut place: Place,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
    mode: u32,
) -> Result<Receipt, Failure> {
    place.is_still()?;
    place.parent_is_still()?;
    if let Some(base) = &place.base {
        return Ok(receipt(&place, &base.meta, false, Vec::new(), undo, None));
    }
    let leaf = place.leaf.clone();
    place.missing.push(leaf);
    let mut parents = Parents::make(place, mode, live)?;
    // Stepped into: the place's parent is now the directory itself.
    let place = &parents.place;
    let now = place.landed(place.parent_meta.dev, place.parent_meta.ino)?;
    let created = parents.made.last() == Some(&place.path);
    let mut labels = Vec::new();
    let mut kept = None;
    if let Some(undo) = undo.filter(|_| !parents.made.is_empty()) {
        let entry = Entry {
            after: Some(State::of(&now, None)),
            made: parents.made.clone(),
            ..entry_of(place, Verb::Mkdir, live)
        };
        match undo.record(&entry) {
            Ok(()) => kept = Some(entry.id),
            Err(_) => labels.push(Label::NotKept),
        }
    }
    let receipt = receipt(place, &now, created, labels, undo, kept);
    parents.stay(true);
    Ok(receipt)
}

/// Sets the permission bits of what stands at `place`, by its handle.
pub(crate) fn set_mode(
    place: &Place,
    mode: u32,
    verb: Verb,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
) -> Result<Receipt, Failure> {
    let base = place.base.as_ref().ok_or(Reason::NotFound)?;
    place.is_still()?;
    place.parent_is_still()?;
    live.still()?;
    let now = Meta::of_stat(&rustix::fs::fstat(&base.handle).map_err(failure)?);
    // A count of one is that of the name it was opened by only while that name
    // stands: a foreign file linked in and unlinked again has one name, too.
    if now.entity == Entity::File
        && !(now.links == 1
            && sys::still_named(base.handle.as_fd(), &place.path).map_err(failure)?)
    {
        // Its other names would change too, wherever they are.
        return Err(hinted(Reason::Hardlink));
    }
    if now.mode == mode {
        return Ok(receipt(place, &now, false, Vec::new(), undo, None));
    }
    live.stage(Staged {
        root: place.root.identity(),
        made: None,
    })?;
    let mut labels = Vec::new();
    let mut kept = None;
    // Written down before it is done: the old bits are nowhere else.
    if let Some(undo) = undo {
        let entry = Entry {
            before: Some(State::of(&now, None)),
            after: Some(State::of(&Meta { mode, ..now }, None)),
            ..entry_of(place, verb, live)
        };
        match undo.record(&entry) {
            Ok(()) => kept = Some(entry.id),
            Err(_) => labels.push(Label::NotKept),
        }
    }
    let not_done = |why: Failure| {
        if let (Some(undo), Some(id)) = (undo, &kept) {
            let _not_done = undo.forget(id);
        }
        why
    };
    fchmod(&base.handle, Mode::from_raw_mode(mode)).map_err(|errno| not_done(failure(errno)))?;
    let now = place.landed(now.dev, now.ino).map_err(|why| {
        let _as_it_was = fchmod(&base.handle, Mode::from_raw_mode(now.mode));
        not_done(why)
    })?;
    if retry_on_intr(|| rustix::fs::fsync(&base.handle)).is_err() {
        labels.push(Label::NotSynced);
    }
    Ok(receipt(place, &now, false, labels, undo, kept))
}

fn receipt(
    place: &Place,
    now: &Meta,
    created: bool,
    labels: Vec<Label>,
    store: Option<&UndoStore>,
    undo: Option<String>,
) -> Receipt {
    Receipt {
        path: place.path.clone(),
        dev: now.dev,
        ino: now.ino,
        version: now.version(),
        bytes: Some(now.size),
        hash: None,
        created,
        containment: place.containment,
        cas: Cas::Exact,
        labels,
        kept_in: store.filter(|_| undo.is_some()).map(UndoStore::place),
        undo,
    }
}
