//! The tools agents call: one file each, every one of them the same flow.
//!
//! A tool parses its arguments, finds the root they belong to, asks a
//! [`ScopedFs`](portcullis_files::ScopedFs) and shapes the reply. What may be
//! done is decided below it, where it looks from is decided above it.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod append_file;
mod arguments;
mod ask;
mod catalogue;
mod changed;
mod copy_file;
mod create_archive;
mod create_directory;
mod delete;
mod edit_file;
mod extensions;
mod extract_archive;
mod get_file_tree;
mod glob;
mod grep;
mod here;
mod inspect_archive;
mod limits;
mod list_files;
mod machine;
mod move_path;
mod own;
mod quoted;
mod read_file;
mod relocate;
pub mod replies;
mod resource;
mod scan;
mod search_files;
mod shown;
mod stat;
mod workspace;
mod write_file;

pub use ask::MachineAsk;
pub use extensions::{Ended, Extensions};
pub use here::Here;
pub use limits::{LIMITS, Limit, Limits};
pub use machine::{
    Machine, ResourceChange, ResourceChanges, ResourceEntry, ResourcePage, ResourceText,
    ResourceWatch, Task, unknown_tool,
};
pub use own::OwnCall;
pub use resource::base64;
pub use scan::{Scanned, ScannedEntry};
pub use workspace::{
    FileAsk, ListAsk, MAX_LINES, MAX_MATCHES, MAX_WINDOW, MAX_WRITE, RawBytes, ReadAsk, Workspace,
    WriteAsk, whole_text,
};
