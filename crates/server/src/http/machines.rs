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
use crate::gateway::{Gateway, HERE, Link, There, nobody_called, recalled, recalled_ask};

/// The machines there are, for whoever asks.
pub trait Machines: Send + Sync {
    /// The machine `identity` works with; nothing where it has none, and then
    /// it has no tools either.
    fn of(&self, identity: &Identity) -> Option<Arc<dyn Machine>>;

    /// The machine of that name, of those `identity` works with; `here` is the one
    /// this server runs on.
    fn named(&self, identity: &Identity, name: &str) -> Result<Arc<dyn Machine>, Failure> {
        let here = self.of(identity).filter(|_| name == HERE);
        here.ok_or_else(|| nobody_called(&[HERE.to_owned()]))
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

    /// With the extensions that work here.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Arc<Extensions>) -> Self {
        self.extensions = Some(extensions);
        self
    }
}

impl Machines for Providers {
    fn of(&self, identity: &Identity) -> Option<Arc<dyn Machine>> {
        match &identity.principal {
            // What cannot be made for it now, it does not have.
            Principal::Extension { id } => {
                self.extensions.as_ref()?.machine(id, &identity.user).ok()
            }
            Principal::Core { .. }
            | Principal::User { .. }
            | Principal::Token { .. }
            | Principal::Automation { .. } => {
                let there = self.gateway.as_ref().and_then(|gateway| {
                    let links = self.linked(identity);
                    There::of(gateway, links, self.local.clone(), identity.scopes)
                });
                match there {
                    Some(there) => Some(Arc::new(there)),
                    None => self.local.clone(),
                }
            }
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

    fn named(&self, identity: &Identity, name: &str) -> Result<Arc<dyn Machine>, Failure> {
        let links = self.linked(identity);
        let mut names: Vec<String> = links.iter().map(|link| link.about().name.clone()).collect();
        let at = names.iter().position(|one| one == name);
        let link = at.and_then(|at| links.into_iter().nth(at));
        if let (Some(gateway), Some(link)) = (&self.gateway, link)
            && let Some(there) = There::of(gateway, vec![link], None, identity.scopes)
        {
            return Ok(Arc::new(there));
        }
        let here = match &identity.principal {
            Principal::Extension { .. } => self.of(identity),
            Principal::Core { .. }
            | Principal::User { .. }
            | Principal::Token { .. }
            | Principal::Automation { .. } => self.local.clone(),
        };
        if here.is_some() {
            names.push(HERE.to_owned());
        }
        here.filter(|_| name == HERE)
            .ok_or_else(|| nobody_called(&names))
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
