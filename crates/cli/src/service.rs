//! What a service manager is told: that we are ready, well, or about to end.
//! Without one, nobody is told.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::log::Log;

/// Everything is open, and whoever connects is answered.
pub(crate) fn ready(url: &str, log: Log) {
    let status = format!("Listens at {url}");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)], log);
}

/// No more connections are taken; those under way are finished.
pub(crate) fn stopping(log: Log) {
    let status = "Finishes what is under way";
    tell(&[NotifyState::Stopping, NotifyState::Status(status)], log);
}

fn tell(state: &[NotifyState<'_>], log: Log) {
    if let Err(error) = sd_notify::notify(state) {
        log.warn(format_args!(
            "the service manager at NOTIFY_SOCKET cannot be told how we are: {error}"
        ));
    }
}

/// Told that we are well, as often as the service manager asks for it. Who
/// holds one calls it from the loop that must not get stuck.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Nothing where nobody watches.
    every: Option<Duration>,
    told: Option<Instant>,
}

impl Watchdog {
    /// As the environment says.
    pub(crate) fn asked_for() -> Self {
        Self {
            // Half of the patience, as sd_watchdog_enabled(3) advises.
            every: sd_notify::watchdog_enabled().map(|patience| patience / 2),
            told: None,
        }
    }

    /// The loop has come round.
    pub(crate) fn come_round(&mut self) {
        let due = self
            .every
            .is_some_and(|every| self.told.is_none_or(|told| told.elapsed() >= every));
        if due {
            self.told = Some(Instant::now());
            // One that is missed is made good by the next, or we are restarted.
            sd_notify::notify(&[NotifyState::Watchdog]).ok();
        }
    }
}
