//! The HTTP surface: one listener, one guard, one door, then the routes.
//!
//! A request passes in this order: limits of its connection, Host and Origin,
//! the credential, its content type, and only then a route. Nothing but
//! `/health` is answered without a credential, on loopback either.

mod bodies;
mod called;
mod credentials;
mod desk;
mod door;
mod guard;
mod guests;
mod held;
mod identity;
mod lasting;
mod limits;
mod links;
mod listener;
mod machines;
mod openapi;
mod pace;
mod patient;
mod reply;
mod rest;
mod routes;
mod server;
mod shares;
mod speaking;

pub(crate) use bodies::{Bodies, Room};
pub(crate) use called::Names;
pub use credentials::Credentials;
pub use desk::{AuditAsk, AuditLine, AuditSieve, AuditSource, FollowAudit};
pub(crate) use desk::{BUCKETS, FilesOff, Measured, Readings, SPANS_DROPPED};
pub use door::Doorman;
pub use guard::{Allowed, BadOrigin};
pub use guests::Guests;
pub use identity::{Identity, Via};
pub(crate) use lasting::{CutOff, lasting};
pub use limits::REQUESTS_PER_SECOND;
pub(crate) use limits::{BODY_PATIENCE, SMALL_BODY};
pub use listener::{Listening, Tls, TlsProblem, listen};
pub use machines::{Machines, Providers};
pub use openapi::openapi;
pub(crate) use pace::Pace;
pub use pace::Rate;
pub use reply::{Body, Reply};
pub use routes::{RouteRow, routes};
pub use server::{Observer, Seen, Server, ServerParts};
pub(crate) use shares::{Holder, Long, Place, Shares, Turn};
