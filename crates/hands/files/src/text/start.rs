//! Where a page starts, found without reading more than needed: forward for a
//! line number, backward for a tail, at once for a cursor or a byte.

use portcullis_proto::{Failure, Reason};

use super::breaks::{Break, Unit, last_break};
use super::charset::{Charset, utf8_start};
use super::cursor::Cursor;
use super::lines::{BLOCK, Lines, Text};
use super::read_at::{ReadAt, read_exact};
use super::request::{PageRequest, ReadFrom};

/// How far back a tail looks for its first line. A file without line ends
/// costs this much, not all of itself.
const TAIL_SCAN: u64 = 8 * 1024 * 1024;

/// A position, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) offset: u64,
    /// The number of the line `offset` is in.
    pub(super) line: Option<u64>,
    pub(super) mid_line: bool,
    /// How many lines the file has, when the way here went over all of them.
    pub(super) total_lines: Option<u64>,
}

/// Finds where the page that `request` asks for starts.
pub(super) fn find<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    lines: &mut Lines<'_, F>,
    charset: Charset,
    request: &PageRequest,
) -> Result<Start, Failure> {
    match request.from {
        ReadFrom::Line(number) => at_line(text, lines, number.max(1)),
        ReadFrom::Tail(count) => {
            let page = charset.surely_fits(request.max_bytes, request.on_malformed);
            tail(text, charset, count, page as u64)
        }
        ReadFrom::Cursor(cursor) => {
            cursor.check(&request.stamp, request.growth)?;
            at_cursor(text, charset, cursor)
        }
        ReadFrom::Byte(offset) => at_byte(text, charset, offset),
    }
}

fn at_line<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    lines: &mut Lines<'_, F>,
    number: u64,
) -> Result<Start, Failure> {
    let skipped = lines.skip(number - 1)?;
    let offset = lines.pos();
    Ok(Start {
        offset,
        line: (offset < text.end).then_some(number),
        mid_line: false,
        total_lines: (offset >= text.end).then_some(skipped),
    })
}

fn at_cursor<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    charset: Charset,
    cursor: Cursor,
) -> Result<Start, Failure> {
    let offset = cursor.offset;
    let width = text.unit.width() as u64;
    let on_unit = offset.saturating_sub(text.begin).is_multiple_of(width);
    // What our own cursors always satisfy; a made-up one need not. Inside a
    // line of a legacy encoding there is nothing to tell a character's start by.
    let ours = (text.begin..=text.end).contains(&offset)
        && on_unit
        && if !cursor.mid_line {
            is_line_start(text, offset)?
        } else if charset.synchronises() {
            char_start(text, charset, offset)? == offset
        } else {
            true
        };
    if !ours {
        return Err(Failure::new(
            Reason::BadCursor,
            "The cursor does not point between two characters of this file, or not at a line.",
        )
        .hint("Pass the next cursor of the last page unchanged, and the same encoding."));
    }
    Ok(Start {
        offset,
        line: cursor.line,
        mid_line: cursor.mid_line,
        total_lines: None,
    })
}

fn at_byte<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    charset: Charset,
    offset: u64,
) -> Result<Start, Failure> {
    let offset = char_start(text, charset, offset.clamp(text.begin, text.end))?;
    Ok(Start {
        offset,
        line: (offset == text.begin && offset < text.end).then_some(1),
        mid_line: offset < text.end && !is_line_start(text, offset)?,
        total_lines: None,
    })
}

