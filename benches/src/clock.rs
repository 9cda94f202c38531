//! The clock the product has, for worlds built here; and the one on the wall.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::time::ClockId;
use portcullis_gate::Clock;

use crate::Outcome;

/// Time on the wall, for what waits for the disk.
pub(crate) fn wall() -> Outcome<Duration> {
    Ok(ClockId::CLOCK_MONOTONIC.now()?.into())
}

/// The time of the machine.
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
