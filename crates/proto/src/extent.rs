//! How much some JSON holds, counted before anything is built of it.
//!
//! As a tree of values, a few bytes of JSON take a hundred times their length.
//! Whatever comes from outside is therefore counted first, in one pass that
//! allocates nothing: how many values there are, how deep they are nested, and
//! what they would take in memory. One counter, for every entrance.

use std::fmt;

use serde::Deserialize;

use crate::{Failure, Reason, misfit};

/// How many values one text of JSON may hold.
pub const MAX_VALUES: usize = 200_000;
/// How deep lists and objects may be nested: as deep as the parser goes.
pub const MAX_DEPTH: usize = 127;
/// What they may take in memory beside their text, about, in bytes.
pub const MAX_WEIGHT: usize = 48 * 1024 * 1024;

/// What a value takes, its name and the beginning of its text included.
const VALUE: usize = 96;
/// What an object takes beside its values: its first node has room for eleven.
const OBJECT: usize = 640;
/// What a list takes beside its values: it has room for four at first.
const LIST: usize = 128;

/// What some JSON holds. Counts what is JSON exactly; of what is not, everything
/// up to where a parser stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Values, those in others included.
    pub values: usize,
    /// Lists and objects in each other.
    pub depth: usize,
    /// Bytes they take as a tree of values beside their text, about.
    pub weight: usize,
}

/// Why some JSON is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// More than [`MAX_VALUES`], or more than [`MAX_WEIGHT`].
    Values,
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// A member is called what the parser takes for JSON inside a text: it would be
    /// parsed behind the counter.
    Reserved,
}

impl Extent {
    /// Counts what `text` holds, unless it is more than is read.
    pub fn of(text: &[u8]) -> Result<Self, TooMuch> {
        Self::within(text, MAX_VALUES)
    }

    /// The same, with a lower bound on the values.
    pub fn within(text: &[u8], most: usize) -> Result<Self, TooMuch> {
        let mut extent = Self {
            values: 1,
            depth: 0,
            weight: VALUE,
        };
        let (mut depth, mut rest) = (0_usize, text);
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            match byte {
                b'"' => {
                    let behind = after_string(rest);
                    let text = rest.get(..rest.len() - behind.len()).unwrap_or_default();
                    if is_reserved(text) && behind.trim_ascii_start().first() == Some(&b':') {
                        return Err(TooMuch::Reserved);
                    }
                    rest = behind;
                }
                b',' => extent.one(0),
                b'[' | b'{' => {
                    depth += 1;
                    extent.depth = extent.depth.max(depth);
                    let first = rest.trim_ascii_start().first();
                    if !matches!(first, Some(b']' | b'}')) {
                        extent.one(if *byte == b'[' { LIST } else { OBJECT });
                    }
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if extent.values > most || extent.weight > MAX_WEIGHT {
                return Err(TooMuch::Values);
            }
            if depth > MAX_DEPTH {
                return Err(TooMuch::Depth);
            }
        }
        Ok(extent)
    }

    fn one(&mut self, beside: usize) {
        self.values += 1;
        self.weight += VALUE + beside;
    }
}

/// What follows a string, of which the opening quote is gone.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let is_end = text.get(at) == Some(&b'"');
        text = text
            .get(at + if is_end { 1 } else { 2 }..)
            .unwrap_or_default();
        if is_end {
            return text;
        }
    }
    &[]
}

/// The name by which serde_json knows raw JSON in its own trees: of an object that
/// begins with it, the text behind it is parsed in turn.
const RESERVED: &[u8] = b"$serde_json::private::RawValue";
/// The longest way to write a character of a text: `\\u0024`.
const LONGEST: usize = 6;

/// Whether a string, its closing quote included, is that name, however written.
fn is_reserved(text: &[u8]) -> bool {
    let Some(name) = text.strip_suffix(b"\"") else {
        return false;
    };
    if !(RESERVED.len()..=RESERVED.len() * LONGEST).contains(&name.len()) {
        return false;
    }
    if memchr::memchr(b'\\', name).is_none() {
        return name == RESERVED;
    }
    let quoted = [b"\"", text].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| name.as_bytes() == RESERVED)
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values => write!(
                f,
                "The JSON holds more than {MAX_VALUES} values, or more objects than are read."
            ),
            Self::Depth => write!(f, "The JSON is nested more than {MAX_DEPTH} deep."),
            Self::Reserved => f.write_str("The JSON has a member with a reserved name."),
        }
    }
}

impl std::error::Error for TooMuch {}

