//! The file hand: the only crate that opens a file an outsider can name.
//!
//! A [`Root`] is a pinned directory handle; every verb resolves under it with
//! one strict system call, looks at the handle it got before it uses it, and
//! acts only with a permit. [`ScopedFs`] is the whole of it for callers:
//! attempt, enter, act, in that order, in one place.
#![deny(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the file-system backend the bans point to"
)]

pub mod archive;
mod authority;
mod changes;
mod deeds;
mod dirs;
mod errno;
mod extension;
mod guards;
mod hashes;
mod hiding;
pub mod ignores;
mod importing;
mod kept;
mod ledger;
mod meta;
mod moving;
mod nesting;
mod operator;
mod options;
#[cfg(portcullis_oracle)]
mod oracle;
mod own_text;
mod own_write;
mod pinning;
mod private_dir;
mod recovering;
mod root;
mod scoped;
mod scratch_dir;
mod seen;
mod shared_secret;
mod showing;
mod survey;
mod sys;
mod temp;
pub mod text;
mod undo;
mod undoing;
mod writing;

pub use authority::{Authority, Declared, Located};
pub use deeds::{
    ByteWindow, BytesPage, Case, Change, ChangeKind, Changes, Changing, Entry, Found, FoundIn,
    FoundLine, FoundLines, GlobRequest, Globbing, Hidden, Key, ListRequest, Listed, Listing,
    Looking, Order, Packing, Reading, RedactedReply, SearchRequest, Searching, Snapshot,
    SnapshotReply, SnapshotRequest, StatReply, TextFrom, TextReply, TextRequest, Tree, TreeNode,
    TreeRequest, Treeing, Unpacking, Want, Watch, WatchRequest, Watching,
};
pub use extension::{ExtensionFs, remove_extension_storage};
pub use ledger::{
    AuditLog, BadLine, Fault, FileLedger, Filter, Follow, LedgerOptions, LineKind, Piece, Problem,
    Record, RecordCounts, RecordIdentity, RecordResource, RecordResources, RecordRoot,
    RecordSubject, Records, Recovery, UnsignedTail, Verification, recover_torn,
};
pub use meta::Meta;
pub use nesting::{Nesting, Place, is_really, nesting, place_by_name, places};
pub use operator::{OperatorFile, OperatorRole};
pub use options::{Changed, Expect, MoveOptions, NewModes, TextShape, WriteMode, WriteOptions};
pub use own_text::{is_own_there, read_own_text};
pub use own_write::{OwnLog, OwnPlace, write_own_text};
pub use private_dir::PrivateDir;
pub use recovering::{Interrupted, Leftover};
pub use root::{Resolver, Root};
pub use scoped::ScopedFs;
pub use scratch_dir::ScratchDir;
pub use shared_secret::shared_secret;
pub use survey::{KernelSurvey, Survey, shares_mount, survey, survey_kernel, survey_own};
pub use sys::probe::{Probe, probe};
pub use temp::{MakingTemp, TempWorkspace};
pub use undo::{Entry as UndoEntry, State as UndoState, UndoHeld, Where as UndoPlace};
pub use undoing::Undone;
pub use writing::{Cas, Label, Receipt, Removed, Version, digest as sha256};
