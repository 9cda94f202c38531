//! Reading a file as text: a page of lines, of a file of any size.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use portcullis_gate::{Live, Permit, Settled};
use portcullis_policy::Containment;
use portcullis_proto::{Failure, RelPath};

use super::Key;
use super::read::{Reading, whole};
use crate::meta::Meta;
use crate::text::{
    Charset, EncodingChoice, Growth, JsonLimits, OnMalformed, PROBE_BYTES_MCP, PageRequest, ReadAt,
    ReadFrom, Stamp, TextPage, read_json as parse_json, read_page,
};

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFrom {
    /// At this line, counted from 1.
    Line(u64),
    /// So many lines from the end.
    Tail(u64),
    /// Where an earlier page ended.
    Cursor(String),
    /// At this byte, or at the start of the character it is in.
    Byte(u64),
}

/// Which page, and how large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRequest {
    /// Where it begins.
    pub from: TextFrom,
    /// How many lines at most.
    pub max_lines: u64,
    /// How many bytes of text at most.
    pub max_bytes: usize,
    /// How many bytes of one line before it is cut.
    pub max_line_bytes: Option<usize>,
    /// The encoding, where the caller knows it.
    pub encoding: Option<String>,
    /// Whether to say which ignore file names the file.
    pub classify: bool,
}

/// A page, and what it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReply {
    /// The page.
    pub page: TextPage,
    /// Where the file really stands, where links are followed.
    pub path: RelPath,
    /// The file.
    pub meta: Meta,
    /// The ignore file that names it, if one does; it is read all the same.
    pub matched_ignore: Option<String>,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// How many bytes a scan reads between two looks at whether it may go on.
const LOOK_EVERY: u64 = 1024 * 1024;

/// A handle that stops being read when the deed may not go on.
struct Watched<'a> {
    handle: BorrowedFd<'a>,
    live: &'a Live<'a>,
    until_look: std::cell::Cell<u64>,
}

impl ReadAt for Watched<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.until_look.get();
        if left == 0 {
            self.live.still().map_err(io::Error::other)?;
            self.until_look.set(LOOK_EVERY);
        } else {
            self.until_look
                .set(left.saturating_sub(buffer.len() as u64));
        }
        self.handle.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.handle.len()
    }
}

/// Reads a page.
pub(crate) fn read_text(
    permit: Permit<Reading>,
    request: &TextRequest,
    matched_ignore: Option<String>,
) -> Result<TextReply, Failure> {
    permit.spend(Key::turn(), |mut reading, _, live| {
        reading.settle_version(live)?;
        let from = match &request.from {
            TextFrom::Line(line) => ReadFrom::Line(*line),
            TextFrom::Tail(lines) => ReadFrom::Tail(*lines),
            TextFrom::Cursor(cursor) => ReadFrom::Cursor(cursor.parse()?),
            TextFrom::Byte(offset) => ReadFrom::Byte(*offset),
        };
        let encoding = match &request.encoding {
            None => EncodingChoice::Detect,
            Some(label) => EncodingChoice::Named(Charset::for_label(label)?),
        };
        let file = Watched {
            handle: reading.handle.as_fd(),
            live,
            until_look: std::cell::Cell::new(LOOK_EVERY),
        };
        let page = read_page(
            &file,
            &PageRequest {
                from,
                max_lines: request.max_lines,
                max_bytes: request.max_bytes,
                max_line_bytes: request.max_line_bytes,
                encoding,
                on_malformed: OnMalformed::Refuse,
                probe_bytes: PROBE_BYTES_MCP,
                stamp: stamp(&reading.meta),
                growth: Growth::Allow,
            },
        )?;
        let settled = Settled::bytes(page.byte_range.end.saturating_sub(page.byte_range.start));
        let reply = TextReply {
            page,
            path: reading.path.clone(),
            meta: reading.meta,
            matched_ignore,
            containment: reading.containment,
        };
        Ok((reply, settled))
    })
}

pub(super) fn stamp(meta: &Meta) -> Stamp {
    Stamp {
        dev: meta.dev,
        ino: meta.ino,
        size: meta.size,
        mtime_ns: i64::try_from(meta.mtime_ns).unwrap_or_default(),
    }
}

/// Reads a whole file as JSON. What is no JSON is a failure in the audit too.
pub(crate) fn read_json(permit: Permit<Reading>) -> Result<serde_json::Value, Failure> {
    permit.spend(Key::turn(), |reading, terms, _| {
        let bytes = whole(&reading, terms)?;
        let value = parse_json(&bytes, JsonLimits::default())?;
        Ok((value, Settled::bytes(bytes.len() as u64)))
    })
}
