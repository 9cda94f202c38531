//! A person who answers from a list.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use portcullis_gate::{Answer, Approver, Decision, Question, Reply, Surface};

/// Gives the replies of a list, in order, and remembers what was asked. When
/// the list is used up nobody can be asked.
#[derive(Debug)]
pub struct ScriptedApprover {
    surface: Surface,
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<Question>>,
}

impl ScriptedApprover {
    /// Somebody who decides like this, one question after the other.
    pub fn deciding(decisions: impl IntoIterator<Item = Decision>) -> Self {
        Self::replying(decisions.into_iter().map(|decision| {
            Reply::Answered(Answer {
                decision,
                surface: Surface::Script,
                by: "script".into(),
            })
        }))
    }

    /// Somebody whose replies are these.
    pub fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            surface: Surface::Script,
            replies: Mutex::new(replies.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    /// Every question put so far.
    pub fn asked(&self) -> Vec<Question> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Approver for ScriptedApprover {
    fn surface(&self) -> Surface {
        self.surface
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(question.clone());
        let reply = self
            .replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        Box::pin(ready(reply.unwrap_or(Reply::Unavailable)))
    }
}
