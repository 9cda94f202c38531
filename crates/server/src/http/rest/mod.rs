//! The REST routes: from a head and a body to a call of the machine, and back.

mod body;
mod capabilities;
mod changes;
mod client;
mod files;
mod query;
mod raw;
mod tools;

pub(super) use self::body::{json_body, json_of};
pub(super) use self::query::Query;

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use percent_encoding::percent_decode_str;
use portcullis_gate::{Approver, Caller, CancelFlag};
use portcullis_proto::{
    ConversationId, Failure, Reason, RootId, RunId, Scope, SessionId, Subject, Verb,
};
use portcullis_store::ParkedApprover;
use portcullis_tools::Machine;
use serde_json::json;

use super::desk;
use super::reply::{self, Reply};
use super::routes::Op;
use super::server::{Asked, Server};

/// `/workspaces/<name>/…` asks the same of the workspace it names.
const QUALIFIED: &str = "/workspaces/";

/// The workspace a path names, and the path of the route behind it.
pub(super) fn qualified(path: &str) -> (Option<String>, Cow<'_, str>) {
    let parts = path
        .strip_prefix(QUALIFIED)
        .and_then(|rest| rest.split_once('/'));
    match parts {
        Some((workspace, rest)) => (
            Some(
                percent_decode_str(workspace)
                    .decode_utf8_lossy()
                    .into_owned(),
            ),
            Cow::Owned(format!("/{rest}")),
        ),
        None => (None, Cow::Borrowed(path)),
    }
}

/// It is up; that is all anybody may know.
pub(super) fn health() -> Reply {
    reply::value(StatusCode::OK, &json!({"status": "ok"}))
}

/// Cancels a call whose client has gone: hyper drops what it was waiting for.
struct UntilGone(CancelFlag);

impl Drop for UntilGone {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What a route works with.
struct Errand {
    server: Arc<Server>,
    asked: Asked,
    caller: Caller,
    machine: Arc<dyn Machine>,
    /// The root of the workspace a qualified path named.
    root: Option<RootId>,
    /// Where its questions are put.
    parked: Arc<ParkedApprover>,
}

impl Errand {
    fn root(&self) -> Option<&str> {
        self.root.as_ref().map(RootId::as_str)
    }

    /// Puts on the record what was refused before it reached the machine.
    fn refuse(&self, why: Failure) -> Reply {
        let why = self
            .machine
            .refuse(&self.caller, self.asked.route.name, why);
        self.failed(&why)
    }

