//! A machine an agent can work with: here, or at the far end of a link.

use std::future::Future;
use std::pin::Pin;

use portcullis_gate::Caller;
use portcullis_proto::{Failure, ToolCall, ToolReply, ToolSpec};

/// What a machine's method returns: boxed, because machines are used as `dyn`.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A file offered as a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceEntry {
    /// `portcullis://<root>/<path>`.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Its size, where known.
    pub size: Option<u64>,
}

/// A page of resources, and where the next one begins.
pub type ResourcePage = (Vec<ResourceEntry>, Option<String>);

/// A resource's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceText {
    /// Text.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
}

/// Something that offers tools and files. The agent cannot tell which kind.
pub trait Machine: Send + Sync {
    /// The tools there are for `caller`, in a stable order. A group in deny
    /// mode has none.
    fn catalog(&self, caller: &Caller) -> Vec<ToolSpec>;

    /// Calls one tool. A failure is a reply too: typed, with its next step.
    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply>;

    /// Lists what stands at the top of every root, a page at a time.
    fn resources<'a>(
        &'a self,
        caller: &'a Caller,
        cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>>;

    /// Reads one resource.
    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>>;

    /// What a person should know about this machine, in a few sentences for
    /// the agent's instructions.
    fn instructions(&self) -> String;
}
