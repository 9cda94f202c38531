//! What an operation did, as far as undoing it needs to know.

use portcullis_proto::{Digest, Entity, RelPath, Verb};
use serde::{Deserialize, Serialize};

use crate::meta::Meta;

/// What stood at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What it was.
    pub entity: Entity,
    /// Its device.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Its size; of a directory that was removed, all that is below it too.
    pub size: u64,
    /// SHA-256 of its content, for a file that was looked at whole; for the
    /// directory an archive was unpacked to, of what tells whether anything in it
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Digest>,
}

impl State {
    pub(crate) fn of(meta: &Meta, hash: Option<Digest>) -> Self {
        Self {
            entity: meta.entity,
            dev: meta.dev,
            ino: meta.ino,
            mode: meta.mode,
            size: meta.size,
            hash,
        }
    }

    /// With the bytes of all that is below it, where it is a directory.
    #[must_use]
    pub(crate) fn weighing(mut self, bytes: u64) -> Self {
        if self.entity == Entity::Directory {
            self.size = bytes;
        }
        self
    }

    /// Which very thing it was.
    pub(crate) fn thing(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

/// One operation that can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its name: the request's.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// In which root.
    pub root: String,
    /// Which very directory that was.
    pub root_identity: (u64, u64),
    /// What was done.
    pub verb: Verb,
    /// To what.
    pub path: RelPath,
    /// Where it went, for a move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<RelPath>,
    /// Who did it.
    pub subject: String,
    /// In which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What was displaced: what stood at the path (at `to`, for a move).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<State>,
    /// What stood there afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<State>,
    /// What came back to the path when something was moved away from it: by
    /// undoing a move that had overwritten that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<State>,
    /// Directories that were made on the way, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<RelPath>,
    /// Whether a crash interrupted it and recovery wrote this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

impl Entry {
    /// Whether it took something from where it stood: content, its place or its
    /// bits. What only adds can be found and removed without an entry.
    pub(crate) fn displaces(&self) -> bool {
        self.before.is_some() || self.back.is_some() || self.to.is_some()
    }

    /// How many bytes it displaced.
    pub(crate) fn displaced_bytes(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| before.size)
    }
}
