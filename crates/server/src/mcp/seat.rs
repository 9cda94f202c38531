//! Who a request comes from, and what it may see.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use portcullis_gate::Caller;
use portcullis_proto::{
    ConversationId, Failure, Group, Reason, RunId, Scope, ScopeSet, SessionId, Subject, ToolSpec,
};
use portcullis_tools::{Machine, unknown_tool};
use rmcp::model::RequestMetaObject;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::nowhere::Nowhere;
use super::{HttpMcpParts, shape};
use crate::answers;
use crate::gateway::Conversation;
use crate::http::{FilesOff, Identity, Names};

/// The longest name a conversation or run may have.
const MAX_NAME: usize = 128;

/// Where a caller sits: who it is, what it works with, and what for.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) machine: Arc<dyn Machine>,
    pub(super) subject: Subject,
    /// The session "for this session" means, where there is one.
    pub(super) session: Option<SessionId>,
    pub(super) scopes: ScopeSet,
    /// Whether nothing is there for it but what its credential was granted.
    pub(super) by_grant_alone: bool,
    /// How long it waits for a person before its call may end with the question.
    pub(super) waits: Duration,
    /// There while the person's files are off.
    pub(super) files_off: Option<FilesOff>,
    /// What its attempts are to be found by.
    pub(super) names: Names,
}

impl Seat {
    /// The caller who sits here.
    pub(super) fn caller(&self, route: &'static str) -> Caller {
        let mut caller = Caller::new(self.subject.clone(), route);
        caller.by_grant_alone = self.by_grant_alone;
        caller.session.clone_from(&self.session);
        self.names.onto(caller)
    }

    /// The tools there are for it: those of a group it has no scope for are
    /// not there, like those of a group that is off.
    pub(super) fn catalog(&self, caller: &Caller) -> Vec<ToolSpec> {
        let mut tools = self.machine.catalog(caller);
        tools.retain(|tool| self.has_scope_of(tool.group));
        tools
    }

    /// Whether a tool may be called at all. What it has no scope for is unknown
    /// to it, in the words of a tool there is not.
    pub(super) fn check_tool(&self, name: &str) -> Result<(), Failure> {
        if self.scopes == ScopeSet::ALL {
            return Ok(());
        }
        match self.machine.group_of(name) {
            // A client may know a tool from before it was switched off.
            Some(Group::FilesystemRead | Group::FilesystemWrite) if self.files_off.is_some() => {
                Err(self.why_off())
            }
            Some(group) if !self.has_scope_of(group) => Err(unknown_tool()),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether its credential is for looking at files, as resources need.
    pub(super) fn check_resources(&self) -> Result<(), Failure> {
        if self.scopes.has(Scope::FsRead) {
            return Ok(());
        }
        if self.files_off.is_some() {
            return Err(self.why_off());
        }
        Err(Failure::new(
            Reason::NoGrant,
            "The credential is not for reading files, so resources are not there for it.",
        )
        .hint("Use a token with the scope fs:read."))
    }

    fn why_off(&self) -> Failure {
        self.files_off
            .as_ref()
            .map_or_else(|| Reason::SwitchedOff.into(), FilesOff::why)
    }

    fn has_scope_of(&self, group: Group) -> bool {
        self.scopes.has(Scope::of_group(group))
    }
}

/// Who may sit where.
#[derive(Clone)]
pub(super) enum Seats {
    /// One client on a pipe.
    One(Box<Seat>),
    /// Whoever a request says it is from.
    Each(Arc<HttpMcpParts>),
}

impl Seats {
    /// The seat of who sent a request.
    pub(super) fn of(&self, context: &RequestContext<RoleServer>) -> Result<Seat, ErrorData> {
        let parts = match self {
            Self::One(seat) => return Ok(Seat::clone(seat)),
            Self::Each(parts) => parts,
        };
        let head = context.extensions.get::<Parts>();
        let identity = head.and_then(|head| head.extensions.get::<Identity>());
        let (Some(head), Some(identity)) = (head, identity) else {
            // Nothing passes the door without one: this is a defect of ours, and
            // whoever it is gets nothing.
            return Err(shape::error(&Failure::from(Reason::Bug)));
        };
        let named = |meta: &str, header: &str| name(&context.meta, meta, &head.headers, header);
        let conversation = named("portcullis/conversation", "portcullis-conversation")?;
        let run = named("portcullis/run", "portcullis-run")?;
        let call = named("portcullis/call", "idempotency-key")?;
        let mut subject = identity.subject();
        // The same over REST: what was allowed there for a session is here.
        let session = conversation
            .as_ref()
            .map(|name| SessionId::new(format!("{}/{name}", subject.label())));
        subject.conversation_id = conversation.map(ConversationId::new);
        subject.run_id = run.map(RunId::new);
        // Looked at before: it is this caller's, and that of an era that has them.
        let session_id = head.headers.get("mcp-session-id");
        let session_id = session_id.and_then(|id| id.to_str().ok());
        let who = Conversation::of(&subject, session_id);
        let machine = parts
            .machines
            .of(identity, &who)
            .unwrap_or_else(|| Arc::new(Nowhere(Arc::clone(&parts.gate))));
        Ok(Seat {
            machine,
            subject,
            session,
            scopes: identity.scopes,
            by_grant_alone: true,
            waits: answers::waits(&head.headers),
            files_off: head.extensions.get::<FilesOff>().cloned(),
            names: Names::of(&head.extensions).calling(call.map(Into::into)),
        })
    }
}

/// A name that comes with the request: in its metadata, or else its head.
fn name(
    meta: &RequestMetaObject,
    key: &str,
    headers: &HeaderMap,
    header: &str,
) -> Result<Option<String>, ErrorData> {
    let said = match (meta.get(key), headers.get(header)) {
        (Some(value), _) => value.as_str(),
        (None, Some(value)) => value.to_str().ok(),
        (None, None) => return Ok(None),
    };
    said.filter(|said| (1..=MAX_NAME).contains(&said.len()))
        .filter(|said| said.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        .map(|said| Some(said.to_owned()))
        .ok_or_else(|| {
            ErrorData::invalid_params(
                format!("{key} has 1 to {MAX_NAME} printable ASCII characters."),
                None,
            )
        })
}
