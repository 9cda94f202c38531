//! Answers that come with a call, where the owner lets the server ask.
//!
//! A call that needs a person ends with a question; the server asks, and sends
//! the same call again with what was said. That counts only if this end asked,
//! for that very call, and offered that very answer; and it counts once.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use portcullis_gate::{Answer, Answered, Approver, Decision, Question, Reply, Surface};
use portcullis_link::Confirmation;
use portcullis_proto::{Failure, Reason, ToolReply};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::outbox::What;

/// How many questions may wait for their call to come again.
const MAX_ASKED: usize = 64;
/// How long one waits.
const ASKED_FOR: Duration = Duration::from_mins(10);

/// What a call is, so that it is known again.
pub(crate) fn what(name: &str, arguments: &Value) -> What {
    let mut hash = Sha256::new();
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name.as_bytes());
    hash.update(arguments.to_string().as_bytes());
    hash.finalize().into()
}

/// A question that was put, and what may be said to it.
struct Asked {
    what: What,
    question: Question,
    until: Instant,
}

/// Questions whose call may come again.
#[derive(Default)]
pub(crate) struct Answers {
    asked: Mutex<VecDeque<Asked>>,
}

impl Answers {
    /// Takes the question put for this very call, if `said` is an answer that
    /// was offered to it.
    pub(crate) fn take(&self, what: &What, said: &Value) -> Option<Answered> {
        let decision = said.as_str().and_then(decision)?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        asked.retain(|one| one.until > now);
        let at = asked
            .iter()
            .position(|one| one.what == *what && one.question.offered.contains(&decision))?;
        let Asked { question, .. } = asked.remove(at)?;
        Some(Answered {
            question: question.id,
            digest: question.digest,
            answer: Answer {
                decision,
                surface: Surface::Api,
                by: "the server's approvals".to_owned(),
            },
        })
    }

    /// Puts a question: the reply that has the server ask it.
    pub(crate) fn put(&self, what: What, question: Question) -> ToolReply {
        let options: Vec<String> = question
            .offered
            .iter()
            .filter_map(|decision| word(*decision))
            .map(str::to_owned)
            .collect();
        let first = question.facts.resources.first();
        let confirmation = Confirmation {
            tool_group: question.facts.group().as_str().to_owned(),
            resource: first.map_or_else(String::new, |one| one.path.shown().to_owned()),
            description: question.sentence(),
            options,
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|one| one.what != what);
        if asked.len() >= MAX_ASKED {
            asked.pop_front();
        }
        asked.push_back(Asked {
            what,
            question,
            until: Instant::now() + ASKED_FOR,
        });
        // The wire takes the message as it is, so the failure says nothing else.
        ToolReply::failed(&Failure::new(Reason::ApprovalPending, confirmation.text()))
    }
}

/// An answer as n8n spells it. None that lasts: those are given at this machine.
const fn word(decision: Decision) -> Option<&'static str> {
    match decision {
        Decision::AllowOnce => Some("allowOnce"),
        Decision::AllowSession => Some("allowForSession"),
        Decision::DenyOnce => Some("denyOnce"),
        Decision::AlwaysAllow | Decision::AlwaysDeny => None,
    }
}

fn decision(said: &str) -> Option<Decision> {
    Decision::ALL
        .into_iter()
        .find(|decision| word(*decision) == Some(said))
}

/// Ends a call at its question.
#[derive(Default)]
pub(crate) struct Suspend {
    slot: Mutex<Option<Question>>,
}

impl Suspend {
    pub(crate) fn take(&self) -> Option<Question> {
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Approver for Suspend {
    fn surface(&self) -> Surface {
        Surface::Api
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(question.clone());
        Box::pin(ready(Reply::Suspended))
    }
}
