//! The writing desk: writes of asynchronous callers, one after another, in the
//! order they came, on one thread that is none of the runtime's.
//!
//! The database has one writer, so more threads would only wait for each other:
//! ten thousand questions at once are ten thousand entries here and one thread.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::{StoreError, Trouble};
use crate::store::Store;

/// How many writes may wait. Each belongs to a call under way, or to one that
/// was cancelled a moment ago.
const MAX_WRITES: usize = 20_000;

type Write = Box<dyn FnOnce(&Store) + Send>;

/// What is to be written.
#[derive(Default)]
pub(crate) struct Desk(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    writes: VecDeque<Write>,
    busy: bool,
}

impl Desk {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl Store {
    /// Runs a write off the runtime's threads. Once put down it is done, even
    /// if the caller does not wait for it, and before everything put down later.
    pub(crate) async fn write_later<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = oneshot::channel();
        {
            let mut inside = self.room().desk.inside();
            if inside.writes.len() >= MAX_WRITES {
                return Err(StoreError::new(
                    Trouble::Full,
                    "Too many writes to the state database wait already.",
                ));
            }
            inside.writes.push_back(Box::new(move |store| {
                // Whoever does not wait any more need not be told.
                tell.send(act(store)).ok();
            }));
            if !inside.busy {
                inside.busy = true;
                let clerk = Clerk {
                    store: self.clone(),
                    done: false,
                };
                drop(tokio::task::spawn_blocking(move || clerk.work()));
            }
        }
        told.await
            .map_err(|_| StoreError::io("the write was not done: the process is ending"))?
    }
}

/// Who writes. Dropped before all is done, by a panic or the end of the
/// runtime, what is left is dropped too, and those who wait learn of it.
struct Clerk {
    store: Store,
    done: bool,
}

impl Clerk {
    fn work(mut self) {
        loop {
            let next = {
                let mut inside = self.store.room().desk.inside();
                let next = inside.writes.pop_front();
                // Said under the lock under which others put theirs down.
                inside.busy = next.is_some();
                next
            };
            let Some(write) = next else {
                self.done = true;
                return;
            };
            write(&self.store);
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let left = {
            let mut inside = self.store.room().desk.inside();
            inside.busy = false;
            std::mem::take(&mut inside.writes)
        };
        drop(left);
    }
}
