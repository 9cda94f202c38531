//! How two directories of the operator's own lie to each other.

use std::path::Path;

use portcullis_proto::RelPath;

use crate::authority::real_path;

/// How one directory lies to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// It is that one.
    Same,
    /// The other lies in it.
    Contains,
    /// It lies in the other.
    LiesIn,
    /// Neither.
    Apart,
}

/// How `one` lies to `other`, by what both really are, so that no link leads
/// around it. For telling places apart before one is pinned; no boundary.
pub fn nesting(one: &Path, other: &Path) -> Nesting {
    let (one, other) = (real_path(one), real_path(other));
    if one == other {
        Nesting::Same
    } else if other.starts_with(&one) {
        Nesting::Contains
    } else if one.starts_with(&other) {
        Nesting::LiesIn
    } else {
        Nesting::Apart
    }
}

/// Where a place lies, seen from a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Below it, there.
    Inside(RelPath),
    /// It is that directory, or one around it.
    All,
    /// Below it, under a name that no path of ours can have.
    Unspeakable,
    /// Elsewhere.
    Apart,
}

/// Whether `place` is what it is called: no link is on its way, or none below
/// `dir`, by whose name it begins.
pub fn is_really(place: &Path, dir: &Path) -> bool {
    let real = real_path(place);
    let below = place.strip_prefix(dir);
    real == place || below.is_ok_and(|below| real == real_path(dir).join(below))
}

/// Where `place` lies, seen from `dir`: by its own name, and by what a link of
/// that name leads to. For saying rules about places before a directory is
/// pinned; no boundary.
pub fn places(place: &Path, dir: &Path) -> [Place; 2] {
    let dir = real_path(dir);
    let named = match (place.parent(), place.file_name()) {
        (Some(parent), Some(name)) => real_path(parent).join(name),
        (Some(_) | None, _) => real_path(place),
    };
    [named, real_path(place)].map(|place| place_by_name(&place, &dir))
}

/// Where `place` lies, seen from `dir`, by nothing but their names: of places that
/// were resolved before. No boundary.
pub fn place_by_name(place: &Path, dir: &Path) -> Place {
    match place.strip_prefix(dir) {
        Ok(below) if below.as_os_str().is_empty() => Place::All,
        Ok(below) => {
            let below = below.to_str().and_then(|below| RelPath::parse(below).ok());
            below.map_or(Place::Unspeakable, Place::Inside)
        }
        Err(_) if dir.starts_with(place) => Place::All,
        Err(_) => Place::Apart,
    }
}
