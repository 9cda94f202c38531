//! The words on the wires: plain data that every other crate speaks.
//!
//! This crate does no I/O, runs nothing asynchronous and reads no clock. What
//! is closed here (error kinds, reasons, verbs, accesses, root kinds) is closed
//! for the whole product.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod access;
mod audit;
mod call;
mod digest;
mod error;
mod extent;
mod facts;
mod group;
mod misfit;
mod path;
mod reason;
mod root;
mod scope;
mod secret;
mod subject;
mod trace;

pub use access::{Access, AccessSet};
pub use audit::{Counts, Event, Outcome, Phase, Staged};
pub use call::{Attached, Json, ToolCall, ToolReply, ToolSpec, ToolTraits};
pub use digest::Digest;
pub use error::{Category, ErrorKind, Failure};
pub use extent::{Extent, MAX_DEPTH, MAX_VALUES, MAX_WEIGHT, TooMuch, Unread, read_json};
pub use facts::{Entity, Facts, Identity, Resource, Verb};
pub use group::{Group, Mode};
pub use misfit::misfit;
pub use path::{BadPath, RelPath};
pub use reason::Reason;
pub use root::{RootId, RootKind};
pub use scope::{BadScope, Scope, ScopeSet};
pub use secret::Secret;
pub use subject::{ConversationId, Principal, QuestionId, RequestId, RunId, SessionId, Subject};
pub use trace::Trace;
