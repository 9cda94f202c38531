//! Whether a collector takes what it is sent, for a log that is not to be
//! filled: one line when that changes, however often it goes wrong.

use std::time::Duration;

use tokio::time::Instant;

/// How long all must have gone well before it is said to: a collector that
/// stumbles every few seconds is told of once.
const WELL_FOR: Duration = Duration::from_secs(30);

/// How one kind of messages does.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// When it last went wrong; nothing while all is well.
    failed_at: Option<Instant>,
}

impl Health {
    /// It went wrong; whether that is news.
    pub(super) fn failed(&mut self) -> bool {
        self.failed_at.replace(Instant::now()).is_none()
    }

    /// It went well; whether that is news.
    pub(super) fn went_well(&mut self) -> bool {
        self.failed_at
            .take_if(|failed| failed.elapsed() >= WELL_FOR)
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_once_and_stumbling_is_no_change() {
        let mut health = Health::default();
        assert!(!health.went_well(), "all is well from the beginning");
        assert!(health.failed());
        for _ in 0..1_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(!health.went_well(), "not for long enough");
            assert!(!health.failed(), "told already");
        }
        tokio::time::advance(WELL_FOR).await;
        assert!(health.went_well());
        assert!(!health.went_well());
        assert!(health.failed(), "it is news again");
    }
}
