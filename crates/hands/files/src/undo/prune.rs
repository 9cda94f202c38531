//! Keeps a store within its bounds, from its oldest end.

use portcullis_proto::Failure;
use rustix::fs::FlockOperation;

use super::store::{UndoStore, order};
use crate::sys;

/// How many operations are kept.
pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// How many bytes of displaced files are kept; trees count by their entry.
pub(crate) const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;

impl UndoStore {
    /// Forgets the oldest operations until the rest fits. Says how many.
    pub(crate) fn prune(&self, most: usize, most_bytes: u64) -> Result<usize, Failure> {
        use std::os::fd::AsFd as _;
        // Two processes need not prune at once.
        if rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(0);
        }
        let mut kept: Vec<(i64, String, u64)> = Vec::new();
        for name in self.names()? {
            let Some(id) = name.strip_suffix(".json") else {
                continue;
            };
            let Ok(written) = sys::child_meta(self.dir.as_fd(), name.as_str()) else {
                continue;
            };
            let size = sys::child_meta(self.dir.as_fd(), format!("{id}.pre"))
                .map_or(0, |seen| seen.stx_size);
            kept.push((written.stx_mtime.tv_sec, id.to_owned(), size));
        }
        kept.sort_by(|a, b| (a.0, order(&a.1)).cmp(&(b.0, order(&b.1))));
        let mut bytes: u64 = kept.iter().map(|(_, _, size)| size).sum();
        let mut left = kept.len();
        for (_, id, size) in &kept {
            if left <= most && bytes <= most_bytes {
                break;
            }
            // What cannot go now is tried again; the rest goes on.
            let _stuck = self.forget(id);
            left -= 1;
            bytes = bytes.saturating_sub(*size);
        }
        let _unlocked = rustix::fs::flock(&self.dir, FlockOperation::Unlock);
        Ok(kept.len() - left)
    }
}
