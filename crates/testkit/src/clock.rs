//! Clocks: one that is set, one that runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_gate::Clock;

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct FakeClock {
    ms: AtomicU64,
}

/// Some moment of 2026.
const START_MS: u64 = 1_780_000_000_000;

impl FakeClock {
    /// A clock that stands still.
    pub fn new() -> Self {
        Self {
            ms: AtomicU64::new(START_MS),
        }
    }

    /// Lets so much time pass.
    pub fn pass(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.ms.fetch_add(ms, Ordering::AcqRel);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now_ms(&self) -> u64 {
        self.ms.load(Ordering::Acquire)
    }

    fn monotonic_us(&self) -> u64 {
        self.now_ms().saturating_mul(1000)
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct RealClock {
    began: Instant,
}

impl RealClock {
    /// A clock that runs.
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