/// The start of the last `count` lines, or, when they reach further back than
/// [`TAIL_SCAN`], of as many as do not; a single line longer than that is shown
/// from `page` bytes before its end.
fn tail<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    charset: Charset,
    count: u64,
    page: u64,
) -> Result<Start, Failure> {
    let unit = text.unit;
    let width = unit.width() as u64;
    let at = |offset| Start {
        offset,
        line: (offset == text.begin && text.begin < text.end).then_some(1),
        mid_line: false,
        total_lines: (text.begin == text.end).then_some(0),
    };
    // A last odd byte of UTF-16 belongs to the last line, whatever it is.
    let units_end = text.end - (text.end - text.begin) % width;
    let mut block_end = units_end;
    let mut found = 0;
    let mut last_found = text.end;
    // The unit after the block, which decides whether a CR is alone.
    let mut after: Option<u16> = None;
    if count == 0 {
        return Ok(at(text.end));
    }
    let floor = text.begin.max(text.end.saturating_sub(TAIL_SCAN));
    let mut block = Vec::new();
    while block_end > floor {
        // The blocks grow, so a short tail reads little.
        let wanted = if block_end == units_end {
            BLOCK / 8
        } else {
            BLOCK
        };
        let room = usize::try_from(block_end - text.begin).unwrap_or(usize::MAX);
        block.resize(room.min(wanted), 0);
        let block_at = block_end - block.len() as u64;
        read_exact(text.file, &mut block, block_at)?;
        let mut window = block.as_slice();
        while let Some((index, kind)) = last_break(window, unit) {
            let next = unit.get(&block, index + unit.width()).or(after);
            window = &window[..index];
            let start = block_at + index as u64 + width;
            let ends_line = match kind {
                Break::Lf => true,
                Break::Cr => next != Some(0x0a),
            };
            if ends_line && start < text.end {
                found += 1;
                last_found = start;
                if found == count {
                    return Ok(at(start));
                }
            }
        }
        after = unit.get(&block, 0);
        block_end = block_at;
    }
    if block_end == text.begin {
        return Ok(at(text.begin));
    }
    if found > 0 {
        return Ok(at(last_found));
    }
    let near = text.end.saturating_sub(page);
    at_byte(text, charset, near)
}

/// Whether a line starts at `offset`.
fn is_line_start<F: ReadAt + ?Sized>(text: &Text<'_, F>, offset: u64) -> Result<bool, Failure> {
    let width = text.unit.width();
    if offset <= text.begin {
        return Ok(true);
    }
    let from = offset.saturating_sub(width as u64);
    let around = read_range(text, from, offset + width as u64)?;
    let before = text.unit.get(&around, 0);
    let after = text.unit.get(&around, width);
    Ok(before == Some(0x0a) || (before == Some(0x0d) && after != Some(0x0a)))
}

/// The start of the character that the byte at `offset` is in.
fn char_start<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    charset: Charset,
    offset: u64,
) -> Result<u64, Failure> {
    if offset <= text.begin || offset >= text.end {
        return Ok(offset);
    }
    let from = match text.unit {
        Unit::Utf16Le | Unit::Utf16Be => {
            let offset = offset - (offset - text.begin) % 2;
            if offset == text.begin {
                return Ok(offset);
            }
            let around = read_range(text, offset - 2, offset + 2)?;
            let pair = text.unit.get(&around, 0).zip(text.unit.get(&around, 2));
            let inside =
                pair.is_some_and(|(high, low)| high & 0xfc00 == 0xd800 && low & 0xfc00 == 0xdc00);
            return Ok(if inside { offset - 2 } else { offset });
        }
        Unit::Byte if charset == Charset::UTF_8 => {
            let from = offset.saturating_sub(3).max(text.begin);
            let around = read_range(text, from, offset + 4)?;
            let at = usize::try_from(offset - from).unwrap_or(0);
            let start = utf8_start(&around, at);
            // A stray continuation byte is nobody's inside: it stands alone.
            let length = around[start..].utf8_chunks().next().map_or(0, |chunk| {
                let whole = chunk.valid().chars().next().map(char::len_utf8);
                whole.unwrap_or(chunk.invalid().len())
            });
            let inside = start + length > at;
            return Ok(if inside { from + start as u64 } else { offset });
        }
        Unit::Byte => offset.saturating_sub(BLOCK as u64).max(text.begin),
    };
    // A legacy encoding does not synchronise itself: it is decoded from the
    // start of the line, or, for a line longer than a block, from somewhere.
    let before = read_range(text, from, offset)?;
    let line = last_break(&before, text.unit).map_or(0, |(at, _)| at + 1);
    Ok(from + (line + charset.clean_prefix(&before[line..])) as u64)
}

fn read_range<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    from: u64,
    to: u64,
) -> Result<Vec<u8>, Failure> {
    let length = to.min(text.end).saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0).min(BLOCK)];
    read_exact(text.file, &mut bytes, from)?;
    Ok(bytes)
}
