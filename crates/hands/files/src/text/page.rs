//! One page of text, start to end: sniff, find the start, take lines, decode.

use portcullis_proto::{Failure, Reason};

use super::breaks::{LineEnding, Unit};
use super::charset::{Charset, Malformed};
use super::cursor::Cursor;
use super::lines::{BLOCK, Beyond, Lines, Text};
use super::read_at::{ReadAt, failure, read_exact};
use super::request::{CutLine, EncodingChoice, PageRequest, TextPage};
use super::sniff::{Sniffed, guess, sniff};
use super::start::{self, Start};

/// The smallest page, so that the longest character always fits.
const MIN_PAGE_BYTES: usize = 16;
/// How much of the file decides how its lines end.
const ENDING_SAMPLE: usize = 8 * 1024;

/// Reads one page of `file`.
///
/// Memory is bounded by a block and the page, whatever the size of the file;
/// time by the page, except for [`ReadFrom::Line`](super::ReadFrom::Line), which counts
/// lines from the start, and for the ends of lines that are cut.
pub fn read_page(
    file: &(impl ReadAt + ?Sized),
    request: &PageRequest,
) -> Result<TextPage, Failure> {
    let end = file.len().map_err(failure)?;
    let mut head = vec![0; usize::try_from(end).unwrap_or(usize::MAX).min(BLOCK)];
    read_exact(file, &mut head, 0)?;
    let complete = head.len() as u64 == end;
    let sniffed = sniff(&head, complete, request.encoding, request.probe_bytes)?;
    let unit = sniffed.charset.unit();
    let text = Text {
        file,
        unit,
        begin: sniffed.bom_bytes as u64,
        end,
    };
    let sample = &head[sniffed.bom_bytes..head.len().min(ENDING_SAMPLE)];
    let head_line_ending = LineEnding::of(sample, unit);
    // Kept only for the advice a refusal gives.
    let detected = match request.encoding {
        EncodingChoice::Named(_) => sniff(&head, complete, EncodingChoice::Detect, 0)
            .ok()
            .map(|sniffed| sniffed.charset),
        EncodingChoice::Detect => None,
    };
    // A file that is here whole need not be asked for its end again.
    let known_end = if complete {
        Some(ends_in_break(&text, head.as_slice())?)
    } else {
        None
    };
    let mut lines = Lines::new(&text, head);
    let start = start::find(&text, &mut lines, sniffed.charset, request)?;
    lines.seek(start.offset);
    // Room for what a small file becomes, so that it is not moved as it grows.
    let room = usize::try_from(end.saturating_sub(start.offset)).unwrap_or(BLOCK);
    let text_room = room.min(request.max_bytes).min(BLOCK);
    let mut filling = Filling {
        request,
        charset: sniffed.charset,
        detected,
        max_bytes: request.max_bytes.max(MIN_PAGE_BYTES),
        start,
        taken: Taken {
            text: String::with_capacity(text_room),
            ..Taken::default()
        },
    };
    let stop = filling.run(&mut lines)?;
    let final_newline = match known_end {
        Some(known) => known,
        None => ends_in_break(&text, file)?,
    };
    Ok(finish(
        &text,
        sniffed,
        filling,
        stop,
        head_line_ending,
        final_newline,
    ))
}

/// What has been taken into the page so far.
#[derive(Default)]
struct Taken {
    text: String,
    lines: u64,
    cut_lines: Vec<CutLine>,
    replaced: u64,
    line_ending: Option<LineEnding>,
}

/// Where a page stopped.
#[derive(Clone, Copy)]
struct Stop {
    offset: u64,
    mid_line: bool,
}

/// A page being filled.
struct Filling<'a> {
    request: &'a PageRequest,
    charset: Charset,
    detected: Option<Charset>,
    max_bytes: usize,
    start: Start,
    taken: Taken,
}

