//! This machine: tools over the gate over the hands.

use std::sync::Arc;

use portcullis_files::{Authority, ByteWindow, ExtensionFs};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Group, Json, Mode, Reason, ToolCall, ToolReply, ToolSpec, Verb};
use serde::Serialize;
use serde_json::Value;

use crate::machine::{Machine, ResourcePage, ResourceText, ResourceWatch, Task, unknown_tool};
use crate::quoted::quoted;
use crate::scan::{self, Scanned};
use crate::workspace::{FileAsk, RawBytes, Workspace, more};
use crate::{
    append_file, catalogue, copy_file, create_archive, create_directory, delete, edit_file,
    extract_archive, get_file_tree, glob, grep, inspect_archive, list_files, move_path, read_file,
    resource, search_files, stat, workspace, write_file,
};

/// This machine.
#[derive(Clone, Debug)]
pub struct Here {
    authority: Arc<Authority>,
    writing: Writing,
    /// Whose files these are, where they are an extension's: they last as long
    /// as somebody works with them.
    _extension: Option<Arc<ExtensionFs>>,
}

/// Whether there are tools that change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Off,
    On,
}

impl Here {
    /// Offers what `authority` owns, to be looked at.
    pub fn new(authority: Arc<Authority>) -> Self {
        Self {
            authority,
            writing: Writing::Off,
            _extension: None,
        }
    }

    /// Offers the tools that change files as well, while their group is on.
    #[must_use]
    pub fn writing(mut self) -> Self {
        self.writing = Writing::On;
        self
    }

    /// The same tools, over the files of an extension.
    pub(crate) fn of_extension(&self, files: &Arc<ExtensionFs>) -> Self {
        Self {
            authority: Arc::clone(files.authority()),
            writing: self.writing,
            _extension: Some(Arc::clone(files)),
        }
    }

    /// The authority behind it.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    fn offers_files(&self) -> bool {
        let rules = self.authority.gate().rules();
        self.authority.roots().next().is_some() && rules.modes.of(Verb::Read.group()) != Mode::Deny
    }

    /// Changing needs looking: with that off, this is off too.
    fn offers_changes(&self) -> bool {
        let rules = self.authority.gate().rules();
        self.writing == Writing::On
            && self.offers_files()
            && rules.modes.of(Verb::Write.group()) != Mode::Deny
    }

    async fn dispatch(&self, caller: &Caller, call: ToolCall) -> Result<ToolReply, Failure> {
        let authority = &*self.authority;
        let arguments = call.arguments;
        if !self.offers_files() {
            return Err(self.unknown(caller, &call.name));
        }
        match call.name.as_str() {
            "get_file_tree" => reply(get_file_tree::call(authority, caller, arguments).await?),
            "list_files" => list_files::call(authority, caller, arguments).await,
            "read_file" => read_file::call(authority, caller, arguments).await,
            "stat" => reply(stat::call(authority, caller, arguments).await?),
            "glob" => glob::call(authority, caller, arguments).await,
            "search_files" => reply(search_files::call(authority, caller, arguments).await?),
            "grep" => reply(grep::call(authority, caller, arguments).await?),
            "inspect_archive" => reply(inspect_archive::call(authority, caller, arguments).await?),
            name if self.offers_changes() => self.change(caller, name, arguments).await,
            name => Err(self.unknown(caller, name)),
        }
    }

    async fn change(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Value,
    ) -> Result<ToolReply, Failure> {
        let authority = &*self.authority;
        match name {
            "write_file" => reply(write_file::call(authority, caller, arguments).await?),
            "edit_file" => reply(edit_file::call(authority, caller, arguments).await?),
            "append_file" => reply(append_file::call(authority, caller, arguments).await?),
            "create_directory" => {
                reply(create_directory::call(authority, caller, arguments).await?)
            }
            "delete" => reply(delete::call(authority, caller, arguments).await?),
            "move" => reply(move_path::call(authority, caller, arguments).await?),
            "copy_file" => reply(copy_file::call(authority, caller, arguments).await?),
            "extract_archive" => reply(extract_archive::call(authority, caller, arguments).await?),
            "create_archive" => reply(create_archive::call(authority, caller, arguments).await?),
            name => Err(self.unknown(caller, name)),
        }
    }

    fn unknown(&self, caller: &Caller, name: &str) -> Failure {
        self.refuse(caller, name, unknown_tool())
    }
}

