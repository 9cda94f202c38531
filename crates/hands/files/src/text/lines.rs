//! Raw lines going forward, from a block that moves over the file.
//!
//! The block is 64 KiB, whatever the size of the file or of a line.

use portcullis_proto::Failure;

use super::breaks::{Break, Terminator, Unit, next_break};
use super::read_at::{ReadAt, read_exact};

/// How much of a file is held at once.
pub(super) const BLOCK: usize = 64 * 1024;

/// A file, as the functions of one page see it.
pub(super) struct Text<'a, F: ?Sized> {
    pub(super) file: &'a F,
    pub(super) unit: Unit,
    /// Where the text starts: after the byte order mark.
    pub(super) begin: u64,
    /// Where it ends. Taken once, so that a file that grows has one end.
    pub(super) end: u64,
}

/// What to do when a line is longer than what is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// Pass over the rest and go to the next line.
    Skip,
    /// Stop inside the line.
    Stop,
}

/// One line, without its decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawLine {
    /// Its first byte.
    pub(super) start: u64,
    /// The first byte of its terminator.
    pub(super) body_end: u64,
    /// What ends it; `None` for the last line of some files.
    pub(super) terminator: Option<Terminator>,
    /// Whether the reader stopped inside the line ([`Beyond::Stop`]).
    pub(super) unfinished: bool,
}

/// A position that moves forward over a file, line by line.
pub(super) struct Lines<'a, F: ?Sized> {
    text: &'a Text<'a, F>,
    block: Vec<u8>,
    block_at: u64,
    pos: u64,
}

impl<'a, F: ReadAt + ?Sized> Lines<'a, F> {
    /// Starts at the first byte; `head` is what the file is known to start with.
    pub(super) fn new(text: &'a Text<'a, F>, head: Vec<u8>) -> Self {
        Self {
            text,
            block: head,
            block_at: 0,
            pos: text.begin,
        }
    }

    /// The next byte to be read.
    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    /// Goes to `pos`, which is on a unit.
    pub(super) fn seek(&mut self, pos: u64) {
        self.pos = pos.clamp(self.text.begin, self.text.end);
    }

    /// Reads one line; its first `limit` bytes go into `body`.
    pub(super) fn next_line(
        &mut self,
        body: &mut Vec<u8>,
        limit: usize,
        beyond: Beyond,
    ) -> Result<Option<RawLine>, Failure> {
        body.clear();
        let start = self.pos;
        if start >= self.text.end {
            return Ok(None);
        }
        let unit = self.text.unit;
        loop {
            let from = self.fill()?;
            let window = &self.block[from..];
            let found = next_break(window, unit);
            let length = found.map_or(window.len(), |(at, _)| at);
            let room = limit - body.len();
            body.extend_from_slice(&window[..length.min(room)]);
            self.pos += length as u64;
            let line = |terminator, unfinished| RawLine {
                start,
                body_end: self.pos,
                terminator,
                unfinished,
            };
            if length > room && beyond == Beyond::Stop {
                return Ok(Some(line(None, true)));
            }
            let Some((at, found)) = found else {
                if self.pos >= self.text.end {
                    return Ok(Some(line(None, false)));
                }
                continue;
            };
            let next = unit.get(window, at + unit.width());
            let terminator = match (found, next) {
                (Break::Lf, _) => Terminator::Lf,
                (Break::Cr, Some(0x0a)) => Terminator::Crlf,
                // The block ends between CR and what may be its LF. The position
                // is on the CR now, so the next block starts there.
                (Break::Cr, None) if !self.is_last_block() => continue,
                (Break::Cr, _) => Terminator::Cr,
            };
            let line = line(Some(terminator), false);
            self.pos += (terminator.as_str().len() * unit.width()) as u64;
            return Ok(Some(line));
        }
    }

    /// The whole lines that come next and end in LF, with not one CR before
    /// their end: at most `count` of them, none longer than `limit`, all of them
    /// within `max` bytes and in the block. Nothing is passed over yet.
    pub(super) fn plain(
        &mut self,
        count: u64,
        limit: usize,
        max: usize,
    ) -> Result<(&[u8], u64), Failure> {
        if self.text.unit != Unit::Byte || self.pos >= self.text.end {
            return Ok((&[], 0));
        }
        let from = self.fill()?;
        let window = &self.block[from..];
        let window = &window[..memchr::memchr(b'\r', window).unwrap_or(window.len())];
        let (mut end, mut lines) = (0, 0);
        for at in memchr::memchr_iter(b'\n', window) {
            if lines == count || at - end > limit || at >= max {
                break;
            }
            end = at + 1;
            lines += 1;
        }
        Ok((&window[..end], lines))
    }

    /// Passes over `bytes` of what [`plain`](Self::plain) found.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.pos += bytes as u64;
    }

    /// Passes over at most `count` lines and says how many there were.
    pub(super) fn skip(&mut self, count: u64) -> Result<u64, Failure> {
        let mut skipped = 0;
        // Whether bytes of a line were passed over whose end was not.
        let mut open = false;
        let mut body = Vec::new();
        while skipped < count && self.pos < self.text.end {
            let from = self.fill()?;
            let window = &self.block[from..];
            // LFs are counted in bulk up to the first CR; the line with the CR
            // in it is then read on its own.
            let bulk = match self.text.unit {
                Unit::Byte => memchr::memchr(b'\r', window).unwrap_or(window.len()),
                Unit::Utf16Le | Unit::Utf16Be => 0,
            };
            let bulk_window = &window[..bulk];
            let found = memchr::memchr_iter(b'\n', bulk_window).count() as u64;
            let wanted = count - skipped;
            if found >= wanted {
                let nth = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
                let at = memchr::memchr_iter(b'\n', bulk_window).nth(nth);
                self.pos += at.map_or(0, |at| at + 1) as u64;
                return Ok(count);
            }
            skipped += found;
            if bulk == window.len() {
                open = window.last() != Some(&b'\n');
                self.pos += bulk as u64;
                continue;
            }
            if let Some(last) = memchr::memrchr(b'\n', bulk_window) {
                self.pos += last as u64 + 1;
            }
            open = false;
            if self.next_line(&mut body, 0, Beyond::Skip)?.is_some() {
                skipped += 1;
            }
        }
        Ok(skipped + u64::from(open && skipped < count))
    }

    /// Has the block hold the position and one unit more, unless the file ends;
    /// says where in the block the position is.
    fn fill(&mut self) -> Result<usize, Failure> {
        let block_end = self.block_at + self.block.len() as u64;
        let inside = self.pos >= self.block_at && self.pos < block_end;
        let enough = 2 * self.text.unit.width() as u64;
        if !inside || (block_end - self.pos < enough && !self.is_last_block()) {
            let rest = self.text.end.saturating_sub(self.pos);
            let size = usize::try_from(rest).unwrap_or(usize::MAX).min(BLOCK);
            self.block.resize(size, 0);
            self.block_at = self.pos;
            read_exact(self.text.file, &mut self.block, self.pos)?;
        }
        Ok(usize::try_from(self.pos - self.block_at).unwrap_or(usize::MAX))
    }

    fn is_last_block(&self) -> bool {
        self.block_at + self.block.len() as u64 >= self.text.end
    }
}
