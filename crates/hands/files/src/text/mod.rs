//! Text in windows: any encoding, any size, flat memory.
//!
//! Everything here works on a handle somebody else has opened ([`ReadAt`]);
//! nothing opens a path. Three promises: no byte is decoded lossily unless the
//! caller asks; a page never splits a character; pages joined in cursor order
//! are the decoded file, byte order mark aside.

mod breaks;
mod charset;
mod cursor;
mod json;
mod lines;
mod page;
mod read_at;
mod request;
mod sniff;
mod start;

#[cfg(test)]
mod tests;

pub use breaks::LineEnding;
pub use charset::{Charset, OnMalformed};
pub use cursor::{Cursor, Growth, Stamp};
pub use json::{JsonLimits, read_json};
pub use page::read_page;
pub use read_at::ReadAt;
pub use request::{CutLine, EncodingChoice, PageRequest, ReadFrom, TextPage};
pub use sniff::{PROBE_BYTES_MCP, PROBE_BYTES_REST, Sniffed, looks_binary, sniff};
