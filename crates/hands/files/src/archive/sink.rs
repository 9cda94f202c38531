//! Where an archive's bytes go: into a draft, hashed and counted on the way.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use portcullis_gate::Live;
use portcullis_proto::{Digest, Failure, Reason};
use rustix::io::{pread, retry_on_intr};
use sha2::{Digest as _, Sha256};

use crate::errno::failure;
use crate::writing::{Draft, moved_on};

const CHUNK: usize = 128 * 1024;

pub(super) struct Sink<'a> {
    draft: &'a Draft,
    hasher: Sha256,
    waiting: Vec<u8>,
    pub(super) bytes: u64,
    limit: u64,
    /// Why the last write failed, for a person.
    why: Option<Failure>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(draft: &'a Draft, limit: u64) -> Self {
        Self {
            draft,
            hasher: Sha256::new(),
            waiting: Vec::with_capacity(CHUNK),
            bytes: 0,
            limit,
            why: None,
        }
    }

    fn put_out(&mut self) -> io::Result<()> {
        let put = self.draft.write(&self.waiting);
        self.waiting.clear();
        put.map_err(|why| {
            self.why = Some(why);
            io::Error::other("the draft could not be written")
        })
    }

    /// What a failed write means.
    pub(super) fn failed(&mut self, error: &io::Error) -> Failure {
        self.why
            .take()
            .unwrap_or_else(|| Failure::from(Reason::Io).detail(error))
    }

    pub(super) fn finish(mut self) -> Result<(u64, Digest), Failure> {
        if let Err(error) = self.put_out() {
            return Err(self.failed(&error));
        }
        Ok((self.bytes, Digest(self.hasher.finalize().into())))
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.limit {
            self.why = Some(Failure::new(
                Reason::TooLarge,
                format!("The archive would be larger than {} bytes.", self.limit),
            ));
            return Err(io::Error::other("the archive is too large"));
        }
        self.hasher.update(bytes);
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= CHUNK {
            self.put_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hands all `size` bytes of `file` on, chunk by chunk. One that has become
/// shorter is not packed as something it is not.
pub(super) fn each_chunk(
    file: &OwnedFd,
    size: u64,
    live: &Live<'_>,
    mut put: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let most = usize::try_from(size).unwrap_or(CHUNK).clamp(1, CHUNK);
    let mut buffer = vec![0; most];
    let mut at = 0;
    while at < size {
        live.still()?;
        let got = retry_on_intr(|| pread(file, &mut buffer[..], at)).map_err(failure)?;
        let left = usize::try_from(size - at).unwrap_or(usize::MAX);
        match buffer.get(..got.min(left)) {
            Some(read) if got > 0 => put(read)?,
            _ => return Err(moved_on(Reason::VersionMismatch)),
        }
        at += got as u64;
    }
    Ok(())
}
