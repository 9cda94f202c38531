//! The book of one attempt: exactly one closing line, whatever happens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use portcullis_policy::Source;
use portcullis_proto::{
    Category, Event, Facts, Failure, Outcome, Phase, QuestionId, Reason, RequestId, Staged, Subject,
};

use crate::caller::{Caller, Warrant};
use crate::deed::Settled;
use crate::gate::Gate;
use crate::hook::HookCall;
use crate::ledger::LedgerDown;
use crate::recent::RecentChange;

/// Boxed, since it goes from attempt to permit to act: moved as it is, that
/// copied it a dozen times.
pub(crate) struct Book {
    pub(crate) gate: Arc<Gate>,
    pub(crate) caller: Caller,
    pub(crate) request: RequestId,
    pub(crate) facts: Arc<Facts>,
    pub(crate) alleged: Option<Box<str>>,
    pub(crate) source: Source,
    pub(crate) wrappers: Vec<String>,
    pub(crate) question: Option<QuestionId>,
    pub(crate) answered_by: Option<String>,
    /// Whether the yes was to the deed as it was resolved, not to its path alone.
    pub(crate) answered_whole: bool,
    questions: u32,
    began_us: u64,
    open: bool,
}

impl Book {
    /// Opens the book of an attempt that looks like `facts` so far.
    pub(crate) fn open(gate: &Arc<Gate>, caller: &Caller, facts: Facts) -> Box<Self> {
        gate.count_in();
        Box::new(Self {
            caller: caller.clone(),
            request: gate.next_request(),
            facts: Arc::new(facts),
            alleged: None,
            source: Source::Builtin("lexical"),
            wrappers: Vec::new(),
            question: None,
            answered_by: None,
            answered_whole: false,
            questions: 0,
            began_us: gate.clock.monotonic_us(),
            open: true,
            gate: Arc::clone(gate),
        })
    }

    /// The name of the next question. An attempt may ask twice, about a secret
    /// path and then about what stands there, and no two share a name: the
    /// answer to one is none to the other.
    pub(crate) fn next_question(&mut self) -> QuestionId {
        self.questions += 1;
        let request = self.request.as_str();
        let request = request.strip_prefix("r_").unwrap_or(request);
        let id = QuestionId::new(match self.questions {
            1 => format!("q_{request}"),
            n => format!("q_{request}_{n}"),
        });
        self.question = Some(id.clone());
        id
    }

    pub(crate) fn subject(&self) -> &Subject {
        &self.caller.subject
    }

    /// The line before a mutation acts.
    pub(crate) fn begin(&self) -> Result<(), LedgerDown> {
        self.write(
            Phase::Opening,
            Outcome::Begun,
            None,
            Settled::default(),
            None,
        )
    }

    /// Keeps it among the changes whoever watches may ask about.
    pub(crate) fn remember(&self) -> Arc<RecentChange> {
        let principal = self.subject().principal.clone();
        let (request, facts) = (self.request.clone(), Arc::clone(&self.facts));
        self.gate.recent.begin(request, principal, facts)
    }

    /// The line between making something and putting it in place.
    pub(crate) fn stage(&self, staged: Staged) -> Result<(), LedgerDown> {
        let nothing_yet = Settled::default();
        self.write(
            Phase::Staged,
            Outcome::Begun,
            None,
            nothing_yet,
            Some(staged),
        )
    }

    /// The closing line. After it, dropping the book writes nothing. A line that
    /// cannot be written seals the gate.
    pub(crate) fn close(
        &mut self,
        outcome: Outcome,
        reason: Option<Reason>,
        settled: Settled,
    ) -> Result<(), LedgerDown> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let kept = self.write(Phase::Closing, outcome, reason, settled, None);
        if kept.is_err() {
            self.gate.seal();
        }
        self.leave_trail();
        self.tell_hooks(outcome);
        self.gate.count_out();
        kept
    }

    fn leave_trail(&self) {
        if let Some(trail) = &self.caller.trail {
            *trail.lock().unwrap_or_else(PoisonError::into_inner) = Some(Warrant {
                request_id: self.request.clone(),
                policy_source: self.source.to_string(),
                wrapper_ids: self.wrappers.clone(),
            });
        }
    }

    /// Closes on a refusal or failure and hands it back. Whether the line could
    /// be written changes nothing for this caller: nothing was done.
    pub(crate) fn refuse(mut self, failure: Failure) -> Failure {
        self.close_failed(&failure);
        failure
    }

    pub(crate) fn close_failed(&mut self, failure: &Failure) {
        let outcome = match (failure.reason(), failure.category()) {
            (Reason::ApprovalPending, _) => Outcome::Parked,
            (_, Category::Policy) => Outcome::Denied,
            (_, Category::Operational) => Outcome::Failed,
        };
        drop(self.close(outcome, Some(failure.reason()), Settled::default()));
    }

    fn write(
        &self,
        phase: Phase,
        outcome: Outcome,
        reason: Option<Reason>,
        settled: Settled,
        staged: Option<Staged>,
    ) -> Result<(), LedgerDown> {
        let gate = &self.gate;
        let event = Event {
            phase,
            at: gate.clock.now_ms(),
            request_id: &self.request,
            route: self.caller.route,
            called: self.caller.called.as_deref(),
            trace: self.caller.trace,
            subject: self.subject(),
            facts: &self.facts,
            alleged: self.alleged.as_deref(),
            outcome,
            policy_source: self.source.as_str(),
            wrapper_ids: &self.wrappers,
            kind: reason.map(Reason::kind),
            reason,
            question: self.question.as_ref(),
            answered_by: self.answered_by.as_deref(),
            bytes: settled.bytes,
            hash: settled.hash,
            counts: settled.counts,
            staged,
            duration_us: gate.clock.monotonic_us().saturating_sub(self.began_us),
        };
        // A ledger that panics has not kept the line. Lines are also written
        // while a panic unwinds, where a second one would end the process.
        catch_unwind(AssertUnwindSafe(|| gate.ledger.append(&event)))
            .unwrap_or_else(|_| Err(LedgerDown("it panicked".into())))
    }

    pub(crate) fn hook_call(&self) -> HookCall {
        HookCall {
            request_id: self.request.clone(),
            subject: self.subject().clone(),
            facts: Arc::clone(&self.facts),
        }
    }

    fn tell_hooks(&self, outcome: Outcome) {
        if self.gate.hooks.is_empty() {
            return;
        }
        let call = self.hook_call();
        for hook in &self.gate.hooks {
            // It observes: its panic is its own, and must not undo an act that
            // is done, nor meet another panic on its way out.
            drop(catch_unwind(AssertUnwindSafe(|| {
                hook.after(&call, outcome);
            })));
        }
    }
}

impl Drop for Book {
    /// Reached open only when a request was cancelled or a panic unwinds.
    fn drop(&mut self) {
        drop(self.close(Outcome::Abandoned, None, Settled::default()));
    }
}
