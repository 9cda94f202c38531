//! A path as an agent alleges it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Failure, Reason};

/// The longest path admitted, in bytes: one below the kernel's `PATH_MAX`.
const MAX_BYTES: usize = 4095;
/// The longest component admitted, in bytes: every common file system's limit.
const MAX_COMPONENT: usize = 255;
/// The deepest path admitted.
const MAX_DEPTH: usize = 256;

/// A path an agent alleges is inside a root.
///
/// Proves: relative, normal (no `.`, no empty component, no trailing slash), no
/// `..`, no NUL, no control or bidirectional character, within the length
/// limits. Does not prove that it exists, nor that no link leads out: only a
/// hand that resolves it under a pinned root learns that.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(Arc<str>);

/// Why a path was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It has a `..` component.
    ParentComponent,
    /// It starts with `/`.
    Absolute,
    /// It holds NUL, a control character or a bidirectional override.
    Character,
    /// It is not UTF-8.
    NotUtf8,
    /// It, or one of its components, is too long, or it is too deep.
    TooLong,
}

impl RelPath {
    /// The root itself.
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// Admits `alleged`, lexically. `""` and `"."` name the root itself.
    pub fn parse(alleged: &str) -> Result<Self, BadPath> {
        if alleged.starts_with('/') {
            return Err(BadPath::Absolute);
        }
        if alleged.len() > MAX_BYTES {
            return Err(BadPath::TooLong);
        }
        if holds_forbidden(alleged) {
            return Err(BadPath::Character);
        }
        let mut depth = 0usize;
        let mut normal = true;
        // By bytes, which costs half of what the splitter of `str` does.
        for part in alleged.as_bytes().split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => normal = false,
                b".." => return Err(BadPath::ParentComponent),
                name if name.len() > MAX_COMPONENT => return Err(BadPath::TooLong),
                _ => depth += 1,
            }
        }
        if depth > MAX_DEPTH {
            return Err(BadPath::TooLong);
        }
        if normal {
            return Ok(Self(Arc::from(alleged)));
        }
        let mut joined = String::with_capacity(alleged.len());
        for part in alleged.split('/').filter(|part| !matches!(*part, "" | ".")) {
            if !joined.is_empty() {
                joined.push('/');
            }
            joined.push_str(part);
        }
        Ok(Self(joined.into()))
    }

    /// Admits bytes that may not even be text.
    pub fn parse_bytes(alleged: &[u8]) -> Result<Self, BadPath> {
        std::str::from_utf8(alleged)
            .map_err(|_| BadPath::NotUtf8)
            .and_then(Self::parse)
    }

    /// The path of the entry called `name` in this directory.
    pub fn join(&self, name: &str) -> Result<Self, BadPath> {
        if name.contains('/') || matches!(name, "" | "." | "..") {
            return Err(BadPath::ParentComponent);
        }
        if self.is_root() {
            return Self::parse(name);
        }
        // All but the name was admitted when this path was.
        if holds_forbidden(name) {
            return Err(BadPath::Character);
        }
        if name.len() > MAX_COMPONENT
            || self.0.len() + 1 + name.len() > MAX_BYTES
            || self.is_deepest()
        {
            return Err(BadPath::TooLong);
        }
        let mut joined = String::with_capacity(self.0.len() + 1 + name.len());
        joined.push_str(&self.0);
        joined.push('/');
        joined.push_str(name);
        Ok(Self(joined.into()))
    }

    /// Whether nothing may stand below it. Only a long path needs counting.
    fn is_deepest(&self) -> bool {
        self.0.len() >= 2 * MAX_DEPTH - 1 && self.components().count() >= MAX_DEPTH
    }

    /// The path as text; empty for the root itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as a person reads it: `.` for the root itself.
    pub fn shown(&self) -> &str {
        if self.is_root() { "." } else { &self.0 }
    }

    /// It below `names`, as if its root stood in them. Where that would be too long
    /// to be a path, itself.
    pub fn below_names(&self, names: Option<&Self>) -> Cow<'_, Self> {
        let Some(names) = names else {
            return Cow::Borrowed(self);
        };
        let whole = format!("{}/{}", names.0, self.0);
        Self::parse(whole.trim_end_matches('/')).map_or(Cow::Borrowed(self), Cow::Owned)
    }

    /// Whether it names the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        Components(&self.0)
    }

    /// The last component; `None` for the root itself.
    pub fn name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// The directory it stands in; `None` for the root itself.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.rsplit_once('/') {
            Some((parent, _)) => Self(parent.into()),
            None => Self::root(),
        })
    }

    /// Whether it is `above` or stands below it, component by component.
    pub fn is_under(&self, above: &Self) -> bool {
        above.is_root()
            || self
                .0
                .strip_prefix(above.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// What is left of a normal path, taken apart from either end. Every deed looks
/// at every component several times; the splitter of `str` costs twice as much.
struct Components<'a>(&'a str);

impl<'a> Iterator for Components<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let end = self.0.bytes().position(|byte| byte == b'/');
        let (part, rest) = match end {
            Some(end) => (self.0.get(..end)?, self.0.get(end + 1..)?),
            None => (self.0, ""),
        };
        self.0 = rest;
        (!part.is_empty()).then_some(part)
    }
}

impl DoubleEndedIterator for Components<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let end = self.0.bytes().rposition(|byte| byte == b'/');
        let (rest, part) = match end {
            Some(end) => (self.0.get(..end)?, self.0.get(end + 1..)?),
            None => ("", self.0),
        };
        self.0 = rest;
        (!part.is_empty()).then_some(part)
    }
}

