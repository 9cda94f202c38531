//! The end of a chain that is being written.
//!
//! Invariants: lines go out whole, in order, one write each; after a write
//! that could not be completed nothing is ever written again, so that a torn
//! line is the last one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use portcullis_gate::LedgerDown;
use portcullis_proto::Failure;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::files::{self, HEADS, create_append, open_append, segment_name, write_all};
use super::head::{Last, sign_head, write_head};
use super::json::{hex_hash, key};
use super::key::Key;
use super::line::Line;
use crate::private_dir::{PrivateDir, os_failure};

/// What a chain begins with, where a hash would stand.
pub(crate) const GENESIS: [u8; 64] = [b'0'; 64];

/// Whether lines can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    /// A write failed; why.
    Down(String),
    /// Closed in order.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Chain {
    dir: PrivateDir,
    id: String,
    /// Locked as long as we live, so that others know. Also the first segment.
    lock: Arc<OwnedFd>,
    segment: Arc<OwnedFd>,
    /// Segments that are full and have not been synced since.
    full: Vec<Arc<OwnedFd>>,
    heads: OwnedFd,
    key: Key,
    max_segment: u64,
    number: u32,
    len: u64,
    n: u64,
    prev: [u8; 64],
    /// Lines since the last head.
    pub(crate) unsigned: u64,
    /// Whether lines were written that nobody has asked the disk to keep.
    pub(crate) unsynced: bool,
    pub(crate) state: State,
}

impl Chain {
    /// Starts a chain: its directory, its lock and its first line.
    pub(crate) fn start(
        audit: &PrivateDir,
        now_ms: u64,
        max_segment: u64,
    ) -> Result<Self, Failure> {
        let key = Key::load_or_create(audit)?;
        let heads = open_heads(audit)?;
        let id = files::new_chain_id(now_ms)?;
        let dir = audit.sub(&id)?;
        let failed = |errno| os_failure(errno, dir.path());
        let lock = create_append(&dir, &segment_name(0)).map_err(failed)?;
        // Waits at most for somebody who looks whether we are alive.
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(failed)?;
        let lock = Arc::new(lock);
        let mut chain = Self {
            segment: Arc::clone(&lock),
            lock,
            full: Vec::new(),
            dir,
            id,
            heads,
            key,
            max_segment,
            number: 0,
            len: 0,
            n: 0,
            prev: GENESIS,
            unsigned: 0,
            unsynced: false,
            state: State::Up,
        };
        let mut line = Line::new();
        let mut json = line.rest(usize::MAX);
        json.word(key!("line"), "start");
        json.word(key!("chain"), &chain.id);
        json.time(key!("timestamp"), now_ms);
        json.word(key!("version"), env!("CARGO_PKG_VERSION"));
        json.number(key!("pid"), std::process::id().into());
        json.hex(key!("key"), chain.key.public().as_bytes());
        json.no_comma();
        json.raw("}\n");
        chain.put(&mut line, now_ms).map_err(|down| {
            Failure::from(portcullis_proto::Reason::AuditUnavailable).detail(down)
        })?;
        Ok(chain)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Writes one line. It survives the death of this process when this has
    /// returned `Ok`.
    pub(crate) fn put(&mut self, line: &mut Line, now_ms: u64) -> Result<(), LedgerDown> {
        self.check_up()?;
        if self.len > 0 && self.len + line.max_len() > self.max_segment {
            self.rotate(now_ms)?;
        }
        self.write(line)
    }

    /// Writes a head, here and to the file of heads.
    pub(crate) fn head(&mut self, now_ms: u64, last: Last) -> Result<(), LedgerDown> {
        self.check_up()?;
        let mut line = Line::new();
        write_head(&mut line, &self.id, self.number, now_ms, last);
        let raw = sign_head(&mut line, self.n, &self.prev, &self.key);
        write_all(&self.segment, raw)
            // A copy stands there only for a head that stands here.
            .and_then(|()| write_all(&self.heads, raw))
            .map_err(|errno| down(&mut self.state, errno))?;
        self.prev = hash(raw);
        self.n += 1;
        self.len += raw.len() as u64;
        self.unsigned = 0;
        Ok(())
    }

    /// The files whose bytes may not be on the disk yet.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<OwnedFd>> {
        self.unsynced = false;
        let mut files = std::mem::take(&mut self.full);
        files.push(Arc::clone(&self.segment));
        files
    }

    /// Refuses from now on: the disk did not keep what it was given.
    pub(crate) fn fail(&mut self, errno: Errno) {
        if self.state == State::Up {
            let _told_to_the_next_writer = down(&mut self.state, errno);
        }
    }

    /// Signs off and lets go of the lock.
    pub(crate) fn close(&mut self, now_ms: u64) {
        if self.state == State::Up {
            for file in self.take_unsynced() {
                if let Err(errno) = rustix::fs::fdatasync(&*file) {
                    self.fail(errno);
                }
            }
            if self.head(now_ms, Last::Yes).is_ok() {
                self.state = State::Closed;
            }
        }
        // The handle may be kept a little longer by the thread that syncs.
        let _unlocked = rustix::fs::flock(&*self.lock, FlockOperation::Unlock);
    }

    fn check_up(&self) -> Result<(), LedgerDown> {
        match &self.state {
            State::Up => Ok(()),
            State::Down(why) => Err(LedgerDown(why.clone())),
            State::Closed => Err(LedgerDown("it is closed".to_owned())),
        }
    }

    fn write(&mut self, line: &mut Line) -> Result<(), LedgerDown> {
        let raw = line.seal(self.n, &self.prev);
        write_all(&self.segment, raw).map_err(|errno| down(&mut self.state, errno))?;
        self.prev = hash(raw);
        self.n += 1;
        self.len += raw.len() as u64;
        self.unsigned += 1;
        self.unsynced = true;
        Ok(())
    }

    /// Goes on in the next segment, whose first line continues the chain.
    fn rotate(&mut self, now_ms: u64) -> Result<(), LedgerDown> {
        self.head(now_ms, Last::No)?;
        let next = create_append(&self.dir, &segment_name(self.number + 1))
            .map_err(|errno| down(&mut self.state, errno))?;
        self.full
            .push(std::mem::replace(&mut self.segment, Arc::new(next)));
        self.number += 1;
        self.len = 0;
        let mut line = Line::new();
        let mut json = line.rest(usize::MAX);
        json.word(key!("line"), "segment");
        json.word(key!("chain"), &self.id);
        json.time(key!("timestamp"), now_ms);
        json.number(key!("segment"), self.number.into());
        json.no_comma();
        json.raw("}\n");
        self.write(&mut line)
    }
}

/// The hash of a line, its newline included, as hex.
pub(crate) fn hash(raw: &[u8]) -> [u8; 64] {
    hex_hash(&Sha256::digest(raw).into())
}

fn down(state: &mut State, errno: Errno) -> LedgerDown {
    let why = errno.to_string();
    *state = State::Down(why.clone());
    LedgerDown(why)
}

/// Opens the file of heads. A line that a dying process left unfinished there
/// is ended, so that ours begins on its own.
fn open_heads(audit: &PrivateDir) -> Result<OwnedFd, Failure> {
    let open = || {
        let heads = open_append(audit, HEADS)?;
        let len = files::length(&heads)?;
        let mut last = [b'\n'];
        if len > 0 {
            files::read_at(&heads, &mut last, len - 1)?;
        }
        if last != [b'\n'] {
            write_all(&heads, b"\n")?;
        }
        Ok(heads)
    };
    open().map_err(|errno| os_failure(errno, &audit.path().join(HEADS)))
}
