//! The small changes: a directory made, permission bits set.

use portcullis_gate::Live;
use portcullis_proto::{Failure, Reason, Verb};
use rustix::fs::{Mode, fchmod};
use rustix::io::retry_on_intr;

use super::parents::Parents;
use super::place::{Place, moved_on};
use super::publish::entry_of;
use super::receipt::{Cas, Label, Receipt};
use crate::errno::failure;
use crate::meta::Meta;
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
        return Ok(receipt(&place, &base.meta, false, Vec::new(), None));
    }
    let leaf = place.leaf.clone();
    place.missing.push(leaf);
    let mut parents = Parents::make(place, mode)?;
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
    let receipt = receipt(place, &now, created, labels, kept);
    parents.stay(true);
    Ok(receipt)
}

/// Sets the permission bits of what stands at `place`, by its handle.
pub(crate) fn set_mode(
    place: &Place,
    mode: u32,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
) -> Result<Receipt, Failure> {
    let base = place.base.as_ref().ok_or(Reason::NotFound)?;
    place.is_still()?;
    place.parent_is_still()?;
    live.still()?;
    if base.meta.links > 1 && base.meta.entity == portcullis_proto::Entity::File {
        // Its other names would change too, wherever they are.
        return Err(crate::errno::hinted(Reason::Hardlink));
    }
    if base.meta.mode == mode {
        return Ok(receipt(place, &base.meta, false, Vec::new(), None));
    }
    fchmod(&base.handle, Mode::from_raw_mode(mode)).map_err(failure)?;
    let Ok(now) = place.landed(base.meta.dev, base.meta.ino) else {
        let _as_it_was = fchmod(&base.handle, Mode::from_raw_mode(base.meta.mode));
        return Err(moved_on(Reason::VersionMismatch));
    };
    let mut labels = Vec::new();
    let mut kept = None;
    if let Some(undo) = undo {
        let entry = Entry {
            before: Some(State::of(&base.meta, None)),
            after: Some(State::of(&now, None)),
            ..entry_of(place, Verb::Chmod, live)
        };
        match undo.record(&entry) {
            Ok(()) => kept = Some(entry.id),
            Err(_) => labels.push(Label::NotKept),
        }
    }
    if retry_on_intr(|| rustix::fs::fsync(&base.handle)).is_err() {
        labels.push(Label::NotSynced);
    }
    Ok(receipt(place, &now, false, labels, kept))
}

fn receipt(
    place: &Place,
    now: &Meta,
    created: bool,
    labels: Vec<Label>,
    undo: Option<String>,
) -> Receipt {
    Receipt {
        path: place.path.clone(),
        dev: now.dev,
        ino: now.ino,
        version: now.version(),
        bytes: now.size,
        hash: None,
        created,
        containment: place.containment,
        cas: Cas::Exact,
        labels,
        undo,
    }
}
