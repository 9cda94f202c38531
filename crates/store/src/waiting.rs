//! The waiting room: everybody in this process who waits for an answer that
//! another process may give, and the one task that looks for all of them.
//!
//! A waiter costs a map entry and a channel; no thread, timer or handle. The
//! task runs while somebody waits and ends when nobody does.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_gate::Answer;
use portcullis_proto::QuestionId;
use tokio::sync::oneshot;

use crate::desk::Desk;
use crate::error::StoreError;
use crate::store::Store;

/// How often the task looks: what an answer on another terminal waits at most.
const EVERY: Duration = Duration::from_millis(50);
/// How many answers are handed out in one write.
const BATCH: usize = 1_000;

/// Who waits.
#[derive(Debug, Default)]
pub(crate) struct Room {
    inside: Mutex<Inside>,
    pub(crate) desk: Desk,
    fault: Mutex<Option<StoreError>>,
}

#[derive(Debug, Default)]
struct Inside {
    waiters: HashMap<QuestionId, oneshot::Sender<Answer>>,
    /// Gone without an answer; to be withdrawn.
    gone: Vec<QuestionId>,
    /// The last answer looked at.
    seen: i64,
    looking: bool,
}

impl Room {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_fault(&self, error: StoreError) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn fault(&self) -> Option<StoreError> {
        self.fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Store {
    /// Enters the waiting room. To be called *before* the question is put, so
    /// that no answer can come before somebody looks for it.
    pub(crate) fn wait_for(
        &self,
        id: &QuestionId,
    ) -> Result<(Waiter, oneshot::Receiver<Answer>), StoreError> {
        let (tell, told) = oneshot::channel();
        let mut inside = self.room().inside();
        if inside.waiters.contains_key(id) {
            return Err(StoreError::invalid("The question is being asked already."));
        }
        if !inside.looking {
            inside.seen = self.last_answer()?;
            inside.looking = true;
            tokio::spawn(look(Looking {
                store: self.clone(),
                ended: false,
            }));
        }
        inside.waiters.insert(id.clone(), tell);
        drop(inside);
        let waiter = Waiter {
            store: self.clone(),
            id: id.clone(),
            withdraw: true,
        };
        Ok((waiter, told))
    }
}

/// One who waits. Dropped, the question is withdrawn.
#[derive(Debug)]
pub(crate) struct Waiter {
    store: Store,
    id: QuestionId,
    withdraw: bool,
}

impl Waiter {
    /// Waits no longer for what others say. False where the task has the
    /// answer already and is about to hand it over.
    pub(crate) fn stop(&self) -> bool {
        self.store
            .room()
            .inside()
            .waiters
            .remove(&self.id)
            .is_some()
    }

    /// Leaves the question as it is: it is settled, or another call waits for it.
    pub(crate) fn leave(mut self) {
        self.withdraw = false;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut inside = self.store.room().inside();
        inside.waiters.remove(&self.id);
        if !self.withdraw {
            return;
        }
        inside.gone.push(self.id.clone());
        if !inside.looking {
            // The runtime is ending, and nobody will do it later.
            drop(inside);
            withdraw_gone(&self.store);
        }
    }
}

/// Held by the task. A panic or the end of the runtime drops it unended.
struct Looking {
    store: Store,
    ended: bool,
}

impl Drop for Looking {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut inside = self.store.room().inside();
        inside.looking = false;
        // Their senders go, and with them the hope of an answer.
        inside.waiters.clear();
        let rest = !inside.gone.is_empty();
        drop(inside);
        if rest {
            withdraw_gone(&self.store);
        }
    }
}

fn withdraw_gone(store: &Store) {
    let gone = std::mem::take(&mut store.room().inside().gone);
    if let Err(error) = store.withdraw(&gone) {
        // Its deadline ends it.
        store.room().note_fault(error);
    }
}

async fn look(mut looking: Looking) {
    let store = &looking.store.clone();
    loop {
        tokio::time::sleep(EVERY).await;
        let gone = std::mem::take(&mut store.room().inside().gone);
        if !gone.is_empty() {
            let done = store.write_later(move |store| store.withdraw(&gone)).await;
            if let Err(error) = done {
                store.room().note_fault(error);
            }
        }
        if let Err(error) = hand_out(store).await {
            store.room().note_fault(error);
        }
        let mut inside = store.room().inside();
        if inside.waiters.is_empty() && inside.gone.is_empty() {
            // Said under the same lock under which others come in, so nobody
            // relies on a task that has made up its mind to end.
            inside.looking = false;
            looking.ended = true;
            return;
        }
    }
}

/// Hands out every answer that came since the last look.
async fn hand_out(store: &Store) -> Result<(), StoreError> {
    loop {
        let seen = store.room().inside().seen;
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let answers = store.answered_after(seen, limit)?;
        let Some((last, _)) = answers.last().cloned() else {
            return Ok(());
        };
        let more = answers.len() == BATCH;
        let mut ids = Vec::new();
        let mut tells = Vec::new();
        {
            let mut inside = store.room().inside();
            for (_, id) in answers {
                if let Some(tell) = inside.waiters.remove(&id) {
                    ids.push(id);
                    tells.push(tell);
                }
            }
            inside.seen = last;
        }
        if !ids.is_empty() {
            let wanted = ids.clone();
            let taken = store
                .write_later(move |store| store.take_all(&wanted))
                .await;
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => {
                    // The answers are still there: look again next time.
                    let mut inside = store.room().inside();
                    let waiting = ids.into_iter().zip(tells);
                    inside
                        .waiters
                        .extend(waiting.filter(|(_, tell)| !tell.is_closed()));
                    inside.seen = seen;
                    return Err(error);
                }
            };
            for (tell, taken) in tells.into_iter().zip(taken) {
                if let Some((_, answer)) = taken {
                    // A waiter that left meanwhile has no use for it.
                    tell.send(answer).ok();
                }
            }
        }
        if !more {
            return Ok(());
        }
    }
}
