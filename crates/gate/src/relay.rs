//! A call passed on to a linked machine: what it does there, that machine's own
//! rules decide; what is kept here is its record, and the way to ask its owner.
//!
//! A line before it is sent, and exactly one after, whatever becomes of it.

use std::sync::Arc;

use portcullis_policy::Source;
use portcullis_proto::{Digest, Facts, Failure, Outcome, Reason, RequestId, Verb};

use crate::approve::Reply;
use crate::book::Book;
use crate::caller::{Brought, Caller};
use crate::deed::Settled;
use crate::gate::{Gate, clip};
use crate::permit::unrecorded;
use crate::question::{Answer, Decision, Question, digest};

/// A call that is under way to a linked machine. Dropped, it was abandoned, and
/// its line says so.
pub struct Relay {
    book: Box<Book>,
}

/// What a linked machine wants a person's yes for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// In words: the machine's, so they are shown and never followed.
    pub about: &'a str,
    /// What a yes is pinned to: machine, tool, arguments, and these words.
    pub pinned: Digest,
    /// Whether the machine lets a yes hold for its session.
    pub for_session: bool,
}

impl Gate {
    /// Begins to pass a call on, with the line that comes before it; `what`
    /// names machine, tool and what it is about, without contents. Where the
    /// line cannot be written, nothing may be sent.
    pub fn relay(self: &Arc<Self>, caller: &Caller, what: &str) -> Result<Relay, Failure> {
        let mut book = self.book_of(caller, Verb::Relay, what);
        book.source = Source::Builtin("link");
        if let Err(failure) = self.check_open() {
            return Err(book.refuse(failure));
        }
        if let Err(down) = book.begin() {
            return Err(book.refuse(unrecorded(&down)));
        }
        Ok(Relay { book })
    }
}

impl Relay {
    /// How its lines name it.
    pub fn request_id(&self) -> &RequestId {
        &self.book.request
    }

    /// Who it is for.
    pub fn caller(&self) -> &Caller {
        &self.book.caller
    }

    /// Puts to a person what the machine wants a yes for; which yes it was.
    pub async fn ask(&mut self, wanted: Wanted<'_>) -> Result<Decision, Failure> {
        let facts = Facts {
            verb: Verb::Relay,
            resources: Vec::new(),
            shown: Some(wanted.pinned),
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        };
        let pinned = digest(&self.book.caller.subject, &facts);
        let mut offered = vec![Decision::AllowOnce, Decision::DenyOnce];
        if wanted.for_session {
            offered.insert(1, Decision::AllowSession);
        }
        if let Some(Brought { answered, claim }) = self.book.caller.take_answer() {
            self.book.question = Some(answered.question.clone());
            if answered.digest != pinned {
                return Err(Failure::new(
                    Reason::ChangedSince,
                    "The answer was to another question, so nothing was done.",
                )
                .hint("Call it again without the answer to be asked anew."));
            }
            if let Some(claim) = claim {
                claim.take(&answered.question).await?;
            }
            return self.settle_on(&offered, answered.answer);
        }
        let Some(approver) = self.book.caller.approver.clone() else {
            return Err(nobody(wanted.about));
        };
        let _parked = self.book.gate.park()?;
        let patience = self.book.caller.patience;
        let now = self.book.gate.clock.now_ms();
        let waits = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let question = Question {
            id: self.book.next_question(),
            digest: pinned,
            subject: self.book.caller.subject.clone(),
            facts,
            class: None,
            source: self.book.source.to_string(),
            exact_path: true,
            about: Some(clip(wanted.about).into()),
            offered,
            asked_at: now,
            deadline: now.saturating_add(waits),
        };
        let reply = tokio::time::timeout(patience, approver.ask(&question)).await;
        let late = self.book.gate.clock.now_ms() > question.deadline;
        match reply.unwrap_or(Reply::TimedOut) {
            Reply::Answered(answer) if !late => self.settle_on(&question.offered, answer),
            Reply::Suspended => Err(Reason::ApprovalPending.into()),
            Reply::Unavailable => Err(nobody(wanted.about)),
            Reply::Answered(_) | Reply::TimedOut => Err(Failure::from(Reason::ApprovalTimeout)
                .hint("Ask for it again when somebody is there to answer.")),
        }
    }

    fn settle_on(&mut self, offered: &[Decision], answer: Answer) -> Result<Decision, Failure> {
        self.book.answered_by = Some(format!("{}:{}", answer.surface.as_str(), clip(&answer.by)));
        if !offered.contains(&answer.decision) {
            return Err(Failure::new(
                Reason::ApprovalDenied,
                "The answer was one that was not offered, which counts as a no.",
            ));
        }
        if !answer.decision.allows() {
            return Err(Reason::ApprovalDenied.into());
        }
        Ok(answer.decision)
    }

    /// The machine answered, with so many bytes: the closing line.
    pub fn answered(mut self, bytes: u64) {
        // Closing seals the gate where it fails; what is done there stays done.
        drop(
            self.book
                .close(Outcome::Success, None, Settled::bytes(bytes)),
        );
    }

    /// The machine answered that it could not, or would not.
    pub fn failed_there(mut self, bytes: u64) {
        drop(
            self.book
                .close(Outcome::Failed, None, Settled::bytes(bytes)),
        );
    }

    /// It was refused or came to nothing: the closing line, and the failure back.
    pub fn failed(self, why: Failure) -> Failure {
        self.book.refuse(why)
    }
}

fn nobody(about: &str) -> Failure {
    Failure::new(
        Reason::ApprovalUnavailable,
        format!(
            "The machine wants its owner's yes, and nobody can be asked here: {}",
            clip(about)
        ),
    )
    .hint(
        "Have the owner allow it in the daemon's settings, or call it where a person can be asked.",
    )
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("request", &self.book.request)
            .finish_non_exhaustive()
    }
}
