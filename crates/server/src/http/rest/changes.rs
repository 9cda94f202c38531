//! Changes as they happen, as events.

use portcullis_tools::{ResourceChanges, ResourceWatch};
use serde_json::{Value, json};

use super::super::desk::{HOLDS_NO_MORE, LOOK_AGAIN, SERVER_ENDS, open_stream};
use super::super::reply::Reply;
use super::Errand;
use super::query::Query;

pub(super) async fn watch(errand: &mut Errand) -> Reply {
    let path = match Query::of(&errand.asked.head.uri).text("path") {
        Ok(path) => path.unwrap_or(".").to_owned(),
        Err(why) => return errand.refuse(why),
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
        Ok(watch) => told(errand, watch),
        Err(why) => errand.failed(&why),
    }
}

fn told(errand: &Errand, mut watch: ResourceWatch) -> Reply {
    let (send, reply) = open_stream();
    let ending = errand.server.ending().clone();
    let standing = errand.asked.standing(&errand.server);
    tokio::spawn(async move {
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
        .map(|change| json!({"path": change.path, "uri": change.uri, "change": change.change}))
        .collect();
    json!({
        "changes": each,
        "more": changes.more,
        "overflow": changes.overflow,
        "complete": changes.complete,
    })
}
