//! The machine of who has none: nothing is there, and the record is kept.

use std::sync::Arc;

use portcullis_gate::{Caller, Gate};
use portcullis_proto::{Failure, Group, Reason, ToolCall, ToolReply, ToolSpec, Verb};
use portcullis_tools::{Machine, Task, unknown_tool};

/// See the module.
pub(crate) struct Nowhere(pub(crate) Arc<Gate>);

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

    fn without_files(&self) -> Failure {
        Failure::new(Reason::UnknownRoot, "No machine is connected.")
            .hint("Connect one, or start the server with a directory to serve.")
    }

    fn instructions(&self) -> String {
        "No machine is connected, so there are no tools.".to_owned()
    }
}
