//! What kind of archive it is: by its content, never by its name.

use super::source::Source;
use super::tar;
use super::why::{Stop, Why};

/// A kind of archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Zip.
    Zip,
    /// Tar, not compressed.
    Tar,
    /// Tar in gzip.
    TarGz,
    /// Tar in bzip2.
    TarBz2,
    /// Tar in xz.
    TarXz,
    /// Tar in zstd.
    TarZst,
}

impl Format {
    /// As the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Tar => "tar",
            Self::TarGz => "tar.gz",
            Self::TarBz2 => "tar.bz2",
            Self::TarXz => "tar.xz",
            Self::TarZst => "tar.zst",
        }
    }

    /// What `source` begins like.
    pub(super) fn of(source: Source<'_>) -> Result<Self, Stop> {
        let mut start = [0; tar::BLOCK];
        let mut got = 0;
        while got < start.len() {
            match source.read_at(&mut start[got..], got as u64)? {
                0 => break,
                more => got += more,
            }
        }
        let start = start.get(..got).unwrap_or_default();
        let begins = |magic: &[u8]| start.starts_with(magic);
        if begins(b"\x1f\x8b") {
            return Ok(Self::TarGz);
        }
        if begins(b"BZh") {
            return Ok(Self::TarBz2);
        }
        if begins(b"\xfd7zXZ\0") {
            return Ok(Self::TarXz);
        }
        if begins(b"\x28\xb5\x2f\xfd") {
            return Ok(Self::TarZst);
        }
        if begins(b"PK\x03\x04") || begins(b"PK\x05\x06") {
            return Ok(Self::Zip);
        }
        if tar::begins(start) {
            return Ok(Self::Tar);
        }
        // A zip is read from its end, so anything may stand before it.
        if super::zip::ends(source)? {
            return Ok(Self::Zip);
        }
        Err(Why::NotAnArchive.into())
    }
}
