//! Which machine a caller works with: gateway before local before none.

use std::sync::Arc;

use portcullis_gate::Caller;
use portcullis_proto::{Failure, Json, Principal, RootId, ScopeSet, ToolCall, ToolReply};
use portcullis_tools::{Extensions, Machine, MachineAsk, Task};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

use super::identity::Identity;
use crate::gateway::{
    Conversation, Gateway, HERE, Link, Meant, Purpose, Staying, nobody_called, recalled,
    recalled_ask,
};

/// The machines there are, for whoever asks.
pub trait Machines: Send + Sync {
    /// The machines `identity` works with in a conversation, as one that offers
    /// tools; nothing where it has none, and then it has no tools either.
    fn of(&self, identity: &Identity, who: &Conversation) -> Option<Arc<dyn Machine>>;

    /// The one machine a request is for: the one it names (`here` is the one this
    /// server runs on), or the one its conversation stays with.
    fn meant<'a>(
        &'a self,
        identity: &'a Identity,
        who: &'a Conversation,
        name: Option<&'a str>,
        _what: Purpose,
    ) -> Task<'a, Result<Option<Meant>, Failure>> {
        let only = self.of(identity, who).map(Meant::only);
        let meant = match name {
            None => Ok(only),
            Some(name) => match only.filter(|_| name == HERE) {
                Some(here) => Ok(Some(here)),
                None => Err(nobody_called(&[HERE.to_owned()])),
            },
        };
        Box::pin(std::future::ready(meant))
    }

    /// A session of MCP began; `is_open` tells which others are open. What lost ones
    /// worked with, it goes on with.
    fn begin_session<'a>(
        &'a self,
        _who: &'a Conversation,
        _is_open: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Task<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A session of MCP was ended by who had it.
    fn end_session<'a>(&'a self, _who: &'a Conversation) -> Task<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What there is and why, for `/status`, and whether files are switched on.
    fn status(&self, identity: &Identity, filesystem_enabled: bool) -> Value;

    /// The reply to a call that needs no machine chosen: it was made before
    /// under the same name, or names a machine that is not there now.
    fn recall<'a>(
        &'a self,
        _caller: &'a Caller,
        _scopes: ScopeSet,
        _call: &'a ToolCall,
    ) -> Task<'a, Option<ToolReply>> {
        Box::pin(std::future::ready(None))
    }

    /// The body of the reply to what a file route asks for, where that was done
    /// before under the same name.
    fn recall_ask<'a>(
        &'a self,
        _caller: &'a Caller,
        _scopes: ScopeSet,
        _ask: &'a MachineAsk,
    ) -> Task<'a, Option<Result<Json, Failure>>> {
        Box::pin(std::future::ready(None))
    }

    /// Hears whose machines change, where any do.
    fn changes(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        None
    }

    /// Removes what an extension that was removed has stored, where any store.
    fn forget_extension(&self, _storage: &RootId) -> Result<(), Failure> {
        Ok(())
    }
}

/// What `GET /status` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReply {
    /// The version of the program.
    version: &'static str,
    /// Whom the credential stands for.
    user: String,
    /// What it is for, with commas.
    scopes: String,
    /// Where the files are: on a linked machine, on this one, or nowhere.
    #[schemars(extend("enum" = ["gateway", "local", "none"]))]
    provider: &'static str,
    /// The machines that are linked, the newest link first.
    machines: Vec<String>,
    /// On what that was decided.
    evidence: Vec<String>,
    /// Whether the person's files are switched on.
    filesystem_enabled: bool,
}

/// Linked machines, the machine this server runs on, or none.
pub struct Providers {
    gateway: Option<Arc<Gateway>>,
    local: Option<Arc<dyn Machine>>,
    /// The extensions that work here, each with a machine of its own.
    extensions: Option<Arc<Extensions>>,
    /// On what it was decided, for `/status`.
    evidence: Vec<String>,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Providers")
            .field("gateway", &self.gateway.is_some())
            .field("local", &self.local.is_some())
            .field("extensions", &self.extensions.is_some())
            .field("evidence", &self.evidence)
            .finish()
    }
}

impl Providers {
    /// With the machine it runs on, if that is served, and why.
    pub fn new(local: Option<Arc<dyn Machine>>, evidence: Vec<String>) -> Self {
        Self {
            gateway: None,
            local,
            extensions: None,
            evidence,
        }
    }

    /// With the machines that people link.
    #[must_use]
    pub fn with_gateway(mut self, gateway: Arc<Gateway>) -> Self {
        self.gateway = Some(gateway);
        self
    }

