//! How fast one principal may ask: so many a second, and so many at once.
//!
//! One number for each principal, moved without a lock: the moment at which
//! all that was let through so far would have been through at the steady pace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many requests a second; as many again may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds from one to the next; 0 where there is no limit.
    every_ns: u64,
    /// How far ahead of the steady pace one may be.
    ahead_ns: u64,
}

impl Rate {
    /// So many a second; 0 is no limit.
    pub fn per_second(requests: u32) -> Self {
        const SECOND: u64 = 1_000_000_000;
        match SECOND.checked_div(u64::from(requests)) {
            None => Self {
                every_ns: 0,
                ahead_ns: 0,
            },
            Some(every_ns) => Self {
                every_ns: every_ns.max(1),
                ahead_ns: SECOND,
            },
        }
    }
}

/// How far one principal is.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

impl Pace {
    /// Whether one more may be let through now; if not, when it may.
    pub(crate) fn step(&self, rate: Rate, now_us: u64) -> Result<(), Duration> {
        if rate.every_ns == 0 {
            return Ok(());
        }
        let now = now_us.saturating_mul(1_000);
        let mut until = self.0.load(Ordering::Relaxed);
        loop {
            let next = until.max(now).saturating_add(rate.every_ns);
            let early = (next - now).saturating_sub(rate.ahead_ns);
            if early > 0 {
                return Err(Duration::from_nanos(early));
            }
            let moved =
                self.0
                    .compare_exchange_weak(until, next, Ordering::Relaxed, Ordering::Relaxed);
            match moved {
                Ok(_) => return Ok(()),
                Err(other) => until = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pace: &Pace, rate: Rate, now_us: u64, tries: usize) -> usize {
        (0..tries)
            .filter(|_| pace.step(rate, now_us).is_ok())
            .count()
    }

    #[test]
    fn a_seconds_worth_may_come_at_once_and_then_it_is_the_steady_pace() {
        let (pace, rate) = (Pace::default(), Rate::per_second(100));
        let start = 5_000_000;
        assert_eq!(through(&pace, rate, start, 1_000), 100);
        assert_eq!(through(&pace, rate, start + 100_000, 1_000), 10);
        let wait = pace.step(rate, start + 100_000).unwrap_err();
        assert!(wait <= Duration::from_millis(10), "{wait:?}");
        // What was not used does not add up.
        assert_eq!(through(&pace, rate, start + 60_000_000, 1_000), 100);
    }

    #[test]
    fn no_limit_is_no_limit() {
        let (pace, rate) = (Pace::default(), Rate::per_second(0));
        assert_eq!(through(&pace, rate, 0, 10_000), 10_000);
    }

    #[test]
    fn many_at_once_get_no_more_than_one_would() {
        let (pace, rate) = (Pace::default(), Rate::per_second(1_000));
        let counts = std::thread::scope(|scope| {
            let each = || through(&pace, rate, 1, 1_000);
            let all: Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
            all.into_iter()
                .map(|one| one.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!(counts, 1_000);
    }
}
