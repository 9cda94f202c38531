//! Changes as they happen, as events.

use portcullis_tools::{ResourceChanges, ResourceWatch};
use serde_json::{Value, json};

use super::super::desk::{HOLDS_NO_MORE, LOOK_AGAIN, SERVER_ENDS, open_stream};
use super::super::reply::Reply;
use super::super::shares::{Holder, Place};
use super::Errand;
use super::query::{Asks as _, query};

query! {
    /// What `GET /watch` asks for.
    pub(super) struct WatchQuery {
        /// Below which directory, from the workspace's root. Default: the root itself.
        "path" path: Option<String>,
    }
}

pub(super) async fn watch(errand: &mut Errand) -> Reply {
    let path = match WatchQuery::read(&errand.asked.head.uri) {
        Ok(query) => query.path.unwrap_or_else(|| ".".to_owned()),
        Err(why) => return errand.refuse(why),
    };
    let watches = &errand.server.shares.watches;
    let place = match watches.take(&Holder::of(&errand.asked.identity.principal)) {
        Ok(place) => place,
        Err(why) => return errand.over(why),
    };
    // Nobody is asked about it: what would have to be asked about is left out.
    errand.caller.approver = None;
    // It goes on after this request was answered.
    errand.caller.cancel = portcullis_gate::CancelFlag::new();
    let watch = errand
        .machine
        .watch(&errand.caller, errand.root(), &path)
        .await;
    match watch {
        Ok(watch) => told(errand, watch, place),
        Err(why) => errand.failed(&why),
    }
}

fn told(errand: &Errand, mut watch: ResourceWatch, place: Place) -> Reply {
    let (send, reply) = open_stream();
    let ending = errand.server.ending().clone();
    let standing = errand.asked.standing(&errand.server);
    tokio::spawn(async move {
        let _place = place;
        let begun = json!({"complete": watch.is_complete()});
        if !send.say("begun", &begun).await {
            return;
        }
        loop {
            let next = tokio::select! {
                () = ending.cancelled() => {
                    send.end(SERVER_ENDS).await;
                    return;
                }
                () = send.closed() => return,
                next = tokio::time::timeout(LOOK_AGAIN, watch.next()) => next,
            };
            if !standing.holds() {
                send.end(HOLDS_NO_MORE).await;
                return;
            }
            let stays = match next {
                Err(_) => send.keep_alive().await,
                Ok(Ok(Some(changes))) => send.say("changes", &value(&changes)).await,
                Ok(Ok(None)) => {
                    send.end("what was watched is gone").await;
                    false
                }
                Ok(Err(why)) => {
                    let error = json!({
                        "errorKind": why.kind().as_str(),
                        "reason": why.reason().as_str(),
                        "error": why.message(),
                    });
                    send.say("ended", &error).await;
                    false
                }
            };
            if !stays {
                return;
            }
        }
    });
    reply
}

fn value(changes: &ResourceChanges) -> Value {
    let each: Vec<Value> = changes
        .changes
        .iter()
        .map(|change| {
            let mut told = json!({"path": change.path, "uri": change.uri, "change": change.change});
            if let (Some(call), Some(told)) = (&change.by, told.as_object_mut()) {
                told.insert("requestId".to_owned(), call.request_id.as_str().into());
                told.insert("operation".to_owned(), call.operation.into());
            }
            told
        })
        .collect();
    json!({
        "changes": each,
        "more": changes.more,
        "overflow": changes.overflow,
        "complete": changes.complete,
    })
}
