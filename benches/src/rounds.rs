//! Rounds of two sides in turn, and the best of each.

use std::time::Duration;

use crate::Outcome;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    /// Operations of a full round; a smoke round does a part of them.
    pub(crate) share: u32,
}

impl Effort {
    pub(crate) fn of(smoke: bool) -> Self {
        if smoke {
            Self {
                rounds: 9,
                share: 5,
            }
        } else {
            Self {
                rounds: 15,
                share: 1,
            }
        }
    }

    /// How many operations a round does that would do `full`.
    pub(crate) fn operations(self, full: u32) -> u32 {
        (full / self.share).max(1)
    }

    /// Both sides in turn, each returning microseconds per operation; the best
    /// of each. The first round warms up and does not count.
    pub(crate) fn duel(
        self,
        mut ours: impl FnMut() -> Outcome<f64>,
        mut peer: impl FnMut() -> Outcome<f64>,
    ) -> Outcome<(f64, f64)> {
        let (mut best_ours, mut best_peer) = (f64::INFINITY, f64::INFINITY);
        ours()?;
        peer()?;
        for _ in 0..self.rounds {
            best_ours = best_ours.min(ours()?);
            best_peer = best_peer.min(peer()?);
        }
        Ok((best_ours, best_peer))
    }
}

/// Microseconds per operation that `times` runs of `once` take by `clock`.
pub(crate) fn timed(
    clock: impl Fn() -> Outcome<Duration>,
    times: u32,
    mut once: impl FnMut() -> Outcome<()>,
) -> Outcome<f64> {
    let began = clock()?;
    for _ in 0..times {
        once()?;
    }
    Ok(micros(clock()?.saturating_sub(began) / times))
}

/// As microseconds.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
