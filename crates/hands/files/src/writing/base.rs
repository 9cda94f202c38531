//! What stands at a target before it is changed.

use std::os::fd::AsFd;

use portcullis_proto::{Digest, Failure, Reason};
use rustix::io::{pread, retry_on_intr};
use sha2::{Digest as _, Sha256};

use crate::errno::failure;

/// All of a file, if it has at most `limit` bytes.
pub(crate) fn read_all(file: impl AsFd, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
    let limit = usize::try_from(limit).map_err(|_| Reason::TooLarge)?;
    let size = rustix::fs::fstat(&file).map_err(failure)?.st_size;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > limit {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(size.saturating_add(1));
    loop {
        if bytes.len() == bytes.capacity() {
            bytes.reserve(64 * 1024);
        }
        let at = bytes.len() as u64;
        let got = retry_on_intr(|| pread(&file, rustix::buffer::spare_capacity(&mut bytes), at))
            .map_err(failure)?;
        if bytes.len() > limit {
            return Ok(None);
        }
        if got == 0 {
            return Ok(Some(bytes));
        }
    }
}

/// SHA-256 of `bytes`.
pub fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// SHA-256 of a file of any size, in flat memory.
pub(crate) fn digest_file(file: impl AsFd) -> Result<Digest, Failure> {
    let digest = digest_up_to(file, u64::MAX)?;
    digest.ok_or_else(|| Reason::Bug.into())
}

/// SHA-256 of a file; `None` where it is larger than `most`, however much
/// somebody adds to it meanwhile.
pub(crate) fn digest_up_to(file: impl AsFd, most: u64) -> Result<Option<Digest>, Failure> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 128 * 1024];
    let mut at = 0;
    loop {
        let got = retry_on_intr(|| pread(&file, &mut buffer[..], at)).map_err(failure)?;
        let Some(read) = buffer.get(..got).filter(|read| !read.is_empty()) else {
            return Ok(Some(Digest(hasher.finalize().into())));
        };
        hasher.update(read);
        at += got as u64;
        if at > most {
            return Ok(None);
        }
    }
}
