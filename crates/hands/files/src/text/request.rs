//! What a page is asked for with, and what comes back.

use std::ops::Range;

use super::breaks::LineEnding;
use super::charset::{Charset, OnMalformed};
use super::cursor::{Cursor, Growth, Stamp};

/// Where a page starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At this line, counted from 1; 0 counts as 1.
    Line(u64),
    /// At the start of the last so many lines.
    Tail(u64),
    /// Where the last page ended.
    Cursor(Cursor),
    /// At this byte, or at the start of the character it is in.
    Byte(u64),
}

/// Which encoding a page is decoded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingChoice {
    /// What the file's first bytes show.
    Detect,
    /// What the caller says; UTF-16 without a byte order mark only this way.
    Named(Charset),
}

/// One page, asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Where it starts.
    pub from: ReadFrom,
    /// The most lines it holds; 0 counts as 1.
    pub max_lines: u64,
    /// The most bytes its text has, as UTF-8; under 16 counts as 16, so that
    /// every page gets somewhere.
    pub max_bytes: usize,
    /// The most bytes of the file that are shown of one line; the rest of the
    /// line is passed over and counted. `None`: a line goes on over pages.
    pub max_line_bytes: Option<usize>,
    /// The encoding.
    pub encoding: EncodingChoice,
    /// What becomes of bytes that are no character.
    pub on_malformed: OnMalformed,
    /// How many first bytes decide whether the file is binary; 0: never is.
    pub probe_bytes: usize,
    /// Which version of the file is open, for cursors.
    pub stamp: Stamp,
    /// Whether a cursor survives growth.
    pub growth: Growth,
}

/// A line of which only the beginning is in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutLine {
    /// Which line of the page, counted from 0.
    pub index: u64,
    /// The first byte left out; [`ReadFrom::Byte`] reads on from there.
    pub rest_at: u64,
    /// How many bytes of the file were left out.
    pub omitted: u64,
}

/// Some lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPage {
    /// The lines, each with its terminator as it stands in the file.
    pub text: String,
    /// The number of the first line, when it is known without reading all that
    /// is before it.
    pub start_line: Option<u64>,
    /// How many lines, whole or begun, the text has.
    pub lines: u64,
    /// How many lines the file has, when this page learnt it.
    pub total_lines: Option<u64>,
    /// Whether the text starts inside a line.
    pub starts_mid_line: bool,
    /// Whether the text ends inside a line that goes on.
    pub ends_mid_line: bool,
    /// Lines of which the end was left out.
    pub cut_lines: Vec<CutLine>,
    /// Where the next page starts; `None` when the file ends here.
    pub next_cursor: Option<Cursor>,
    /// Whether the file goes on after this page.
    pub has_more: bool,
    /// The bytes of the file the page covers, cut ends of lines included, byte
    /// order mark excluded.
    pub byte_range: Range<u64>,
    /// The size of the file.
    pub total_bytes: u64,
    /// How the lines of this page end.
    pub line_ending: LineEnding,
    /// How the lines in the first 8 KiB of the file end: the same on all pages.
    pub head_line_ending: LineEnding,
    /// Whether the last line of the file is terminated.
    pub final_newline: bool,
    /// The encoding decoded with.
    pub encoding: Charset,
    /// Whether the file starts with a byte order mark, which is not in `text`.
    pub bom: bool,
    /// Whether the encoding was guessed from statistics.
    pub detected: bool,
    /// How many malformed sequences became U+FFFD.
    pub replaced: u64,
}

impl TextPage {
    /// How many lines of the page were cut.
    pub fn truncated_lines(&self) -> u64 {
        self.cut_lines.len() as u64
    }
}
