//! Who is asked, and who remembers what was said.

use std::future::Future;
use std::pin::Pin;

use portcullis_policy::Rule;
use portcullis_proto::{Digest, Failure, QuestionId};

use crate::question::{Answer, Question, Surface};

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Somebody answered.
    Answered(Answer),
    /// The call ends here; another call will bring the answer.
    Suspended,
    /// Nobody can be asked.
    Unavailable,
    /// Nobody answered in time.
    TimedOut,
}

/// Puts questions to people.
pub trait Approver: Send + Sync {
    /// The surface the answers come from when this approver answers itself.
    fn surface(&self) -> Surface;

    /// Whether a lasting answer can come of its questions, and so is offered.
    /// An approver that asks on the agent's surface but leaves its questions
    /// where the person's own terminal can answer them says yes; what counts is
    /// still the surface the answer came from.
    fn may_say_always(&self) -> bool {
        self.surface().may_say_always()
    }

    /// Puts one question. The gate bounds the wait by the question's deadline.
    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;
}

/// An answer that came with the call: a question suspended earlier, now said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Which question.
    pub question: QuestionId,
    /// What it was pinned to.
    pub digest: Digest,
    /// What was said.
    pub answer: Answer,
}

/// Where an answer that came with the call is marked as used.
///
/// Taken when the deed it answers is about to be allowed, not when it arrives: a
/// call that fails before, on a bad argument, leaves its answer for the next.
pub trait Claim: Send + Sync {
    /// Takes the answer to `question`, unless somebody has.
    fn take<'a>(
        &'a self,
        question: &'a QuestionId,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;
}

/// Keeps rules that outlive the session.
pub trait Keeper: Send + Sync {
    /// Stores one rule, durably.
    fn keep(&self, rule: &Rule) -> Result<(), String>;
}
