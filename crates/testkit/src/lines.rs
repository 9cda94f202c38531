//! A ledger that remembers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use portcullis_gate::{Ledger, LedgerDown};
use portcullis_proto::{Counts, Event, Outcome, Phase, Reason, Verb};

/// One line, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The attempt.
    pub request: String,
    /// Opening or closing.
    pub phase: Phase,
    /// What was to be done.
    pub verb: Verb,
    /// The path of the first resource, as judged last.
    pub path: Option<String>,
    /// What the caller wrote, where it never became a path.
    pub alleged: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where it did not succeed.
    pub reason: Option<Reason>,
    /// Which rule, mode, class or person decided.
    pub source: String,
    /// Bytes returned.
    pub bytes: Option<u64>,
    /// What a bulk deed came to.
    pub counts: Option<Counts>,
    /// The whole line, as a ledger would write it.
    pub json: String,
}

/// Every line, in order.
#[derive(Debug, Default)]
pub struct Lines {
    written: Mutex<Vec<Line>>,
    down: AtomicBool,
    deaf: AtomicBool,
}

impl Lines {
    /// From now on no line can be written; or again it can.
    pub fn break_down(&self, down: bool) {
        self.down.store(down, Ordering::Release);
    }

    /// From now on lines are taken and forgotten, for runs of millions.
    pub fn forget(&self) {
        self.deaf.store(true, Ordering::Release);
    }

    /// Every line so far.
    pub fn all(&self) -> Vec<Line> {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Every closing line so far.
    pub fn closing(&self) -> Vec<Line> {
        let mut lines = self.all();
        lines.retain(|line| line.phase == Phase::Closing);
        lines
    }

    /// The last closing line.
    #[track_caller]
    pub fn last(&self) -> Line {
        self.closing().pop().expect("no closing line was written")
    }

    /// Forgets what is there, and returns it.
    pub fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks that every attempt has exactly one closing line, and returns how
    /// many attempts there were.
    #[track_caller]
    pub fn one_each(&self) -> usize {
        let mut closed: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.all() {
            let count = closed.entry(line.request).or_default();
            *count += usize::from(line.phase == Phase::Closing);
        }
        for (request, count) in &closed {
            assert_eq!(*count, 1, "{request} has {count} closing lines");
        }
        closed.len()
    }
}

impl Ledger for Lines {
    fn append(&self, event: &Event<'_>) -> Result<(), LedgerDown> {
        if self.down.load(Ordering::Acquire) {
            return Err(LedgerDown("told to".into()));
        }
        if self.deaf.load(Ordering::Acquire) {
            return Ok(());
        }
        let first = event.facts.resources.first();
        let line = Line {
            request: event.request_id.as_str().to_owned(),
            phase: event.phase,
            verb: event.facts.verb,
            path: first.map(|resource| resource.path.to_string()),
            alleged: event.alleged.map(str::to_owned),
            outcome: event.outcome,
            reason: event.reason,
            source: event.policy_source.to_owned(),
            bytes: event.bytes,
            counts: event.counts,
            json: serde_json::to_string(event).expect("a line is JSON"),
        };
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
        Ok(())
    }
}