impl Filling<'_> {
    fn run<F: ReadAt + ?Sized>(&mut self, lines: &mut Lines<'_, F>) -> Result<Stop, Failure> {
        let fits = self
            .charset
            .surely_fits(self.max_bytes, self.request.on_malformed);
        // A line cut to its cap always fits a page, terminator included. Without
        // a cap a line is taken whole if it can fit: two bytes of a file become
        // at least one of text, so a longer one cannot.
        let (limit, beyond) = match self.request.max_line_bytes {
            Some(cap) => (cap.clamp(4, fits.saturating_sub(2).max(4)), Beyond::Skip),
            None => (self.max_bytes.saturating_mul(2), Beyond::Stop),
        };
        if self.charset == Charset::UTF_8 {
            self.take_plain(lines, limit)?;
        }
        let mut body = Vec::new();
        while self.taken.lines < self.request.max_lines.max(1) {
            let Some(line) = lines.next_line(&mut body, limit, beyond)? else {
                break;
            };
            let before = (self.taken.text.len(), self.taken.replaced);
            let whole = line.body_end - line.start == body.len() as u64;
            if !line.unfinished {
                let kept = if whole {
                    body.len()
                } else {
                    self.charset.clean_prefix(&body)
                };
                self.decode(&body[..kept], line.start)?;
                if let Some(terminator) = line.terminator {
                    self.taken.text.push_str(terminator.as_str());
                }
                if self.taken.text.len() <= self.max_bytes {
                    self.take(&line, kept as u64, whole);
                    continue;
                }
            }
            // The line does not fit. It waits for the next page, unless this one
            // is still empty: then as much of it as surely fits is the page.
            self.taken.text.truncate(before.0);
            self.taken.replaced = before.1;
            if self.taken.lines > 0 {
                return Ok(Stop {
                    offset: line.start,
                    mid_line: false,
                });
            }
            let part = if body.len() > fits || line.unfinished {
                self.charset.clean_prefix(&body[..body.len().min(fits)])
            } else {
                body.len()
            };
            self.decode(&body[..part], line.start)?;
            self.taken.lines = 1;
            return Ok(Stop {
                offset: line.start + part as u64,
                mid_line: true,
            });
        }
        Ok(Stop {
            offset: lines.pos(),
            mid_line: false,
        })
    }

    /// Takes at once the lines there is nothing to say about, which in most
    /// files are all. What is not UTF-8 is left to be looked at line by line.
    fn take_plain<F: ReadAt + ?Sized>(
        &mut self,
        lines: &mut Lines<'_, F>,
        limit: usize,
    ) -> Result<(), Failure> {
        let count = self.request.max_lines.max(1);
        let (bytes, count) = lines.plain(count, limit, self.max_bytes)?;
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Ok(());
        };
        if count > 0 {
            self.taken.text.push_str(text);
            self.taken.lines = count;
            self.taken.line_ending = Some(LineEnding::Lf);
            let passed = text.len();
            lines.pass(passed);
        }
        Ok(())
    }

    /// Counts a line whose text has been decoded.
    fn take(&mut self, line: &super::lines::RawLine, kept: u64, whole: bool) {
        if !whole {
            self.taken.cut_lines.push(CutLine {
                index: self.taken.lines,
                rest_at: line.start + kept,
                omitted: line.body_end - line.start - kept,
            });
        }
        if let Some(terminator) = line.terminator {
            let so_far = self.taken.line_ending.unwrap_or(LineEnding::None);
            self.taken.line_ending = Some(so_far.and(terminator));
        }
        self.taken.lines += 1;
    }

    fn decode(&mut self, bytes: &[u8], at: u64) -> Result<(), Failure> {
        let on_malformed = self.request.on_malformed;
        let decoded = self
            .charset
            .decode(bytes, &mut self.taken.text, on_malformed);
        match decoded {
            Ok(replaced) => {
                self.taken.replaced += replaced;
                Ok(())
            }
            Err(malformed) => Err(self.malformed(bytes, at, malformed)),
        }
    }

    /// Says where the damage is and what else the text could be.
    fn malformed(&self, bytes: &[u8], at: u64, malformed: Malformed) -> Failure {
        let offset = at + malformed.at as u64;
        let line = match self.start.line {
            Some(first) => format!("line {}", first + self.taken.lines),
            None => format!("line {} of this page", self.taken.lines + 1),
        };
        let likely = self.detected.unwrap_or_else(|| guess(bytes, true));
        let hint = if likely == self.charset {
            "Ask for malformed bytes to be replaced, or read the file as bytes.".to_owned()
        } else {
            format!(
                "It looks like {likely}: name that encoding, ask for malformed bytes to be replaced, or read the file as bytes."
            )
        };
        Failure::new(
            Reason::BadEncoding,
            format!(
                "The bytes at offset {offset}, in {line}, are not {}.",
                self.charset
            ),
        )
        .hint(hint)
    }
}

fn finish<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    sniffed: Sniffed,
    filling: Filling<'_>,
    stop: Stop,
    head_line_ending: LineEnding,
    final_newline: bool,
) -> TextPage {
    let Filling {
        request,
        start,
        taken,
        ..
    } = filling;
    let has_more = stop.offset < text.end;
    let next_line = start
        .line
        .map(|line| line + taken.lines - u64::from(stop.mid_line));
    let total_lines = match (start.total_lines, start.line) {
        (Some(total), _) => Some(total),
        (None, Some(line)) if !has_more => Some(line + taken.lines - 1),
        (None, _) => None,
    };
    TextPage {
        text: taken.text,
        start_line: start.line,
        lines: taken.lines,
        total_lines,
        starts_mid_line: start.mid_line,
        ends_mid_line: stop.mid_line,
        cut_lines: taken.cut_lines,
        next_cursor: has_more.then_some(Cursor {
            offset: stop.offset,
            line: next_line,
            mid_line: stop.mid_line,
            stamp: request.stamp,
        }),
        has_more,
        byte_range: start.offset..stop.offset,
        total_bytes: text.end,
        line_ending: taken.line_ending.unwrap_or(LineEnding::None),
        head_line_ending,
        final_newline,
        encoding: sniffed.charset,
        bom: sniffed.bom_bytes > 0,
        detected: sniffed.detected,
        replaced: taken.replaced,
    }
}

/// Whether the text ends in what ends a line; its last bytes are in `from`.
fn ends_in_break<F: ReadAt + ?Sized>(
    text: &Text<'_, F>,
    from: &(impl ReadAt + ?Sized),
) -> Result<bool, Failure> {
    let width = text.unit.width() as u64;
    let length = text.end - text.begin;
    // A last odd byte of UTF-16 is not a line end, whatever it is.
    if length < width || !length.is_multiple_of(width) {
        return Ok(false);
    }
    let mut last = [0; 2];
    let last = match text.unit {
        Unit::Byte => &mut last[..1],
        Unit::Utf16Le | Unit::Utf16Be => &mut last[..],
    };
    read_exact(from, last, text.end - width)?;
    Ok(matches!(text.unit.get(last, 0), Some(0x0a | 0x0d)))
}
