//! What a connection and a request may take, in one place.

use std::time::Duration;

/// Connections held at once; more wait in the listener's queue.
pub(crate) const MAX_CONNECTIONS: usize = 16_384;
/// How long the head of a request may take, and how long an idle connection is kept.
pub(crate) const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// How long a TLS handshake may take.
pub(crate) const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a whole body may take.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_mins(1);
/// How long a peer may take nothing of what is sent to it.
pub(crate) const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long requests under way have at the end.
pub(crate) const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// Fields of a head.
pub(crate) const MAX_HEADERS: usize = 64;
/// Bytes of a head.
pub(crate) const MAX_HEAD: usize = 32 * 1024;
/// Bytes of a JSON body.
pub(crate) const MAX_JSON: usize = 10 * 1024 * 1024;
/// Bytes of an uploaded file.
pub(crate) const MAX_UPLOAD: usize = 50 * 1024 * 1024;
/// Uploads under way at once.
pub(crate) const MAX_UPLOADS: usize = 4;
/// Bad credentials of one address before it has to wait.
pub(crate) const MAX_FAILED: u32 = 30;
/// For how long failed credentials count.
pub(crate) const FAILED_WINDOW: Duration = Duration::from_mins(1);
/// Addresses whose failures are counted at once; the oldest makes room.
pub(crate) const MAX_FAILING: usize = 4_096;
