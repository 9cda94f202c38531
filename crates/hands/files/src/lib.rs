//! Portcullis: the only crate that opens files.

mod ignores;
mod text;

pub use ignores::{
    EXCLUDED_DIRS, IgnoreKind, IgnoreLayer, IgnoreStack, MAX_IGNORE_BYTES, Matched, MatchedBy,
    is_excluded_dir,
};
pub use text::{
    Charset, Cursor, CutLine, EncodingChoice, Growth, JsonLimits, LineEnding, OnMalformed,
    PROBE_BYTES_MCP, PROBE_BYTES_REST, PageRequest, ReadAt, ReadFrom, Sniffed, Stamp, TextPage,
    looks_binary, read_bytes, read_json, read_page, sniff,
};
