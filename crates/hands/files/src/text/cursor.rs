//! Where the next page starts, as a string the caller carries.
//!
//! Unsigned on purpose: a forged cursor can only name another position in a
//! file the caller may read anyway. What it must not do is continue in another
//! version of the file without saying so; the stamp is there for that.

use std::fmt;
use std::str::FromStr;

use portcullis_proto::{Failure, Reason};

/// Which version of which file a cursor belongs to; the opener knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// The size in bytes.
    pub size: u64,
    /// When it last changed, in nanoseconds since the epoch.
    pub mtime_ns: i64,
}

/// Whether a file that only grew since is still the same to a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Any change ends the cursor.
    Refuse,
    /// The same inode, no smaller, goes on: logs are read while written. A
    /// rewrite in place that also grew the file cannot be told from growth.
    Allow,
}

/// A position between two pages.
///
/// Opaque to callers, who get and give it as text: `c1.` and seven hexadecimal
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The first byte of the next page.
    pub(super) offset: u64,
    /// The number of the line that byte is in, when known.
    pub(super) line: Option<u64>,
    /// Whether the byte is inside its line, not at its start.
    pub(super) mid_line: bool,
    /// The version it was made for.
    pub(super) stamp: Stamp,
}

/// Longer than any cursor of ours; longer text is not even parsed.
const MAX_CHARS: usize = 160;

impl Cursor {
    /// Refuses the cursor unless `now` is the file it was made for.
    pub fn check(&self, now: &Stamp, growth: Growth) -> Result<(), Failure> {
        let then = &self.stamp;
        let same_file = then.dev == now.dev && then.ino == now.ino;
        let valid = match growth {
            Growth::Refuse => then == now,
            Growth::Allow => {
                same_file
                    && (now.size > then.size
                        || (now.size == then.size && now.mtime_ns == then.mtime_ns))
            }
        };
        if valid {
            return Ok(());
        }
        Err(Failure::new(
            Reason::VersionMismatch,
            "The file changed since the cursor was made.",
        )
        .hint("Read again without a cursor, from a line number."))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp {
            dev,
            ino,
            size,
            mtime_ns,
        } = self.stamp;
        // Line 0 does not exist, so it can stand for "unknown".
        write!(
            f,
            "c1.{:x}.{:x}.{:x}.{dev:x}.{ino:x}.{size:x}.{mtime_ns:x}",
            self.offset,
            self.line.unwrap_or(0),
            u8::from(self.mid_line),
        )
    }
}

impl FromStr for Cursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        parse(text).ok_or_else(|| {
            Failure::new(Reason::BadCursor, "The cursor is not one of ours.")
                .hint("Pass the next cursor of the last page unchanged, or none.")
        })
    }
}

/// Accepts exactly what `Display` writes: no sign, no upper case, no zeros in front.
fn parse(text: &str) -> Option<Cursor> {
    if text.len() > MAX_CHARS {
        return None;
    }
    let mut numbers = [0u64; 7];
    let mut parts = text.strip_prefix("c1.")?.split('.');
    for number in &mut numbers {
        *number = u64::from_str_radix(parts.next()?, 16).ok()?;
    }
    let [offset, line, mid_line, dev, ino, size, mtime_ns] = numbers;
    let cursor = Cursor {
        offset,
        line: (line > 0).then_some(line),
        mid_line: mid_line == 1,
        stamp: Stamp {
            dev,
            ino,
            size,
            mtime_ns: mtime_ns.cast_signed(),
        },
    };
    (cursor.to_string() == text).then_some(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        dev: 1,
        ino: 2,
        size: 300,
        mtime_ns: -4,
    };

    fn cursor() -> Cursor {
        Cursor {
            offset: 255,
            line: Some(16),
            mid_line: true,
            stamp: STAMP,
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        let text = cursor().to_string();
        assert_eq!(text, "c1.ff.10.1.1.2.12c.fffffffffffffffc");
        assert_eq!(text.parse(), Ok(cursor()));
        for bad in [
            "",
            "c1.",
            "c1.ff.10.1.1.2.12c",
            "c1.ff.10.1.1.2.12c.4.5",
            "c1.FF.10.1.1.2.12c.4",
            "c1.0ff.10.1.1.2.12c.4",
            "c1.+f.10.1.1.2.12c.4",
            "c1.ff.10.2.1.2.12c.4",
            "c2.ff.10.1.1.2.12c.4",
            &format!("c1.{}", "f".repeat(5000)),
        ] {
            let failure = bad.parse::<Cursor>().unwrap_err();
            assert_eq!(failure.reason(), Reason::BadCursor, "{bad}");
        }
    }

    #[test]
    fn a_changed_file_ends_it_and_growth_only_when_told() {
        let grown = Stamp {
            size: 301,
            mtime_ns: 9,
            ..STAMP
        };
        let rewritten = Stamp {
            mtime_ns: 9,
            ..STAMP
        };
        let shrunk = Stamp { size: 299, ..STAMP };
        let replaced = Stamp { ino: 3, ..grown };
        for (now, refuse, allow) in [
            (STAMP, true, true),
            (grown, false, true),
            (rewritten, false, false),
            (shrunk, false, false),
            (replaced, false, false),
        ] {
            assert_eq!(cursor().check(&now, Growth::Refuse).is_ok(), refuse);
            assert_eq!(cursor().check(&now, Growth::Allow).is_ok(), allow);
        }
    }
}
