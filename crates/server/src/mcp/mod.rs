//! MCP, both protocol eras on one pipe.
//!
//! The handshake era (`initialize`, 2025-11-25 and older) and the era without
//! one (2026-07-28, metadata on every request) differ for us in one thing: how
//! a person is asked. The first asks in the middle of a call, the second ends
//! the call with `input_required` and is called again.

mod ask;
mod handler;
mod resume;
mod shape;
mod stdio;
mod subscribe;
mod wire;
mod written;

use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::Clock;
use portcullis_proto::{Failure, SessionId, Subject};
use portcullis_store::Store;
use portcullis_tools::Machine;

pub use stdio::{serve_pipe, serve_stdio};

/// Where the key comes from that seals request states: asked for when first
/// needed, the same for every process of one data directory.
pub type StateKey = Arc<dyn Fn() -> Result<Vec<u8>, Failure> + Send + Sync>;

/// What the surface needs to serve.
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
