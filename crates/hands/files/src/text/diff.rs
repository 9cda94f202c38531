//! A unified diff, for people and agents to look at.
//!
//! It is shown, never applied: text is decoded lossily, and whatever could draw
//! on a terminal is spelled out. Both its size and its time are bounded.

use std::fmt::Write as _;
use std::ops::Range;

use super::breaks::{LineEnding, Unit, next_terminator};
use super::charset::OnMalformed;
use super::hunks::{Detail, Hunk, hunks};
use super::request::EncodingChoice;
use super::sniff::{PROBE_BYTES_MCP, looks_binary, sniff};

/// How many lines around a change are shown.
const CONTEXT: usize = 3;
/// How many characters of one line are shown.
const MAX_LINE_CHARS: usize = 2000;
/// The most bytes, of both sides together, that are compared by lines.
const MAX_COMPARED_BYTES: usize = 32 * 1024 * 1024;
/// What closes a diff that was cut.
const CUT: &str = "[The diff goes on and is cut here.]\n";

/// How two texts differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The unified diff; empty when there is no difference.
    pub text: String,
    /// How many lines came, shown or not.
    pub added: u64,
    /// How many lines went, shown or not.
    pub removed: u64,
    /// Whether something of the difference is not in `text`.
    pub truncated: bool,
}

/// The header of a move, as git writes it.
pub fn renamed(from: &str, to: &str) -> String {
    let mut header = String::new();
    for (word, path) in [("rename from ", from), ("rename to ", to)] {
        header.push_str(word);
        escape(path, &mut header);
        header.push('\n');
    }
    header
}

/// How `after` differs from `before`, in at most `max_bytes`.
pub fn unified(path: &str, before: &[u8], after: &[u8], max_bytes: usize) -> Diff {
    let mut out = Output {
        diff: Diff {
            text: String::new(),
            added: 0,
            removed: 0,
            truncated: false,
        },
        max_bytes,
        full: false,
    };
    if before == after {
        return out.diff;
    }
    let mut header = String::new();
    for (mark, side) in [("---", 'a'), ("+++", 'b')] {
        header.push_str(mark);
        header.push(' ');
        header.push(side);
        header.push('/');
        escape(path, &mut header);
        header.push('\n');
    }
    out.line(&header);
    let is_binary = |bytes: &[u8]| looks_binary(&bytes[..bytes.len().min(PROBE_BYTES_MCP)]);
    if is_binary(before) || is_binary(after) {
        out.diff.truncated = true;
        out.line(&format!(
            "Binary files differ: {} bytes before, {} after.\n",
            before.len(),
            after.len()
        ));
        return out.diff;
    }
    if before.len() + after.len() > MAX_COMPARED_BYTES {
        out.diff.truncated = true;
        out.line(&format!(
            "Too large to compare: {} bytes before, {} after.\n",
            before.len(),
            after.len()
        ));
        return out.diff;
    }
    let (before, after) = (Side::of(before), Side::of(after));
    let (before_lines, after_lines) = (before.lines(), after.lines());
    let (hunks, detail) = hunks(&before_lines, &after_lines);
    for hunk in &hunks {
        out.diff.removed += hunk.before.len() as u64;
        out.diff.added += hunk.after.len() as u64;
    }
    if hunks.is_empty() {
        out.line(&format!(
            "The text is the same; its bytes differ ({} before, {} after).\n",
            before.described(),
            after.described()
        ));
        return out.diff;
    }
    if detail == Detail::Coarse {
        out.diff.truncated = true;
        out.line(&format!(
            "Too many lines to compare: from line {} on, {} lines became {}.\n",
            hunks.first().map_or(1, |hunk| hunk.before.start + 1),
            out.diff.removed,
            out.diff.added
        ));
        return out.diff;
    }
    let shows_cr = before.line_ending != after.line_ending
        || !matches!(
            before.line_ending,
            LineEnding::Lf | LineEnding::Crlf | LineEnding::None
        );
    for group in groups(&hunks) {
        write_group(&mut out, group, &before_lines, &after_lines, shows_cr);
        if out.full {
            break;
        }
    }
    out.diff
}

/// Text that stops growing at its limit.
struct Output {
    diff: Diff,
    max_bytes: usize,
    full: bool,
}

impl Output {
    /// Adds a whole line, or closes the text.
    fn line(&mut self, line: &str) {
        let room = self.max_bytes.saturating_sub(self.diff.text.len());
        // The closing line has its place kept, unless there is hardly any.
        let kept = if self.max_bytes > 4 * CUT.len() {
            CUT.len()
        } else {
            0
        };
        if self.full || line.len() + kept > room {
            if !self.full && kept > 0 {
                self.diff.text.push_str(CUT);
            }
            self.full = true;
            self.diff.truncated = true;
            return;
        }
        self.diff.text.push_str(line);
    }
}

