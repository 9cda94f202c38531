//! What people and their programs do at the desk: sign in, answer questions,
//! look at the record, and see how the server does.

mod approvals;
mod audit;
mod audit_feed;
mod described;
mod extensions;
mod feed;
mod links;
mod metrics;
mod pages;
mod questions;
mod signing;
mod stream;
mod switch;

use std::sync::Arc;

use portcullis_gate::Caller;
use portcullis_proto::{Failure, Reason, Scope, Verb};

use super::called::Names;
use super::reply::{self, Reply};
use super::routes::Desk;
use super::server::{Asked, Server};
use super::shares;

pub use self::audit::{AuditAsk, AuditLine, AuditSieve, AuditSource, FollowAudit};
pub(super) use self::metrics::Metrics;
pub(crate) use self::metrics::{BUCKETS, Measured, Readings, SPANS_DROPPED};

pub(super) use self::described::{described, described_open};
pub(super) use self::feed::Feeds;
pub(super) use self::pages::{approve as approve_page, sign_in as sign_in_page};
pub(super) use self::questions::pending;
pub(super) use self::signing::sign_in;
pub(super) use self::stream::{
    HOLDS_NO_MORE, LOOK_AGAIN, SERVER_ENDS, Sender as EventSender, open as open_stream,
};

pub(crate) use self::switch::FilesOff;

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
        Desk::Approvals => approvals::list(server, &asked).await,
        Desk::WatchApprovals => approvals::watch(server, &asked).await,
        Desk::Answer => approvals::answer(server, asked).await,
        Desk::Audit => audit::query(server, &asked).await,
        Desk::WatchAudit => audit::watch(server, &asked).await,
        Desk::Metrics => metrics::tell(server).await,
        Desk::Extensions => extensions::list(server, &asked).await,
        Desk::RegisterExtension => extensions::register(server, asked).await,
        Desk::ApproveExtension => extensions::approve(server, asked).await,
        Desk::ExtensionToken => extensions::make_token(server, asked).await,
        Desk::RevokeExtension => extensions::revoke(server, asked).await,
        Desk::RemoveExtension => extensions::remove(server, asked).await,
        Desk::OpenApi => super::openapi::tell(),
        Desk::Switch => switch::switch(server, asked).await,
        Desk::CreateLink => links::create(server, &asked).await,
        Desk::LinkStatus => links::status(server, &asked),
        Desk::EndLinks => links::end(server, &asked).await,
        Desk::Preferences => switch::prefer(server, asked).await,
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

/// Who stands at the desk, as the gate knows callers.
fn caller(asked: &Asked) -> Caller {
    let caller = Caller::new(asked.identity.subject(), asked.route.name)
        .by_grant_alone()
        .leaving_trail();
    Names::of(&asked.head.extensions).onto(caller)
}

/// Puts on the record that something was refused here, and refuses it.
fn refuse(server: &Server, asked: &Asked, what: &str, why: Failure) -> Reply {
    let caller = caller(asked);
    let why = server
        .parts
        .gate
        .refuse(&caller, Verb::Administer, what, why);
    let mut reply = if why.reason() == Reason::Overload {
        shares::over(&why)
    } else {
        reply::failure(&why)
    };
    reply::settled_on(&mut reply, caller.warrant());
    reply
}

/// Another person's, or nobody's: the same answer for both, and on the record.
fn not_yours(server: &Server, asked: &Asked, what: &str) -> Reply {
    refuse(server, asked, what, nothing_of_yours())
}

fn nothing_of_yours() -> Failure {
    Failure::new(Reason::NotFound, "There is no such thing for you.")
}
