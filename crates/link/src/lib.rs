//! The words between a server and a machine that is lent to it.
//!
//! Three dialects, one engine: the seed's, n8n's as shipped, and ours, which
//! adds to n8n's what it needs to lose nothing. Both ends take their types from
//! here. No I/O, nothing asynchronous, no clock.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

pub mod bounds;
mod chunks;
mod dialect;
mod event;
mod init;
mod names;
mod reply;
mod sse;

pub use chunks::{BadChunk, Chunk, Gathered, chunks};
pub use dialect::Dialect;
pub use event::{Addition, Event, Far, Operation, Request};
pub use init::{
    Accepted, Annotations, Category, Created, Files, Init, Ours, OursAccepted, SeedInit, Status,
    Tool, TreeEntry,
};
pub use names::{INIT_KEY_HEADER, INSTANCE_HEADER, is_tool_name, paths};
pub use reply::{Confirmation, Progress, Received, Reply, SeedReply, Wrapped};
pub use sse::{Frame, Frames, Oversized, event_frame, ping_frame};
