//! Request states: sealed, bound to caller, tool and arguments, used once.
//!
//! The seal proves that we asked; the store proves that nobody answered
//! before. Any process of the same data directory can finish the call.

use std::time::Duration;

use portcullis_gate::{Caller, Question};
use portcullis_proto::{Failure, Principal, QuestionId, Reason};
use portcullis_store::{Said, Stage};
use rmcp::model::{
    ElicitRequest, ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    RequestStateCodec, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Asking;
use super::ask::{answer, form};
use crate::answers::{self, off_the_reactor};

/// The key of our one question in a result's map.
const ASK: &str = "approval";

#[derive(Serialize, Deserialize)]
struct State {
    question: QuestionId,
}

/// What a state is bound to: who, and exactly what call.
pub(super) fn bound_to(who: &Principal, method: &str, name: &str, arguments: &Value) -> Vec<u8> {
    // Objects serialise with sorted keys, so the same arguments are the same bytes.
    serde_json::to_vec(&(who, method, name, arguments)).unwrap_or_default()
}

/// Ends a call with the question, durably asked.
pub(super) async fn suspend(
    asking: &Asking,
    question: Question,
    bound: &[u8],
) -> Result<InputRequiredResult, Failure> {
    let asked = question.clone();
    off_the_reactor(&asking.store, move |store| store.ask(&asked)).await?;
    let left = question.deadline.saturating_sub(asking.clock.now_ms());
    let options = SealOptions::new()
        .associated_data(bound)
        .ttl(Duration::from_millis(left));
    let state = codec(asking)?
        .seal_json_with(
            &State {
                question: question.id.clone(),
            },
            &options,
        )
        .map_err(|error| Failure::from(Reason::Bug).detail(error))?;
    let mut requests = InputRequests::new();
    requests.insert(
        ASK.to_owned(),
        InputRequest::Elicitation(ElicitRequest::new(form(&question))),
    );
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// Takes the answer a retried call brings. It counts once.
pub(super) async fn resume(
    asking: &Asking,
    caller: Caller,
    sealed: &str,
    responses: &InputResponses,
    bound: &[u8],
) -> Result<Caller, Failure> {
    let state: State = codec(asking)?
        .open_json_with(sealed, bound)
        .map_err(|error| {
            Failure::new(
                Reason::BadArguments,
                "The request state is not one we gave for this call, or it is too old.",
            )
            .hint("Call the tool again without requestState.")
            .detail(error)
        })?;
    let said = responses
        .get(ASK)
        .and_then(|value| serde_json::from_value::<ElicitResult>(value.clone()).ok())
        .ok_or_else(|| {
            Failure::new(
                Reason::BadArguments,
                "The answer to the question is missing from inputResponses.",
            )
            .hint("Call it again with the answer under the key the question came with.")
        })?;
    let (now, question) = (asking.clock.now_ms(), state.question.clone());
    let said = off_the_reactor(&asking.store, move |store| {
        store.answer(&question, &answer(&said), now)
    });
    match said.await? {
        // Somebody may have answered elsewhere meanwhile; the first answer stands.
        Said::Answered | Said::AlreadyAnswered => {}
        Said::Expired => return Err(Reason::ApprovalTimeout.into()),
        Said::NotOffered => {
            return Err(Failure::new(
                Reason::ApprovalDenied,
                "The answer is not one that was offered, which counts as a no.",
            ));
        }
        Said::Unknown => return Err(Reason::AnswerUsed.into()),
    }
    answers::bring(
        &asking.store,
        &asking.clock,
        caller,
        state.question.as_str(),
    )
    .await
}

/// A question a call put, if the call ended with it: one that was answered
/// while the call waited is used by now.
pub(super) async fn left(asking: &Asking, id: QuestionId) -> Result<Option<Question>, Failure> {
    let now = asking.clock.now_ms();
    off_the_reactor(&asking.store, move |store| match store.poll(&id, now)? {
        Stage::Pending | Stage::Answered(_) => store.question(&id),
        Stage::Used(_) | Stage::Withdrawn | Stage::Expired | Stage::Unknown => Ok(None),
    })
    .await
}

fn codec(asking: &Asking) -> Result<RequestStateCodec, Failure> {
    RequestStateCodec::try_new((asking.state_key)()?)
        .map_err(|error| Failure::from(Reason::Bug).detail(error))
}
