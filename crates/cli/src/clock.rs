//! The system's clock, for the gate and for people.
#![allow(
    clippy::disallowed_methods,
    reason = "the cli wires the one real clock; everything else takes it as an argument"
)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use portcullis_gate::Clock;

/// Tells the real time.
#[derive(Debug)]
pub(crate) struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
