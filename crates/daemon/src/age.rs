//! How old what is heard may be.
//!
//! A call counts from when it was sent, and a daemon knows only when it hears it.
//! What lay in between, in a socket of a machine that slept or of a daemon that had
//! no room, may be older than its caller waits. The timers stand still while a
//! machine sleeps, so that is measured by a clock that does not.

use std::time::Duration;

use portcullis_link::bounds;
use tokio::time::Instant;

/// What is heard so soon after something late lay beside it.
const BESIDE: Duration = Duration::from_secs(1);

/// When something was heard, and how much longer than usual it may have lain here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) at: Instant,
    pub(crate) late: Duration,
}

impl Heard {
    /// What was asked for a moment ago, and so is new.
    pub(crate) fn now() -> Self {
        Self {
            at: Instant::now(),
            late: Duration::ZERO,
        }
    }

    /// When a call is over that may take so long. One that says how long its caller
    /// still waits may be trusted to: where it cannot, what it may have lain here
    /// is taken off.
    pub(crate) fn deadline(self, told: Option<Duration>, usual: Duration) -> Instant {
        self.at + told.unwrap_or_else(|| usual.saturating_sub(self.late))
    }
}

/// The age of what one stream brings. Times are milliseconds of a clock that also
/// runs while the machine sleeps.
#[derive(Debug)]
pub(crate) struct Age {
    last: u64,
    /// When something came late, and how late.
    late: Option<(u64, Duration)>,
}

impl Age {
    /// Of a stream that is asked for now.
    pub(crate) const fn since(now: u64) -> Self {
        Self {
            last: now,
            late: None,
        }
    }

    /// Something came now. How much longer than from one ping to the next it may
    /// have lain here; nothing where a stream may not even be silent for so long.
    pub(crate) fn heard(&mut self, now: u64) -> Option<Duration> {
        // A clock that was set back tells nothing.
        let gap = Duration::from_millis(now.saturating_sub(self.last));
        self.last = now;
        if gap > bounds::SILENCE {
            return None;
        }
        let beside = self.late.filter(|(at, _)| {
            let since = now.checked_sub(*at).map(Duration::from_millis);
            since.is_some_and(|since| since < BESIDE)
        });
        let late = gap.saturating_sub(bounds::PING);
        if late.is_zero() {
            return Some(beside.map_or(Duration::ZERO, |(_, late)| late));
        }
        self.late = Some((now, late));
        Some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_than_a_ping_is_late_and_so_is_what_lay_beside_it() {
        let mut age = Age::since(1_000);
        let secs = Duration::from_secs;
        for (now, want) in [
            (1_000, Some(secs(0))),
            (16_000, Some(secs(0))),
            (36_000, Some(secs(5))),
            (36_500, Some(secs(5))),
            (37_100, Some(secs(0))),
            // Set back, and on again.
            (2_000, Some(secs(0))),
            (42_000, Some(secs(25))),
            (82_001, None),
            (82_002, Some(secs(0))),
        ] {
            assert_eq!(age.heard(now), want, "{now}");
        }
    }

    #[test]
    fn what_lay_here_is_taken_off_where_the_call_does_not_tell() {
        let at = Instant::now();
        let heard = Heard {
            at,
            late: Duration::from_secs(25),
        };
        let secs = Duration::from_secs;
        assert_eq!(heard.deadline(None, secs(60)), at + secs(35));
        assert_eq!(heard.deadline(None, secs(20)), at);
        assert_eq!(heard.deadline(Some(secs(7)), secs(60)), at + secs(7));
    }
}
