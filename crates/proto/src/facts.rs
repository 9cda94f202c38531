//! What a deed looks like from outside: all that policy, hooks, prompts and
//! the audit ever see of it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Access, Digest, Group, RelPath, RootId, RootKind};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Read a file.
    Read,
    /// Read a file with its values hidden.
    ReadRedacted,
    /// Look at one entry's metadata.
    Stat,
    /// List a directory.
    List,
    /// List a directory and what is below it.
    Tree,
    /// Find names below a directory.
    Glob,
    /// Find lines in the files below a directory, or in one file.
    Search,
    /// Look into an archive.
    Inspect,
    /// Be told what changes below a directory, or of one file.
    Watch,
    /// Create a file, or replace its content.
    Write,
    /// Change parts of a file.
    Edit,
    /// Add to the end of a file.
    Append,
    /// Create a directory.
    Mkdir,
    /// Give a file or directory another name.
    Move,
    /// Copy a file.
    Copy,
    /// Remove a file or a directory.
    Remove,
    /// Change who may do what with a file or directory.
    Chmod,
    /// Unpack an archive.
    Extract,
    /// Pack a directory into an archive.
    Archive,
    /// Put back what an earlier deed changed.
    Undo,
    /// Change or ask for something of Portcullis itself: a sign-in, an answer, an
    /// extension.
    Administer,
    /// Pass a call on to a linked machine, whose owner's rules decide there.
    Relay,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 22] = [
        Self::Read,
        Self::ReadRedacted,
        Self::Stat,
        Self::List,
        Self::Tree,
        Self::Glob,
        Self::Search,
        Self::Inspect,
        Self::Watch,
        Self::Write,
        Self::Edit,
        Self::Append,
        Self::Mkdir,
        Self::Move,
        Self::Copy,
        Self::Remove,
        Self::Chmod,
        Self::Extract,
        Self::Archive,
        Self::Undo,
        Self::Administer,
        Self::Relay,
    ];

    /// The verb as the audit spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadRedacted => "read_redacted",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Glob => "glob",
            Self::Search => "search",
            Self::Inspect => "inspect",
            Self::Watch => "watch",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Append => "append",
            Self::Mkdir => "mkdir",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Remove => "remove",
            Self::Chmod => "chmod",
            Self::Extract => "extract",
            Self::Archive => "archive",
            Self::Undo => "undo",
            Self::Administer => "administer",
            Self::Relay => "relay",
        }
    }

    /// The group a person switches it with.
    pub const fn group(self) -> Group {
        match self {
            Self::Read
            | Self::ReadRedacted
            | Self::Stat
            | Self::List
            | Self::Tree
            | Self::Glob
            | Self::Search
            | Self::Inspect
            | Self::Watch
            | Self::Administer
            | Self::Relay => Group::FilesystemRead,
            Self::Write
            | Self::Edit
            | Self::Append
            | Self::Mkdir
            | Self::Move
            | Self::Copy
            | Self::Remove
            | Self::Chmod
            | Self::Extract
            | Self::Archive
            | Self::Undo => Group::FilesystemWrite,
        }
    }

    /// The access it needs on what it names first.
    pub const fn access(self) -> Access {
        match self {
            Self::Read | Self::ReadRedacted | Self::Search | Self::Inspect | Self::Copy => {
                Access::Read
            }
            Self::Stat | Self::Administer | Self::Relay => Access::Metadata,
            Self::List | Self::Tree | Self::Glob => Access::List,
            Self::Write
            | Self::Edit
            | Self::Append
            | Self::Mkdir
            | Self::Chmod
            | Self::Extract
            | Self::Undo => Access::Write,
            Self::Archive => Access::Archive,
            Self::Watch => Access::Watch,
            Self::Remove => Access::Delete,
            Self::Move => Access::Move,
        }
    }

    /// Whether it may show what a secret holds, and so is asked about there.
    pub const fn reveals(self) -> bool {
        !matches!(self, Self::ReadRedacted)
    }

    /// Whether it writes a line before it acts: what it changes, or tells as it
    /// goes along, is on record whatever becomes of the process.
    pub const fn has_opening_line(self) -> bool {
        self.mutates() || matches!(self, Self::Watch)
    }

    /// Whether it changes anything.
    pub const fn mutates(self) -> bool {
        match self.group() {
            Group::FilesystemWrite => true,
            Group::FilesystemRead | Group::Shell | Group::Computer | Group::Browser => false,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of thing stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entity {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// The top of another mounted file system.
    Mount,
    /// A device, pipe or socket.
    Special,
}

impl Entity {
    /// The entity as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Mount => "mount",
            Self::Special => "special",
        }
    }
}

/// Which very thing stands at a path, as the kernel told us through a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device it is on.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// What it is.
    pub entity: Entity,
    /// Whose it is.
    pub owner: u32,
    /// How many names it has.
    pub links: u32,
}

/// One thing a deed touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// In which root.
    pub root: RootId,
    /// Of what kind that root is.
    pub kind: RootKind,
    /// Where in it.
    pub path: RelPath,
    /// What is done to it.
    pub access: Access,
    /// What stands there; `None` before resolution, or where nothing does.
    pub identity: Option<Identity>,
    /// The protected directories that its root begins in (`.git`, `.aws`): names
    /// that decide its class and are not in its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Arc<RelPath>>,
}

impl Resource {
    /// `path`, in the same root, as the tables of protected names see it. For names
    /// alone: it leads nowhere in the root.
    pub fn classed<'a>(&self, path: &'a RelPath) -> Cow<'a, RelPath> {
        path.below_names(self.above.as_deref())
    }
}

/// What a deed looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What is to be done.
    pub verb: Verb,
    /// To what: at least one resource, the one named first leads.
    pub resources: Vec<Resource>,
    /// Digest of the bytes a person would be shown, for deeds that have some.
    pub shown: Option<Digest>,
    /// Whether it takes more away than its name tells (most of a large file, or
    /// what is protected below a directory), which is asked about even where
    /// writing is allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shrinks: bool,
    /// What is protected below a directory that is moved or removed, the first
    /// of it, by the path that protects it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<RelPath>,
    /// How many more there are below it than `below` names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_below: u64,
    /// Whether what it displaces does not fit into the undo store any more, which
    /// is asked about even where writing is allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unkept: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Facts {
    /// The group a person switches this deed with.
    pub fn group(&self) -> Group {
        self.verb.group()
    }
}
