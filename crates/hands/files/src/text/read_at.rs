//! Reading an opened file at a position, and nothing else about it.
//!
//! Positions are explicit, so two readers of one handle never move each other.

use std::error::Error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use portcullis_proto::{Failure, Reason};

/// A file that is already open, or bytes that stand for one.
///
/// Having one proves nothing about where the bytes live; whoever opened the
/// handle has settled that. An implementation that wants to stop a long scan
/// (cancelled, deadline) returns `io::Error::other(failure)`; the [`Failure`]
/// inside comes out unchanged.
pub trait ReadAt {
    /// Reads into `buf` from `offset`; 0 means that the file ends there.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// How many bytes the file has now.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no byte now.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..))
            .unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

impl ReadAt for BorrowedFd<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(self, buf, offset)?)
    }

    fn len(&self) -> io::Result<u64> {
        let size = rustix::fs::fstat(self)?.st_size;
        Ok(u64::try_from(size).unwrap_or(0))
    }
}

impl ReadAt for OwnedFd {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_fd().read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.as_fd().len()
    }
}

/// Fills `buf` from `offset`, or stops at the end of the file.
pub(super) fn read_full(
    file: &(impl ReadAt + ?Sized),
    buf: &mut [u8],
    offset: u64,
) -> Result<usize, Failure> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failure(error)),
        }
    }
    Ok(filled)
}

/// Fills all of `buf`; a file that ends before is one that shrank under us.
pub(super) fn read_exact(
    file: &(impl ReadAt + ?Sized),
    buf: &mut [u8],
    offset: u64,
) -> Result<(), Failure> {
    if read_full(file, buf, offset)? == buf.len() {
        return Ok(());
    }
    Err(Failure::new(
        Reason::Changed,
        "The file became shorter while it was read.",
    )
    .hint("Read it again from its start."))
}

/// What a failed read is called on the wires.
pub(super) fn failure(error: io::Error) -> Failure {
    if error
        .get_ref()
        .is_some_and(<dyn Error + Send + Sync>::is::<Failure>)
    {
        let inner = error
            .into_inner()
            .map(<dyn Error + Send + Sync>::downcast::<Failure>);
        return inner
            .and_then(Result::ok)
            .map_or(Reason::Bug.into(), |inner| *inner);
    }
    let reason = if error.kind() == io::ErrorKind::IsADirectory {
        Reason::IsDirectory
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        Reason::Os
    } else {
        Reason::Io
    };
    Failure::from(reason).detail(error)
}
