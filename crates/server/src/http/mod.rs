//! The HTTP surface: one listener, one guard, one door, then the routes.
//!
//! A request passes in this order: limits of its connection, Host and Origin,
//! the credential, its content type, and only then a route. Nothing but
//! `/health` is answered without a credential, on loopback either.

mod credentials;
mod desk;
mod door;
mod guard;
mod guests;
mod identity;
mod limits;
mod listener;
mod machines;
mod patient;
mod reply;
mod rest;
mod routes;
mod server;

pub use credentials::Credentials;
pub use desk::{AuditAsk, AuditLine, AuditSource, FollowAudit};
pub use door::Doorman;
pub use guard::{Allowed, BadOrigin};
pub use guests::Guests;
pub use identity::{Identity, Via};
pub use listener::{Listening, Tls, TlsProblem, listen};
pub use machines::{Machines, Providers};
pub use reply::{Body, Reply};
pub use routes::{RouteRow, routes};
pub use server::{Observer, Seen, Server, ServerParts};
