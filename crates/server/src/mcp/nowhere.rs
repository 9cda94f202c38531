//! The machine of who has none: nothing is there, and the record is kept.

use std::sync::Arc;

use portcullis_gate::{Caller, Gate};
use portcullis_proto::{Failure, Group, Json, Reason, ToolCall, ToolReply, ToolSpec, Verb};
use portcullis_tools::{
    FileAsk, Machine, RawBytes, ResourcePage, ResourceText, ResourceWatch, Task, Workspace,
    unknown_tool,
};

/// See the module.
pub(crate) struct Nowhere(pub(crate) Arc<Gate>);

impl Nowhere {
    fn nothing<T>(&self, caller: &Caller, name: &str) -> Result<T, Failure> {
        let why = Failure::new(Reason::UnknownRoot, "No machine is connected.")
            .hint("Connect one, or start the server with a directory to serve.");
        Err(self.refuse(caller, name, why))
    }
}

impl Machine for Nowhere {
    fn catalog(&self, _caller: &Caller) -> Vec<ToolSpec> {
        Vec::new()
    }

    fn group_of(&self, _name: &str) -> Option<Group> {
        None
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply> {
        let failure = self.refuse(caller, &call.name, unknown_tool());
        Box::pin(std::future::ready(ToolReply::failed(&failure)))
    }

    fn refuse(&self, caller: &Caller, name: &str, why: Failure) -> Failure {
        self.0.refuse(caller, Verb::Stat, name, why)
    }

    fn resources<'a>(
        &'a self,
        _caller: &'a Caller,
        _cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>> {
        Box::pin(std::future::ready(Ok((Vec::new(), None))))
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, uri)))
    }

    fn watch_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, uri)))
    }

    fn workspaces(&self) -> Vec<Workspace> {
        Vec::new()
    }

    fn file<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        _ask: FileAsk,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, "")))
    }

    fn raw<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
        _window: (u64, usize),
    ) -> Task<'a, Result<RawBytes, Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, path)))
    }

    fn watch<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, path)))
    }

    fn undoable<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, "")))
    }

    fn undo<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        id: &'a str,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(std::future::ready(self.nothing(caller, id)))
    }

    fn instructions(&self) -> String {
        "No machine is connected, so there are no tools.".to_owned()
    }
}
