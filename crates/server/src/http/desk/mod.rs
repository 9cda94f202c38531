//! What people and their programs do at the desk: sign in, answer questions,
//! look at the record, and see how the server does.

mod approvals;
mod audit;
mod feed;
mod metrics;
mod pages;
mod questions;
mod signing;
mod stream;

use std::sync::Arc;

use portcullis_gate::Caller;
use portcullis_proto::{Failure, Principal, Reason, Scope, Subject, Verb};

use super::reply::{self, Reply};
use super::routes::Desk;
use super::server::{Asked, Server};

pub use self::audit::{AuditAsk, AuditLine, AuditSource, FollowAudit};
pub(super) use self::metrics::Metrics;

pub(super) use self::feed::Feeds;
pub(super) use self::pages::{approve as approve_page, sign_in as sign_in_page};
pub(super) use self::questions::{bring, pending, waits};
pub(super) use self::signing::sign_in;
pub(super) use self::stream::{HOLDS_NO_MORE, LOOK_AGAIN, SERVER_ENDS, open as open_stream};

use self::signing::sign_out;

/// Answers what is asked of the server itself, and needs no machine.
pub(super) async fn at(server: &Arc<Server>, asked: Asked, desk: Desk) -> Reply {
    if let Some(scope) = asked.route.scope
        && !asked.identity.may(scope)
    {
        return refuse(server, &asked, asked.route.name, no_scope(scope));
    }
    match desk {
        Desk::SignOut => sign_out(server, &asked).await,
        Desk::Approvals => approvals::list(server, &asked),
        Desk::WatchApprovals => approvals::watch(server, &asked),
        Desk::Answer => approvals::answer(server, asked).await,
        Desk::Audit => audit::query(server, &asked).await,
        Desk::WatchAudit => audit::watch(server, &asked).await,
        Desk::Metrics => metrics::tell(server),
    }
}

/// The credential is good, and not for this.
pub(super) fn no_scope(scope: Scope) -> Failure {
    Failure::new(
        Reason::NoGrant,
        format!("The credential is not for {scope}."),
    )
    .hint(format!(
        "Make one that is: portcullis token create --scope {scope}"
    ))
}

/// The person a principal stands for, or acts on behalf of.
pub(super) fn owner(principal: &Principal) -> Option<&str> {
    match principal {
        Principal::User { id } => Some(id),
        Principal::Token { user, .. } => Some(user),
        Principal::Core { .. } | Principal::Extension { .. } | Principal::Automation { .. } => None,
    }
}

/// Puts on the record that something was refused here, and refuses it.
fn refuse(server: &Server, asked: &Asked, what: &str, why: Failure) -> Reply {
    let subject = Subject::of(asked.identity.principal.clone());
    let caller = Caller::new(subject, asked.route.name).by_grant_alone();
    let why = server.parts.gate.refuse(&caller, Verb::Stat, what, why);
    reply::failure(&why)
}

/// Another person's, or nobody's: the same answer for both, and on the record.
fn not_yours(server: &Server, asked: &Asked, what: &str) -> Reply {
    refuse(
        server,
        asked,
        what,
        Failure::new(Reason::NotFound, "There is no such thing for you."),
    )
}
