//! Request states: sealed, bound to caller, tool and arguments, used once.
//!
//! The seal proves that we asked; the store proves that nobody answered
//! before. Any process of the same data directory can finish the call.

use std::time::Duration;

use portcullis_gate::{Answered, Question};
use portcullis_proto::{Failure, QuestionId, Reason};
use portcullis_store::Said;
use rmcp::model::{
    ElicitRequest, ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    RequestStateCodec, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::McpParts;
use super::ask::{answer, form};

/// The key of our one question in a result's map.
const ASK: &str = "approval";

/// What to do about a state that is spent.
const AGAIN: &str = "Call the tool again without requestState to be asked anew.";

#[derive(Serialize, Deserialize)]
struct State {
    question: QuestionId,
}

/// What a state is bound to: who, and exactly what call.
pub(super) fn bound_to(parts: &McpParts, method: &str, name: &str, arguments: &Value) -> Vec<u8> {
    // Objects serialise with sorted keys, so the same arguments are the same bytes.
    serde_json::to_vec(&(parts.subject.principal.label(), method, name, arguments))
        .unwrap_or_default()
}

/// Ends a call with the question, durably asked.
pub(super) fn suspend(
    parts: &McpParts,
    question: &Question,
    bound: &[u8],
) -> Result<InputRequiredResult, Failure> {
    parts.store.ask(question).map_err(Failure::from)?;
    let left = question.deadline.saturating_sub(parts.clock.now_ms());
    let options = SealOptions::new()
        .associated_data(bound)
        .ttl(Duration::from_millis(left));
    let state = codec(parts)?
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
        InputRequest::Elicitation(ElicitRequest::new(form(question))),
    );
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// Takes the answer a retried call brings. It counts once.
pub(super) fn resume(
    parts: &McpParts,
    sealed: &str,
    responses: &InputResponses,
    bound: &[u8],
) -> Result<Answered, Failure> {
    let state: State = codec(parts)?
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
    let now = parts.clock.now_ms();
    match parts
        .store
        .answer(&state.question, &answer(&said), now)
        .map_err(Failure::from)?
    {
        // Somebody may have answered elsewhere meanwhile; the first answer stands.
        Said::Answered | Said::AlreadyAnswered => {}
        Said::Expired => return Err(Reason::ApprovalTimeout.into()),
        Said::NotOffered => {
            return Err(Failure::new(
                Reason::ApprovalDenied,
                "The answer is not one that was offered, which counts as a no.",
            ));
        }
        Said::Unknown => return Err(Failure::from(Reason::AnswerUsed).hint(AGAIN)),
    }
    let (digest, answer) = parts
        .store
        .take(&state.question)
        .map_err(Failure::from)?
        .ok_or_else(|| Failure::from(Reason::AnswerUsed).hint(AGAIN))?;
    Ok(Answered {
        question: state.question,
        digest,
        answer,
    })
}

fn codec(parts: &McpParts) -> Result<RequestStateCodec, Failure> {
    RequestStateCodec::try_new((parts.state_key)()?)
        .map_err(|error| Failure::from(Reason::Bug).detail(error))
}
