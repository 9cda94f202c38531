//! Replies, and the envelopes of what went wrong.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use portcullis_gate::Warrant;
use portcullis_proto::{Failure, Json, Reason, ToolReply};
use serde::Serialize;
use serde_json::{Value, json};

/// What a reply carries: written already, or a stream.
pub type Body = BoxBody<Bytes, Infallible>;

/// What a route answers.
pub type Reply = Response<Body>;

const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// No other page may take a reply in as a picture or a script.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Names the attempt, as its line in the audit does.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("portcullis-request-id");
/// Which rule, mode, class or person decided.
pub(crate) const POLICY: HeaderName = HeaderName::from_static("portcullis-policy");
/// The hooks that were asked, in order.
pub(crate) const HOOKS: HeaderName = HeaderName::from_static("portcullis-hooks");

/// The machine that acted, where the caller could have meant another.
pub(crate) const MACHINE: HeaderName = HeaderName::from_static("portcullis-machine");

/// JSON that is written already.
pub(crate) fn written(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()).boxed());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, JSON_TYPE);
    guarded(headers);
    reply
}

/// What every reply says of itself: it is not kept, is what it says it is, and is
/// for no other page.
pub(crate) fn guarded(headers: &mut http::HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}

/// A value as JSON.
pub(crate) fn value(status: StatusCode, value: &Value) -> Reply {
    written(status, value.to_string())
}

/// A shape of ours as JSON.
pub(crate) fn of<T: Serialize>(status: StatusCode, body: &T) -> Reply {
    match serde_json::to_string(body) {
        Ok(text) => written(status, text),
        Err(error) => failure(&Failure::from(Reason::Bug).detail(error)),
    }
}

/// A refusal that is not a file's: `{error}`, and `code` where programs look for one.
pub(crate) fn refused(status: StatusCode, error: &str, code: Option<&str>) -> Reply {
    let mut body = json!({ "error": error });
    if let (Some(code), Some(object)) = (code, body.as_object_mut()) {
        object.insert("code".to_owned(), code.into());
    }
    value(status, &body)
}

/// A failure in its envelope: `{errorKind, error, hint, status, reason, category}`.
pub(crate) fn failure(failure: &Failure) -> Reply {
    let body = ToolReply::failed(failure).structured;
    written(status_of(failure), body.get().to_owned())
}

/// The status a failure travels under.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    StatusCode::from_u16(failure.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A tool's reply: its structured half is the body.
pub(crate) fn of_tool(reply: &ToolReply) -> Reply {
    let status = if reply.is_error {
        status_in(&reply.structured)
    } else {
        StatusCode::OK
    };
    written(status, reply.structured.get().to_owned())
}

fn status_in(structured: &Json) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Envelope {
        status: u16,
    }
    serde_json::from_str::<Envelope>(structured.get())
        .ok()
        .and_then(|envelope| StatusCode::from_u16(envelope.status).ok())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Says on what a call was settled: the same words as its line in the audit.
pub(crate) fn settled_on(reply: &mut Reply, warrant: Option<Warrant>) {
    let Some(warrant) = warrant else { return };
    let headers = reply.headers_mut();
    let said = [
        (REQUEST_ID, warrant.request_id.as_str().to_owned()),
        (POLICY, warrant.policy_source),
        (HOOKS, warrant.wrapper_ids.join(",")),
    ];
    for (name, text) in said {
        if let Some(value) = fit(&text) {
            headers.insert(name, value);
        }
    }
}

/// Says which machine acted.
pub(crate) fn done_at(reply: &mut Reply, machine: Option<&str>) {
    if let Some(value) = machine.and_then(fit) {
        reply.headers_mut().insert(MACHINE, value);
    }
}

/// Text as a header can carry it; a rule may hold any character.
fn fit(text: &str) -> Option<HeaderValue> {
    if text.is_empty() {
        return None;
    }
    HeaderValue::from_str(text)
        .or_else(|_| HeaderValue::from_str(&text.escape_default().to_string()))
        .ok()
}

/// A reply with nothing in it.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::new()).boxed());
    *reply.status_mut() = status;
    guarded(reply.headers_mut());
    reply
}
