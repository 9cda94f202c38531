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
/// How long a peer may take nothing of what is sent to it, and how long its
/// machine may say nothing of having it.
pub(crate) const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long requests under way have at the end.
pub(crate) const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// Fields of a head.
pub(crate) const MAX_HEADERS: usize = 64;
/// Bytes of a head.
pub(crate) const MAX_HEAD: usize = 32 * 1024;
/// Bytes of a JSON body.
pub(crate) const MAX_JSON: usize = 10 * 1024 * 1024;
/// A body up to this size is read without asking for room.
pub(crate) const SMALL_BODY: usize = 64 * 1024;
/// Bytes of larger bodies in memory at once; uploads are counted by themselves.
pub(crate) const BODIES: usize = 256 * 1024 * 1024;
/// Of those, bytes of one principal.
pub(crate) const BODIES_OF_ONE: usize = 64 * 1024 * 1024;
/// Bytes of an uploaded file.
pub(crate) const MAX_UPLOAD: usize = 50 * 1024 * 1024;
/// Of the connections held at once, an address may have all but one in so many.
pub(crate) const LEFT_TO_OTHERS: usize = 4;
/// Requests a second of one principal, unless another number is set: far more
/// than an agent makes, and than two processors answer.
pub const REQUESTS_PER_SECOND: u32 = 50_000;
/// Uploads under way at once; each may hold a whole file in memory.
pub(crate) const MAX_UPLOADS: usize = 6;
/// Uploads of one principal under way at once.
pub(crate) const UPLOADS_OF_ONE: usize = 4;
/// Resources one principal watches at once, of the 32 that can be watched.
pub(crate) const WATCHES_OF_ONE: usize = 8;
/// Searches and other walks of one principal that go on at once, of the four
/// that can.
pub(crate) const WALKS_OF_ONE: usize = 3;
/// Archives of one principal that are worked on at once, of the two that can be.
pub(crate) const ARCHIVES_OF_ONE: usize = 1;
/// Looks of one principal at the record that go on at once: each goes through it.
pub(crate) const RECORDS_OF_ONE: usize = 1;
/// Walks, or archives, of one principal that go on or wait.
pub(crate) const IN_LINE_OF_ONE: usize = 64;
/// Streams of events at once.
pub(crate) const MAX_STREAMS: usize = 2_048;
/// Streams of events of one principal at once.
pub(crate) const STREAMS_OF_ONE: usize = 64;
/// Bad credentials of one address before it has to wait.
pub(crate) const MAX_FAILED: u32 = 30;
/// For how long failed credentials count.
pub(crate) const FAILED_WINDOW: Duration = Duration::from_mins(1);
/// Addresses whose failures are counted at once; the oldest makes room.
pub(crate) const MAX_FAILING: usize = 4_096;
