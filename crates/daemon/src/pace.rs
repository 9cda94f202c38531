//! How long to wait before another try.

use std::time::Duration;

use portcullis_link::bounds::BACKOFF;

/// Doubles from one second to thirty, and waits a random part of it: a server
/// that comes back is not met by everybody at once.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    tries: u32,
}

impl Pace {
    /// How long to wait this time.
    pub(crate) fn next(&mut self) -> Duration {
        let most = ceiling(self.tries);
        self.tries = self.tries.saturating_add(1);
        let mut bytes = [0; 4];
        // Without chance there is none: all of it is waited for.
        let part = match getrandom::fill(&mut bytes) {
            Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
            Err(_) => 1.0,
        };
        most.mul_f64(part)
    }

    /// How often it was waited since all was well.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// All is well.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

fn ceiling(tries: u32) -> Duration {
    let (first, longest) = BACKOFF;
    first.saturating_mul(1 << tries.min(16)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_half_a_minute_and_are_not_all_the_same() {
        let seconds: Vec<u64> = (0..7).map(|tries| ceiling(tries).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
        let mut pace = Pace::default();
        let waits: Vec<_> = (0..50).map(|_| pace.next()).collect();
        assert!(waits.iter().all(|wait| *wait <= BACKOFF.1));
        let late: Vec<_> = waits.iter().skip(10).collect();
        assert!(late.iter().any(|wait| *wait < late[0]) || late.iter().any(|wait| *wait > late[0]));
        pace.reset();
        assert!(pace.next() <= BACKOFF.0);
    }
}
