//! Hashes of files that were read before and have not changed since.
//!
//! Hashing a file of some hundred KiB costs as much as all the rest of reading
//! it. What is kept counts only where the file's times are old enough to tell
//! every later change, and are the same after the read as before it; whoever
//! writes on the strength of a hash has the file hashed anew.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use portcullis_proto::Digest;
use rustix::fs::fstat;

use crate::meta::Meta;
use crate::writing::digest;

/// A smaller file is hashed faster than looked up.
const LEAST: usize = 16 * 1024;
/// How many hashes are kept; when there are more, all are let go.
const MOST: usize = 1_024;

/// Which version of which file.
type Version = (u64, u64, u64, i128, i128);

/// Hashes of a root's files.
#[derive(Debug, Default)]
pub(crate) struct Hashes(Mutex<HashMap<Version, Digest>>);

impl Hashes {
    /// The hash of `bytes`, which are all of the file that `meta` was of before
    /// they were read.
    pub(crate) fn of(&self, file: impl AsFd, meta: &Meta, bytes: &[u8], now_ms: u64) -> Digest {
        if bytes.len() < LEAST || meta.is_racy(now_ms) || bytes.len() as u64 != meta.size {
            return digest(bytes);
        }
        let version = version(meta);
        let is_same = fstat(file).is_ok_and(|stat| self::version(&Meta::of_stat(&stat)) == version);
        if !is_same {
            return digest(bytes);
        }
        let known = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&version)
            .copied();
        known.unwrap_or_else(|| {
            let hash = digest(bytes);
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= MOST {
                kept.clear();
            }
            kept.insert(version, hash);
            hash
        })
    }
}

fn version(meta: &Meta) -> Version {
    (meta.dev, meta.ino, meta.size, meta.mtime_ns, meta.ctime_ns)
}
