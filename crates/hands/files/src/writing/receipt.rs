//! What a change came to, as its caller is told.

use portcullis_policy::Containment;
use portcullis_proto::{Digest, RelPath};
use serde::{Deserialize, Serialize};

use crate::undo::Where;

/// How surely nobody else's save was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cas {
    /// What was displaced was looked at, and it was what was expected.
    Exact,
    /// This file system cannot swap: only writers that lock are kept apart.
    Cooperative,
}

/// Something about a change that its caller should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The file had another name, which still has the old content.
    LinkBroken,
    /// The file could not be swapped and was written in place.
    InPlace,
    /// The owner or group could not be kept.
    OwnerNotPreserved,
    /// Some extended attributes or access lists could not be kept.
    XattrsNotPreserved,
    /// The set-user or set-group bit was dropped.
    SetidDropped,
    /// What was there is not kept for undo.
    NotKept,
    /// What was there was copied for undo, since it could not be moved there.
    CopiedForUndo,
    /// A program has the old file open for writing: what it saves there goes to
    /// the kept copy, and undo says so.
    OpenWriter,
    /// It was not synced to the disk.
    NotSynced,
    /// It was made on a change of somebody else's that its caller has not seen.
    Rebased,
}

/// The version of a file: what a read returns and a write can expect.
pub type Version = String;

/// What a change came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where it really stands now.
    pub path: RelPath,
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// The version to expect next.
    pub version: Version,
    /// How large it is now, where the caller may know.
    pub bytes: Option<u64>,
    /// SHA-256 of its content, where it is a file and was written.
    pub hash: Option<Digest>,
    /// Whether it was created.
    pub created: bool,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
    /// How surely nobody else's save was overwritten.
    pub cas: Cas,
    /// What else to know.
    pub labels: Vec<Label>,
    /// What to name to have it undone.
    pub undo: Option<String>,
    /// Where what it displaced is kept, where it can be undone.
    pub kept_in: Option<Where>,
}

impl Receipt {
    /// Of a change that was made on somebody else's: its version is the one the
    /// caller last saw, so that a later change that names it is refused until
    /// the file is read. `tells` whether the caller may know at all.
    pub(crate) fn rebased_over(mut self, seen: Option<Version>, tells: bool) -> Self {
        self.hash = None;
        self.version = seen.unwrap_or(self.version);
        if tells {
            self.labels.push(Label::Rebased);
        }
        self
    }

    /// As a caller gets it who may read the file, or may not: by a hash or a
    /// size of what it may not read, that could be guessed.
    pub(crate) fn shown_to(mut self, reader: bool) -> Self {
        if !reader {
            self.hash = None;
            self.bytes = None;
            self.version = crate::meta::without_content(&self.version);
        }
        self
    }
}
