//! Text in windows: any encoding, any size, flat memory.
//!
//! Everything here works on a handle somebody else has opened ([`ReadAt`]);
//! nothing opens a path. Three promises: no byte is decoded lossily unless the
//! caller asks; a page never splits a character; pages joined in cursor order
//! are the decoded file, byte order mark aside.

mod breaks;
mod charset;
mod cursor;
mod diff;
mod edit;
mod encode;
mod find;
mod hunks;
mod json;
mod lines;
mod nearest;
mod page;
mod read_at;
mod redact;
mod request;
mod shrink;
mod sniff;
mod start;

#[cfg(test)]
mod tests;

pub use breaks::LineEnding;
pub use charset::{Charset, OnMalformed};
pub use cursor::{Cursor, Growth, Stamp};
pub use diff::{Diff, renamed, unified};
pub use edit::{Edit, MAX_EDITS, MAX_RESULT_BYTES, MAX_SPLICES, Planned, Splice, apply, plan};
pub(crate) use encode::encode_in;
pub use encode::{Bom, WriteEncoding, WriteEnding, WriteText, encode};
pub use json::{JsonLimits, read_json};
pub use page::read_page;
pub use read_at::ReadAt;
pub use redact::{Redacted, redact, redact_bytes};
pub use request::{CutLine, EncodingChoice, PageRequest, ReadFrom, TextPage};
pub use shrink::{LARGE_FILE_BYTES, SHRINK_PERCENT, shrinks};
pub use sniff::{PROBE_BYTES_MCP, PROBE_BYTES_REST, Sniffed, looks_binary, sniff};
