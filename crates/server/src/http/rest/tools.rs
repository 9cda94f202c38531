//! The routes that are ours: each asks one tool, under names that fit a query
//! or a body.

use portcullis_proto::{Failure, Reason, ToolCall, ToolReply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::reply::{self, Reply};
use super::Errand;
use super::body;
use super::query::Query;

/// Calls a tool with what `arguments` came to, in the workspace of the path.
async fn call(errand: &Errand, tool: &str, arguments: Result<Value, Failure>) -> Reply {
    let mut arguments = match arguments {
        Ok(arguments) => arguments,
        Err(why) => return errand.refuse(why),
    };
    if let Some(object) = arguments.as_object_mut() {
        object.retain(|_, value| !value.is_null());
        if let Some(root) = errand.root() {
            object.insert("root".to_owned(), root.into());
        }
    }
    let call = ToolCall {
        name: tool.to_owned(),
        arguments,
    };
    let reply = errand.machine.call(&errand.caller, call).await;
    if reply.is_error
        && let Some(why) = failure_in(&reply)
    {
        return errand.failed(&why);
    }
    reply::of_tool(&reply)
}

/// The failure a tool's reply tells, where this wire has words of its own for it.
fn failure_in(reply: &ToolReply) -> Option<Failure> {
    #[derive(Deserialize)]
    struct Told {
        reason: String,
        error: String,
    }
    let told: Told = serde_json::from_str(reply.structured.get()).ok()?;
    [Reason::ApprovalPending, Reason::Untrusted]
        .into_iter()
        .find(|reason| reason.as_str() == told.reason)
        .map(|reason| Failure::new(reason, told.error))
}

/// The parameters of a query, under the names a tool has for them.
struct Renamed<'a> {
    query: Query,
    object: Map<String, Value>,
    errand: &'a Errand,
}

impl<'a> Renamed<'a> {
    fn of(errand: &'a Errand) -> Self {
        Self {
            query: Query::of(&errand.asked.head.uri),
            object: Map::new(),
            errand,
        }
    }

    fn text(mut self, name: &str, argument: &str) -> Result<Self, Failure> {
        if let Some(text) = self.query.text(name)? {
            self.object.insert(argument.to_owned(), text.into());
        }
        Ok(self)
    }

    fn required(mut self, name: &str, argument: &str) -> Result<Self, Failure> {
        let text = self.query.required(name)?;
        self.object.insert(argument.to_owned(), text.into());
        Ok(self)
    }

    fn number(mut self, name: &str, argument: &str) -> Result<Self, Failure> {
        if let Some(number) = self.query.number(name, 0, u64::MAX)? {
            self.object.insert(argument.to_owned(), number.into());
        }
        Ok(self)
    }

    fn flag(mut self, name: &str, argument: &str) -> Result<Self, Failure> {
        if self.query.text(name)?.is_some() {
            let flag = self.query.flag(name)?;
            self.object.insert(argument.to_owned(), flag.into());
        }
        Ok(self)
    }

    async fn call(self, tool: &str) -> Reply {
        call(self.errand, tool, Ok(Value::Object(self.object))).await
    }
}

/// Calls with what a query came to, or refuses it.
async fn asked(errand: &Errand, tool: &str, made: Result<Renamed<'_>, Failure>) -> Reply {
    match made {
        Ok(renamed) => renamed.call(tool).await,
        Err(why) => errand.refuse(why),
    }
}

pub(super) async fn tree(errand: &Errand) -> Reply {
    let made = Renamed::of(errand)
        .text("path", "dirPath")
        .and_then(|renamed| renamed.number("depth", "maxDepth"));
    asked(errand, "get_file_tree", made).await
}

pub(super) async fn search(errand: &Errand) -> Reply {
    let made = Renamed::of(errand)
        .required("query", "query")
        .and_then(|renamed| renamed.text("path", "dirPath"))
        .and_then(|renamed| renamed.text("glob", "filePattern"))
        .and_then(|renamed| renamed.flag("ignoreCase", "ignoreCase"))
        .and_then(|renamed| renamed.flag("literal", "literal"))
        .and_then(|renamed| renamed.number("maxResults", "maxResults"));
    asked(errand, "search_files", made).await
}

