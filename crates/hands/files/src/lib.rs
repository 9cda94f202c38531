//! Portcullis: the only crate that opens files.

mod text;

pub use text::{
    Charset, Cursor, CutLine, EncodingChoice, Growth, JsonLimits, LineEnding, OnMalformed,
    PROBE_BYTES_MCP, PROBE_BYTES_REST, PageRequest, ReadAt, ReadFrom, Sniffed, Stamp, TextPage,
    looks_binary, read_bytes, read_json, read_page, sniff,
};
