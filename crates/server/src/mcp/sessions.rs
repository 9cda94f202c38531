//! Sessions of the handshake era: each belongs to who opened it.
//!
//! rmcp keeps them by their id alone, and an id is no credential: whoever
//! brings it could listen to another's stream, or end it. So every session has
//! its owner, [`Sessions::whose`] is asked before an id is looked at, and there
//! are only so many of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use portcullis_proto::{Failure, Principal, Reason};
use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};

use super::priming::Primed;
use crate::http::Holder;

/// How many sessions a principal has open at most: an agent and its helpers.
pub(super) const MAX_OF_ONE: usize = 16;
/// How many there are at most: one costs some 50 kB.
const MAX_OF_ALL: usize = 1_000;
/// How long a session is kept in which nothing is said.
const IDLE: Duration = Duration::from_mins(15);

tokio::task_local! {
    /// Who may open a session in the request that is being answered.
    static OPENING: Arc<Opening>;
}

/// A request that may open a session.
pub(super) struct Opening {
    principal: Principal,
    refused: AtomicBool,
}

impl Opening {
    /// Answers a request of `principal`; a failure where it was to open one
    /// session too many.
    pub(super) async fn during<T>(
        principal: Principal,
        answer: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let opening = Arc::new(Self {
            principal,
            refused: AtomicBool::new(false),
        });
        let answered = OPENING.scope(Arc::clone(&opening), answer).await;
        if opening.refused.load(Ordering::Acquire) {
            return Err(Failure::new(
                Reason::Overload,
                format!(
                    "A session more than there may be: {MAX_OF_ONE} for one credential, {MAX_OF_ALL} in all. None was opened."
                ),
            )
            .hint("End one with DELETE /mcp, wait until an idle one ends, or speak 2026-07-28, which needs none."));
        }
        Ok(answered)
    }
}

/// See the module.
pub(super) struct Sessions {
    local: LocalSessionManager,
    book: Mutex<Book>,
    /// How many one principal may have.
    most: usize,
}

/// An open session.
struct Session {
    owner: Principal,
    /// Whether its client knows events without a message, as from 2025-11-25 on.
    knows_priming: bool,
}

#[derive(Default)]
struct Book {
    open: HashMap<SessionId, Session>,
    /// How many each has, those being opened included.
    counts: HashMap<Holder, usize>,
    all: usize,
}

impl Book {
    fn end(&mut self, id: &SessionId) {
        if let Some(session) = self.open.remove(id) {
            self.give_back(&session.owner);
        }
    }

    fn give_back(&mut self, principal: &Principal) {
        let holder = Holder::of(principal);
        if let Some(count) = self.counts.get_mut(&holder) {
            *count -= 1;
            self.all -= 1;
            if *count == 0 {
                self.counts.remove(&holder);
            }
        }
    }
}

/// Room for one session, given back unless it was opened.
struct Place<'a> {
    sessions: &'a Sessions,
    principal: Principal,
    opened: bool,
}

impl Place<'_> {
    fn opened(mut self, id: SessionId) {
        self.opened = true;
        let session = Session {
            owner: self.principal.clone(),
            knows_priming: false,
        };
        self.sessions.book().open.insert(id, session);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.opened {
            self.sessions.book().give_back(&self.principal);
        }
    }
}

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(IDLE);
        Self {
            local,
            book: Mutex::default(),
            most,
        }
    }

    /// Who opened a session, if it is open.
    pub(super) fn whose(&self, id: &str) -> Option<Principal> {
        let book = self.book();
        book.open.get(id).map(|session| session.owner.clone())
    }

    /// Notes which version the session was opened with.
    fn negotiated(&self, id: &SessionId, version: &ProtocolVersion) {
        if let Some(session) = self.book().open.get_mut(id) {
            session.knows_priming = *version >= ProtocolVersion::V_2025_11_25;
        }
    }

    fn knows_priming(&self, id: &SessionId) -> bool {
        let book = self.book();
        book.open
            .get(id)
            .is_some_and(|session| session.knows_priming)
    }

    fn place(&self, principal: &Principal) -> Option<Place<'_>> {
        let mut book = self.book();
        let holder = Holder::of(principal);
        let count = book.counts.get(&holder).copied().unwrap_or_default();
        if count >= self.most || book.all >= MAX_OF_ALL {
            return None;
        }
        book.counts.insert(holder, count + 1);
        book.all += 1;
        drop(book);
        Some(Place {
            sessions: self,
            principal: principal.clone(),
            opened: false,
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a session was not opened, or cannot be used.
#[derive(Debug)]
pub(super) enum NoSession {
    /// There is no room, or nobody to open it for.
    Refused,
    /// What rmcp says.
    Local(LocalSessionManagerError),
}

impl fmt::Display for NoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("no more sessions may be opened"),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoSession {}

impl SessionManager for Sessions {
    type Error = NoSession;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), NoSession> {
        let Ok(opening) = OPENING.try_with(Arc::clone) else {
            return Err(NoSession::Refused);
        };
        let Some(place) = self.place(&opening.principal) else {
            opening.refused.store(true, Ordering::Release);
            return Err(NoSession::Refused);
        };
        let (id, transport) = self
            .local
            .create_session()
            .await
            .map_err(NoSession::Local)?;
        place.opened(SessionId::clone(&id));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, NoSession> {
        let answer = self.local.initialize_session(id, message).await;
        let answer = answer.map_err(NoSession::Local)?;
        if let JsonRpcMessage::Response(response) = &answer
            && let ServerResult::InitializeResult(result) = &response.result
        {
            self.negotiated(id, &result.protocol_version);
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, NoSession> {
        self.local.has_session(id).await.map_err(NoSession::Local)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), NoSession> {
        self.book().end(id);
        self.local.close_session(id).await.map_err(NoSession::Local)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, NoSession> {
        let stream = self.local.create_stream(id, message).await;
        let stream = stream.map_err(NoSession::Local)?;
        Ok(Primed::through(stream, self.knows_priming(id)))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), NoSession> {
        let accepted = self.local.accept_message(id, message).await;
        accepted.map_err(NoSession::Local)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, NoSession> {
        let stream = self.local.create_standalone_stream(id).await;
        let stream = stream.map_err(NoSession::Local)?;
        Ok(Primed::first(stream, self.knows_priming(id)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, NoSession> {
        let stream = self.local.resume(id, last_event_id).await;
        let stream = stream.map_err(NoSession::Local)?;
        Ok(Primed::through(stream, self.knows_priming(id)))
    }
}
