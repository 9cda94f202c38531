//! The two ends of a watch: one that watches, one that listens.

use portcullis_proto::{Failure, Reason, RelPath};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

use super::Changes;
use super::ground::no_room;
use crate::sys::Waker;

/// A watch that began.
#[derive(Debug)]
pub struct Watch {
    /// Where.
    pub path: RelPath,
    /// How many directories are watched.
    pub directories: usize,
    /// Whether these are all that may be shown: some may be too many or too
    /// deep, a mount, or closed to us.
    pub complete: bool,
    batches: mpsc::Receiver<Changes>,
    ended: Option<oneshot::Receiver<Result<(), Failure>>>,
    waker: Waker,
}

impl Watch {
    /// The next batch; `None` when the watch ended in order. One that ended
    /// because it may not go on says so, once.
    pub async fn next(&mut self) -> Result<Option<Changes>, Failure> {
        if let Some(batch) = self.batches.recv().await {
            return Ok(Some(batch));
        }
        match self.ended.take() {
            Some(ended) => ended.await.unwrap_or_else(|_| Err(broken())).map(|()| None),
            None => Ok(None),
        }
    }

    /// Ends it, and waits until its line is written.
    pub async fn end(mut self) {
        self.batches.close();
        self.waker.wake();
        if let Some(ended) = self.ended.take() {
            // How it ended is in the audit.
            let _told = ended.await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.batches.close();
        self.waker.wake();
    }
}

/// The end of a watch that does the watching.
#[derive(Debug)]
pub(crate) struct Teller {
    pub(super) batches: mpsc::Sender<Changes>,
    pub(super) began: Option<oneshot::Sender<Began>>,
    pub(super) ended: oneshot::Sender<Result<(), Failure>>,
    pub(super) waker: Waker,
}

#[derive(Debug)]
pub(super) struct Began {
    pub(super) path: RelPath,
    pub(super) directories: usize,
    pub(super) complete: bool,
}

/// The end of a watch that waits for it to begin.
#[derive(Debug)]
pub(crate) struct Listener {
    batches: mpsc::Receiver<Changes>,
    began: oneshot::Receiver<Began>,
    ended: oneshot::Receiver<Result<(), Failure>>,
    waker: Waker,
}

/// The two ends of a watch.
pub(crate) fn ends() -> Result<(Teller, Listener), Failure> {
    let waker = Waker::new().map_err(no_room)?;
    // One batch waits to be taken; what comes meanwhile is gathered.
    let (batches, taken) = mpsc::channel(1);
    let (began, begins) = oneshot::channel();
    let (ended, ends) = oneshot::channel();
    Ok((
        Teller {
            batches,
            began: Some(began),
            ended,
            waker: waker.clone(),
        },
        Listener {
            batches: taken,
            began: begins,
            ended: ends,
            waker,
        },
    ))
}

impl Listener {
    /// Waits until everything is watched.
    pub(crate) async fn begun(self) -> Result<Watch, Failure> {
        let Ok(began) = self.began.await else {
            let ended = self.ended.await.unwrap_or_else(|_| Err(broken()));
            return Err(ended.err().unwrap_or_else(|| Reason::Cancelled.into()));
        };
        Ok(Watch {
            path: began.path,
            directories: began.directories,
            complete: began.complete,
            batches: self.batches,
            ended: Some(self.ended),
            waker: self.waker,
        })
    }
}

/// The other end is gone without a word.
fn broken() -> Failure {
    Failure::from(Reason::Bug).detail("a watch ended without saying how")
}

/// How many watches are kept at once: each holds a thread, and one of the 128
/// queues the kernel keeps for a user.
const AT_ONCE: usize = 32;
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// One of the few watches there may be.
pub(super) fn turn() -> Result<SemaphorePermit<'static>, Failure> {
    TURNS.try_acquire().map_err(|_| {
        Failure::new(
            Reason::Overload,
            format!("{AT_ONCE} watches are kept already, so this one was not begun."),
        )
        .hint("End one, or watch a directory above several of them.")
    })
}
