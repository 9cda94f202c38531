//! Resources a client listens to.
//!
//! Both eras are told the same: an update of the very URI that was subscribed
//! to, with what changed below it in `_meta`. A client that knows nothing of
//! that looks again; one that does knows where.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Failure, Reason};
use portcullis_tools::{ResourceChanges, ResourceWatch};
use rmcp::RoleServer;
use rmcp::model::{
    JsonObject, ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{Peer, SubscriptionSink};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// How many resources one client listens to at most.
pub(super) const MAX_SUBSCRIPTIONS: usize = 32;

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
pub(super) async fn tell_changes(mut watch: ResourceWatch, uri: String, ear: Ear) {
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
        .map(|one| json!({"uri": one.uri, "change": one.change}))
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

/// What the client of a session listens to, by URI. Gone, nothing is watched
/// any more.
#[derive(Default)]
pub(super) struct Subscriptions(Mutex<HashMap<String, Subscription>>);

enum Subscription {
    /// It is about to be.
    Beginning,
    /// By this task.
    Told(AbortOnDropHandle<()>),
}

impl Subscriptions {
    /// Makes room for one more; whether it is new.
    pub(super) fn begin(&self, uri: &str) -> Result<bool, Failure> {
        let mut kept = self.lock();
        // What came to its end is listened to no more.
        kept.retain(|_, one| !matches!(one, Subscription::Told(task) if task.is_finished()));
        if kept.contains_key(uri) {
            return Ok(false);
        }
        if kept.len() >= MAX_SUBSCRIPTIONS {
            return Err(Failure::new(
                Reason::Overload,
                format!(
                    "{MAX_SUBSCRIPTIONS} resources are listened to already, so this one is not."
                ),
            )
            .hint("Unsubscribe from one, or subscribe to a directory above several of them."));
        }
        kept.insert(uri.to_owned(), Subscription::Beginning);
        Ok(true)
    }

    /// It has begun, and is kept unless it was ended meanwhile.
    pub(super) fn keep(&self, uri: &str, task: AbortOnDropHandle<()>) {
        if let Some(one) = self.lock().get_mut(uri) {
            *one = Subscription::Told(task);
        }
    }

    pub(super) fn end(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
