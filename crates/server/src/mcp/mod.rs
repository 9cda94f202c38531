//! MCP, both protocol eras, on a pipe and over HTTP.
//!
//! The handshake era (`initialize`, 2025-11-25 and older) and the era without
//! one (2026-07-28, metadata on every request) differ for us in one thing: how
//! a person is asked. The first asks in the middle of a call, the second ends
//! the call with `input_required` and is called again.
//!
//! The pipe and HTTP differ in who calls: over a pipe it is one and the same
//! for all requests, over HTTP each request says so itself.

mod ask;
mod changed;
mod envelope;
mod errand;
mod handler;
mod http;
mod nowhere;
mod oauth;
mod priming;
mod resume;
mod seat;
mod sessions;
mod shape;
mod stdio;
mod subscribe;
mod tasks;
mod wire;
mod written;

use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::{Clock, Gate};
use portcullis_proto::{Failure, SessionId, Subject};
use portcullis_store::Store;
use portcullis_tools::Machine;
use tokio_util::sync::CancellationToken;

use crate::http::Machines;

pub(crate) use self::nowhere::Nowhere;
pub use http::McpHttp;
pub use oauth::OAuthResource;
pub(crate) use oauth::Wrong;
pub use stdio::{serve_pipe, serve_stdio};

/// Where the key comes from that seals request states: asked for when first
/// needed, the same for every process of one data directory.
pub type StateKey = Arc<dyn Fn() -> Result<Vec<u8>, Failure> + Send + Sync>;

/// The longest message accepted: the most a change may bring, escaped as JSON,
/// and room to refuse more in words.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// What the surface needs to serve one client on a pipe.
#[derive(Clone)]
pub struct McpParts {
    /// What is served.
    pub machine: Arc<dyn Machine>,
    /// Who calls: over stdio one process is one session and one run.
    pub subject: Subject,
    /// The session "for this session" means.
    pub session: SessionId,
    /// Where questions wait.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What seals request states.
    pub state_key: StateKey,
    /// How long a question waits for an answer.
    pub patience: Duration,
}

impl std::fmt::Debug for McpParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpParts")
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

/// What the surface needs to serve everyone who comes over HTTP.
#[derive(Clone)]
pub struct HttpMcpParts {
    /// What is served, to whom.
    pub machines: Arc<dyn Machines>,
    /// Who keeps the record of what no machine is there to refuse.
    pub gate: Arc<Gate>,
    /// Where questions wait.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What seals request states.
    pub state_key: StateKey,
    /// How long a call waits for an answer before it ends.
    pub patience: Duration,
    /// How long a question waits that the call did not wait for.
    pub pending_for: Duration,
    /// Where the approval pages are, without a slash at its end:
    /// `<approval_url>/approve/<question>`.
    pub approval_url: Arc<str>,
}

impl std::fmt::Debug for HttpMcpParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpMcpParts").finish_non_exhaustive()
    }
}

/// What asking stands on, wherever the client is.
struct Asking {
    store: Store,
    clock: Arc<dyn Clock>,
    state_key: StateKey,
    /// How long a call waits for an answer.
    patience: Duration,
    /// How long a question waits that another call brings the answer to.
    pending_for: Duration,
    /// Raised when the server ends: a call that waits is let go, its question stays.
    ending: CancellationToken,
}
