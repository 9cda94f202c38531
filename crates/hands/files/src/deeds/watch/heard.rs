//! What was heard, and what has to be looked at because of it.

use std::collections::BTreeSet;

use portcullis_proto::RelPath;

use super::ground::InTree;
use crate::sys::{Notice, Told};

/// Of how many directories is remembered that they have to be looked at; of
/// more, everything is.
const MAX_STALE: usize = 1024;

/// What has to be looked at again before anything more is told.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// Everything, from scratch: notices were lost, and those left in the queue
    /// may be of directories that are out of the root by now.
    pub(super) lost: bool,
    /// Everything.
    pub(super) all: bool,
    /// These directories: they came, or other names in them are ignored now.
    some: BTreeSet<InTree>,
}

impl Stale {
    pub(super) fn is_empty(&self) -> bool {
        !self.lost && !self.all && self.some.is_empty()
    }

    pub(super) fn add(&mut self, dir: RelPath) {
        if self.some.len() < MAX_STALE {
            self.some.insert(InTree(dir));
        } else {
            self.all = true;
        }
    }

    /// Those that are below no other of them, the top for all.
    pub(super) fn outermost(&self, top: &RelPath) -> Vec<RelPath> {
        if self.all {
            return vec![top.clone()];
        }
        let mut kept: Vec<RelPath> = Vec::new();
        for InTree(dir) in &self.some {
            if !kept.last().is_some_and(|above| dir.is_under(above)) {
                kept.push(dir.clone());
            }
        }
        kept
    }
}

/// A notice, kept until the queue is read.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) number: i32,
    pub(super) told: Told,
    pub(super) name: Vec<u8>,
    pub(super) is_directory: bool,
}

impl Taken {
    pub(super) const LOST: Self = Self {
        number: -1,
        told: Told::Overflow,
        name: Vec::new(),
        is_directory: false,
    };

    pub(super) fn of(notice: &Notice<'_>) -> Self {
        Self {
            number: notice.number,
            told: notice.told,
            name: notice.name.into(),
            is_directory: notice.is_directory,
        }
    }
}
