//! A search that tells how far it is, for who asks for events.
//!
//! Its last event is what the same request without events would have been
//! answered with, made by the same code.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use portcullis_gate::Headway;
use serde_json::{Value, json};

use super::super::desk::{EventSender, open_stream};
use super::super::reply::Reply;
use super::{Errand, tools};

/// How often at most it is told how far a search is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Whether events are asked for, and no JSON.
pub(crate) fn is_to_be_told(headers: &HeaderMap) -> bool {
    let named = |wanted: &str| {
        headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|range| range.split(';').next())
            .any(|range| range.trim().eq_ignore_ascii_case(wanted))
    };
    named("text/event-stream") && !named("application/json")
}

/// Searches beside the reply that tells of it. Whoever stops reading ends the
/// search: it is cancelled, and its line says so.
///
/// What is `held` is held until it has ended.
pub(super) fn told(mut errand: Errand, held: impl Send + 'static) -> Reply {
    let (send, reply) = open_stream();
    let so_far = Arc::new(Mutex::new(Headway::default()));
    let heard = Arc::clone(&so_far);
    errand.caller = errand.caller.clone().reporting(Arc::new(move |headway| {
        let mut so_far = heard.lock().unwrap_or_else(PoisonError::into_inner);
        *so_far = so_far.and(headway);
    }));
    tokio::spawn(async move {
        tell(&errand, &send, &so_far).await;
        drop(held);
    });
    reply
}

async fn tell(errand: &Errand, send: &EventSender, so_far: &Mutex<Headway>) {
    let now = || *so_far.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = None;
    let search = tools::search(errand);
    tokio::pin!(search);
    let reply = loop {
        tokio::select! {
            biased;
            () = send.closed() => return,
            reply = &mut search => break reply,
            () = tokio::time::sleep(TELL_EVERY) => {}
        }
        let headway = now();
        if last.replace(headway) == Some(headway) {
            if !send.keep_alive().await {
                return;
            }
        } else {
            send.mention("progress", &value(headway));
        }
    };
    if !send.say("progress", &value(now())).await {
        return;
    }
    // What a head would have said, had it not been sent already.
    if let Some(warrant) = errand.caller.warrant() {
        let handled = json!({
            "requestId": warrant.request_id.as_str(),
            "policy": warrant.policy_source,
            "hooks": warrant.wrapper_ids,
        });
        if !send.say("handled", &handled).await {
            return;
        }
    }
    let event = if reply.status().is_success() {
        "result"
    } else {
        "error"
    };
    let Ok(body) = reply.into_body().collect().await;
    if let Ok(body) = serde_json::from_slice::<Value>(&body.to_bytes()) {
        send.say(event, &body).await;
    }
}

fn value(headway: Headway) -> Value {
    json!({
        "entries": headway.entries,
        "filesSearched": headway.searched,
        "matches": headway.matches,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(accept: &[&'static str], want: bool) {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        assert_eq!(is_to_be_told(&headers), want, "{accept:?}");
    }

    #[test]
    fn events_are_told_to_who_asks_for_them_and_for_no_json() {
        check(&[], false);
        check(&["*/*"], false);
        check(&["application/json"], false);
        check(&["text/event-stream"], true);
        check(&["text/html, Text/Event-Stream;q=0.9"], true);
        check(&["text/html", "text/event-stream"], true);
        check(&["application/json, text/event-stream"], false);
        check(&["text/event-stream-not"], false);
    }
}