    /// A failure, in the shape the path asks for.
    fn failed(&self, why: &Failure) -> Reply {
        if self.asked.workspace.is_some() && why.reason() == Reason::Untrusted {
            return reply::refused(
                reply::status_of(why),
                why.message(),
                Some("untrusted_workspace"),
            );
        }
        if why.reason() == Reason::ApprovalPending
            && let Some(question) = self.parked.last()
        {
            return desk::pending(why, &question, &self.server.parts.url);
        }
        reply::failure(why)
    }
}

/// Answers a request whose credential is good.
pub(super) async fn answer(server: &Arc<Server>, asked: Asked) -> Reply {
    if let Err(reply) = client::check(&asked) {
        return reply;
    }
    let flag = CancelFlag::new();
    let until_gone = UntilGone(flag.clone());
    if let Some(scope) = asked.route.scope
        && !asked.identity.may(scope)
    {
        return refuse_scope(server, &asked, scope);
    }
    let asked = match at_the_desk(server, asked).await {
        Desk::Answered(reply) => return reply,
        Desk::NotIts(asked) => *asked,
    };
    let caller = caller(&asked).cancelled_by(flag);
    let Some(machine) = server.parts.machines.of(&asked.identity) else {
        return without_machine(server, asked);
    };
    let parked = ParkedApprover::new(server.parts.store.clone(), desk::waits(&asked.head.headers))
        .leaving_at(server.ending().clone());
    let parked = Arc::new(parked);
    let caller = caller
        .asking(Arc::clone(&parked) as Arc<dyn Approver>)
        .patient_for(server.parts.patience);
    let mut errand = Errand {
        server: Arc::clone(server),
        asked,
        caller,
        machine,
        root: None,
        parked,
    };
    if let Some(named) = &errand.asked.workspace {
        let found = errand
            .machine
            .workspaces()
            .into_iter()
            .find(|workspace| workspace.id == *named || workspace.cwd == *named);
        let Some(workspace) = found else {
            drop(errand.refuse(Reason::UnknownRoot.into()));
            return reply::refused(
                StatusCode::BAD_REQUEST,
                "The path names no workspace of this server.",
                Some("workspace_mismatch"),
            );
        };
        errand.root = Some(workspace.root);
    }
    let brought = desk::bring(
        &server.parts.store,
        &errand.asked.head.headers,
        &errand.asked.identity.principal,
        server.parts.clock.now_ms(),
    );
    match brought {
        Ok(Some(answered)) => errand.caller = errand.caller.clone().bringing(answered),
        Ok(None) => {}
        Err(why) => return errand.refuse(why),
    }
    let mut reply = route(&mut errand).await;
    reply::settled_on(&mut reply, errand.caller.warrant());
    drop(until_gone);
    reply
}

/// What became of a request at the desk.
enum Desk {
    Answered(Reply),
    NotIts(Box<Asked>),
}

/// What is asked of the server itself, and needs no machine.
async fn at_the_desk(server: &Arc<Server>, asked: Asked) -> Desk {
    Desk::Answered(match asked.route.op {
        Op::SignOut => desk::sign_out(server, &asked).await,
        Op::Approvals => desk::list(server, &asked),
        Op::WatchApprovals => desk::watch(server, &asked),
        Op::Answer => desk::answer(server, asked).await,
        Op::Audit => desk::query(server, &asked).await,
        Op::WatchAudit => desk::watch_audit(server, &asked).await,
        Op::Metrics => desk::metrics(server),
        _ => return Desk::NotIts(Box::new(asked)),
    })
}

/// The credential is good, and not for this; that is on the record too.
fn refuse_scope(server: &Arc<Server>, asked: &Asked, scope: Scope) -> Reply {
    let why = server.parts.gate.refuse(
        &caller(asked),
        Verb::Stat,
        asked.route.name,
        no_scope(scope),
    );
    reply::failure(&why)
}

async fn route(errand: &mut Errand) -> Reply {
    match errand.asked.route.op {
        Op::Health
        | Op::SignInPage
        | Op::SignIn
        | Op::SignOut
        | Op::ApprovePage
        | Op::Approvals
        | Op::WatchApprovals
        | Op::Answer
        | Op::Audit
        | Op::WatchAudit
        | Op::Metrics => health(),
        Op::Capabilities => capabilities::tell(errand),
        Op::Status => capabilities::status(errand),
        Op::ReadFile => files::read(errand).await,
        Op::ReadBytes => files::bytes(errand).await,
        Op::Stat => files::stat(errand).await,
        Op::List => files::list(errand).await,
        Op::Glob => files::glob(errand).await,
        Op::WriteFile => files::write(errand).await,
        Op::EditFile => files::edit(errand).await,
        Op::Upload => files::upload(errand).await,
        Op::Tree => tools::tree(errand).await,
        Op::Search => tools::search(errand).await,
        Op::EditMany => tools::edits(errand).await,
        Op::Append => tools::append(errand).await,
        Op::Delete => tools::delete(errand).await,
        Op::Move => tools::relocate(errand, "move").await,
        Op::Copy => tools::relocate(errand, "copy_file").await,
        Op::MakeDirectory => tools::make_directory(errand).await,
        Op::InspectArchive => tools::inspect_archive(errand).await,
        Op::ExtractArchive => tools::extract_archive(errand).await,
        Op::CreateArchive => tools::create_archive(errand).await,
        Op::Download => raw::download(errand).await,
        Op::Watch => changes::watch(errand).await,
        Op::UndoList => tools::undoable(errand),
        Op::Undo => tools::undo(errand).await,
    }
}

/// Who asks, as the gate knows callers. Without a conversation there is no
/// session: nothing is allowed for one, and no version counts as seen.
fn caller(asked: &Asked) -> Caller {
    let text = |name: &str| {
        asked
            .head
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .filter(|text| !text.is_empty() && text.len() <= MAX_ID)
    };
    let mut subject = Subject::of(asked.identity.principal.clone());
    subject.conversation_id = text("portcullis-conversation").map(ConversationId::new);
    subject.run_id = text("portcullis-run").map(RunId::new);
    let session = subject
        .conversation_id
        .as_ref()
        .map(|conversation| format!("{}/{conversation}", subject.principal.label()));
    let caller = Caller::new(subject, asked.route.name)
        .by_grant_alone()
        .leaving_trail();
    match session {
        Some(session) => caller.in_session(SessionId::new(session)),
        None => caller,
    }
}

/// The longest name of a conversation or a run.
const MAX_ID: usize = 128;

fn no_scope(scope: Scope) -> Failure {
    Failure::new(
        Reason::NoGrant,
        format!("The credential is not for {scope}."),
    )
    .hint(format!(
        "Make one that is: portcullis token create --scope {scope}"
    ))
}

/// There is nothing to work with: only what says so can be answered.
fn without_machine(server: &Arc<Server>, asked: Asked) -> Reply {
    match asked.route.op {
        Op::Status => reply::value(
            StatusCode::OK,
            &server.parts.machines.status(&asked.identity),
        ),
        Op::Capabilities => capabilities::without_machine(),
        _ => reply::failure(
            &Failure::new(
                Reason::UnknownRoot,
                "No machine is there for this credential, so there are no files.",
            )
            .hint(
                "Serve a directory: portcullis serve --dir DIR. GET /status says what was found.",
            ),
        ),
    }
}
