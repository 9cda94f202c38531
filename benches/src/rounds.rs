//! Rounds of two sides in turn, and the best of each.

use std::time::Duration;

use crate::Outcome;
use crate::clock::wall;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    /// Operations of a full round; a smoke round does a part of them.
    pub(crate) share: u32,
    /// How many times as much as at first, where something is measured again.
    again: u32,
}

impl Effort {
    pub(crate) fn of(smoke: bool) -> Self {
        if smoke {
            Self {
                rounds: 1,
                share: 50,
                again: 1,
            }
        } else {
            Self {
                rounds: 15,
                share: 1,
                again: 1,
            }
        }
    }

    /// Twice of everything.
    pub(crate) fn twice(self) -> Self {
        Self {
            rounds: self.rounds * 2,
            again: self.again * 2,
            ..self
        }
    }

    /// How often a row goes round that has its own number for it.
    pub(crate) fn rounds_of(self, at_first: u32) -> u32 {
        at_first * self.again
    }

    /// How many operations a round does that would do `full`.
    pub(crate) fn operations(self, full: u32) -> u32 {
        (full / self.share).max(1)
    }

    /// Both sides in turn, each returning what an operation took; the best of
    /// each. The first round warms up and does not count.
    pub(crate) fn duel<T: Measure>(
        self,
        mut ours: impl FnMut() -> Outcome<T>,
        mut peer: impl FnMut() -> Outcome<T>,
    ) -> Outcome<(T, T)> {
        let (mut best_ours, mut best_peer) = (T::WORST, T::WORST);
        ours()?;
        peer()?;
        for _ in 0..self.rounds {
            best_ours = best_ours.best(ours()?);
            best_peer = best_peer.best(peer()?);
        }
        Ok((best_ours, best_peer))
    }
}

/// What a round comes to.
pub(crate) trait Measure: Copy {
    /// Worse than anything measured.
    const WORST: Self;

    /// The better of two.
    fn best(self, other: Self) -> Self;
}

/// Microseconds per operation, by one clock.
impl Measure for f64 {
    const WORST: Self = Self::INFINITY;

    fn best(self, other: Self) -> Self {
        self.min(other)
    }
}

/// Microseconds per operation, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

impl Cost {
    /// What `times` runs of `once` take, with `cpu` telling the CPU time so far.
    pub(crate) fn of(
        cpu: impl Fn() -> Outcome<Duration>,
        times: u32,
        mut once: impl FnMut(u32) -> Outcome<()>,
    ) -> Outcome<Self> {
        let began = (cpu()?, wall()?);
        for n in 0..times {
            once(n)?;
        }
        Ok(Self {
            cpu: micros(cpu()?.saturating_sub(began.0) / times),
            wall: micros(wall()?.saturating_sub(began.1) / times),
        })
    }
}

impl Measure for Cost {
    const WORST: Self = Self {
        cpu: f64::INFINITY,
        wall: f64::INFINITY,
    };

    fn best(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.min(other.cpu),
            wall: self.wall.min(other.wall),
        }
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