    /// What of a person is linked; an extension has no machine but its own.
    fn linked(&self, identity: &Identity) -> Vec<Arc<Link>> {
        match (&self.gateway, &identity.principal) {
            (None, _)
            | (
                Some(_),
                Principal::Extension { .. } | Principal::Core { .. } | Principal::Automation { .. },
            ) => Vec::new(),
            (Some(gateway), Principal::User { .. } | Principal::Token { .. }) => {
                gateway.of(&identity.user)
            }
        }
    }

    /// The machines of a person, of which a conversation stays with one; nothing for
    /// who has one alone.
    fn staying(&self, identity: &Identity, who: &Conversation) -> Option<Staying> {
        match &identity.principal {
            Principal::Extension { .. } | Principal::Core { .. } | Principal::Automation { .. } => {
                None
            }
            Principal::User { .. } | Principal::Token { .. } => Some(Staying {
                gateway: Arc::clone(self.gateway.as_ref()?),
                who: who.clone(),
                links: self.linked(identity),
                local: self.local.clone(),
                scopes: identity.scopes,
            }),
        }
    }

    /// The one machine of who has no other.
    fn own(&self, identity: &Identity) -> Option<Arc<dyn Machine>> {
        match &identity.principal {
            // What cannot be made for it now, it does not have.
            Principal::Extension { id } => {
                self.extensions.as_ref()?.machine(id, &identity.user).ok()
            }
            Principal::Core { .. }
            | Principal::User { .. }
            | Principal::Token { .. }
            | Principal::Automation { .. } => self.local.clone(),
        }
    }

    /// With the extensions that work here.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Arc<Extensions>) -> Self {
        self.extensions = Some(extensions);
        self
    }
}

impl Machines for Providers {
    fn of(&self, identity: &Identity, who: &Conversation) -> Option<Arc<dyn Machine>> {
        match self.staying(identity, who) {
            Some(staying) => staying
                .is_anywhere()
                .then(|| Arc::new(staying) as Arc<dyn Machine>),
            None => self.own(identity),
        }
    }

    fn meant<'a>(
        &'a self,
        identity: &'a Identity,
        who: &'a Conversation,
        name: Option<&'a str>,
        what: Purpose,
    ) -> Task<'a, Result<Option<Meant>, Failure>> {
        Box::pin(async move {
            if let Some(staying) = self.staying(identity, who) {
                if name.is_none() && !staying.is_anywhere() {
                    return Ok(None);
                }
                return staying.for_request(name, what).await.map(Some);
            }
            let own = self.own(identity).map(Meant::only);
            match (name, own) {
                (None, own) => Ok(own),
                (Some(HERE), Some(own)) => Ok(Some(own)),
                (Some(_), Some(_)) => Err(nobody_called(&[HERE.to_owned()])),
                (Some(_), None) => Err(nobody_called(&[])),
            }
        })
    }

    fn begin_session<'a>(
        &'a self,
        who: &'a Conversation,
        is_open: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Task<'a, ()> {
        match &self.gateway {
            Some(gateway) => Box::pin(gateway.begin_session(who, is_open)),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn end_session<'a>(&'a self, who: &'a Conversation) -> Task<'a, ()> {
        match &self.gateway {
            Some(gateway) => Box::pin(gateway.end_session(who)),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn recall<'a>(
        &'a self,
        caller: &'a Caller,
        scopes: ScopeSet,
        call: &'a ToolCall,
    ) -> Task<'a, Option<ToolReply>> {
        match &self.gateway {
            Some(gateway) => Box::pin(recalled(gateway, caller, scopes, call)),
            None => Box::pin(std::future::ready(None)),
        }
    }

    fn recall_ask<'a>(
        &'a self,
        caller: &'a Caller,
        scopes: ScopeSet,
        ask: &'a MachineAsk,
    ) -> Task<'a, Option<Result<Json, Failure>>> {
        match &self.gateway {
            Some(gateway) => Box::pin(recalled_ask(gateway, caller, scopes, ask)),
            None => Box::pin(std::future::ready(None)),
        }
    }

    fn changes(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        Some(self.gateway.as_ref()?.changes())
    }

    fn forget_extension(&self, storage: &RootId) -> Result<(), Failure> {
        match &self.extensions {
            Some(extensions) => extensions.remove_storage(storage),
            None => Ok(()),
        }
    }

    fn status(&self, identity: &Identity, filesystem_enabled: bool) -> Value {
        let machines: Vec<String> = self
            .linked(identity)
            .iter()
            .map(|link| link.about().name.clone())
            .collect();
        let status = StatusReply {
            version: env!("CARGO_PKG_VERSION"),
            user: identity.user.as_ref().to_owned(),
            scopes: identity.scopes.to_string(),
            provider: if !machines.is_empty() {
                "gateway"
            } else if self.local.is_some() {
                "local"
            } else {
                "none"
            },
            machines,
            evidence: self.evidence.clone(),
            filesystem_enabled,
        };
        serde_json::to_value(status).unwrap_or_default()
    }
}
