//! What is told to an OpenTelemetry collector: a span for every request and
//! every attempt, and the numbers of `/metrics`.
//!
//! A request leaves its span in a queue that has an end, and never waits: what
//! does not fit is dropped and counted. Nothing here holds a path, a content, a
//! credential or the name of a principal. Without a collector there is none of
//! this, and requests do not pay for it.

mod endpoint;
mod export;
mod health;
mod json;
mod metrics;
mod parent;
mod post;
mod span;

use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use portcullis_gate::{Clock, Ledger, LedgerDown};
use portcullis_proto::{Event, Phase, Trace};
use tokio::sync::Notify;

use crate::http::Seen;

pub use endpoint::{BadEndpoint, Endpoint, Headers, Trusted};
pub use export::{Dialling, Exporting, Outside, Reporting};
use parent::Parent;
use span::{Span, What};

/// Spans that wait to be sent. As many again may be on their way: a span has
/// some 250 bytes, so that all of them stay below 3 MiB.
pub(crate) const QUEUE: usize = 4_096;
/// Spans sent at once; as many that wait are not left waiting for the clock.
/// Writing them takes half a millisecond, which is for how long a thread that
/// answers requests is taken.
const BATCH: usize = 256;
/// How far our idea of the time may be from the clock's, in microseconds,
/// before it is set again. The clock tells whole milliseconds.
const CLOCK_SLACK_US: i64 = 5_000;

/// Why a span was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// The queue was full.
    QueueFull,
    /// The collector could not be reached, or did not want it.
    NotDelivered,
    /// The collector took the message and said that it left this one out.
    Rejected,
}

impl Dropped {
    pub(crate) const ALL: [Self; 3] = [Self::QueueFull, Self::NotDelivered, Self::Rejected];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::NotDelivered => "not_delivered",
            Self::Rejected => "rejected",
        }
    }
}

/// Takes note of requests and attempts, for an exporter to send.
pub struct Telemetry {
    clock: Arc<dyn Clock>,
    /// What to add to the clock's monotonic microseconds for those since 1970.
    since_1970_us: AtomicI64,
    /// Since when things are counted, in microseconds since 1970.
    began_us: u64,
    /// Ids have to differ, and nobody has to be unable to guess them.
    chance: RandomState,
    number: AtomicU64,
    waiting: Mutex<Vec<Span>>,
    /// Raised when a batch is full.
    full: Notify,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// A request that is traced, while it is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced {
    /// Its span.
    pub(crate) trace: Trace,
    /// The span of its client that it belongs to.
    parent: Option<[u8; 8]>,
}

