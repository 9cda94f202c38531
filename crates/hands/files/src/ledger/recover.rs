//! Mends what a dying process left: an unfinished last line is kept, ended and
//! followed by a `recovered` line that tells its length and hash.
//!
//! Invariants: nothing is truncated, and a chain whose process lives is not
//! touched. A recovered tail stays unsigned: nobody can vouch for it.

use portcullis_proto::Failure;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use super::chain::hash;
use super::files::{self, AUDIT, chains, open_read, read_at, segment_name, segments, write_all};
use super::json::key;
use super::line::{Front, Line, MAX_LINE};
use super::lines::Lines;
use crate::private_dir::{PrivateDir, os_failure};

/// What mending found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Chains looked at.
    pub chains: usize,
    /// The names of those that were mended.
    pub mended: Vec<String>,
}

/// Mends every chain in `data` whose process is gone.
pub fn recover_torn(data: &PrivateDir, now_ms: u64) -> Result<Recovery, Failure> {
    recover_torn_in(&data.sub(AUDIT)?, now_ms)
}

pub(crate) fn recover_torn_in(audit: &PrivateDir, now_ms: u64) -> Result<Recovery, Failure> {
    let mut recovery = Recovery::default();
    for name in chains(audit)? {
        let chain = audit.existing(&name)?;
        recovery.chains += 1;
        if mend(&chain, now_ms)? {
            recovery.mended.push(name);
        }
    }
    Ok(recovery)
}

/// Mends one chain, if its process is gone and its last line is torn.
fn mend(chain: &PrivateDir, now_ms: u64) -> Result<bool, Failure> {
    let failed = |errno| os_failure(errno, chain.path());
    let numbers = segments(chain)?;
    let Some(&last) = numbers.last() else {
        return Ok(false);
    };
    let name = segment_name(last);
    let file = rustix::fs::openat(
        chain.fd(),
        &name,
        OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )
    .map_err(failed)?;
    if is_whole(&file).map_err(failed)? {
        return Ok(false);
    }
    // Locked like a living process would, so that two that start at once do
    // not both mend; then looked at again.
    let Ok(lock) = open_read(chain, &segment_name(0)) else {
        return Ok(false);
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(errno) => return Err(failed(errno)),
    }
    if is_whole(&file).map_err(failed)? {
        return Ok(false);
    }
    let next = match last.checked_sub(1) {
        Some(before) => end_of(chain, before).map_err(failed)?.next,
        None => 0,
    };
    let mut end = end_of_file(chain, &name, next).map_err(failed)?;
    let mut mending = Vec::with_capacity(512);
    let torn = end.last.strip_suffix(b"\n").map(<[u8]>::to_vec);
    let torn = torn.unwrap_or_else(|| {
        mending.push(b'\n');
        let torn = end.last.clone();
        end.last.push(b'\n');
        torn
    });
    let mut line = Line::new();
    let mut json = line.rest(usize::MAX);
    json.word(key!("line"), "recovered");
    json.time(key!("timestamp"), now_ms);
    json.number(key!("length"), torn.len() as u64);
    json.hex(key!("hash"), &Sha256::digest(&torn));
    json.no_comma();
    json.raw("}\n");
    mending.extend_from_slice(line.seal(end.next, &hash(&end.last)));
    write_all(&file, &mending).map_err(failed)?;
    Ok(true)
}

/// Whether the file ends in a whole line. An empty file does not count as
/// torn: its process died before it wrote anything.
fn is_whole(file: &std::os::fd::OwnedFd) -> Result<bool, Errno> {
    let len = files::length(file)?;
    let mut tail = [0; MAX_LINE + 1];
    let from = len.saturating_sub(tail.len() as u64);
    let read = read_at(file, &mut tail, from)?;
    let Some(lines) = tail[..read].strip_suffix(b"\n") else {
        return Ok(read == 0);
    };
    let last = match memchr::memrchr(b'\n', lines) {
        Some(at) => &lines[at + 1..],
        None if from == 0 => lines,
        None => return Ok(false),
    };
    let valid = serde_json::from_slice::<IgnoredAny>(last).is_ok();
    Ok(valid && Front::parse(last).is_some())
}

/// The end of a segment.
struct End {
    /// The number of the line after the last.
    next: u64,
    /// The last line.
    last: Vec<u8>,
}

fn end_of(chain: &PrivateDir, segment: u32) -> Result<End, Errno> {
    end_of_file(chain, &segment_name(segment), 0)
}

/// Reads a segment to its end. `next` is the number of its first line, needed
/// only if no line tells its own.
fn end_of_file(chain: &PrivateDir, name: &str, mut next: u64) -> Result<End, Errno> {
    let mut lines = Lines::new(open_read(chain, name)?, 0);
    let mut last = Vec::new();
    while let Some(line) = lines.next()? {
        next = Front::parse(line).map_or(next, |front| front.n) + 1;
        last.clear();
        last.extend_from_slice(line);
    }
    Ok(End { next, last })
}
