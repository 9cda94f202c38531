//! Where in a settings file something is wrong: line, column, and what.
//!
//! A part that is read later is a slice of the whole text, so its place is
//! known from where it begins; nothing has to be counted while parsing.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Something wrong in a file, and where it stands. Both counts begin at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// The line.
    pub line: usize,
    /// The column, in bytes.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

impl Misplaced {
    /// `what` is wrong with `part`, a slice of `whole`.
    pub fn at(whole: &str, part: &str, what: impl Into<String>) -> Self {
        let (line, column) = begins(whole, part);
        Self {
            line,
            column,
            what: what.into(),
        }
    }

    /// An error the parser found in `part`, a slice of `whole`.
    pub fn inside(whole: &str, part: &str, error: &serde_json::Error) -> Self {
        let (line, column) = begins(whole, part);
        let down = error.line().saturating_sub(1);
        Self {
            line: line + down,
            column: if down == 0 {
                column + error.column().saturating_sub(1)
            } else {
                // The parser counts the end of a file behind a line break as 0.
                error.column().max(1)
            },
            what: without_place(&error.to_string()),
        }
    }
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.what
        )
    }
}

impl std::error::Error for Misplaced {}

/// Reads `part`, which the text `whole` held back unread.
pub fn read_part<'a, T: Deserialize<'a>>(whole: &str, part: &'a RawValue) -> Result<T, Misplaced> {
    serde_json::from_str(part.get()).map_err(|error| Misplaced::inside(whole, part.get(), &error))
}

/// The parser's words without its own idea of the place, which we tell better.
fn without_place(text: &str) -> String {
    match text.rsplit_once(" at line ") {
        Some((what, _)) => what.to_owned(),
        None => text.to_owned(),
    }
}

/// Where `part`, a slice of `whole`, begins: line and column, both from one.
pub(crate) fn begins(whole: &str, part: &str) -> (usize, usize) {
    let offset = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    let before = whole.as_bytes().get(..offset).unwrap_or_default();
    let line = before.split(|byte| *byte == b'\n').count();
    let column = before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count()
        + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parser reads `whole` from byte `at` on.
    #[track_caller]
    fn check(whole: &str, at: usize, line: usize, column: usize) {
        let (_, part) = whole.split_at(at);
        let error = serde_json::from_str::<u8>(part).unwrap_err();
        let wrong = Misplaced::inside(whole, part, &error);
        assert_eq!((wrong.line, wrong.column), (line, column), "{wrong}");
        assert!(!wrong.what.contains(" at line "), "{wrong}");
    }

    #[test]
    fn the_place_is_that_in_the_whole_file() {
        let whole = "one\n two {\n\n  x";
        check(whole, 5, 2, 3);
        check(whole, 9, 2, 6);
        check(whole, whole.len(), 4, 4);
        check("\n\n", 0, 3, 1);
        let wrong = Misplaced::at(whole, whole.split_at(5).1, "no number");
        assert_eq!(wrong.to_string(), "line 2, column 2: no number");
    }
}
