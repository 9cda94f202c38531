//! A machine an agent can work with: here, or at the far end of a link.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use portcullis_files::{Change, Watch};
use portcullis_gate::{Caller, Gate};
use portcullis_proto::{Failure, Group, Json, Reason, RootId, ToolCall, ToolReply, ToolSpec};
use serde::{Deserialize, Serialize};

use crate::ask::in_base64;
use crate::own::{Own, OwnCall};
use crate::resource;
use crate::scan::Scanned;
use crate::workspace::{FileAsk, RawBytes, Workspace};

/// What a machine's method returns: boxed, because machines are used as `dyn`.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A file offered as a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceText {
    /// Text.
    Text(String),
    /// Bytes that are no text.
    Bytes(#[serde(with = "in_base64")] Vec<u8>),
}

/// How many changes are told by name at once.
const NAMED: usize = 100;

/// A resource somebody listens to. Dropped, it is not watched any more.
#[derive(Debug)]
pub struct ResourceWatch {
    watch: Watch,
    root: RootId,
    own: Own,
}

/// One resource, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChange {
    /// `portcullis://<root>/<path>`.
    pub uri: String,
    /// Its path in the root.
    pub path: String,
    /// What became of it: `created`, `modified` or `removed`.
    pub change: &'static str,
    /// Which call of who watches it was, where it was one.
    pub by: Option<OwnCall>,
}

/// What changed since last told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChanges {
    /// Each resource once, in the order of the tree; the first of them.
    pub changes: Vec<ResourceChange>,
    /// How many more there are.
    pub more: usize,
    /// Whether some were lost: look again at what is watched.
    pub overflow: bool,
    /// Whether everything below it that may be shown is watched.
    pub complete: bool,
}

impl ResourceWatch {
    /// A watch in `root`, for `caller`.
    pub(crate) fn new(watch: Watch, root: RootId, gate: Arc<Gate>, caller: &Caller) -> Self {
        Self {
            watch,
            root,
            own: Own::new(gate, caller.subject.principal.clone()),
        }
    }

    /// Whether everything below it that may be shown was watched when it began.
    pub fn is_complete(&self) -> bool {
        self.watch.complete
    }

    /// What changed next; `None` when there is nothing more to come.
    pub async fn next(&mut self) -> Result<Option<ResourceChanges>, Failure> {
        let Some(batch) = self.watch.next().await? else {
            return Ok(None);
        };
        self.own.look();
        let (root, own) = (&self.root, &mut self.own);
        let change = |change: &Change| ResourceChange {
            by: own.call_behind(root, change),
            uri: resource::uri(root, &change.path),
            path: change.path.shown().to_owned(),
            change: change.kind.as_str(),
        };
        Ok(Some(ResourceChanges {
            changes: batch.names.iter().take(NAMED).map(change).collect(),
            more: batch.names.len().saturating_sub(NAMED),
            complete: batch.complete,
            overflow: batch.overflow,
        }))
    }
}

/// Something that offers tools and files. The agent cannot tell which kind.
pub trait Machine: Send + Sync {
    /// The tools there are for `caller`, in a stable order. A group in deny
    /// mode has none.
    fn catalog(&self, caller: &Caller) -> Vec<ToolSpec>;

    /// The group of a tool, whether it is on or not; nothing for a name that is
    /// no tool's.
    fn group_of(&self, name: &str) -> Option<Group>;

    /// Calls one tool. A failure is a reply too: typed, with its next step.
    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply>;

    /// Puts on the record a call that was refused before it reached a tool.
    fn refuse(&self, caller: &Caller, name: &str, why: Failure) -> Failure;

    /// What it says to whoever asks for files beside its tools: a machine that has
    /// some answers itself, and says this of nothing.
    fn without_files(&self) -> Failure {
        Reason::NotOffered.into()
    }

    /// Whether the tools of a group are switched off as a whole.
    fn is_off(&self, _group: Group) -> bool {
        false
    }

    /// Whether it has one root, which a call need not name.
    fn has_one_root(&self) -> bool {
        false
    }

    /// Lists what stands at the top of every root, a page at a time.
    fn resources<'a>(
        &'a self,
        _caller: &'a Caller,
        _cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>> {
        Box::pin(ready(Ok((Vec::new(), None))))
    }

    /// Reads one resource.
    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>> {
        self.has_no_files(caller, uri)
    }

    /// Watches one resource: a file, or a directory with all below it.
    fn watch_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        self.has_no_files(caller, uri)
    }

    /// The workspaces it has.
    fn workspaces(&self) -> Vec<Workspace> {
        Vec::new()
    }

    /// Serves one request of the workspace file routes: the reply's body.
    fn file<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        ask: FileAsk,
    ) -> Task<'a, Result<Json, Failure>> {
        self.has_no_files(caller, ask.path())
    }

    /// Reads some bytes of a file as they are: as many as were asked for, or
    /// fewer where the machine is far away.
    fn raw<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
        _window: (u64, usize),
    ) -> Task<'a, Result<RawBytes, Failure>> {
        self.has_no_files(caller, path)
    }

    /// Watches a file, or a directory with all below it.
    fn watch<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        self.has_no_files(caller, path)
    }

    /// What the person behind the caller did and can undo, the newest first.
    fn undoable<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
    ) -> Task<'a, Result<Json, Failure>> {
        self.has_no_files(caller, "")
    }

    /// Undoes one of these.
    fn undo<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        id: &'a str,
    ) -> Task<'a, Result<Json, Failure>> {
        self.has_no_files(caller, id)
    }

    /// What is in the workspace, for a server of the seed's dialect: eight deep,
    /// 10,000 entries, the top before the depth.
    fn scan<'a>(&'a self, caller: &'a Caller) -> Task<'a, Result<Scanned, Failure>> {
        self.has_no_files(caller, ".")
    }

    /// What a person should know about this machine, in a few sentences for
    /// the agent's instructions.
    fn instructions(&self) -> String;
}

/// What every method about files comes to where a machine has none.
trait HasNoFiles {
    fn has_no_files<'a, T: Send + 'a>(
        &self,
        caller: &Caller,
        what: &str,
    ) -> Task<'a, Result<T, Failure>>;
}

impl<M: Machine + ?Sized> HasNoFiles for M {
    fn has_no_files<'a, T: Send + 'a>(
        &self,
        caller: &Caller,
        what: &str,
    ) -> Task<'a, Result<T, Failure>> {
        let why = self.refuse(caller, what, self.without_files());
        Box::pin(ready(Err(why)))
    }
}

/// What a call of a tool there is not comes to.
pub fn unknown_tool() -> Failure {
    Failure::from(Reason::UnknownTool).hint("List the tools; they are all there is.")
}
