//! What people see: one place for marks, words, colours and columns.
//!
//! Invariants: a colour never carries meaning alone (each mark stands beside a
//! word), and text that came from an agent or a disk is shown with its control
//! and direction characters escaped, so that no line can pretend to be another.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::args::When;
use crate::problem::Problem;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// Says once how colours are to be used. Without a word from the person,
/// NO_COLOR and whether anybody watches decide.
pub(crate) fn choose_colour(when: When) {
    let choice = match when {
        When::Auto => return,
        When::Always => anstream::ColorChoice::Always,
        When::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// A verdict, as a mark and a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Yes,
    No,
    Ask,
    Warn,
}

impl Mark {
    const fn sign(self) -> &'static str {
        match self {
            Self::Yes => "✓",
            Self::No => "✗",
            Self::Ask => "?",
            Self::Warn => "!",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Yes => GREEN,
            Self::No => RED,
            Self::Ask | Self::Warn => YELLOW,
        }
    }

    /// The mark and its word.
    pub(crate) fn with(self, word: impl Display) -> Painted<String> {
        paint(self.style(), format!("{} {word}", self.sign()))
    }
}

/// Something with a colour around it. Padding goes inside, so columns hold.
#[derive(Clone, Debug)]
pub(crate) struct Painted<T>(Style, T);

pub(crate) fn paint<T: Display>(style: Style, value: T) -> Painted<T> {
    Painted(style, value)
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(style, value) = self;
        write!(f, "{style}")?;
        value.fmt(f)?;
        write!(f, "{style:#}")
    }
}

/// Where a command writes. Its end is not an error: `portcullis … | head`.
pub(crate) struct Out {
    stream: Box<dyn Write>,
}

impl Out {
    /// Standard output. Never used by `mcp`, whose wire it is.
    pub(crate) fn stdout() -> Self {
        Self {
            stream: Box::new(anstream::stdout()),
        }
    }

    /// Standard error: for what a person is asked and told while another output
    /// is somebody else's.
    pub(crate) fn stderr() -> Self {
        Self {
            stream: Box::new(anstream::stderr()),
        }
    }

    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), Problem> {
        writeln!(self.stream, "{line}").map_err(ended)
    }

    pub(crate) fn blank(&mut self) -> Result<(), Problem> {
        self.line("")
    }

    pub(crate) fn flush(&mut self) -> Result<(), Problem> {
        self.stream.flush().map_err(ended)
    }

    /// Rows in columns as wide as they need to be; the last one runs free.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> Result<(), Problem> {
        let width = |column: usize| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .chain(head.get(column).map(|cell| cell.chars().count()))
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let head: Vec<String> = head.iter().map(ToString::to_string).collect();
        self.line(paint(BOLD, columns(&head, &widths)))?;
        for row in rows {
            self.line(columns(row, &widths))?;
        }
        Ok(())
    }
}

fn columns(row: &[String], widths: &[usize]) -> String {
    let last = row.len().saturating_sub(1);
    let mut line = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        line.push_str(cell);
        if index < last {
            let gap = width.saturating_sub(cell.chars().count()) + 2;
            line.extend(std::iter::repeat_n(' ', gap));
        }
    }
    line
}

/// A closed pipe ends a command quietly; whoever closed it has seen enough.
fn ended(error: io::Error) -> Problem {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Problem::nobody_listens();
    }
    Problem::new(format!("Standard output could not be written: {error}."))
}

/// Says something beside an output that a script takes whole, on standard error.
pub(crate) fn aside(line: impl Display) {
    // Where standard error is closed there is nobody to tell.
    writeln!(anstream::stderr(), "{line}").ok();
}

/// Tells a problem and its next step, on standard error.
pub(crate) fn tell(problem: &Problem) {
    let mut err = anstream::stderr();
    // Where standard error is closed there is nobody to tell.
    writeln!(err, "{} {}", paint(RED.bold(), "problem:"), problem.what).ok();
    if let Some(hint) = &problem.hint {
        writeln!(err, "{} {hint}", paint(CYAN.bold(), "hint:")).ok();
    }
}

/// `text` with everything that could make a terminal lie escaped.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_deceptive) {
        return text.into();
    }
    text.chars()
        .map(|c| {
            if is_deceptive(c) {
                c.escape_unicode().to_string()
            } else {
                c.to_string()
            }
        })
        .collect::<String>()
        .into()
}

/// What an agent named, where a person decides by it: in at most two lines, and
/// with spaces that cannot be told apart from the end of one.
pub(crate) fn named(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut before = ' ';
    for c in shown(text).chars() {
        match (before, c) {
            (' ', ' ') => plain.push_str("\\u{20}"),
            (_, c) => plain.push(c),
        }
        before = c;
    }
    let count = plain.chars().count();
    if count <= NAMED {
        return plain;
    }
    format!("{} ({count} characters)", clipped(&plain, NAMED))
}

/// How much of a name is shown.
const NAMED: usize = 140;

/// What a terminal shows as nothing, as a space, or as something else.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// `text` in at most `width` characters, cut in its middle.
pub(crate) fn clipped(text: &str, width: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= width {
        return text.into();
    }
    let head = width.saturating_sub(1) / 2;
    let tail = width.saturating_sub(1) - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}…{end}").into()
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut tenths = count.saturating_mul(10) / 1024;
    for unit in UNITS {
        if tenths < 10_240 || unit == "TiB" {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1024;
    }
    format!("{count} B")
}

/// A moment in milliseconds since 1970, for people.
pub(crate) fn moment(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map_or_else(
        |_| format!("{ms} ms since 1970"),
        |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_lies_is_shown_as_what_it_is() {
        assert_eq!(shown("plain"), "plain");
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn a_name_cannot_draw_a_card_of_its_own() {
        assert_eq!(named("my notes.txt"), "my notes.txt");
        assert_eq!(named("a   b"), "a \\u{20}\\u{20}b");
        for unseen in [
            '\u{ad}',
            '\u{3164}',
            '\u{2800}',
            '\u{fe0f}',
            '\u{e0020}',
            '\u{a0}',
        ] {
            assert_eq!(
                named(&format!("a{unseen}")),
                format!("a{}", unseen.escape_unicode())
            );
        }
        let long = named(&"a/".repeat(2_000));
        assert!(long.chars().count() < 170, "{long}");
        assert!(long.ends_with("(4000 characters)"), "{long}");
    }

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(clipped("abcdefghij", 5), "ab…ij");
        assert_eq!(clipped("abc", 5), "abc");
    }

    #[test]
    fn bytes_are_told_in_the_unit_they_fill() {
        for (count, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 20, "5.0 MiB"),
            (3 << 40, "3.0 TiB"),
        ] {
            assert_eq!(bytes(count), want);
        }
    }
}
