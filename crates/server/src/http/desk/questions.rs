//! How a call ends whose question waits for a person.

use portcullis_proto::{Failure, QuestionId};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};

/// A failure that waits for a person: with the question, where to answer it, and
/// how it would be let through unasked.
pub(crate) fn pending(
    why: &Failure,
    question: &QuestionId,
    url: &str,
    unasked: Option<&str>,
) -> Reply {
    let mut body = json!({
        "errorKind": why.kind().as_str(),
        "reason": why.reason().as_str(),
        "category": why.category().as_str(),
        "error": why.message(),
        "hint": format!(
            "Answer it at {url}/approve/{question} or with portcullis approve, then send the same request with the header Portcullis-Question: {question}{}",
            unasked.unwrap_or_default()
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