/// One side of the comparison, decoded for display.
struct Side {
    text: String,
    line_ending: LineEnding,
    encoding: String,
    bom: bool,
}

impl Side {
    fn of(bytes: &[u8]) -> Self {
        let sniffed = sniff(bytes, true, EncodingChoice::Detect, 0).ok();
        let (charset, bom_bytes) = sniffed.map_or((super::Charset::UTF_8, 0), |sniffed| {
            (sniffed.charset, sniffed.bom_bytes)
        });
        let mut text = String::new();
        // Only shown: what is no character is shown as such.
        let _ = charset.decode(
            bytes.get(bom_bytes..).unwrap_or_default(),
            &mut text,
            OnMalformed::Replace,
        );
        Self {
            line_ending: LineEnding::of(text.as_bytes(), Unit::Byte),
            text,
            encoding: charset.label(),
            bom: bom_bytes > 0,
        }
    }

    fn lines(&self) -> Vec<&[u8]> {
        let mut lines = Vec::new();
        let mut rest = self.text.as_bytes();
        while let Some((at, terminator)) = next_terminator(rest, Unit::Byte) {
            let (line, after) = rest.split_at(at + terminator.as_str().len());
            lines.push(line);
            rest = after;
        }
        if !rest.is_empty() {
            lines.push(rest);
        }
        lines
    }

    fn described(&self) -> String {
        let bom = if self.bom {
            " with a byte order mark"
        } else {
            ""
        };
        format!("{}{bom}", self.encoding)
    }
}

/// Hunks that share context, together.
fn groups(hunks: &[Hunk]) -> impl Iterator<Item = &[Hunk]> {
    hunks.chunk_by(|one, next| next.before.start - one.before.end <= 2 * CONTEXT)
}

fn write_group(
    out: &mut Output,
    group: &[Hunk],
    before: &[&[u8]],
    after: &[&[u8]],
    shows_cr: bool,
) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return;
    };
    let lead = first.before.start.min(CONTEXT);
    let trail = (before.len() - last.before.end).min(CONTEXT);
    out.line(&format!(
        "@@ -{} +{} @@\n",
        range(first.before.start - lead..last.before.end + trail),
        range(first.after.start - lead..last.after.end + trail),
    ));
    let mut shown = first.before.start - lead;
    let end = last.before.end + trail;
    for Hunk {
        before: gone,
        after: come,
    } in group
    {
        for (mark, lines) in [
            (' ', &before[shown..gone.start]),
            ('-', &before[gone.clone()]),
            ('+', &after[come.clone()]),
        ] {
            write_lines(out, mark, lines, shows_cr);
        }
        shown = gone.end;
    }
    write_lines(out, ' ', &before[shown..end], shows_cr);
}

fn write_lines(out: &mut Output, mark: char, lines: &[&[u8]], shows_cr: bool) {
    for line in lines {
        if out.full {
            return;
        }
        let (body, terminator) = match next_terminator(line, Unit::Byte) {
            Some((at, terminator)) => (&line[..at], Some(terminator)),
            None => (*line, None),
        };
        // Lines were cut from a string at its line ends.
        let body = std::str::from_utf8(body).unwrap_or_default();
        let mut shown = String::with_capacity(body.len() + 8);
        shown.push(mark);
        match body.char_indices().nth(MAX_LINE_CHARS) {
            Some((cut, _)) => {
                escape(body.get(..cut).unwrap_or_default(), &mut shown);
                // A failure to write into a string cannot be.
                let _ = write!(shown, " [{} more bytes]", body.len() - cut);
                out.diff.truncated = true;
            }
            None => escape(body, &mut shown),
        }
        match terminator {
            Some(terminator) if shows_cr => {
                let carriage_return = terminator.as_str().trim_end_matches('\n');
                escape(carriage_return, &mut shown);
                shown.push('\n');
            }
            Some(_) => shown.push('\n'),
            None => shown.push_str("\n\\ No newline at end of file\n"),
        }
        out.line(&shown);
    }
}

/// A range of lines as a hunk's head has it: an empty one names the line before.
fn range(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// Appends `text` with everything spelled out that a terminal would obey or
/// that would reorder what is read: all controls but the tab, and the marks of
/// writing direction.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        let obeyed = character.is_control() && character != '\t';
        let reorders = matches!(
            character,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        );
        if obeyed || reorders {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
}
