//! Machines that were linked when the server before this one ended. Their
//! daemons come back by themselves: until then a call waits for them, as it does
//! where a stream breaks, and is not taken for one to the server's own files.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_link::bounds;
use portcullis_store::LinkedMachine;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Who is waited for.
pub(super) struct Expected {
    /// Machines by whose they are.
    of: Mutex<HashMap<String, HashSet<String>>>,
    until: Instant,
    any: AtomicBool,
    came: Notify,
}

impl Expected {
    pub(super) fn of(machines: &[LinkedMachine]) -> Self {
        let mut of: HashMap<String, HashSet<String>> = HashMap::new();
        for machine in machines.iter().filter(|machine| machine.linked) {
            let own = of.entry(machine.user.clone()).or_default();
            own.insert(machine.id.clone());
        }
        Self {
            any: AtomicBool::new(!of.is_empty()),
            of: Mutex::new(of),
            until: Instant::now() + bounds::GRACE,
            came: Notify::new(),
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, HashSet<String>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A machine is there.
    pub(super) fn came(&self, user: &str, machine: &str) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.all();
        if let Some(own) = all.get_mut(user) {
            own.remove(machine);
            if own.is_empty() {
                all.remove(user);
            }
        }
        if all.is_empty() {
            self.any.store(false, Ordering::Release);
        }
        drop(all);
        self.came.notify_waiters();
    }

    /// Waits until the machines of `user` are there, or are not waited for any more.
    pub(super) async fn wait(&self, user: &str) {
        while self.any.load(Ordering::Acquire) && Instant::now() < self.until {
            let mut came = std::pin::pin!(self.came.notified());
            came.as_mut().enable();
            if !self.all().contains_key(user) {
                return;
            }
            if timeout_at(self.until, came).await.is_err() {
                return;
            }
        }
    }

    /// Those that stayed away, once.
    pub(super) fn given_up(&self) -> Vec<String> {
        if !self.any.load(Ordering::Acquire) || Instant::now() < self.until {
            return Vec::new();
        }
        let all = std::mem::take(&mut *self.all());
        self.any.store(false, Ordering::Release);
        all.into_values().flatten().collect()
    }
}
