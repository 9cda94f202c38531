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

mod arguments;
mod catalogue;
mod get_file_tree;
mod glob;
mod here;
mod limits;
mod list_files;
mod machine;
mod read_file;
mod resource;
mod shown;
mod stat;

pub use here::Here;
pub use limits::{LIMITS, Limit, Limits};
pub use machine::{Machine, ResourceEntry, ResourcePage, ResourceText, Task};
pub use resource::base64;
