//! The id a client of `qwen serve` may give itself.

use http::StatusCode;
use portcullis_proto::{Failure, Reason};
use serde_json::json;

use super::super::guard::changes;
use super::super::reply::{self, Reply};
use super::Errand;

const CLIENT_ID: &str = "x-qwen-client-id";
/// The longest id.
const MAX_CHARS: usize = 128;

/// Refuses an id that is none. Reads take any; a change takes only an id that
/// a session here gave out, and there are no such sessions.
pub(super) fn refused(errand: &Errand) -> Option<Reply> {
    let asked = &errand.asked;
    let value = asked.head.headers.get(CLIENT_ID)?;
    let bad = |error: &'static str, id: Option<&str>| {
        drop(errand.refuse(Failure::new(Reason::BadArguments, error)));
        let mut body = json!({"error": error, "code": "invalid_client_id"});
        if let (Some(id), Some(object)) = (id, body.as_object_mut()) {
            object.insert("clientId".to_owned(), id.into());
        }
        reply::value(StatusCode::BAD_REQUEST, &body)
    };
    let id = value.to_str().unwrap_or("\u{0}");
    if id.is_empty() {
        return None;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if id.len() > MAX_CHARS || !id.bytes().all(plain) {
        return Some(bad("The client id is not well formed.", None));
    }
    if changes(&asked.head.method) {
        return Some(bad("No session here gave out this client id.", Some(id)));
    }
    None
}
