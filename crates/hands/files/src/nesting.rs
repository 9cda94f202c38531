//! How two directories of the operator's own lie to each other.

use std::path::Path;

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
