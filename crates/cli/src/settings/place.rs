//! Where in a settings file something is wrong: line, column, and what.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Something wrong in a file, and where it stands. Both counts begin at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

impl Misplaced {
    /// `what` is wrong with `part`, a slice of `whole`.
    pub(crate) fn at(whole: &str, part: &str, what: impl Into<String>) -> Self {
        let (line, column) = begins(whole, part);
        Self {
            line,
            column,
            what: what.into(),
        }
    }

    /// An error the parser found in `part`, a slice of `whole`.
    pub(crate) fn inside(whole: &str, part: &str, error: &serde_json::Error) -> Self {
        let (line, column) = begins(whole, part);
        let down = error.line().saturating_sub(1);
        Self {
            line: line + down,
            column: if down == 0 {
                column + error.column().saturating_sub(1)
            } else {
                error.column()
            },
            what: without_place(&error.to_string()),
        }
    }
}

/// Reads one value that the file held back unread.
pub(crate) fn read<T: DeserializeOwned>(whole: &str, part: &RawValue) -> Result<T, Misplaced> {
    serde_json::from_str(part.get()).map_err(|error| Misplaced::inside(whole, part.get(), &error))
}

/// The parser's words without its own idea of the place, which we tell better.
pub(crate) fn without_place(text: &str) -> String {
    match text.rsplit_once(" at line ") {
        Some((what, _)) => what.to_owned(),
        None => text.to_owned(),
    }
}

fn begins(whole: &str, part: &str) -> (usize, usize) {
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
