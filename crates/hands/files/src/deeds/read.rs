//! Reading a file: bytes, or a window of them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use portcullis_gate::{Deed, Live, Permit, RootEntry, Settled};
use portcullis_policy::{Containment, Terms};
use portcullis_proto::{Facts, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;
use rustix::io::{pread, retry_on_intr};

use super::{Key, facts_of};
use crate::errno::failure;
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;
use crate::text::redact_bytes;
use crate::writing::digest_file;

/// A file, pinned, about to be read.
#[derive(Debug)]
pub struct Reading {
    pub(crate) verb: Verb,
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
            verb: Verb::Read,
            entry: Arc::clone(entry),
            handle: opened.handle,
            path: opened.path,
            meta: opened.meta,
            containment: root.containment(),
        })
    }
}

impl Reading {
    /// Where its times are too fresh to be a version by themselves, its content
    /// is made part of it. Before the read: a change after this is told apart.
    pub(super) fn settle_version(&mut self, live: &Live<'_>) -> Result<(), Failure> {
        /// Of a larger file, the size is likely to tell.
        const MOST: u64 = 16 * 1024 * 1024;
        if self.meta.is_racy(live.now_ms()) && self.meta.size <= MOST {
            self.meta = self.meta.with_content(&digest_file(&self.handle)?);
        }
        Ok(())
    }
}

impl Deed for Reading {
    type Key = Key;

    fn facts(&self) -> Facts {
        facts_of(self.verb, &self.entry, &self.path, &self.meta)
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
    permit.spend(Key::turn(), |mut reading, terms, live| {
        reading.settle_version(live)?;
        let (offset, bytes) = match window {
            ByteWindow::Whole => (0, whole(&reading, terms)?),
            ByteWindow::Part { offset, max } => (offset, part(&reading, terms, offset, max)?),
        };
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

/// A secret file with its values hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactedReply {
    /// Its text: names visible, values hashed.
    pub text: String,
    /// How many values are hidden.
    pub values: u64,
    /// The file.
    pub meta: Meta,
    /// Where it really stands, where links are followed.
    pub path: RelPath,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// Reads with every value hidden.
pub(crate) fn read_redacted(
    permit: Permit<Reading>,
    key: Result<[u8; 32], Failure>,
) -> Result<RedactedReply, Failure> {
    permit.spend(Key::turn(), |reading, terms, _| {
        let key = key?;
        let bytes = whole(&reading, terms)?;
        let name = reading.path.name().unwrap_or_default();
        let redacted = redact_bytes(name, &bytes, &key);
        let settled = Settled::bytes(redacted.text.len() as u64);
        let reply = RedactedReply {
            text: redacted.text,
            values: redacted.values,
            meta: reading.meta,
            path: reading.path,
            containment: reading.containment,
        };
        Ok((reply, settled))
    })
}

/// All of a file, or a no when there is more than may be read whole.
pub(super) fn whole(reading: &Reading, terms: &Terms) -> Result<Vec<u8>, Failure> {
    let limit = terms.max_file_bytes();
    let size = reading.meta.size;
    let too_large = |size: &str| {
        Failure::new(
            Reason::TooLarge,
            format!("The file has {size} bytes; {limit} are the most that is read whole."),
        )
        .hint("Read a window of it: an offset and a length, or lines.")
    };
    if size > limit {
        return Err(too_large(&size.to_string()));
    }
    // One more than it claims to have, so that growth is seen.
    let mut bytes = Vec::new();
    let one_more = size.saturating_add(1);
    fill(&reading.handle, 0, one_more, Some(size), &mut bytes)?;
    if bytes.len() as u64 > size {
        // It grew since it was looked at; the caller gets all of it or a no.
        let most = limit.saturating_add(1);
        fill(&reading.handle, 0, most, None, &mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(too_large("too many"));
        }
    }
    Ok(bytes)
}

fn part(reading: &Reading, terms: &Terms, offset: u64, max: usize) -> Result<Vec<u8>, Failure> {
    let wanted = u64::try_from(max)
        .unwrap_or(u64::MAX)
        .min(terms.max_file_bytes());
    let mut bytes = Vec::new();
    let size = Some(reading.meta.size);
    fill(&reading.handle, offset, wanted, size, &mut bytes)?;
    Ok(bytes)
}

/// Appends to `bytes` until it holds `wanted` or the file ends; what `bytes`
/// holds already counts as read from `start`. A short read is the end of a file
/// where its `size` says so, and nowhere else.
fn fill(
    handle: impl AsFd,
    start: u64,
    wanted: u64,
    size: Option<u64>,
    bytes: &mut Vec<u8>,
) -> Result<(), Failure> {
    /// What one read asks for where nobody knows how much there is.
    const STEP: usize = 1024 * 1024;
    let wanted = usize::try_from(wanted).map_err(|_| Reason::TooLarge)?;
    while bytes.len() < wanted {
        let at = start.saturating_add(bytes.len() as u64);
        let room = match size.map(|size| usize::try_from(size.saturating_sub(at))) {
            Some(Ok(left)) if left > 0 => left.saturating_add(1),
            Some(_) | None => STEP,
        };
        bytes.reserve_exact(room.min(wanted - bytes.len()));
        let asked = bytes.capacity() - bytes.len();
        // Behind the last byte any file can have there is nothing, and no kernel
        // takes the question.
        if i64::try_from(at.saturating_add(asked as u64)).is_err() {
            break;
        }
        let got = retry_on_intr(|| pread(&handle, rustix::buffer::spare_capacity(bytes), at))
            .map_err(failure)?;
        let ends = size.is_some_and(|size| at.saturating_add(got as u64) >= size);
        if got == 0 || (got < asked && ends) {
            break;
        }
    }
    bytes.truncate(wanted);
    Ok(())
}
