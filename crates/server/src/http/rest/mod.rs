//! The REST routes: from a head and a body to a call of the machine, and back.

mod body;
mod capabilities;
mod changes;
mod client;
mod described;
mod files;
mod machine;
mod query;
mod raw;
mod searching;
mod tools;

pub(super) use self::body::{NoBody, json_body, json_of, lost, read as read_body};
pub(super) use self::described::described;
pub(super) use self::query::{Asks, EXACT, Flag, Number, Parameter, Query, ToldParameter, query};
pub(super) use self::searching::is_to_be_told;

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use percent_encoding::percent_decode_str;
use portcullis_gate::{Approver, Caller, CancelFlag};
use portcullis_proto::{ConversationId, Failure, Group, Reason, RootId, RunId, SessionId, Verb};
use portcullis_store::ParkedApprover;
use portcullis_tools::{Machine, MachineAsk};
use schemars::JsonSchema;
use serde::Serialize;

use super::bodies::Room;
use super::called::Names;
use super::desk::{self, FilesOff};
use super::reply::{self, Reply};
use super::routes::Files;
use super::server::{Asked, Server};
use super::shares::{self, Long};
use crate::answers;
use crate::gateway::{Meant, Purpose};
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

/// What `GET /health` replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    /// Always `ok`.
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
}

/// It is up; that is all anybody may know.
pub(super) fn health() -> Reply {
    reply::of(StatusCode::OK, &Health { status: "ok" })
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
    /// What is asked for, as the record names it.
    verb: Verb,
    machine: Arc<dyn Machine>,
    /// What it is called, where its caller could mean another.
    called: Option<String>,
    /// The root of the workspace a qualified path named.
    root: Option<RootId>,
    /// Why there is no machine or no workspace for it.
    astray: Option<Astray>,
    /// Where its questions are put.
    parked: Arc<ParkedApprover>,
    /// The memory its body takes.
    room: Room,
}

/// Why a request has no place to go to.
enum Astray {
    /// It names a machine that is none.
    Machine(Failure),
    /// Its path names a workspace that is none.
    Workspace,
}

impl Errand {
    fn root(&self) -> Option<&str> {
        self.root.as_ref().map(RootId::as_str)
    }

    /// The caller, with the answer it brings: looked for once everything else the
    /// request says is known to make sense.
    async fn caller(&self) -> Result<Caller, Failure> {
        let Some(question) = self.asked.head.headers.get("portcullis-question") else {
            return Ok(self.caller.clone());
        };
        let parts = &self.server.parts;
        let question = question.to_str().unwrap_or_default();
        answers::bring(&parts.store, &parts.clock, self.caller.clone(), question).await
    }

    /// Puts on the record what was refused before it reached the machine.
    fn refuse(&self, why: Failure) -> Reply {
        self.refuse_at("", why)
    }

    /// The same, of what was asked for about `path`.
    fn refuse_at(&self, path: &str, why: Failure) -> Reply {
        let gate = &self.server.parts.gate;
        let why = gate.refuse(&self.caller, self.verb, path, why);
        self.failed(&why)
    }

    /// Whether it may have been done before under its name: then it is not for a
    /// machine that is there now, and needs none.
    fn is_kept(&self) -> bool {
        self.caller.call_name().is_some() && self.verb.group() == Group::FilesystemWrite
    }

    /// Refuses what names a machine or a workspace there is not.
    fn nowhere(&self) -> Option<Reply> {
        match self.astray.as_ref()? {
            Astray::Machine(why) => Some(self.refuse(why.clone())),
            Astray::Workspace => {
                drop(self.refuse(Reason::UnknownRoot.into()));
                Some(reply::refused(
                    StatusCode::BAD_REQUEST,
                    "The path names no workspace of this server.",
                    Some("workspace_mismatch"),
                ))
            }
        }
    }

