//! What lists leave out: the built-in exclusions, and what ignore files name.

use std::os::fd::BorrowedFd;

use portcullis_policy::Symlinks;
use portcullis_proto::{Entity, RelPath};

use crate::root::Root;

/// What is left out of a directory and, extended step by step, of what is below it.
#[derive(Clone, Debug)]
pub(crate) struct Hiding(bool);

impl Hiding {
    pub(crate) fn nothing() -> Self {
        Self(false)
    }
    pub(crate) fn at(_root: &Root, _path: &RelPath, _symlinks: Symlinks) -> Self {
        Self(true)
    }
    pub(crate) fn below(&self, _dir: BorrowedFd<'_>, _path: &RelPath) -> Self {
        self.clone()
    }
    pub(crate) fn hides(&self, _path: &RelPath, _entity: Entity) -> bool {
        false
    }

    pub(crate) fn named_by(&self, _path: &RelPath) -> Option<String> {
        None
    }
}
