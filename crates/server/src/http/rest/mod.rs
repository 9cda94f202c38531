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
use portcullis_proto::{ConversationId, Failure, Reason, RootId, RunId, SessionId, Subject};
use portcullis_store::ParkedApprover;
use portcullis_tools::Machine;
use serde_json::json;

use super::desk;
use super::reply::{self, Reply};
use super::routes::Files;
use super::server::{Asked, Server};
use crate::mcp::Nowhere;

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
pub(super) async fn answer(server: &Arc<Server>, asked: Asked, files: Files) -> Reply {
    if let Some(reply) = client::refused(&asked) {
        return reply;
    }
    let flag = CancelFlag::new();
    let until_gone = UntilGone(flag.clone());
    let caller = caller(&asked).cancelled_by(flag);
    let machine = server
        .parts
        .machines
        .of(&asked.identity)
        .unwrap_or_else(|| Arc::new(Nowhere(Arc::clone(&server.parts.gate))));
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
    if let Some(scope) = errand.asked.route.scope
        && !errand.asked.identity.may(scope)
    {
        return errand.refuse(desk::no_scope(scope));
    }
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
    let mut reply = route(&mut errand, files).await;
    reply::settled_on(&mut reply, errand.caller.warrant());
    drop(until_gone);
    reply
}

async fn route(errand: &mut Errand, files: Files) -> Reply {
    match files {
        Files::Capabilities => capabilities::tell(errand),
        Files::Status => capabilities::status(errand),
        Files::ReadFile => files::read(errand).await,
        Files::ReadBytes => files::bytes(errand).await,
        Files::Stat => files::stat(errand).await,
        Files::List => files::list(errand).await,
        Files::Glob => files::glob(errand).await,
        Files::WriteFile => files::write(errand).await,
        Files::EditFile => files::edit(errand).await,
        Files::Upload => files::upload(errand).await,
        Files::Tree => tools::tree(errand).await,
        Files::Search => tools::search(errand).await,
        Files::EditMany => tools::edits(errand).await,
        Files::Append => tools::append(errand).await,
        Files::Delete => tools::delete(errand).await,
        Files::Move => tools::relocate(errand, "move").await,
        Files::Copy => tools::relocate(errand, "copy_file").await,
        Files::MakeDirectory => tools::make_directory(errand).await,
        Files::InspectArchive => tools::inspect_archive(errand).await,
        Files::ExtractArchive => tools::extract_archive(errand).await,
        Files::CreateArchive => tools::create_archive(errand).await,
        Files::Download => raw::download(errand).await,
        Files::Watch => changes::watch(errand).await,
        Files::UndoList => tools::undoable(errand),
        Files::Undo => tools::undo(errand).await,
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