impl Telemetry {
    /// Counts from now on.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let offset = offset_us(&*clock);
        let began_us = clock.monotonic_us().saturating_add_signed(offset);
        Arc::new(Self {
            clock,
            since_1970_us: AtomicI64::new(offset),
            began_us,
            chance: RandomState::new(),
            number: AtomicU64::new(0),
            waiting: Mutex::default(),
            full: Notify::new(),
            dropped: Default::default(),
        })
    }

    /// What writes the same lines, and notes how each attempt ended.
    pub fn watching(self: &Arc<Self>, ledger: Arc<dyn Ledger>) -> Arc<dyn Ledger> {
        Arc::new(Watched {
            ledger,
            telemetry: Arc::clone(self),
        })
    }

    /// A request begins. Nothing where its client does not want it traced.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Option<Traced> {
        let (id, parent) = match Parent::of(headers) {
            Some(parent) if !parent.sampled => return None,
            Some(parent) => (parent.trace, Some(parent.span)),
            None => (self.id(), None),
        };
        let span = self.id();
        Some(Traced {
            trace: Trace { id, span },
            parent,
        })
    }

    /// It was answered.
    pub(crate) fn answered(&self, traced: &Traced, seen: &Seen<'_>, scheme: &'static str) {
        let end_us = self.now_us();
        self.queue(Span {
            trace: traced.trace,
            parent: traced.parent,
            start_us: end_us.saturating_sub(seen.duration_us),
            end_us,
            what: What::Request {
                method: seen.method,
                route: seen.route,
                scheme,
                status: seen.status,
                request_id: seen.request_id.into(),
                attempt: seen.attempt.map(Into::into),
                principal: seen.identity.map(|identity| identity.principal.kind()),
            },
        });
    }

    /// An attempt of a request ended.
    fn attempted(&self, event: &Event<'_>, trace: Trace) {
        let end_us = self.now_us();
        self.queue(Span {
            trace: Trace {
                id: trace.id,
                span: self.id(),
            },
            parent: Some(trace.span),
            start_us: end_us.saturating_sub(event.duration_us),
            end_us,
            what: What::Attempt {
                verb: event.facts.verb,
                outcome: event.outcome,
                reason: event.reason,
                policy: span::policy(event.policy_source).into(),
                attempt: event.request_id.as_str().into(),
                principal: event.subject.principal.kind(),
            },
        });
    }

    fn queue(&self, span: Span) {
        let mut waiting = self.lock();
        if waiting.len() >= QUEUE {
            drop(waiting);
            self.count_dropped(Dropped::QueueFull, 1);
            return;
        }
        waiting.push(span);
        let is_batch = waiting.len().is_multiple_of(BATCH);
        drop(waiting);
        if is_batch {
            self.full.notify_one();
        }
    }

    /// All that waits. Taken whole, so that no request waits for it.
    fn take(&self) -> Vec<Span> {
        if self.lock().is_empty() {
            return Vec::new();
        }
        // Made before the lock is held, and with room for what usually comes.
        let next = Vec::with_capacity(BATCH);
        std::mem::replace(&mut *self.lock(), next)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_dropped(&self, why: Dropped, spans: u64) {
        if let Some(count) = self.dropped.get(why as usize) {
            count.fetch_add(spans, Ordering::Relaxed);
        }
    }

    /// How many spans were dropped, and why.
    pub(crate) fn dropped(&self) -> [(Dropped, u64); Dropped::ALL.len()] {
        Dropped::ALL.map(|why| {
            let count = self.dropped.get(why as usize);
            (why, count.map_or(0, |count| count.load(Ordering::Relaxed)))
        })
    }

    fn now_us(&self) -> u64 {
        let offset = self.since_1970_us.load(Ordering::Relaxed);
        self.clock.monotonic_us().saturating_add_signed(offset)
    }

    /// Follows the clock where somebody set it.
    fn follow_clock(&self) {
        let offset = offset_us(&*self.clock);
        let held = self.since_1970_us.load(Ordering::Relaxed);
        if held.abs_diff(offset) > CLOCK_SLACK_US.unsigned_abs() {
            self.since_1970_us.store(offset, Ordering::Relaxed);
        }
    }

    /// Bytes nobody else has, and never all zero.
    fn id<const N: usize>(&self) -> [u8; N] {
        loop {
            let mut id = [0; N];
            for part in id.chunks_mut(8) {
                let number = self.number.fetch_add(1, Ordering::Relaxed);
                let bytes = self.chance.hash_one(number).to_be_bytes();
                for (byte, chance) in part.iter_mut().zip(bytes) {
                    *byte = chance;
                }
            }
            if id != [0; N] {
                return id;
            }
        }
    }
}

fn offset_us(clock: &dyn Clock) -> i64 {
    let now_us = i64::try_from(clock.now_ms().saturating_mul(1_000)).unwrap_or(i64::MAX);
    let monotonic = i64::try_from(clock.monotonic_us()).unwrap_or(i64::MAX);
    now_us.saturating_sub(monotonic)
}

/// Writes lines, and tells which attempts they end.
struct Watched {
    ledger: Arc<dyn Ledger>,
    telemetry: Arc<Telemetry>,
}

impl Ledger for Watched {
    fn append(&self, event: &Event<'_>) -> Result<(), LedgerDown> {
        let kept = self.ledger.append(event);
        if let (Phase::Closing, Some(trace)) = (event.phase, event.trace) {
            self.telemetry.attempted(event, trace);
        }
        kept
    }
}

#[cfg(test)]
mod tests;
