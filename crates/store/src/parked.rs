//! Questions left where a person finds them: the call that raised one ends, and
//! a later call brings the answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_gate::{Approver, Claim, Question, Reply, Surface};
use portcullis_proto::{Failure, QuestionId, Reason};
use tokio_util::sync::CancellationToken;

use crate::error::StoreError;
use crate::store::Store;

/// Puts a question into the store, waits for an answer as long as its caller
/// said it would, and then leaves it there.
///
/// A store that does not work makes it [`Reply::Unavailable`]: an answer that
/// cannot be recorded does not count.
pub struct ParkedApprover {
    store: Store,
    wait: Duration,
    ending: CancellationToken,
    put: Mutex<Option<QuestionId>>,
}

impl std::fmt::Debug for ParkedApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParkedApprover")
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl ParkedApprover {
    /// Asks through `store`, and waits at most so long for an answer.
    pub fn new(store: Store, wait: Duration) -> Self {
        Self {
            store,
            wait,
            ending: CancellationToken::new(),
            put: Mutex::default(),
        }
    }

    /// Waits no longer once `ending` comes: the question stays, for the call
    /// that is made to whoever serves next.
    #[must_use]
    pub fn leaving_at(mut self, ending: CancellationToken) -> Self {
        self.ending = ending;
        self
    }

    /// The last question it put, for the reply that ends the call.
    pub fn last(&self) -> Option<QuestionId> {
        self.put
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn park(&self, question: &Question) -> Result<Reply, StoreError> {
        let waiting = if self.wait.is_zero() {
            None
        } else {
            Some(self.store.wait_for(&question.id)?)
        };
        let recorded = question.clone();
        self.store
            .write_later(move |store| store.ask(&recorded))
            .await?;
        *self.put.lock().unwrap_or_else(PoisonError::into_inner) = Some(question.id.clone());
        let Some((waiter, mut told)) = waiting else {
            return Ok(Reply::Suspended);
        };
        let heard = tokio::select! {
            biased;
            heard = &mut told => Some(heard),
            () = self.ending.cancelled() => None,
            () = tokio::time::sleep(self.wait) => None,
        };
        let heard = match heard {
            Some(heard) => heard,
            // From here on an answer stays for the call that brings it.
            None if waiter.stop() => {
                waiter.leave();
                return Ok(Reply::Suspended);
            }
            // It was taken for us a moment ago, so nobody else can bring it.
            None => told.await,
        };
        match heard {
            Ok(answer) => {
                waiter.leave();
                Ok(Reply::Answered(answer))
            }
            Err(_) => Ok(Reply::Unavailable),
        }
    }
}

/// An answer a call brought is taken from where the question stands.
impl Claim for Store {
    fn take<'a>(
        &'a self,
        question: &'a QuestionId,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        let id = question.clone();
        Box::pin(async move {
            let taken = self
                .write_later(move |store| Self::take(store, &id))
                .await?;
            taken.map(drop).ok_or_else(|| {
                Failure::from(Reason::AnswerUsed)
                    .hint("Call it again without the answer to be asked anew.")
            })
        })
    }
}

impl Approver for ParkedApprover {
    fn surface(&self) -> Surface {
        Surface::Api
    }

    /// The question stands where the person's own console answers it.
    fn may_say_always(&self) -> bool {
        true
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move {
            self.park(question).await.unwrap_or_else(|error| {
                self.store.room().note_fault(error);
                Reply::Unavailable
            })
        })
    }
}
