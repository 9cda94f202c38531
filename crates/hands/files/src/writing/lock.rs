//! One writer at a time per file, in this process and across processes.
//!
//! The lock is a `flock` on the file itself: it leaves nothing behind, and a
//! process that dies lets go. Whoever waited looks again whether the name still
//! means the file it waited for.

use std::hash::{BuildHasher as _, Hasher as _};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use portcullis_proto::{Failure, Reason};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::errno::failure;

/// How long a writer waits for another before it says so.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first wait between two looks, and the longest.
const WAIT: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(10));

/// A file that no other writer of ours changes while this is held. Let go when
/// the handle is closed.
#[derive(Debug)]
pub(crate) struct PathLock(());

impl PathLock {
    /// Locks the file behind `handle`.
    pub(crate) fn take(handle: impl AsFd) -> Result<Self, Failure> {
        let until = Instant::now() + PATIENCE;
        let mut wait = WAIT.0;
        loop {
            match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(())),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(WAIT.1);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(Failure::new(
                        Reason::Busy,
                        "Another program has kept the file locked for ten seconds, so nothing was changed.",
                    )
                    .hint("Try again when it is done."));
                }
                // A file system without locks: the swap still tells.
                Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    return Ok(Self(()));
                }
                Err(errno) => return Err(failure(errno)),
            }
        }
    }
}

/// An orderly queue for the writers of this process. It is a courtesy, not the
/// lock: whoever waits too long (a person may be thinking about the change in
/// front) goes ahead, and the lock and the swap decide.
#[derive(Debug)]
pub(crate) struct Tickets {
    stripes: Vec<tokio::sync::Mutex<()>>,
    hasher: std::hash::RandomState,
}

const STRIPES: usize = 64;
const COURTESY: Duration = Duration::from_millis(250);

impl Default for Tickets {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES)
                .map(|_| tokio::sync::Mutex::default())
                .collect(),
            hasher: std::hash::RandomState::new(),
        }
    }
}

impl Tickets {
    /// Waits for whoever is changing `path` now.
    pub(crate) async fn wait(&self, path: &str) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path.as_bytes());
        let stripe = usize::try_from(hasher.finish() % STRIPES as u64).ok()?;
        let stripe = self.stripes.get(stripe)?;
        tokio::time::timeout(COURTESY, stripe.lock()).await.ok()
    }
}
