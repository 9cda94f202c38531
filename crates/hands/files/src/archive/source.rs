//! The bytes of an archive, read by position: from a handle that was judged, or
//! from memory.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use portcullis_proto::Failure;
use rustix::io::{pread, retry_on_intr};

use super::why::{Stop, Why};
use crate::errno::failure;

/// Whether a reader may go on: not cancelled, not revoked, not late.
pub(super) type Pace<'a> = &'a dyn Fn() -> Result<(), Failure>;

/// Where an archive's bytes come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// A file, by its handle, with the size it had when it was looked at.
    File(&'a OwnedFd, u64),
    /// These bytes.
    Bytes(&'a [u8]),
}

impl<'a> Source<'a> {
    pub(super) fn of(file: &'a OwnedFd) -> Result<Self, Failure> {
        let size = rustix::fs::fstat(file).map_err(failure)?.st_size;
        Ok(Self::File(file, u64::try_from(size).unwrap_or_default()))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File(_, size) => *size,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Some bytes from `at`; none behind the end.
    pub(super) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let left = usize::try_from(self.len().saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let into = into.get_mut(..wanted).unwrap_or_default();
        match self {
            Self::File(file, _) => Ok(retry_on_intr(|| pread(file, &mut *into, at))?),
            Self::Bytes(bytes) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX);
                let from = bytes.get(start..).unwrap_or_default();
                let from = from.get(..wanted).unwrap_or_default();
                into.copy_from_slice(from);
                Ok(wanted)
            }
        }
    }

    /// All of `into`, from `at`.
    pub(super) fn fill(&self, mut into: &mut [u8], mut at: u64) -> Result<(), Stop> {
        while !into.is_empty() {
            let got = self.read_at(into, at)?;
            if got == 0 {
                return Err(Why::Truncated.into());
            }
            into = into.get_mut(got..).unwrap_or_default();
            at += got as u64;
        }
        Ok(())
    }

    /// `length` bytes from `at`.
    pub(super) fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>, Stop> {
        let end = at.checked_add(length as u64);
        if end.is_none_or(|end| end > self.len()) {
            return Err(Why::Truncated.into());
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes, at)?;
        Ok(bytes)
    }
}

/// A source, read from front to back.
#[derive(Debug)]
pub(super) struct Window<'a> {
    source: Source<'a>,
    pub(super) at: u64,
}

impl<'a> Window<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self { source, at: 0 }
    }

    pub(super) fn left(&self) -> u64 {
        self.source.len().saturating_sub(self.at)
    }
}

impl Read for Window<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read_at(into, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// Numbers in a record, least significant byte first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a>(pub(super) &'a [u8]);

impl<'a> Record<'a> {
    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Stop> {
        let bytes = at.checked_add(N).and_then(|end| self.0.get(at..end));
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| Why::Truncated.into())
    }

    pub(super) fn u16(self, at: usize) -> Result<u16, Stop> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, at: usize) -> Result<u32, Stop> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, at: usize) -> Result<u64, Stop> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// `length` bytes from `at`.
    pub(super) fn part(self, at: usize, length: usize) -> Result<&'a [u8], Stop> {
        let part = at.checked_add(length).and_then(|end| self.0.get(at..end));
        part.ok_or_else(|| Why::Truncated.into())
    }
}