fn reply<T: Serialize>((structured, text): (T, String)) -> Result<ToolReply, Failure> {
    Ok(ToolReply {
        structured: Json::of(&structured)
            .map_err(|error| Failure::from(Reason::Bug).detail(error))?,
        text: quoted(&text),
        is_error: false,
        attached: Vec::new(),
    })
}

impl Machine for Here {
    fn catalog(&self, _caller: &Caller) -> Vec<ToolSpec> {
        let mut tools = Vec::new();
        if self.offers_files() {
            tools.extend_from_slice(catalogue::looking());
        }
        if self.offers_changes() {
            tools.extend_from_slice(catalogue::changing());
        }
        tools
    }

    fn group_of(&self, name: &str) -> Option<Group> {
        catalogue::looking()
            .iter()
            .chain(catalogue::changing())
            .find(|tool| tool.name == name)
            .map(|tool| tool.group)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply> {
        Box::pin(async move {
            match self.dispatch(caller, call).await {
                Ok(reply) => reply,
                Err(failure) => ToolReply::failed(&failure),
            }
        })
    }

    fn refuse(&self, caller: &Caller, name: &str, why: Failure) -> Failure {
        self.authority.gate().refuse(caller, Verb::Stat, name, why)
    }

    fn is_off(&self, group: Group) -> bool {
        self.authority.gate().rules().modes.of(group) == Mode::Deny
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

    fn watch_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, Verb::Watch, uri, why));
            }
            resource::watch(&self.authority, caller, uri).await
        })
    }

    fn workspaces(&self) -> Vec<Workspace> {
        workspace::workspaces(&self.authority)
    }

    fn file<'a>(
        &'a self,
        caller: &'a Caller,
        root: Option<&'a str>,
        ask: FileAsk,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(async move {
            let verb = ask.verb();
            let offered = match verb.group() {
                Group::FilesystemWrite => self.offers_changes(),
                Group::FilesystemRead | Group::Shell | Group::Computer | Group::Browser => {
                    self.offers_files()
                }
            };
            if !offered {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, verb, "", why));
            }
            workspace::serve(&self.authority, caller, root, ask).await
        })
    }

    fn raw<'a>(
        &'a self,
        caller: &'a Caller,
        root: Option<&'a str>,
        path: &'a str,
        (offset, max): (u64, usize),
    ) -> Task<'a, Result<RawBytes, Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, Verb::Read, path, why));
            }
            let window = ByteWindow::Part { offset, max };
            more::raw(&self.authority, caller, root, path, window).await
        })
    }

    fn watch<'a>(
        &'a self,
        caller: &'a Caller,
        root: Option<&'a str>,
        path: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, Verb::Watch, path, why));
            }
            more::watch(&self.authority, caller, root, path).await
        })
    }

    fn undoable<'a>(
        &'a self,
        caller: &'a Caller,
        root: Option<&'a str>,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, Verb::Stat, "", why));
            }
            more::undoable(&self.authority, caller, root).await
        })
    }

    fn undo<'a>(
        &'a self,
        caller: &'a Caller,
        root: Option<&'a str>,
        id: &'a str,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(async move {
            if !self.offers_changes() {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, Verb::Undo, id, why));
            }
            more::undo(&self.authority, caller, root, id).await
        })
    }

    fn scan<'a>(&'a self, caller: &'a Caller) -> Task<'a, Result<Scanned, Failure>> {
        Box::pin(async move {
            if !self.offers_files() {
                let why = Reason::DeniedByMode.into();
                return Err(self.authority.gate().refuse(caller, Verb::Tree, ".", why));
            }
            scan::scan(&self.authority, caller).await
        })
    }

    fn instructions(&self) -> String {
        let roots: Vec<String> = self
            .authority
            .roots()
            .map(|declared| format!("{} ({})", declared.entry().id(), declared.entry().kind()))
            .collect();
        let changing = if self.offers_changes() {
            " Changes reply with a diff and the new version; a file somebody else changed since you read it is left alone (version_mismatch: read it again). What runs later by itself (.git/hooks, CI files, shell settings) asks a person. A person can undo every change."
        } else {
            ""
        };
        format!(
            "Files are reached through named roots: {}. Paths are relative to a root; `.` is the root itself. Secret files (.env, keys) and what rules deny are left out of listings and counted; asking for a secret file by name asks a person. Every call is recorded.{changing}",
            roots.join(", ")
        )
    }
}
