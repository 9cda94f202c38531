//! The audit on disk: one chain of lines per process, joined by signed heads.
//!
//! A chain is `audit/<start>-<random>/NNN.jsonl`. Each line is one JSON object
//! that begins with its number and the SHA-256 of the line before (its raw
//! bytes, newline included): `{"n":7,"prev":"…",`. The first is a `start`
//! line; `head` lines sign the chain up to themselves and are copied to
//! `audit/heads.jsonl`; a `segment` line begins each further file; a
//! `recovered` line follows what a dying process left torn.
//!
//! Invariants: a line is written by one write(2) of the thread that acted,
//! and kept once that returned, whatever becomes of the process. Nothing is
//! ever truncated or rewritten. A ledger that failed once refuses from then on.

mod chain;
mod event;
mod files;
mod follow;
mod head;
mod housekeeper;
mod json;
mod key;
mod line;
mod lines;
mod log;
mod pieces;
mod record;
mod recover;
mod reserve;
mod unfinished;
mod verify;
mod walk;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::{Clock, Ledger, LedgerDown};
use portcullis_proto::{Event, Failure};

use self::chain::Chain;
use self::head::Last;
use self::housekeeper::Shared;
use self::line::Line;
use crate::private_dir::PrivateDir;

pub use self::follow::Follow;
pub use self::log::{AuditLog, BadLine, Records};
pub use self::pieces::Piece;
pub use self::record::{
    Filter, LineKind, Record, RecordCounts, RecordIdentity, RecordResource, RecordResources,
    RecordRoot, RecordSubject,
};
pub use self::recover::{Recovery, recover_torn};
pub(crate) use self::unfinished::{Unfinished, mark_swept, unfinished};
pub use self::verify::{Fault, Problem, UnsignedTail, Verification};

/// How a ledger keeps its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerOptions {
    /// How large a segment may grow, in bytes.
    pub max_segment: u64,
    /// After how many lines the acting thread signs a head.
    pub lines_per_head: u64,
    /// How long lines stay unsigned and unsynced at most.
    pub head_every: Duration,
    /// Whether to mend, at start, what other processes left torn.
    pub recover: bool,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self {
            max_segment: 64 << 20,
            lines_per_head: 1000,
            head_every: Duration::from_secs(1),
            recover: true,
        }
    }
}

/// The audit of this process.
pub struct FileLedger {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    chain: String,
    lines_per_head: u64,
    audit: PrivateDir,
}

thread_local! {
    /// Lines are written before the chain is locked, each thread in its own buffer.
    static LINE: RefCell<Line> = RefCell::new(Line::new());
}

impl FileLedger {
    /// Starts a chain in `data` and the thread that signs and syncs it.
    pub fn open(
        data: &PrivateDir,
        clock: Arc<dyn Clock>,
        options: LedgerOptions,
    ) -> Result<Self, Failure> {
        let audit = data.sub(files::AUDIT)?;
        let chain = Chain::start(&audit, clock.now_ms(), options.max_segment)?;
        let id = chain.id().to_owned();
        let shared = Arc::new(Shared::new(chain));
        housekeeper::spawn(&shared, &clock, audit.clone(), options)?;
        Ok(Self {
            shared,
            clock,
            chain: id,
            lines_per_head: options.lines_per_head.max(1),
            audit,
        })
    }

    /// The name of the chain this process writes.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Signs the chain off. What is written later is refused.
    pub fn close(&self) {
        self.shared.close(self.clock.now_ms());
    }

    fn put(&self, line: &mut Line, event: &Event<'_>) -> Result<(), LedgerDown> {
        event::write_event(line, event);
        let mut chain = self.shared.lock()?;
        chain.put(line, event.at)?;
        if chain.unsigned >= self.lines_per_head {
            // The line is kept. If the head is not, the next line will be refused.
            let _refused_from_now_on = chain.head(event.at, Last::No);
        }
        self.shared.wake_for(chain);
        Ok(())
    }
}

impl Ledger for FileLedger {
    fn append(&self, event: &Event<'_>) -> Result<(), LedgerDown> {
        reserve::has_room_for(event, self.audit.fd())?;
        LINE.try_with(|line| match line.try_borrow_mut() {
            Ok(mut line) => self.put(&mut line, event),
            Err(_) => self.put(&mut Line::new(), event),
        })
        // The thread is ending and its buffer is gone already.
        .unwrap_or_else(|_| self.put(&mut Line::new(), event))
    }
}

impl Drop for FileLedger {
    /// Signs the chain off.
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for FileLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileLedger({})", self.chain)
    }
}
