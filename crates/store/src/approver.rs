//! Questions that any process can answer, beside whoever can be asked here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use portcullis_gate::{Answer, Approver, Clock, Decision, Question, Reply, Surface};
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::questions::Said;
use crate::store::Store;
use crate::waiting::Waiter;

/// Puts a question into the store *and* to the approver it wraps, if there is
/// one; the first answer wins.
///
/// With nobody wrapped and no live `portcullis approve --watch`, nobody can be
/// asked and it says so at once. Dropped while it waits, the question is
/// withdrawn. A store that does not work makes it [`Reply::Unavailable`]: a yes
/// that cannot be recorded does not count ([`Self::fault`] says why). A no does.
pub struct DurableApprover {
    store: Store,
    inner: Option<Arc<dyn Approver>>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for DurableApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableApprover")
            .field("store", &self.store)
            .field("inner", &self.inner.is_some())
            .finish_non_exhaustive()
    }
}

impl DurableApprover {
    /// Asks through `store`, and through `inner` where there is one.
    pub fn new(store: Store, inner: Option<Arc<dyn Approver>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            inner,
            clock,
        }
    }

    /// The last trouble with the store, for the log and `portcullis doctor`.
    pub fn fault(&self) -> Option<StoreError> {
        self.store.room().fault()
    }

    async fn put(&self, question: &Question) -> Result<Reply, StoreError> {
        if self.inner.is_none() && !self.store.has_watcher(self.clock.now_ms())? {
            return Ok(Reply::Unavailable);
        }
        let (waiter, mut told) = self.store.wait_for(&question.id)?;
        let recorded = question.clone();
        self.store
            .write_later(move |store| store.ask(&recorded))
            .await?;
        let Some(inner) = &self.inner else {
            return Ok(from_elsewhere(waiter, told).await);
        };
        let said_here = tokio::select! {
            biased;
            answer = &mut told => return Ok(heard(waiter, answer)),
            reply = inner.ask(question) => reply,
        };
        match said_here {
            Reply::Answered(answer) if waiter.stop() => self.record(waiter, question, answer).await,
            // Somebody elsewhere was first by a hair.
            Reply::Answered(_) => Ok(from_elsewhere(waiter, told).await),
            Reply::Suspended => {
                // Another call brings the answer, so the question stays.
                waiter.leave();
                Ok(Reply::Suspended)
            }
            Reply::Unavailable if self.store.has_watcher(self.clock.now_ms())? => {
                Ok(from_elsewhere(waiter, told).await)
            }
            Reply::Unavailable => Ok(Reply::Unavailable),
            Reply::TimedOut => Ok(Reply::TimedOut),
        }
    }

    /// Records an answer given here, unless another was recorded before, and
    /// uses whichever it is.
    async fn record(
        &self,
        waiter: Waiter,
        question: &Question,
        answer: Answer,
    ) -> Result<Reply, StoreError> {
        let id = question.id.clone();
        let now = self.clock.now_ms();
        let given = answer.clone();
        let written = self
            .store
            .write_later(move |store| store.answer_and_take(&id, &given, now))
            .await;
        let (said, taken) = match written {
            Ok(written) => written,
            // A no needs no record to count: it was said, and is kept for as long as
            // this process lasts.
            Err(error) if !answer.decision.allows() => {
                self.store.room().note_fault(error);
                return Ok(Reply::Answered(answer));
            }
            Err(error) => return Err(error),
        };
        Ok(match (said, taken) {
            (Said::Answered | Said::AlreadyAnswered, Some(answer)) => {
                waiter.leave();
                Reply::Answered(answer)
            }
            (Said::NotOffered, _) => Reply::Answered(Answer {
                by: format!(
                    "{} (said {}, which was not offered)",
                    answer.by,
                    answer.decision.as_str()
                ),
                decision: Decision::DenyOnce,
                surface: answer.surface,
            }),
            (Said::Expired, _) => Reply::TimedOut,
            // The same where the question itself is lost.
            (Said::Unknown, _) if !answer.decision.allows() => Reply::Answered(answer),
            (Said::Answered | Said::AlreadyAnswered | Said::Unknown, _) => Reply::Unavailable,
        })
    }
}

impl Approver for DurableApprover {
    fn surface(&self) -> Surface {
        self.inner
            .as_ref()
            .map_or(Surface::Terminal, |inner| inner.surface())
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move {
            self.put(question).await.unwrap_or_else(|error| {
                self.store.room().note_fault(error);
                Reply::Unavailable
            })
        })
    }
}

async fn from_elsewhere(waiter: Waiter, told: oneshot::Receiver<Answer>) -> Reply {
    let answer = told.await;
    heard(waiter, answer)
}

fn heard(waiter: Waiter, answer: Result<Answer, oneshot::error::RecvError>) -> Reply {
    match answer {
        Ok(answer) => {
            waiter.leave();
            Reply::Answered(answer)
        }
        Err(_) => Reply::Unavailable,
    }
}
