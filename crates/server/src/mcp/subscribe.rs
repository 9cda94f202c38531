//! Resources a client listens to.
//!
//! Both eras are told the same: an update of the very URI that was subscribed
//! to, with what changed below it in `_meta`. A client that knows nothing of
//! that looks again; one that does knows where.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use portcullis_proto::Failure;
use portcullis_tools::{ResourceChanges, ResourceWatch};
use rmcp::RoleServer;
use rmcp::model::{
    JsonObject, ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{Peer, SubscriptionSink};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// How many changes one notification names; of more it says how many.
const NAMED: usize = 100;
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

fn changed(batch: &ResourceChanges) -> JsonObject {
    let named = batch.changes.iter().take(NAMED);
    let changes: Value = named
        .map(|one| json!({"uri": one.uri, "change": one.change}))
        .collect();
    let mut meta = object([("portcullis/changes", changes)]);
    let more = batch.changes.len().saturating_sub(NAMED);
    if more > 0 {
        meta.insert("portcullis/more".to_owned(), more.into());
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
pub(super) struct Subscriptions(Mutex<HashMap<String, AbortOnDropHandle<()>>>);

impl Subscriptions {
    /// Whether the resource is listened to already.
    pub(super) fn has(&self, uri: &str) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What came to its end is listened to no more.
        kept.retain(|_, task| !task.is_finished());
        kept.contains_key(uri)
    }

    pub(super) fn keep(&self, uri: String, task: AbortOnDropHandle<()>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(uri, task);
    }

    pub(super) fn end(&self, uri: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(uri);
    }
}
