//! Where chains stand on disk, and the few ways their files are touched.
//!
//! `audit/<start in ms>-<16 hex>/NNN.jsonl`, `audit/heads.jsonl`, `audit/key`.
//! Everything is opened relative to a [`PrivateDir`] and never through a link.

use std::os::fd::{AsFd, OwnedFd};

use portcullis_proto::Failure;
use rustix::fs::{Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::private_dir::{PrivateDir, os_failure};

/// The directory of the audit in the data directory.
pub(crate) const AUDIT: &str = "audit";
/// Copies of signed heads, of all chains.
pub(crate) const HEADS: &str = "heads.jsonl";

const OWN_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW);

/// The name of a chain that starts now.
pub(crate) fn new_chain_id(now_ms: u64) -> Result<String, Failure> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| {
        Failure::from(portcullis_proto::Reason::Io).detail(format_args!("no randomness: {error}"))
    })?;
    Ok(format!("{now_ms:013}-{:016x}", u64::from_be_bytes(random)))
}

/// When the chain called `name` started, if that is the name of a chain.
pub(crate) fn chain_start(name: &str) -> Option<u64> {
    let (start, random) = name.split_once('-')?;
    let random_is_hex = random.len() == 16
        && random
            .bytes()
            .all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    if !random_is_hex || start.len() < 13 || !start.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    start.parse().ok()
}

/// The file name of a segment.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:03}.jsonl")
}

fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".jsonl")?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// The chains, oldest first.
pub(crate) fn chains(audit: &PrivateDir) -> Result<Vec<String>, Failure> {
    let mut chains = names(audit)?;
    chains.retain(|name| chain_start(name).is_some());
    chains.sort_unstable();
    Ok(chains)
}

/// The numbers of the segments of one chain, in order.
pub(crate) fn segments(chain: &PrivateDir) -> Result<Vec<u32>, Failure> {
    let mut segments: Vec<u32> = names(chain)?
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    segments.sort_unstable();
    Ok(segments)
}

fn names(dir: &PrivateDir) -> Result<Vec<String>, Failure> {
    let failed = |errno| os_failure(errno, dir.path());
    let mut names = Vec::new();
    for entry in Dir::read_from(dir.fd()).map_err(failed)? {
        if let Ok(name) = entry.map_err(failed)?.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Opens for reading.
pub(crate) fn open_read(dir: &PrivateDir, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(
        dir.fd(),
        name,
        ALWAYS | OFlags::RDONLY | OFlags::NONBLOCK,
        Mode::empty(),
    )
}

/// Creates a file that must not exist yet, for appending.
pub(crate) fn create_append(dir: &PrivateDir, name: &str) -> Result<OwnedFd, Errno> {
    let how = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
    rustix::fs::openat(dir.fd(), name, ALWAYS | how, OWN_FILE)
}

/// Opens for appending, creating the file where it is missing.
pub(crate) fn open_append(dir: &PrivateDir, name: &str) -> Result<OwnedFd, Errno> {
    let how = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
    rustix::fs::openat(dir.fd(), name, ALWAYS | how, OWN_FILE)
}

/// Writes all of `bytes`, normally by one call. A short write is completed by
/// further ones: the alternative is a torn line.
pub(crate) fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Reads at `offset` until `buffer` is full or the file ends.
pub(crate) fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(&fd, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// How long the file is.
pub(crate) fn length(fd: impl AsFd) -> Result<u64, Errno> {
    let stat = rustix::fs::fstat(fd)?;
    Ok(u64::try_from(stat.st_size).unwrap_or_default())
}

/// Whether the process that writes the chain is alive: it holds a lock on the
/// chain's first segment as long as it lives.
pub(crate) fn is_live(chain: &PrivateDir) -> bool {
    open_read(chain, &segment_name(0)).is_ok_and(|first| {
        rustix::fs::flock(first, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    })
}
