//! A call and its question: how long it waits, and the answer a later call
//! brings.

use std::time::Duration;

use http::HeaderMap;
use portcullis_gate::Answered;
use portcullis_proto::{Failure, Principal, QuestionId, Reason};
use portcullis_store::{Stage, Store};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};

/// The longest a call waits for an answer.
const MAX_WAIT: u64 = 55;
/// The longest name of a question.
const MAX_ID: usize = 256;

/// How long the caller waits for an answer: `Prefer: wait=N`, in seconds. Not
/// at all where it does not say so.
pub(crate) fn waits(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split([',', ';']))
        .filter_map(|wish| wish.trim().split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .and_then(|(_, seconds)| seconds.trim().trim_matches('"').parse::<u64>().ok())
        .unwrap_or(0);
    Duration::from_secs(seconds.min(MAX_WAIT))
}

/// The answer a call brings by naming its question: only the principal that was
/// asked about brings it, and it counts once.
pub(crate) fn bring(
    store: &Store,
    headers: &HeaderMap,
    principal: &Principal,
    now_ms: u64,
) -> Result<Option<Answered>, Failure> {
    let Some(id) = headers.get("portcullis-question") else {
        return Ok(None);
    };
    let unknown = || {
        Failure::new(Reason::BadArguments, "There is no such question of yours.")
            .hint("Leave Portcullis-Question out, and the question is asked anew.")
    };
    let id = id
        .to_str()
        .ok()
        .filter(|id| !id.is_empty() && id.len() <= MAX_ID)
        .map(QuestionId::new)
        .ok_or_else(unknown)?;
    let trouble = |error| Failure::from(Reason::Io).detail(error);
    let question = store.question(&id).map_err(trouble)?.ok_or_else(unknown)?;
    if question.subject.principal != *principal {
        return Err(unknown());
    }
    match store.poll(&id, now_ms).map_err(trouble)? {
        Stage::Pending => Err(Reason::ApprovalPending.into()),
        Stage::Expired => Err(Reason::ApprovalTimeout.into()),
        Stage::Used(_) | Stage::Withdrawn | Stage::Unknown => Err(unknown()),
        Stage::Answered(_) => match store.take(&id).map_err(trouble)? {
            Some((digest, answer)) => Ok(Some(Answered {
                question: id,
                digest,
                answer,
            })),
            None => Err(unknown()),
        },
    }
}

/// A failure that waits for a person: with the question, and where to answer it.
pub(crate) fn pending(why: &Failure, question: &QuestionId, url: &str) -> Reply {
    let mut body = json!({
        "errorKind": why.kind().as_str(),
        "reason": why.reason().as_str(),
        "category": why.category().as_str(),
        "error": why.message(),
        "hint": format!(
            "Answer it at {url}/approve/{question} or with portcullis approve, then send the same request with the header Portcullis-Question: {question}"
        ),
        "status": why.kind().status(),
    });
    if let Some(object) = body.as_object_mut() {
        object.insert("questionId".to_owned(), question.as_str().into());
        object.insert(
            "approvalUrl".to_owned(),
            Value::from(format!("{url}/approve/{question}")),
        );
    }
    reply::value(reply::status_of(why), &body)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_call_waits_as_long_as_it_says_and_not_for_ever() {
        for (said, want) in [
            ("wait=5", 5),
            ("respond-async, wait=10", 10),
            ("Wait = 7", 7),
            ("wait=9999", MAX_WAIT),
            ("wait=-1", 0),
            ("wait", 0),
            ("", 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_str(said).unwrap());
            assert_eq!(waits(&headers), Duration::from_secs(want), "{said}");
        }
    }
}
