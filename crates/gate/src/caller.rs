//! The caller behind an attempt: who, through what, and who can be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_proto::{Digest, RequestId, SessionId, Subject};

use crate::approve::{Answered, Approver};

/// Set when the caller no longer wants the answer.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether somebody cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Told how far a long deed is; called from whatever thread does it.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// On what an attempt was settled, for the reply: the same words as its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warrant {
    /// The attempt.
    pub request_id: RequestId,
    /// Which rule, mode, class or person decided.
    pub policy_source: String,
    /// The hooks that were asked, in order.
    pub wrapper_ids: Vec<String>,
}

/// How long a question waits when the surface names no deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(55);

/// Everything an attempt needs to know of its caller.
#[derive(Clone)]
pub struct Caller {
    /// Who.
    pub subject: Subject,
    /// Through which surface, for the audit.
    pub route: &'static str,
    /// The session that "for this session" would mean; `None` where the
    /// surface has none, and the answer is then not offered.
    pub session: Option<SessionId>,
    /// Whom to ask; `None` where nobody can be.
    pub approver: Option<Arc<dyn Approver>>,
    /// How long a question may wait: shorter than the caller's own patience.
    pub patience: Duration,
    /// Raised when the caller gives up.
    pub cancel: CancelFlag,
    /// Told how far a long deed is.
    pub progress: Option<Progress>,
    /// Whether it has only what it was granted, and nothing for being here.
    pub by_grant_alone: bool,
    pub(crate) trail: Option<Arc<Mutex<Option<Warrant>>>>,
    answered: Arc<Mutex<Option<Answered>>>,
}

impl Caller {
    /// A caller nobody can be asked about.
    pub fn new(subject: Subject, route: &'static str) -> Self {
        Self {
            subject,
            route,
            session: None,
            approver: None,
            patience: DEFAULT_PATIENCE,
            cancel: CancelFlag::new(),
            progress: None,
            by_grant_alone: false,
            trail: None,
            answered: Arc::default(),
        }
    }

    /// With somebody to ask.
    #[must_use]
    pub fn asking(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Hearing how far a long deed is.
    #[must_use]
    pub fn reporting(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// With what it was granted and nothing more: no root gives it anything
    /// unasked.
    #[must_use]
    pub fn by_grant_alone(mut self) -> Self {
        self.by_grant_alone = true;
        self
    }

    /// Wanting to know afterwards on what the attempt was settled.
    #[must_use]
    pub fn leaving_trail(mut self) -> Self {
        self.trail = Some(Arc::default());
        self
    }

    /// On what the last attempt of a caller that leaves a trail was settled.
    pub fn warrant(&self) -> Option<Warrant> {
        let trail = self.trail.as_ref()?;
        trail.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// In a session.
    #[must_use]
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Waiting at most so long for an answer.
    #[must_use]
    pub fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Bringing the answer to a question asked earlier. It counts once.
    #[must_use]
    pub fn bringing(self, answered: Answered) -> Self {
        Self {
            answered: Arc::new(Mutex::new(Some(answered))),
            ..self
        }
    }

    /// With a flag somebody else may raise.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: CancelFlag) -> Self {
        self.cancel = cancel;
        self
    }

    /// Whether a question could come to anything: somebody can be asked, or has
    /// answered already.
    pub(crate) fn can_be_asked(&self) -> bool {
        self.approver.is_some() || self.brought().is_some()
    }

    /// Takes the answer it brought: it counts once.
    pub(crate) fn take_answer(&self) -> Option<Answered> {
        self.brought().take()
    }

    /// Takes the answer it brought, if that is a no to one of `pinned`.
    pub(crate) fn take_no(&self, pinned: impl FnOnce() -> [Digest; 2]) -> Option<Answered> {
        self.brought().take_if(|brought| {
            !brought.answer.decision.allows() && pinned().contains(&brought.digest)
        })
    }

    fn brought(&self) -> MutexGuard<'_, Option<Answered>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("subject", &self.subject)
            .field("route", &self.route)
            .field("session", &self.session)
            .field("interactive", &self.approver.is_some())
            .finish_non_exhaustive()
    }
}
