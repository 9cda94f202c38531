//! The second state of the guard: proof that this very deed was judged.

use std::sync::Arc;

use portcullis_policy::{Standing, Terms, Verdict, judge};
use portcullis_proto::{Failure, Outcome, Reason, RequestId, Staged, Subject};

use crate::ask::unavailable;
use crate::book::Book;
use crate::caller::Headway;
use crate::deed::{Deed, Settled};
use crate::enter::refusal;
use crate::grant::{Grant, Grants};
use crate::recent::Recent;
use crate::root::RootEntry;

/// Proof that this very deed was judged and may be done once. Only
/// [`Attempt::enter`](crate::Attempt::enter) makes one. It does not prove that
/// the grant still holds: that is looked at again inside the act.
#[must_use = "spend it, or the audit will say `abandoned`"]
pub struct Permit<D: Deed> {
    pub(crate) deed: D,
    pub(crate) book: Box<Book>,
    pub(crate) terms: Terms,
    pub(crate) grants: Grants,
}

/// Whether a deed under way may go on.
pub struct Live<'a> {
    grants: &'a [Arc<Grant>],
    book: &'a Book,
}

impl Live<'_> {
    /// Asked before the act and again per directory, chunk or event of a long
    /// one: not revoked, not expired, not cancelled.
    pub fn still(&self) -> Result<(), Failure> {
        if self.book.caller.cancel.is_cancelled() || self.book.gate.is_ending() {
            return Err(Reason::Cancelled.into());
        }
        self.grants
            .iter()
            .try_for_each(|grant| grant.holds_by(&*self.book.gate.clock))
            .map_err(Failure::from)
    }

    /// What the rules of this moment say of the deed, which is in `root`. One
    /// that lasts asks before it hands anything on: what was allowed when it
    /// began may be denied by now. What a person said yes to stays said.
    pub fn judged_again(&self, root: &RootEntry) -> Result<Terms, Failure> {
        self.still()?;
        let view = self.book.gate.view(&self.book.caller, root);
        let standing = Standing {
            view: &view,
            granted: true,
        };
        match judge(&self.book.facts, &[standing]) {
            Verdict::Deny(denial) => Err(refusal(denial.reason, &denial.source)),
            Verdict::Ask(asking) if self.book.answered_by.is_none() => {
                Err(unavailable(&self.book.facts, &asking))
            }
            Verdict::Allow(_) | Verdict::Ask(_) => {
                Terms::under([view]).ok_or_else(|| Reason::NoGrant.into())
            }
        }
    }

    /// Tells whoever asked how far it is.
    pub fn progress(&self, headway: Headway) {
        if let Some(progress) = &self.book.caller.progress {
            progress(headway);
        }
    }

    /// Names the attempt, in every line of it and in whatever it makes.
    pub fn request_id(&self) -> &RequestId {
        &self.book.request
    }

    /// Who acts.
    pub fn subject(&self) -> &Subject {
        self.book.subject()
    }

    /// Writes down what a mutation has made beside its target, before it puts
    /// that in place. Nothing may be put in place if this fails.
    pub fn stage(&self, staged: Staged) -> Result<(), Failure> {
        self.book.stage(staged).map_err(|down| unrecorded(&down))
    }

    /// Milliseconds since 1970, from the gate's clock.
    pub fn now_ms(&self) -> u64 {
        self.book.gate.clock.now_ms()
    }

    /// Microseconds that never run backwards, from the gate's clock.
    pub fn monotonic_us(&self) -> u64 {
        self.book.gate.clock.monotonic_us()
    }
}

impl<D: Deed> Permit<D> {
    /// Whether a person said yes to this very deed, with all it touches as it
    /// was resolved.
    pub fn was_answered(&self) -> bool {
        self.book.answered_whole
    }

    /// The terms of the yes.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The deed, to look at.
    pub fn deed(&self) -> &D {
        &self.deed
    }

    /// Carries the deed out and closes the book.
    ///
    /// One synchronous closure that runs to its end: a cancelled request can
    /// end before it or after it, never between the act and its line. A look
    /// whose line cannot be written returns nothing; a committed change whose
    /// line cannot be written is reported as committed, and the gate seals.
    pub fn spend<T>(
        mut self,
        _key: D::Key,
        act: impl FnOnce(D, &Terms, &Live<'_>) -> Result<(T, Settled), Failure>,
    ) -> Result<T, Failure> {
        let live = Live {
            grants: &self.grants,
            book: &self.book,
        };
        if let Err(failure) = self.book.gate.check_open().and_then(|()| live.still()) {
            return Err(self.book.refuse(failure));
        }
        let verb = self.book.facts.verb;
        if verb.has_opening_line()
            && let Err(down) = self.book.begin()
        {
            return Err(self.book.refuse(unrecorded(&down)));
        }
        let change = verb.mutates().then(|| self.book.remember());
        let done = act(self.deed, &self.terms, &live);
        if let Some(change) = change {
            match done {
                Ok(_) => Recent::end(&change, self.book.gate.clock.monotonic_us()),
                Err(_) => self.book.gate.recent.forget(&change),
            }
        }
        match done {
            Ok((value, settled)) => match self.book.close(Outcome::Success, None, settled) {
                Ok(()) => Ok(value),
                // Closing sealed the gate; what is done stays done.
                Err(_) if verb.mutates() => Ok(value),
                Err(down) => Err(unrecorded(&down)),
            },
            Err(failure) => {
                self.book.close_failed(&failure);
                Err(failure)
            }
        }
    }
}

pub(crate) fn unrecorded(down: &crate::LedgerDown) -> Failure {
    Failure::new(
        Reason::AuditUnavailable,
        "The audit could not be written, so nothing was done.",
    )
    .hint("Run `portcullis doctor`; it says what the audit lacks.")
    .detail(down)
}

impl<D: Deed> std::fmt::Debug for Permit<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("facts", &self.book.facts)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}
