//! The file hand: the only crate that opens a file an outsider can name.
//!
//! A [`Root`] is a pinned directory handle; every verb resolves under it with
//! one strict system call, looks at the handle it got before it uses it, and
//! acts only with a permit. [`ScopedFs`] is the whole of it for callers:
//! attempt, enter, act, in that order, in one place.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the file-system backend the bans point to"
)]

mod authority;
mod deeds;
mod dirs;
mod errno;
mod hiding;
mod ignores;
mod meta;
#[cfg(portcullis_oracle)]
mod oracle;
mod root;
mod scoped;
mod sys;
mod text;

pub use authority::{Authority, Declared, Located};
pub use deeds::{
    ByteWindow, BytesPage, Entry, Found, GlobRequest, Key, ListRequest, Listed, Listing, Looking,
    Order, Reading, Searching, StatReply, TextFrom, TextReply, TextRequest, Tree, TreeNode,
    TreeRequest, Treeing, Want,
};
pub use ignores::{
    EXCLUDED_DIRS, IgnoreKind, IgnoreLayer, IgnoreStack, MAX_IGNORE_BYTES, Matched, MatchedBy,
    is_excluded_dir,
};
pub use meta::Meta;
pub use root::{Resolver, Root};
pub use scoped::ScopedFs;
pub use sys::probe::{Probe, probe};
pub use text::{
    Charset, Cursor, CutLine, EncodingChoice, Growth, JsonLimits, LineEnding, OnMalformed,
    PROBE_BYTES_MCP, PROBE_BYTES_REST, PageRequest, ReadAt, ReadFrom, Sniffed, Stamp, TextPage,
    looks_binary, read_bytes, read_json, read_page, sniff,
};