/// Whether some character of `text` is forbidden. Most paths are plain ASCII.
fn holds_forbidden(text: &str) -> bool {
    // Counted, not found: that goes through many bytes at a time.
    let odd = text.bytes().filter(|byte| !(b' '..=b'~').contains(byte));
    odd.count() > 0 && text.chars().any(forbidden)
}

/// Characters that make a path say something other than what it shows.
fn forbidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl BadPath {
    /// The reason it travels under.
    pub const fn reason(self) -> Reason {
        match self {
            Self::ParentComponent | Self::Absolute => Reason::Escape,
            Self::Character | Self::NotUtf8 => Reason::BadName,
            Self::TooLong => Reason::NameTooLong,
        }
    }
}

impl From<BadPath> for Failure {
    fn from(bad: BadPath) -> Self {
        match bad {
            BadPath::ParentComponent => Self::new(
                bad.reason(),
                "The path has a `..` component, which is never followed.",
            )
            .hint("Name the file by its path from the root, without `..`."),
            BadPath::Absolute => Self::new(
                bad.reason(),
                "The path is absolute and under none of the roots.",
            )
            .hint("Name the file by its path from the root."),
            BadPath::Character => Self::new(
                bad.reason(),
                "The path holds a NUL, a control character or a text-direction override.",
            )
            .hint("Remove the character; such names are never opened."),
            BadPath::NotUtf8 => Self::new(bad.reason(), "The path is not UTF-8."),
            BadPath::TooLong => Self::new(
                bad.reason(),
                "The path is longer than 4,095 bytes, deeper than 256, or has a name longer than 255 bytes.",
            ),
        }
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({:?})", self.as_str())
    }
}

impl Serialize for RelPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|bad| serde::de::Error::custom(Failure::from(bad)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(alleged: &str, want: Result<&str, BadPath>) {
        let got = RelPath::parse(alleged);
        assert_eq!(got.as_ref().map(RelPath::as_str), want.as_ref().copied());
        if let Ok(path) = got {
            assert_eq!(
                RelPath::parse(path.as_str()),
                Ok(path.clone()),
                "normalising twice is once"
            );
        }
    }

    #[test]
    fn plain_paths_are_kept_and_sloppy_ones_made_normal() {
        check("src/main.rs", Ok("src/main.rs"));
        check("", Ok(""));
        check(".", Ok(""));
        check("./src//main.rs/", Ok("src/main.rs"));
        check("a/./b/.", Ok("a/b"));
        check("...", Ok("..."));
        check("..a/b..", Ok("..a/b.."));
    }

    #[test]
    fn what_leads_out_is_refused_wherever_it_stands() {
        check("..", Err(BadPath::ParentComponent));
        check("a/../b", Err(BadPath::ParentComponent));
        check("a/..", Err(BadPath::ParentComponent));
        check("../etc/passwd", Err(BadPath::ParentComponent));
        check("/etc/passwd", Err(BadPath::Absolute));
        check("//x", Err(BadPath::Absolute));
    }

    #[test]
    fn what_lies_to_the_reader_is_refused() {
        check("a\0b", Err(BadPath::Character));
        check("a\nb", Err(BadPath::Character));
        check("a\u{202e}gpj.exe", Err(BadPath::Character));
        check(&"x".repeat(256), Err(BadPath::TooLong));
        check(&"x/".repeat(257), Err(BadPath::TooLong));
        check(&"x".repeat(4096), Err(BadPath::TooLong));
        assert_eq!(RelPath::parse_bytes(b"caf\xe9"), Err(BadPath::NotUtf8));
    }

    #[test]
    fn joining_admits_what_parsing_the_whole_would() {
        let deep = "x/".repeat(MAX_DEPTH - 1);
        let long = format!("{}/", "y".repeat(250)).repeat(16);
        for dir in ["", "a", "a/b c", deep.as_str(), long.as_str()] {
            let dir = RelPath::parse(dir).unwrap();
            for name in [
                "n",
                "a.b",
                "caf\u{e9}",
                "a\u{202e}b",
                "a\nb",
                &"z".repeat(255),
                &"z".repeat(256),
            ] {
                let whole = format!("{}/{name}", dir.as_str());
                let want = RelPath::parse(whole.trim_start_matches('/'));
                assert_eq!(dir.join(name), want, "{dir} and {name:?}");
            }
        }
        let full = RelPath::parse(&"x/".repeat(MAX_DEPTH)).unwrap();
        assert_eq!(full.join("n"), Err(BadPath::TooLong));
    }

    #[test]
    fn components_are_the_same_from_either_end() {
        for (path, want) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("a/b c/d", &["a", "b c", "d"]),
        ] {
            let path = RelPath::parse(path).unwrap();
            assert_eq!(path.components().collect::<Vec<_>>(), want);
            let back: Vec<_> = path.components().rev().collect();
            assert!(back.iter().rev().eq(want), "{path}");
        }
    }

    #[test]
    fn a_sibling_with_the_same_prefix_is_not_under_it() {
        let dir = RelPath::parse("dir").unwrap();
        assert!(RelPath::parse("dir/x").unwrap().is_under(&dir));
        assert!(dir.is_under(&dir));
        assert!(!RelPath::parse("dir_evil/x").unwrap().is_under(&dir));
        assert!(dir.is_under(&RelPath::root()));
    }
}