pub(super) async fn inspect_archive(errand: &Errand) -> Reply {
    let made = Renamed::of(errand).required("path", "archivePath");
    asked(errand, "inspect_archive", made).await
}

/// What `POST /file/edits` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EditsBody {
    /// The file, from the workspace's root.
    path: String,
    /// All of them are made, or none.
    edits: Vec<OneEdit>,
    /// `sha256:` and 64 hexadecimal digits: what the file hashes to now.
    expected_hash: Option<String>,
    /// The version a read or a change returned.
    expected_version: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"), deny_unknown_fields)]
struct OneEdit {
    /// The exact text to replace. It has to occur once, unless replaceAll is true.
    #[serde(rename(serialize = "oldString"))]
    old_text: String,
    /// The text to put in its place.
    #[serde(rename(serialize = "newString"))]
    new_text: String,
    /// Replace every occurrence. Default false.
    #[serde(default, rename(serialize = "replaceAll"))]
    replace_all: bool,
}

pub(super) async fn edits(errand: &mut Errand) -> Reply {
    let body: EditsBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let hash = match body.expected_hash.as_deref() {
        Some(text) => match super::files::hash(Some(text)) {
            Ok(hash) => Some(hash.hex()),
            Err(why) => return errand.refuse(why),
        },
        None => None,
    };
    let arguments = json!({
        "filePath": body.path,
        "edits": body.edits,
        "expectedHash": hash,
        "expectedVersion": body.expected_version,
    });
    call(errand, "edit_file", Ok(arguments)).await
}

/// What `POST /file/append` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AppendBody {
    /// The file, from the workspace's root. Made where there is none.
    path: String,
    /// What to add to its end, at most 5 MiB.
    content: String,
}

pub(super) async fn append(errand: &mut Errand) -> Reply {
    let body: AppendBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({"filePath": body.path, "content": body.content});
    call(errand, "append_file", Ok(arguments)).await
}

/// What `POST /file/delete` and `POST /directory` take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PathBody {
    /// From the workspace's root.
    path: String,
}

pub(super) async fn delete(errand: &mut Errand) -> Reply {
    let body: PathBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    call(errand, "delete", Ok(json!({"path": body.path}))).await
}

pub(super) async fn make_directory(errand: &mut Errand) -> Reply {
    let body: PathBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    call(
        errand,
        "create_directory",
        Ok(json!({"dirPath": body.path})),
    )
    .await
}

/// What `POST /file/move` and `POST /file/copy` take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FromToBody {
    /// What, from the workspace's root.
    from: String,
    /// Where to, from the workspace's root.
    to: String,
}

pub(super) async fn relocate(errand: &mut Errand, tool: &str) -> Reply {
    let body: FromToBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({"sourcePath": body.from, "destinationPath": body.to});
    call(errand, tool, Ok(arguments)).await
}

pub(super) async fn extract_archive(errand: &mut Errand) -> Reply {
    let body: FromToBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({"archivePath": body.from, "destinationPath": body.to});
    call(errand, "extract_archive", Ok(arguments)).await
}

pub(super) async fn create_archive(errand: &mut Errand) -> Reply {
    let body: FromToBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({"dirPath": body.from, "archivePath": body.to});
    call(errand, "create_archive", Ok(arguments)).await
}

/// What `POST /undo` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UndoBody {
    /// What a change, or `GET /undo`, named.
    id: String,
}

pub(super) fn undoable(errand: &Errand) -> Reply {
    match errand.machine.undoable(&errand.caller, errand.root()) {
        Ok(body) => reply::written(http::StatusCode::OK, body.into_string()),
        Err(why) => errand.failed(&why),
    }
}

pub(super) async fn undo(errand: &mut Errand) -> Reply {
    let body: UndoBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let undone = errand
        .machine
        .undo(&errand.caller, errand.root(), &body.id)
        .await;
    match undone {
        Ok(body) => reply::written(http::StatusCode::OK, body.into_string()),
        Err(why) => errand.failed(&why),
    }
}
