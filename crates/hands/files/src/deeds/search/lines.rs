//! What a search shows of one file: the lines that match and those around them.

use std::borrow::Cow;
use std::io;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

/// One line that a search shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// Its number, from one.
    pub number: u64,
    /// Where in it the first match begins, in characters from one; `None` for a
    /// line that stands beside a match.
    pub column: Option<usize>,
    /// What it says, without its end.
    pub text: String,
    /// Whether it is longer than shown.
    pub cut: bool,
}

/// Takes down what the searcher finds in one file.
pub(super) struct Taker<'a> {
    pub(super) matcher: &'a RegexMatcher,
    /// At most so many lines that match.
    pub(super) max_matches: usize,
    /// At most so many bytes of text.
    pub(super) max_bytes: usize,
    /// At most so many bytes of one line.
    pub(super) max_line: usize,
    pub(super) taken: Taken,
}

/// What was taken down.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) lines: Vec<FoundLine>,
    pub(super) matches: usize,
    pub(super) bytes: usize,
    /// Whether the file has more than was taken.
    pub(super) more: bool,
    /// Whether it turned out to be binary.
    pub(super) binary: bool,
}

impl Taker<'_> {
    fn push(&mut self, number: Option<u64>, column: Option<usize>, line: &[u8], focus: usize) {
        let (text, cut) = window(line, focus, self.max_line);
        self.taken.bytes += text.len();
        self.taken.lines.push(FoundLine {
            number: number.unwrap_or_default(),
            column,
            text: text.into_owned(),
            cut,
        });
    }
}

impl Sink for Taker<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        // A match over several lines begins in the first of them. Matches that
        // touch come as one: all of a file may.
        for (line, number) in found.lines().zip(found.line_number().unwrap_or(1)..) {
            if self.taken.matches >= self.max_matches || self.taken.bytes >= self.max_bytes {
                self.taken.more = true;
                return Ok(false);
            }
            let first = found.line_number() == Some(number);
            let at = if first {
                self.matcher.find(found.bytes()).ok().flatten()
            } else {
                None
            };
            let at = at.map_or(0, |at| at.start().min(line.len()));
            let column = line.get(..at).map_or(0, characters) + 1;
            self.push(Some(number), Some(column), line, at);
            self.taken.matches += 1;
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, beside: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(beside.line_number(), None, beside.bytes(), 0);
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.taken.binary = true;
        Ok(true)
    }
}

/// How many characters begin in `bytes`.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| begins(**byte)).count()
}

const fn begins(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// At most `max` bytes of a line, with what stands at `focus` among them, and
/// whether something was left out.
fn window(line: &[u8], focus: usize, max: usize) -> (Cow<'_, str>, bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= max {
        return (String::from_utf8_lossy(line), false);
    }
    // Most of the room is for what follows: it is what people read on.
    let start = if focus < max - max / 4 {
        0
    } else {
        cut_before(line, focus.min(line.len()) - max / 4)
    };
    let end = cut_before(line, start + max).max(start);
    (String::from_utf8_lossy(&line[start..end]), true)
}

/// The place at `at` or up to three bytes before it where a character begins.
fn cut_before(line: &[u8], at: usize) -> usize {
    let at = at.min(line.len());
    let whole = |at: &usize| line.get(*at).is_none_or(|byte| begins(*byte));
    (at.saturating_sub(3)..=at).rev().find(whole).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, focus: usize, max: usize, want: &str, cut: bool) {
        assert_eq!(window(line.as_bytes(), focus, max), (want.into(), cut));
    }

    #[test]
    fn a_long_line_is_cut_around_its_match_between_characters() {
        check("short\r\n", 0, 10, "short", false);
        check("0123456789abcdef", 2, 8, "01234567", true);
        check("0123456789abcdef", 12, 8, "abcdef", true);
        check("0123456789abcdef\n", 8, 8, "6789abcd", true);
        check("ääääääää", 0, 5, "ää", true);
        check("ääääääääxx", 11, 5, "ää", true);
        assert_eq!(characters("äbc".as_bytes()), 3);
    }

    #[test]
    fn no_place_to_cut_at_is_out_of_a_line() {
        let line = "aä€😀".repeat(5);
        for focus in 0..=line.len() {
            for max in 1..=line.len() + 1 {
                let (text, cut) = window(line.as_bytes(), focus, max);
                assert!(text.len() <= max, "{focus} {max}");
                assert!(line.contains(&*text), "{focus} {max}: {text}");
                assert_eq!(cut, max < line.len());
            }
        }
    }
}
