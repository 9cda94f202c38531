//! Cursors as these routes spell them: base64 of a small JSON object.
//!
//! Like the cursors inside, they are not signed: a forged one can only name
//! another place in a file that its bearer may read anyway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_files::Meta;
use portcullis_proto::{Failure, Reason};
use serde::{Deserialize, Serialize};

/// The longest cursor that is looked at.
const MAX_CHARS: usize = 1024;

/// A place in a version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    v: u8,
    pub(super) off: u64,
    size: u64,
    #[serde(with = "in_words")]
    dev: u64,
    #[serde(with = "in_words")]
    ino: u64,
    #[serde(with = "in_words")]
    mtime: i64,
}

/// Numbers that may be larger than a number of JSON's is everywhere, as text.
mod in_words {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        number: &T,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_str(number)
    }

    pub(super) fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|_| D::Error::custom("not a number"))
    }
}

fn bad() -> Failure {
    Failure::new(Reason::BadCursor, "The cursor is not one of ours.")
        .hint("Pass nextCursor of the last window unchanged, or none.")
}

impl Cursor {
    /// A cursor to the byte at `off` of the file that `meta` is of.
    pub(super) fn at(off: u64, meta: &Meta) -> Self {
        Self {
            v: 1,
            off,
            size: meta.size,
            dev: meta.dev,
            ino: meta.ino,
            mtime: mtime(meta),
        }
    }

    /// As it goes over the wire.
    pub(super) fn spelled(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Reads what came over the wire.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if text.len() > MAX_CHARS {
            return Err(bad());
        }
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let cursor: Self = serde_json::from_slice(&json).map_err(|_| bad())?;
        if cursor.v == 1 {
            Ok(cursor)
        } else {
            Err(bad())
        }
    }

    /// As the text reader spells the same place.
    pub(super) fn inner(&self) -> String {
        let Self {
            off,
            size,
            dev,
            ino,
            mtime,
            ..
        } = self;
        format!("c1.{off:x}.0.0.{dev:x}.{ino:x}.{size:x}.{mtime:x}")
    }

    /// The same place, read from how the text reader spells it.
    pub(super) fn of_inner(text: &str, meta: &Meta) -> Option<Self> {
        let offset = text.strip_prefix("c1.")?.split('.').next()?;
        Some(Self::at(u64::from_str_radix(offset, 16).ok()?, meta))
    }

    /// Refuses to go on in another version; a file that only grew is the same.
    pub(super) fn check(&self, meta: &Meta) -> Result<(), Failure> {
        let same_file = self.dev == meta.dev && self.ino == meta.ino;
        let same = self.size == meta.size && self.mtime == mtime(meta);
        if same_file && (same || meta.size > self.size) {
            return Ok(());
        }
        Err(Failure::new(
            Reason::VersionMismatch,
            "The file changed since the cursor was made.",
        )
        .hint("Read again without a cursor, from a line number."))
    }
}

fn mtime(meta: &Meta) -> i64 {
    i64::try_from(meta.mtime_ns).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_spelled_here_is_read() {
        for text in ["", "e30", "not base64!", "eyJ2IjoyfQ", &"A".repeat(2000)] {
            assert!(Cursor::parse(text).is_err(), "{text}");
        }
        let cursor = Cursor {
            v: 1,
            off: 12,
            size: 34,
            dev: 5,
            ino: 6,
            mtime: -7,
        };
        assert_eq!(Cursor::parse(&cursor.spelled()), Ok(cursor.clone()));
        let json = r#"{"v":1,"off":0,"size":1,"dev":"5","ino":"six","mtime":"7"}"#;
        assert!(Cursor::parse(&URL_SAFE_NO_PAD.encode(json)).is_err());
        assert_eq!(cursor.inner(), "c1.c.0.0.5.6.22.fffffffffffffff9");
    }
}