    /// Asks the machine, unless that was done before under its name, and answers
    /// with `status` where it says yes.
    async fn done(&self, ask: MachineAsk, status: StatusCode) -> Reply {
        let caller = match self.caller().await {
            Ok(caller) => caller,
            Err(why) => return self.refuse(why),
        };
        let machines = &self.server.parts.machines;
        let scopes = self.asked.identity.scopes;
        let recalled = machines.recall_ask(&caller, scopes, &ask).await;
        let (machine, root) = (&self.machine, self.root());
        let body = match (recalled, ask) {
            (Some(body), _) => body,
            (None, ask) => {
                if let Some(reply) = self.nowhere() {
                    return reply;
                }
                match ask {
                    MachineAsk::File(ask) => machine.file(&caller, root, ask).await,
                    MachineAsk::Undoable {} => machine.undoable(&caller, root).await,
                    MachineAsk::Undo { id } => machine.undo(&caller, root, &id).await,
                    ask @ (MachineAsk::Raw { .. }
                    | MachineAsk::Resources { .. }
                    | MachineAsk::ReadResource { .. }) => ask.done_by(&**machine, &caller).await,
                }
            }
        };
        match body {
            Ok(body) => reply::written(status, body.into_string()),
            Err(why) => self.failed(&why),
        }
    }

    /// Whether the group of what is asked for is off.
    fn is_off(&self) -> bool {
        self.machine.is_off(self.verb.group())
    }

    /// More than its share was asked for: on the record, and told to come again.
    fn over(&self, why: Failure) -> Reply {
        let route = self.asked.route.name;
        let why = self.machine.refuse(&self.caller, route, why);
        let mut reply = shares::over(&why);
        reply::settled_on(&mut reply, self.caller.warrant());
        reply
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
            let by_mode = self
                .caller
                .warrant()
                .is_some_and(|warrant| warrant.policy_source == "mode:filesystemWrite=ask");
            let unasked = by_mode.then_some(ALLOWED_BY_FLAG);
            return desk::pending(why, &question, &self.server.parts.url, unasked);
        }
        reply::failure(why)
    }
}

/// Answers a request whose credential is good.
pub(super) async fn answer(server: &Arc<Server>, asked: Asked, files: Files) -> Reply {
    let flag = CancelFlag::new();
    let until_gone = UntilGone(flag.clone());
    let caller = caller(&asked).cancelled_by(flag);
    let nowhere = || Arc::new(Nowhere(Arc::clone(&server.parts.gate))) as Arc<dyn Machine>;
    let wanted = (&caller.subject, purpose(files));
    let (machine, called, unnamed) = match machine::meant(server, &asked, wanted).await {
        Ok(Some(Meant { machine, called })) => (machine, called, None),
        Ok(None) => (nowhere(), None, None),
        Err(why) => (nowhere(), None, Some(why)),
    };
    let parked = ParkedApprover::new(
        server.parts.store.clone(),
        answers::waits(&asked.head.headers),
    )
    .leaving_at(server.ending().clone());
    let parked = Arc::new(parked);
    let caller = caller
        .asking(Arc::clone(&parked) as Arc<dyn Approver>)
        .patient_for(server.parts.patience);
    let mut errand = Errand {
        server: Arc::clone(server),
        asked,
        caller,
        verb: verb(files),
        machine,
        called,
        root: None,
        astray: unnamed.map(Astray::Machine),
        parked,
        room: Room::default(),
    };
    let mut turned = turned_back(&errand);
    if turned.is_none() {
        find_workspace(&mut errand);
        // Of what may be kept, that is looked for first.
        turned = (!errand.is_kept()).then(|| errand.nowhere()).flatten();
    }
    if let Some(mut reply) = turned {
        reply::settled_on(&mut reply, errand.caller.warrant());
        return reply;
    }
    let turn = match long(files) {
        Some(long) => {
            let who = &errand.asked.identity.principal;
            match server.shares.turn(long, who).await {
                Ok(turn) => Some(turn),
                Err(why) => return errand.over(why),
            }
        }
        None => None,
    };
    if files == Files::Search && is_to_be_told(&errand.asked.head.headers) {
        let called = errand.called.clone();
        let mut reply = searching::told(errand, (until_gone, turn));
        reply::done_at(&mut reply, called.as_deref());
        return reply;
    }
    let mut reply = route(&mut errand, files).await;
    reply::settled_on(&mut reply, errand.caller.warrant());
    reply::done_at(&mut reply, errand.called.as_deref());
    drop((until_gone, turn));
    reply
}

