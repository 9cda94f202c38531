//! Resources a client listens to.
//!
//! Both eras are told the same: an update of the very URI that was subscribed
//! to, with what changed below it in `_meta`. A client that knows nothing of
//! that looks again; one that does knows where.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Failure, Reason};
use portcullis_tools::{ResourceChanges, ResourceWatch};
use rmcp::RoleServer;
use rmcp::model::{
    JsonObject, ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{Peer, SubscriptionSink};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::http::Place as Share;

/// How many resources one client listens to at most.
pub(super) const MAX_SUBSCRIPTIONS: usize = 32;

/// A resource that is watched, and the watcher's place among its own.
pub(super) struct Watched {
    pub(super) watch: ResourceWatch,
    pub(super) place: Option<Share>,
}

/// Where updates go.
pub(super) enum Ear {
    /// To the session that subscribed.
    Session(Peer<RoleServer>),
    /// To the request that listens.
    Stream(SubscriptionSink),
}

impl Ear {
    /// Whether anybody heard it.
    async fn tell(&self, uri: &str, meta: JsonObject) -> bool {
        let mut update = ResourceUpdatedNotificationParam::new(uri);
        update.meta = Some(meta.into());
        match self {
            Self::Session(peer) => peer.notify_resource_updated(update).await.is_ok(),
            Self::Stream(sink) => {
                let update = ResourceUpdatedNotification::new(update);
                let update = ServerNotification::ResourceUpdatedNotification(update);
                sink.send(update).await.is_ok()
            }
        }
    }
}

/// Tells what changes of the resource at `uri`, until nothing more is to come
/// or nobody hears it.
///
/// `ended` says so before the client hears of it: it may subscribe again at once.
pub(super) async fn tell_changes(watched: Watched, uri: String, ear: Ear, ended: Arc<AtomicBool>) {
    let Watched {
        mut watch,
        place: _place,
    } = watched;
    // A stream is acknowledged before anything is watched: what changed until
    // now is not told, so that whoever listens looks once. A session hears of
    // the beginning by its reply, and here only what that cannot say.
    let begun = match ear {
        Ear::Stream(_) => true,
        Ear::Session(_) => !watch.is_complete(),
    };
    if begun && !ear.tell(&uri, began(&watch)).await {
        return;
    }
    loop {
        let told = match watch.next().await {
            Ok(Some(changes)) => ear.tell(&uri, changed(&changes)).await,
            Ok(None) => return,
            Err(failure) => {
                ended.store(true, Ordering::Release);
                tell_end(&uri, &failure, &ear).await;
                return;
            }
        };
        if !told {
            return;
        }
    }
}

/// Tells that nothing more will be told of the resource at `uri`, and why.
pub(super) async fn tell_end(uri: &str, failure: &Failure, ear: &Ear) {
    let why = json!({
        "errorKind": failure.kind().as_str(),
        "reason": failure.reason().as_str(),
        "message": failure.message(),
        "hint": failure.next_step(),
    });
    // It ends either way.
    let _heard = ear.tell(uri, object([("portcullis/ended", why)])).await;
}

fn began(watch: &ResourceWatch) -> JsonObject {
    object([
        ("portcullis/begun", true.into()),
        ("portcullis/complete", watch.is_complete().into()),
    ])
}

fn changed(batch: &ResourceChanges) -> JsonObject {
    let changes = batch.changes.iter();
    let changes: Value = changes
        .map(|one| match &one.by {
            None => json!({"uri": one.uri, "change": one.change}),
            Some(call) => json!({
                "uri": one.uri,
                "change": one.change,
                "requestId": call.request_id.as_str(),
                "operation": call.operation,
            }),
        })
        .collect();
    let mut meta = object([("portcullis/changes", changes)]);
    if batch.more > 0 {
        meta.insert("portcullis/more".to_owned(), batch.more.into());
    }
    if !batch.complete {
        meta.insert("portcullis/complete".to_owned(), false.into());
    }
    if batch.overflow {
        meta.insert("portcullis/overflow".to_owned(), true.into());
    }
    meta
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> JsonObject {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// What the client of a session listens to. Gone, nothing is watched any more.
#[derive(Default)]
pub(super) struct Subscriptions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_uri: HashMap<String, Subscription>,
    begun: u64,
}

struct Subscription {
    /// Tells it from an earlier one of the same URI.
    number: u64,
    /// What tells of it; nothing yet where it is about to.
    task: Option<AbortOnDropHandle<()>>,
    /// Whether it came to its end.
    ended: Arc<AtomicBool>,
}

/// A place for one more subscription.
#[derive(Clone)]
pub(super) struct Place {
    uri: String,
    number: u64,
    pub(super) ended: Arc<AtomicBool>,
}

impl Subscriptions {
    /// Makes room for one more; `None` where the resource is listened to already.
    pub(super) fn begin(&self, uri: &str) -> Result<Option<Place>, Failure> {
        let mut kept = self.lock();
        kept.by_uri.retain(|_, one| {
            let is_finished = one
                .task
                .as_ref()
                .is_some_and(AbortOnDropHandle::is_finished);
            !is_finished && !one.ended.load(Ordering::Acquire)
        });
        if kept.by_uri.contains_key(uri) {
            return Ok(None);
        }
        if kept.by_uri.len() >= MAX_SUBSCRIPTIONS {
            return Err(Failure::new(
                Reason::Overload,
                format!(
                    "{MAX_SUBSCRIPTIONS} resources are listened to already, so this one is not."
                ),
            )
            .hint("Unsubscribe from one, or subscribe to a directory above several of them."));
        }
        kept.begun += 1;
        let place = Place {
            uri: uri.to_owned(),
            number: kept.begun,
            ended: Arc::default(),
        };
        let subscription = Subscription {
            number: place.number,
            task: None,
            ended: Arc::clone(&place.ended),
        };
        kept.by_uri.insert(uri.to_owned(), subscription);
        Ok(Some(place))
    }

    /// It has begun, and is kept unless it was ended meanwhile.
    pub(super) fn keep(&self, place: &Place, task: AbortOnDropHandle<()>) {
        let mut kept = self.lock();
        let one = kept.by_uri.get_mut(&place.uri);
        if let Some(one) = one.filter(|one| one.number == place.number) {
            one.task = Some(task);
        }
    }

    /// It did not begin.
    pub(super) fn give_up(&self, place: &Place) {
        let mut kept = self.lock();
        if kept
            .by_uri
            .get(&place.uri)
            .is_some_and(|one| one.number == place.number)
        {
            kept.by_uri.remove(&place.uri);
        }
    }

    pub(super) fn end(&self, uri: &str) {
        self.lock().by_uri.remove(uri);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
