//! Request states: sealed, bound to caller, tool and arguments, used once.
//!
//! The seal proves that we asked; the store proves that nobody answered
//! before. Any process of the same data directory can finish the call.

use std::time::Duration;

use portcullis_gate::{Answered, Question};
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

/// The key of our one question in a result's map.
const ASK: &str = "approval";

/// What to do about a state that is spent.
const AGAIN: &str = "Call it again without the answer to be asked anew.";

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
pub(super) fn suspend(
    asking: &Asking,
    question: &Question,
    bound: &[u8],
) -> Result<InputRequiredResult, Failure> {
    asking.store.ask(question).map_err(Failure::from)?;
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
        InputRequest::Elicitation(ElicitRequest::new(form(question))),
    );
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// Takes the answer a retried call brings. It counts once.
pub(super) fn resume(
    asking: &Asking,
    sealed: &str,
    responses: &InputResponses,
    bound: &[u8],
) -> Result<Answered, Failure> {
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
    let now = asking.clock.now_ms();
    match asking
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
    take(asking, state.question)
}

/// Takes the answer that was given to a question elsewhere, for who asked it.
pub(super) fn collect(
    asking: &Asking,
    id: QuestionId,
    who: &Principal,
) -> Result<Answered, Failure> {
    let question = asking.store.question(&id).map_err(Failure::from)?;
    // Looked at before anything is taken: naming another's question must not
    // use up its answer, nor tell that it is there.
    if question.is_none_or(|question| question.subject.principal != *who) {
        return Err(
            Failure::new(Reason::NotFound, "There is no such question of yours.")
                .hint("Call it again without portcullis/question to be asked anew."),
        );
    }
    match asking
        .store
        .poll(&id, asking.clock.now_ms())
        .map_err(Failure::from)?
    {
        Stage::Answered(_) => take(asking, id),
        Stage::Pending => Err(Failure::from(Reason::ApprovalPending)
            .hint("Call it again, the same way, when somebody has answered.")),
        Stage::Used(_) => Err(Failure::from(Reason::AnswerUsed).hint(AGAIN)),
        Stage::Withdrawn | Stage::Expired | Stage::Unknown => {
            Err(Failure::from(Reason::ApprovalTimeout).hint(AGAIN))
        }
    }
}

fn take(asking: &Asking, question: QuestionId) -> Result<Answered, Failure> {
    let taken = asking.store.take(&question).map_err(Failure::from)?;
    let (digest, answer) = taken.ok_or_else(|| Failure::from(Reason::AnswerUsed).hint(AGAIN))?;
    Ok(Answered {
        question,
        digest,
        answer,
    })
}

fn codec(asking: &Asking) -> Result<RequestStateCodec, Failure> {
    RequestStateCodec::try_new((asking.state_key)()?)
        .map_err(|error| Failure::from(Reason::Bug).detail(error))
}
