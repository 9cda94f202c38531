//! The extension headers of POSIX: `length key=value`, line by line.

use super::why::{Stop, Why};

/// What they say of one entry, as far as it matters here. Times, owners and
/// attributes are not unpacked, so they are not read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) sparse: bool,
    /// Something other than a comment.
    says_something: bool,
}

impl Pax {
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Self, Stop> {
        let mut pax = Self::default();
        while !bytes.is_empty() {
            let (key, value, rest) = line(bytes)?;
            bytes = rest;
            pax.says_something |= key != b"comment";
            let again = match key {
                b"path" => pax.path.replace(value.to_vec()).is_some(),
                b"size" => pax.size.replace(decimal(value)?).is_some(),
                // The names are told in another charset.
                b"hdrcharset" if value != b"ISO-IR 10646 2000 UTF-8" => {
                    return Err(Why::Dialect.into());
                }
                b"SCHILY.realsize" | b"SUN.holesdata" => {
                    pax.sparse = true;
                    false
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    pax.sparse = true;
                    false
                }
                _ => false,
            };
            if again {
                return Err(Why::Disagrees.into());
            }
        }
        Ok(pax)
    }

    /// `git archive` leaves the commit in a comment for all entries.
    pub(super) fn is_only_a_comment(&self) -> Result<(), Stop> {
        if self.says_something {
            return Err(Why::Dialect.into());
        }
        Ok(())
    }
}

/// Key, value, and what follows.
type Line<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first line.
fn line(bytes: &[u8]) -> Result<Line<'_>, Stop> {
    let blank = memchr::memchr(b' ', bytes).ok_or(Why::Damaged)?;
    let (digits, _) = bytes.split_at_checked(blank).ok_or(Why::Damaged)?;
    let length = usize::try_from(decimal(digits)?).map_err(|_| Why::Damaged)?;
    let (line, rest) = bytes.split_at_checked(length).ok_or(Why::Damaged)?;
    let line = line.get(blank + 1..).ok_or(Why::Damaged)?;
    let line = line.strip_suffix(b"\n").ok_or(Why::Damaged)?;
    let sign = memchr::memchr(b'=', line).ok_or(Why::Damaged)?;
    let (key, value) = line.split_at_checked(sign).ok_or(Why::Damaged)?;
    Ok((key, value.get(1..).unwrap_or_default(), rest))
}

fn decimal(digits: &[u8]) -> Result<u64, Stop> {
    // 19 digits fit, and no length or size has more.
    let fits = !digits.is_empty() && digits.len() < 20 && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| fits);
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Why::Damaged.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_their_length_and_nothing_else() {
        let pax = Pax::parse(b"16 path=a\nb=c/d\n11 size=12\n").unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"a\nb=c/d"[..]));
        assert_eq!(pax.size, Some(12));
        for bad in [
            &b"9 path=a"[..],
            b"99 path=a\n",
            b"x path=a\n",
            b"-1 path=a\n",
            b"9 pathxa\n",
            b"0 \n",
            b"9 path=a\n9 path=b\n",
            b"99999999999999999999 path=a\n",
        ] {
            assert!(Pax::parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
