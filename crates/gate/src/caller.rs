//! The caller behind an attempt: who, through what, and who can be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_proto::{Digest, RequestId, SessionId, Subject, Trace};

use crate::approve::{Answered, Approver, Claim};

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

/// How far a long deed is. Each who tells fills in what it knows: of every
/// number, the largest told so far holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headway {
    /// Entries come across.
    pub entries: u64,
    /// Files of them that were searched.
    pub searched: u64,
    /// Matches found in those, more perhaps than will be returned.
    pub matches: u64,
}

impl Headway {
    /// So many entries were come across.
    pub fn entries(entries: u64) -> Self {
        Self {
            entries,
            ..Self::default()
        }
    }

    /// What both know.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            entries: self.entries.max(other.entries),
            searched: self.searched.max(other.searched),
            matches: self.matches.max(other.matches),
        }
    }
}

/// Told how far a long deed is; called from whatever thread does it.
pub type Progress = Arc<dyn Fn(Headway) + Send + Sync>;

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

/// The caller of an attempt. Every attempt keeps one, so a clone is shared until
/// it is changed.
#[derive(Clone)]
pub struct Caller(Arc<Who>);

/// Everything an attempt needs to know of its caller.
#[derive(Clone)]
pub struct Who {
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
    /// What the client called its request, for the audit.
    pub(crate) called: Option<Arc<str>>,
    /// The name under which it can ask for the same call again.
    named: Option<Arc<str>>,
    pub(crate) trace: Option<Trace>,
    pub(crate) trail: Option<Arc<Mutex<Option<Warrant>>>>,
    brought: Arc<Mutex<Option<Brought>>>,
}

impl std::ops::Deref for Caller {
    type Target = Who;

    fn deref(&self) -> &Who {
        &self.0
    }
}

impl std::ops::DerefMut for Caller {
    fn deref_mut(&mut self) -> &mut Who {
        Arc::make_mut(&mut self.0)
    }
}

/// An answer that came with the call.
pub(crate) struct Brought {
    pub(crate) answered: Answered,
    /// Where it is still to be taken; nowhere for one that was taken before.
    pub(crate) claim: Option<Arc<dyn Claim>>,
}

impl Caller {
    /// A caller nobody can be asked about.
    pub fn new(subject: Subject, route: &'static str) -> Self {
        Self(Arc::new(Who {
            subject,
            route,
            session: None,
            approver: None,
            patience: DEFAULT_PATIENCE,
            cancel: CancelFlag::new(),
            progress: None,
            by_grant_alone: false,
            called: None,
            named: None,
            trace: None,
            trail: None,
            brought: Arc::default(),
        }))
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

    /// Under the name its client gave the request; the surface has seen to it
    /// that it is short and plain.
    #[must_use]
    pub fn called(mut self, name: Arc<str>) -> Self {
        self.called = Some(name);
        self
    }

    /// Under a name by which it asks for the same call again: where the far end
    /// of a link is concerned, it is made once. The surface has seen to it that
    /// the name is short and plain; it is the principal's own.
    #[must_use]
    pub fn naming(mut self, name: Arc<str>) -> Self {
        self.named = Some(name);
        self
    }

    /// The name under which it asks for the same call again.
    pub fn call_name(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// As part of a request that is traced.
    #[must_use]
    pub fn traced(mut self, trace: Trace) -> Self {
        self.trace = Some(trace);
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

    /// Bringing the answer to a question asked earlier, which was taken for this
    /// call. It counts once.
    #[must_use]
    pub fn bringing(self, answered: Answered) -> Self {
        self.with_brought(answered, None)
    }

    /// Bringing an answer nobody has taken yet: it is taken where it counts.
    #[must_use]
    pub fn bringing_untaken(self, answered: Answered, claim: Arc<dyn Claim>) -> Self {
        self.with_brought(answered, Some(claim))
    }

    fn with_brought(mut self, answered: Answered, claim: Option<Arc<dyn Claim>>) -> Self {
        self.brought = Arc::new(Mutex::new(Some(Brought { answered, claim })));
        self
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
    pub(crate) fn take_answer(&self) -> Option<Brought> {
        self.brought().take()
    }

    /// Takes the answer it brought, if that is a no to one of `pinned`.
    pub(crate) fn take_no(&self, pinned: impl FnOnce() -> [Digest; 2]) -> Option<Answered> {
        let is_no = |brought: &mut Brought| {
            let answered = &brought.answered;
            !answered.answer.decision.allows() && pinned().contains(&answered.digest)
        };
        // One that was not taken stays where it is: a no, each time it is brought.
        self.brought()
            .take_if(is_no)
            .map(|brought| brought.answered)
    }

    /// Whether it brought an answer, to something that `pinned` says; nothing if
    /// it brought none.
    pub(crate) fn answers(&self, pinned: impl FnOnce() -> Digest) -> Option<bool> {
        let brought = self.brought();
        let digest = brought.as_ref().map(|brought| brought.answered.digest)?;
        drop(brought);
        Some(digest == pinned())
    }

    fn brought(&self) -> MutexGuard<'_, Option<Brought>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Who")
            .field("subject", &self.subject)
            .field("route", &self.route)
            .field("session", &self.session)
            .field("interactive", &self.approver.is_some())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caller").field(&self.0).finish()
    }
}
