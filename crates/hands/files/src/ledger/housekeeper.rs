//! The thread that syncs and signs what was written, at most once a period.
//!
//! It is parked while everything is signed, and nobody waits for it: the
//! process may end without it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use portcullis_gate::{Clock, LedgerDown};
use portcullis_proto::{Failure, Reason};

use super::LedgerOptions;
use super::chain::{Chain, State};
use super::head::Last;
use super::recover::recover_torn_in;
use crate::private_dir::PrivateDir;

/// The chain, and what its writers and its housekeeper tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    wake: Condvar,
}

#[derive(Debug)]
pub(crate) struct Inner {
    chain: Chain,
    /// The housekeeper waits for the first unsigned line.
    parked: bool,
}

impl std::ops::Deref for Inner {
    type Target = Chain;
    fn deref(&self) -> &Chain {
        &self.chain
    }
}

impl std::ops::DerefMut for Inner {
    fn deref_mut(&mut self) -> &mut Chain {
        &mut self.chain
    }
}

impl Shared {
    pub(crate) fn new(chain: Chain) -> Self {
        Self {
            inner: Mutex::new(Inner {
                chain,
                parked: false,
            }),
            wake: Condvar::new(),
        }
    }

    /// The chain, for one line. After a panic inside, nobody knows what was
    /// written: the ledger is down.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Inner>, LedgerDown> {
        self.inner
            .lock()
            .map_err(|_| LedgerDown("a thread panicked while it wrote".to_owned()))
    }

    /// Unlocks, and wakes the housekeeper if this was the first unsigned line.
    pub(crate) fn wake_for(&self, mut inner: MutexGuard<'_, Inner>) {
        let parked = std::mem::take(&mut inner.parked);
        drop(inner);
        if parked {
            self.wake.notify_one();
        }
    }

    /// Signs off, and ends the housekeeper.
    pub(crate) fn close(&self, now_ms: u64) {
        if let Ok(mut inner) = self.inner.lock() {
            inner.close(now_ms);
        }
        self.wake.notify_all();
    }

    /// Parks until there is something to sign, then lets `period` pass, so that
    /// one head covers what comes in a burst. `None` when there is nothing more
    /// to do, ever.
    fn wait(&self, period: Duration) -> Option<MutexGuard<'_, Inner>> {
        let mut inner = self.inner.lock().ok()?;
        while inner.state == State::Up && inner.unsigned == 0 && !inner.unsynced {
            inner.parked = true;
            inner = self.wake.wait(inner).ok()?;
        }
        inner.parked = false;
        let until = Instant::now() + period;
        while inner.state == State::Up {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(inner);
            }
            inner = self.wake.wait_timeout(inner, left).ok()?.0;
        }
        None
    }
}

/// Starts the thread.
pub(crate) fn spawn(
    shared: &Arc<Shared>,
    clock: &Arc<dyn Clock>,
    audit: PrivateDir,
    options: LedgerOptions,
) -> Result<(), Failure> {
    let (shared, clock) = (Arc::clone(shared), Arc::clone(clock));
    std::thread::Builder::new()
        .name("audit".to_owned())
        .stack_size(128 << 10)
        .spawn(move || {
            if options.recover {
                // What cannot be mended now stays as it is for the next start.
                let _mended = recover_torn_in(&audit, clock.now_ms());
            }
            drop(audit);
            keep(&shared, &*clock, options.head_every);
        })
        .map(drop)
        .map_err(|error| Failure::from(Reason::Io).detail(error))
}

fn keep(shared: &Shared, clock: &dyn Clock, period: Duration) {
    while let Some(mut inner) = shared.wait(period) {
        // The disk is waited for without the lock: writers go on.
        let files = inner.take_unsynced();
        drop(inner);
        let synced = files
            .iter()
            .try_for_each(|file| rustix::fs::fdatasync(&**file));
        let Ok(mut inner) = shared.inner.lock() else {
            return;
        };
        if let Err(errno) = synced {
            inner.fail(errno);
        }
        if inner.unsigned > 0 && inner.head(clock.now_ms(), Last::No).is_err() {
            return;
        }
    }
}
