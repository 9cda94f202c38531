//! The far end of a link: lends the tools of a machine to a remote server.
//!
//! The server says what it would like done; what is done is decided here, by
//! the gate behind the [`Machine`](portcullis_tools::Machine) and the person in
//! front of it. Nothing that comes over the wire changes what is offered, which
//! rules hold or where the root is, and an answer counts only where this end
//! asked for that very call and offered that very answer.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod address;
mod age;
mod answers;
mod calls;
mod door;
mod http;
mod in_time;
mod lend;
mod listen;
mod outbox;
mod pace;
mod proxy;
mod result;
mod room;
mod route;
mod seed;
mod shipped;
mod surface;
mod trust;
mod wanted;

pub use address::{Address, BadAddress};
pub use door::{Porter, Wanted, answer_door};
pub use lend::{Ended, Lending, Speaking, lend, lend_by};
pub use proxy::{BadProxy, Proxies};
pub use route::{Dial, Dialling, Route};
pub use surface::{Asking, Errands, Surface};
pub use trust::{BadTrust, Trust};

use std::time::Duration;

use portcullis_link::Dialect;

/// What becomes of a link, told as it happens. Holds no content: neither
/// arguments nor results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status<'a> {
    /// The server is being spoken to.
    Connecting,
    /// The link is up.
    Connected(Dialect),
    /// It is not, and is tried again after so long.
    Waiting(Duration, &'a str),
    /// A call has begun.
    Began {
        /// The server's name of it.
        request: &'a str,
        /// The tool, which is one that is offered.
        tool: &'a str,
    },
    /// A call has ended.
    Ended {
        /// The server's name of it.
        request: &'a str,
        /// Whether it failed, or was refused.
        is_error: bool,
        /// How long it took.
        took: Duration,
    },
    /// The daemon of that host, as the server tells it, stood for this machine
    /// before and was let go.
    TookOver(&'a str),
    /// Something came that has no effect, in words of our own.
    Ignored(&'a str),
}

/// Hears what becomes of a link.
pub trait Observer: Send + Sync {
    /// Something happened. Called from whatever thread it happened on.
    fn tell(&self, status: &Status<'_>);
}
