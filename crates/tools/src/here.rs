//! This machine: tools over the gate over the hands.

use std::sync::Arc;

use portcullis_files::Authority;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Mode, Reason, ToolCall, ToolReply, ToolSpec, Verb};
use serde::Serialize;

use crate::machine::{Machine, ResourcePage, ResourceText, Task};
use crate::{catalogue, get_file_tree, glob, list_files, read_file, resource, stat};

/// This machine.
#[derive(Clone, Debug)]
pub struct Here {
    authority: Arc<Authority>,
}

impl Here {
    /// Offers what `authority` owns.
    pub fn new(authority: Arc<Authority>) -> Self {
        Self { authority }
    }

    /// The authority behind it.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    fn offers_files(&self) -> bool {
        let rules = self.authority.gate().rules();
        self.authority.roots().next().is_some() && rules.modes.of(Verb::Read.group()) != Mode::Deny
    }

    async fn dispatch(&self, caller: &Caller, call: ToolCall) -> Result<ToolReply, Failure> {
        let authority = &*self.authority;
        let arguments = call.arguments;
        if !self.offers_files() {
            return Err(self.unknown(caller, &call.name));
        }
        match call.name.as_str() {
            "get_file_tree" => reply(get_file_tree::call(authority, caller, arguments).await?),
            "list_files" => reply(list_files::call(authority, caller, arguments).await?),
            "read_file" => reply(read_file::call(authority, caller, arguments).await?),
            "stat" => reply(stat::call(authority, caller, arguments).await?),
            "glob" => reply(glob::call(authority, caller, arguments).await?),
            name => Err(self.unknown(caller, name)),
        }
    }

    fn unknown(&self, caller: &Caller, name: &str) -> Failure {
        let why = Failure::from(Reason::UnknownTool).hint("List the tools; they are all there is.");
        self.authority.gate().refuse(caller, Verb::Stat, name, why)
    }
}

fn reply<T: Serialize>((structured, text): (T, String)) -> Result<ToolReply, Failure> {
    let structured = serde_json::to_value(structured)
        .map_err(|error| Failure::from(Reason::Bug).detail(error))?;
    Ok(ToolReply {
        structured,
        text,
        is_error: false,
    })
}

impl Machine for Here {
    fn catalog(&self, _caller: &Caller) -> Vec<ToolSpec> {
        if self.offers_files() {
            catalogue::looking().to_vec()
        } else {
            Vec::new()
        }
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply> {
        Box::pin(async move {
            match self.dispatch(caller, call).await {
                Ok(reply) => reply,
                Err(failure) => ToolReply::failed(&failure),
            }
        })
    }

    fn resources<'a>(
        &'a self,
        caller: &'a Caller,
        cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                return Ok((Vec::new(), None));
            }
            resource::list(&self.authority, caller, cursor).await
        })
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                return Err(self.authority.gate().refuse(
                    caller,
                    Verb::Read,
                    uri,
                    Reason::DeniedByMode.into(),
                ));
            }
            resource::read(&self.authority, caller, uri).await
        })
    }

    fn instructions(&self) -> String {
        let roots: Vec<String> = self
            .authority
            .roots()
            .map(|declared| format!("{} ({})", declared.entry().id(), declared.entry().kind()))
            .collect();
        format!(
            "Files are reached through named roots: {}. Paths are relative to a root; `.` is the root itself. Secret files (.env, keys) and what rules deny are left out of listings and counted; asking for a secret file by name asks a person. Every call is recorded.",
            roots.join(", ")
        )
    }
}
