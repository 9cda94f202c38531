//! Reading a file: bytes, or a window of them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use portcullis_gate::{Deed, Permit, RootEntry, Settled};
use portcullis_policy::{Containment, Terms};
use portcullis_proto::{Facts, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;
use rustix::io::{Errno, pread, retry_on_intr};

use super::{Key, facts_of};
use crate::errno::failure;
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;

/// A file, pinned, about to be read.
#[derive(Debug)]
pub struct Reading {
    entry: Arc<RootEntry>,
    pub(crate) handle: OwnedFd,
    pub(crate) path: RelPath,
    pub(crate) meta: Meta,
    pub(crate) containment: Containment,
}

impl Reading {
    pub(crate) fn resolve(
        entry: &Arc<RootEntry>,
        root: &Root,
        path: &RelPath,
        terms: &Terms,
    ) -> Result<Self, Failure> {
        let opened = root.open(path, OFlags::RDONLY, terms.symlinks())?;
        opened.meta.admit_file(entry.policy(), || {
            sys::is_named(opened.handle.as_fd(), &opened.path)
        })?;
        Ok(Self {
            entry: Arc::clone(entry),
            handle: opened.handle,
            path: opened.path,
            meta: opened.meta,
            containment: root.containment(),
        })
    }
}

impl Deed for Reading {
    type Key = Key;

    fn facts(&self) -> Facts {
        facts_of(Verb::Read, &self.entry, &self.path, &self.meta)
    }
}

/// Which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteWindow {
    /// All of them; refused when there are more than the root allows.
    Whole,
    /// So many from an offset; of a file of any size.
    Part {
        /// Where to begin.
        offset: u64,
        /// How many at most.
        max: usize,
    },
}

/// Bytes, and what they are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytesPage {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where they begin.
    pub offset: u64,
    /// Whether the file goes on behind them.
    pub more: bool,
    /// The file.
    pub meta: Meta,
    /// Where it really stands, where links are followed.
    pub path: RelPath,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// Reads.
pub(crate) fn read_bytes(
    permit: Permit<Reading>,
    window: ByteWindow,
) -> Result<BytesPage, Failure> {
    permit.spend(Key::turn(), |reading, terms, _| {
        let limit = terms.max_file_bytes();
        let (offset, wanted) = match window {
            ByteWindow::Whole if reading.meta.size > limit => {
                return Err(Failure::new(
                    Reason::TooLarge,
                    format!(
                        "The file has {} bytes; {limit} are the most that is read whole.",
                        reading.meta.size
                    ),
                )
                .hint("Read a window of it: an offset and a length, or lines."));
            }
            // One more than it claims to have, so that growth is seen.
            ByteWindow::Whole => (0, reading.meta.size.min(limit).saturating_add(1)),
            ByteWindow::Part { offset, max } => {
                (offset, u64::try_from(max).unwrap_or(u64::MAX).min(limit))
            }
        };
        let wanted = usize::try_from(wanted).map_err(|_| Reason::TooLarge)?;
        let mut bytes = Vec::with_capacity(
            wanted.min(usize::try_from(reading.meta.size.saturating_add(1)).unwrap_or(wanted)),
        );
        fill(&reading.handle, offset, wanted, &mut bytes).map_err(failure)?;
        if window == ByteWindow::Whole && bytes.len() as u64 > reading.meta.size {
            // It grew since it was looked at; the caller gets all of it or a no.
            let rest = usize::try_from(limit).unwrap_or(usize::MAX);
            fill(&reading.handle, 0, rest.saturating_add(1), &mut bytes).map_err(failure)?;
            if bytes.len() as u64 > limit {
                return Err(Reason::TooLarge.into());
            }
        }
        let end = offset.saturating_add(bytes.len() as u64);
        let settled = Settled::bytes(bytes.len() as u64);
        let page = BytesPage {
            more: end < reading.meta.size,
            offset,
            bytes,
            meta: reading.meta,
            path: reading.path,
            containment: reading.containment,
        };
        Ok((page, settled))
    })
}

/// Appends to `bytes` until it holds `wanted` or the file ends; what `bytes`
/// holds already counts as read from `start`.
fn fill(handle: impl AsFd, start: u64, wanted: usize, bytes: &mut Vec<u8>) -> Result<(), Errno> {
    /// What one read asks for at most: keeps memory at what is really there.
    const STEP: usize = 1024 * 1024;
    while bytes.len() < wanted {
        let room = (wanted - bytes.len()).min(STEP);
        bytes.reserve(room);
        let at = start.saturating_add(bytes.len() as u64);
        let before = bytes.len();
        let got = retry_on_intr(|| {
            let spare = rustix::buffer::spare_capacity(bytes);
            pread(&handle, spare, at)
        })?;
        // For a regular file a short read is the end.
        if got == 0 || bytes.len() - before < room {
            break;
        }
    }
    bytes.truncate(wanted);
    Ok(())
}