/// Whether a route wants something of a machine, or to know about it.
fn purpose(files: Files) -> Purpose {
    if [Files::Capabilities, Files::Status].contains(&files) {
        Purpose::Look
    } else {
        Purpose::Call
    }
}

/// Refuses what its credential is not for, and what names a client there is not.
fn turned_back(errand: &Errand) -> Option<Reply> {
    if let Some(reply) = client::refused(errand) {
        return Some(reply);
    }
    if let Some(scope) = errand.asked.route.scope
        && !errand.asked.identity.may(scope)
    {
        let off = errand.asked.head.extensions.get::<FilesOff>();
        let why = off.map_or_else(|| desk::no_scope(scope), FilesOff::why);
        return Some(errand.refuse(why));
    }
    None
}

/// Finds the workspace its path names, on the machine that is meant.
fn find_workspace(errand: &mut Errand) {
    let (Some(named), None) = (&errand.asked.workspace, &errand.astray) else {
        return;
    };
    let mut workspaces = errand.machine.workspaces().into_iter();
    match workspaces.find(|workspace| workspace.is_called(named)) {
        Some(workspace) => errand.root = Some(workspace.root),
        None => errand.astray = Some(Astray::Workspace),
    }
}

/// Which routes take long, and are waited for in line.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all routes, few take long"
)]
fn long(files: Files) -> Option<Long> {
    match files {
        Files::Glob | Files::Tree | Files::Search => Some(Long::Walk),
        Files::InspectArchive | Files::ExtractArchive | Files::CreateArchive => Some(Long::Archive),
        _ => None,
    }
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
        Files::UndoList => tools::undoable(errand).await,
        Files::Undo => tools::undo(errand).await,
    }
}

/// What a route asks for.
const fn verb(files: Files) -> Verb {
    match files {
        Files::Capabilities | Files::Status | Files::Stat | Files::UndoList => Verb::Stat,
        Files::ReadFile | Files::ReadBytes | Files::Download => Verb::Read,
        Files::List => Verb::List,
        Files::Glob => Verb::Glob,
        Files::Tree => Verb::Tree,
        Files::Search => Verb::Search,
        Files::Watch => Verb::Watch,
        Files::WriteFile | Files::Upload => Verb::Write,
        Files::EditFile | Files::EditMany => Verb::Edit,
        Files::Append => Verb::Append,
        Files::Delete => Verb::Remove,
        Files::Move => Verb::Move,
        Files::Copy => Verb::Copy,
        Files::MakeDirectory => Verb::Mkdir,
        Files::InspectArchive => Verb::Inspect,
        Files::ExtractArchive => Verb::Extract,
        Files::CreateArchive => Verb::Archive,
        Files::Undo => Verb::Undo,
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
    let mut subject = asked.identity.subject();
    subject.conversation_id = text("portcullis-conversation").map(ConversationId::new);
    subject.run_id = text("portcullis-run").map(RunId::new);
    let session = subject
        .conversation_id
        .as_ref()
        .map(|conversation| format!("{}/{conversation}", subject.label()));
    let caller = Caller::new(subject, asked.route.name)
        .by_grant_alone()
        .leaving_trail();
    let caller = Names::of(&asked.head.extensions).onto(caller);
    let caller = machine::naming(caller, asked);
    match session {
        Some(session) => caller.in_session(SessionId::new(session)),
        None => caller,
    }
}

/// How changes are let through without a question.
const ALLOWED_BY_FLAG: &str = " (Started with --write, the server asks about no plain change.)";
/// The longest name of a conversation or a run.
const MAX_ID: usize = 128;