impl From<TooMuch> for Failure {
    fn from(why: TooMuch) -> Self {
        let told = format!("{why} Nothing was done.");
        match why {
            TooMuch::Values | TooMuch::Depth => {
                Self::new(Reason::TooLarge, told).hint("Send less at once.")
            }
            TooMuch::Reserved => {
                Self::new(Reason::BadArguments, told).hint("Give the member another name.")
            }
        }
    }
}

/// Why some JSON is no `T`.
#[derive(Debug)]
pub enum Unread {
    /// It holds more than is read.
    TooMuch(TooMuch),
    /// It is no JSON, or does not fit.
    Misfit(serde_json::Error),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch(why) => why.fmt(f),
            // A parser repeats what it did not expect, whole.
            Self::Misfit(error) => f.write_str(&misfit(error)),
        }
    }
}

impl std::error::Error for Unread {}

/// Reads JSON as `T`, where it is not too much.
pub fn read_json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Unread> {
    Extent::of(text).map_err(Unread::TooMuch)?;
    serde_json::from_slice(text).map_err(Unread::Misfit)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(list) => list.iter().map(values).sum(),
            Value::Object(object) => object.values().map(values).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    #[test]
    fn every_value_is_counted_once_and_no_text_for_one() {
        for text in [
            "0",
            "[]",
            " [ ] ",
            "{ }",
            "[1,2,3]",
            r#"{"a":",,,[[["}"#,
            r#"{"a":"\",[","b":[]}"#,
            r#"{"a\\":"\\","b":[{},[{"":0}]]}"#,
            "[[[0]],[],{\"x\":[{}]}]",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let extent = Extent::of(text.as_bytes()).unwrap();
            assert_eq!(extent.values, values(&value), "{text}");
        }
    }

    #[test]
    fn values_are_bounded_exactly() {
        let list = |length: usize| format!("[{}0]", "0,".repeat(length - 1));
        let most = list(MAX_VALUES - 1);
        assert_eq!(Extent::of(most.as_bytes()).unwrap().values, MAX_VALUES);
        let more = list(MAX_VALUES);
        assert_eq!(Extent::of(more.as_bytes()), Err(TooMuch::Values));
        assert!(matches!(
            read_json::<Value>(more.as_bytes()),
            Err(Unread::TooMuch(TooMuch::Values))
        ));
        assert_eq!(Extent::within(b"[0,0]", 2), Err(TooMuch::Values));
    }

    #[test]
    fn objects_are_bounded_by_what_they_take() {
        let nested = "{\"\":".repeat(126) + "0" + &"}".repeat(126);
        let many = format!("[{}]", vec![nested; 1_000].join(","));
        assert!(many.len() < 1 << 20);
        assert_eq!(Extent::of(many.as_bytes()), Err(TooMuch::Values));
    }

    #[test]
    fn nesting_is_bounded_where_the_parser_stops() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let most = nested(MAX_DEPTH);
        assert_eq!(Extent::of(most.as_bytes()).unwrap().depth, MAX_DEPTH);
        assert!(serde_json::from_str::<Value>(&most).is_ok());
        let more = nested(MAX_DEPTH + 1);
        assert_eq!(Extent::of(more.as_bytes()), Err(TooMuch::Depth));
        assert!(serde_json::from_str::<Value>(&more).is_err());
    }

    #[test]
    fn json_in_a_text_is_never_parsed_behind_the_counter() {
        let name = "$serde_json::private::RawValue";
        let escaped = name.chars().fold(String::new(), |text, c| {
            text + &format!("\\u{:04x}", c as u32)
        });
        let mixed = format!("\\u0024{}", name.strip_prefix('$').unwrap());
        for name in [name, &escaped, &mixed] {
            for text in [
                format!(r#"{{"{name}":"[0,0]"}}"#),
                format!(r#"{{"a":0,"{name}" : "[0,0]"}}"#),
                format!(r#"[{{"a":{{"{name}":"[0,0]"}}}}]"#),
            ] {
                let read = read_json::<Value>(text.as_bytes());
                assert!(
                    matches!(read, Err(Unread::TooMuch(TooMuch::Reserved))),
                    "{text}: {read:?}"
                );
            }
        }
        // As a text it is one like any other.
        let text = format!(r#"["{name}",{{"a":"{name}"}}]"#);
        assert!(read_json::<Value>(text.as_bytes()).is_ok());
    }

    #[test]
    fn what_is_no_json_is_counted_without_failing() {
        for text in ["", "\"", "\"\\", "]]}}", "[,,", "{\"a", "\\\""] {
            Extent::of(text.as_bytes()).unwrap();
            assert!(read_json::<Value>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
