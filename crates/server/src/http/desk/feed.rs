//! What is told to many at once: one look at the store or the record serves
//! everybody who listens, and nobody listens for free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use portcullis_gate::Question;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::super::server::Server;
use super::audit_feed::AuditFeed;
use crate::answers::off_the_reactor;

/// How often the store and the record are looked at while somebody listens.
pub(super) const EVERY: Duration = Duration::from_millis(200);
/// How many items wait for a slow listener before it is let go.
pub(super) const BACKLOG: usize = 1_024;
/// How many questions are looked at.
const MAX_QUESTIONS: usize = 10_000;

/// One thing to tell.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Whose it is.
    pub(crate) owner: Option<String>,
    pub(crate) event: &'static str,
    pub(crate) id: String,
    pub(crate) value: Value,
    /// The question it is, where it is one: each listener is shown its own view.
    pub(crate) question: Option<Arc<Question>>,
}

pub(crate) type Listener = broadcast::Receiver<Arc<Item>>;

/// The feeds of one server; each runs while somebody listens to it.
#[derive(Default)]
pub(crate) struct Feeds {
    questions: Mutex<Option<broadcast::WeakSender<Arc<Item>>>>,
    pub(super) audit: AuditFeed,
}

impl Feeds {
    /// Listens to questions.
    ///
    /// What waits now counts as known, and is the listener's to read *after*
    /// this: what comes meanwhile is told twice, not never.
    pub(super) async fn questions(&self, server: &Arc<Server>) -> Listener {
        if let Some(listener) = running(&self.questions) {
            return listener;
        }
        let known = look(server).await.unwrap_or_default();
        join(&self.questions, |send| {
            let known = known.into_iter().map(|one| (one.id, one.owner)).collect();
            tokio::spawn(tell_questions(Arc::downgrade(server), known, send));
        })
    }

    /// Tells `user`, where they listen, something that is no question.
    pub(crate) fn tell(&self, user: &str, event: &'static str, id: &str, value: &Value) {
        let slot = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(send) = slot.as_ref().and_then(broadcast::WeakSender::upgrade) {
            let item = Item {
                owner: Some(user.to_owned()),
                event,
                id: id.to_owned(),
                value: value.clone(),
                question: None,
            };
            // Nobody may listen any more.
            send.send(Arc::new(item)).ok();
        }
    }
}

fn running(slot: &Mutex<Option<broadcast::WeakSender<Arc<Item>>>>) -> Option<Listener> {
    let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let send = slot.as_ref().and_then(broadcast::WeakSender::upgrade)?;
    Some(send.subscribe())
}

fn join(
    slot: &Mutex<Option<broadcast::WeakSender<Arc<Item>>>>,
    start: impl FnOnce(broadcast::Sender<Arc<Item>>),
) -> Listener {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(send) = slot.as_ref().and_then(broadcast::WeakSender::upgrade) {
        return send.subscribe();
    }
    let (send, listener) = broadcast::channel(BACKLOG);
    *slot = Some(send.downgrade());
    start(send);
    listener
}

/// The questions that wait, as they are told.
async fn look(server: &Server) -> Option<Vec<Item>> {
    let now = server.parts.clock.now_ms();
    let pending = off_the_reactor(&server.parts.store, move |store| {
        store.pending(MAX_QUESTIONS, now)
    });
    let pending = pending.await.ok()?;
    let told = |question: Question| Item {
        owner: question.subject.owner().map(str::to_owned),
        event: "question",
        id: question.id.as_str().to_owned(),
        value: Value::Null,
        question: Some(Arc::new(question)),
    };
    Some(pending.into_iter().map(told).collect())
}

/// Tells questions as they come, and as they are settled.
async fn tell_questions(
    server: Weak<Server>,
    mut known: HashMap<String, Option<String>>,
    send: broadcast::Sender<Arc<Item>>,
) {
    while send.receiver_count() > 0 {
        let Some(server) = server.upgrade() else {
            return;
        };
        if let Some(pending) = look(&server).await {
            let mut still = HashMap::new();
            for item in pending {
                still.insert(item.id.clone(), item.owner.clone());
                if known.remove(&item.id).is_none() {
                    send.send(Arc::new(item)).ok();
                }
            }
            for (id, owner) in known.drain() {
                let item = Item {
                    owner,
                    event: "settled",
                    value: json!({"id": id}),
                    id,
                    question: None,
                };
                send.send(Arc::new(item)).ok();
            }
            known = still;
        }
        drop(server);
        tokio::time::sleep(EVERY).await;
    }
}
