//! The routes that are ours: each asks one tool, under names that fit a query
//! or a body.

use http::StatusCode;
use portcullis_proto::{Failure, Reason, ToolCall, ToolReply};
use portcullis_tools::MachineAsk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};
use super::Errand;
use super::body;
use super::files::PathQuery;
use super::query::{Asks as _, EXACT, Flag, Number, query};

/// Calls a tool with what `arguments` came to, in the workspace of the path.
async fn call(errand: &Errand, tool: &str, arguments: Result<Value, Failure>) -> Reply {
    let mut arguments = match arguments {
        Ok(arguments) => arguments,
        Err(why) => return errand.refuse(why),
    };
    if let Some(object) = arguments.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    let mut call = ToolCall {
        name: tool.to_owned(),
        arguments,
    };
    let caller = match errand.caller().await {
        Ok(caller) => caller,
        Err(why) => return errand.refuse(why),
    };
    let machines = &errand.server.parts.machines;
    let scopes = errand.asked.identity.scopes;
    let recalled = machines.recall(&caller, scopes, &call).await;
    let reply = if let Some(reply) = recalled {
        reply
    } else {
        if let Some(reply) = errand.nowhere() {
            return reply;
        }
        // The route is there, whether its group is on or not; a tool would not be.
        if errand.is_off() {
            return errand.refuse(Reason::DeniedByMode.into());
        }
        let root = errand.root().filter(|_| !errand.machine.has_one_root());
        if let (Some(object), Some(root)) = (call.arguments.as_object_mut(), root) {
            object.insert("root".to_owned(), root.into());
        }
        errand.machine.call(&caller, call).await
    };
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
    // Nobody named a tool here: the machine has none for the route.
    if told.reason == Reason::UnknownTool.as_str() {
        return Some(
            Failure::new(Reason::NotOffered, "The machine has no tool for that.").hint(
                "GET /capabilities tells what there is; Portcullis-Machine names another machine.",
            ),
        );
    }
    [Reason::ApprovalPending, Reason::Untrusted]
        .into_iter()
        .find(|reason| reason.as_str() == told.reason)
        .map(|reason| Failure::new(reason, told.error))
}

query! {
    /// What `GET /tree` asks for.
    pub(super) struct TreeQuery {
        /// The directory, from the workspace's root. Default: the root itself.
        "path" path: Option<String>,
        /// How deep to go. Default: 2, at most 5.
        "depth" depth: Number<0, EXACT>,
    }
}

pub(super) async fn tree(errand: &Errand) -> Reply {
    let made = TreeQuery::read(&errand.asked.head.uri)
        .map(|query| json!({"dirPath": query.path, "maxDepth": query.depth.0}));
    call(errand, "get_file_tree", made).await
}

query! {
    /// What `GET /search` asks for.
    pub(super) struct SearchQuery {
        /// A regular expression, or with `literal` a text.
        "query" query: String,
        /// Below which directory, from the workspace's root. Default: the root itself.
        "path" path: Option<String>,
        /// Only in files of such names, as `*.rs`.
        "glob" glob: Option<String>,
        /// Whether upper and lower case are the same. Default: they are.
        "ignoreCase" ignore_case: Flag,
        /// Whether `query` is a text, and no regular expression.
        "literal" literal: Flag,
        /// How many lines at most. Default: 50, at most 100.
        "maxResults" max_results: Number<0, EXACT>,
    }
}

pub(super) async fn search(errand: &Errand) -> Reply {
    let made = SearchQuery::read(&errand.asked.head.uri).map(|query| {
        json!({
            "query": query.query,
            "dirPath": query.path,
            "filePattern": query.glob,
            "ignoreCase": query.ignore_case.0,
            "literal": query.literal.0,
            "maxResults": query.max_results.0,
        })
    });
    call(errand, "search_files", made).await
}

pub(super) async fn inspect_archive(errand: &Errand) -> Reply {
    let made = PathQuery::path(errand).map(|path| json!({"archivePath": path}));
    call(errand, "inspect_archive", made).await
}

/// What `POST /file/edits` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EditsBody {
    /// The file, from the workspace's root.
    path: String,
    /// All of them are made, or none.
    #[schemars(length(min = 1))]
    edits: Vec<OneEdit>,
    /// `sha256:` and 64 hexadecimal digits: what the file hashes to now.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    expected_hash: Option<String>,
    /// The version a read or a change returned.
    expected_version: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"), deny_unknown_fields)]
struct OneEdit {
    /// The exact text to replace. It has to occur once, unless replaceAll is true.
    #[schemars(length(min = 1))]
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

/// What `POST /file/move`, `POST /file/copy` and `POST /archive/create` take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OverwriteBody {
    /// What, from the workspace's root.
    from: String,
    /// Where to, from the workspace's root.
    to: String,
    /// Whether a file that is there is replaced. Default: true for a move and a
    /// copy, false for an archive.
    overwrite: Option<bool>,
}

pub(super) async fn relocate(errand: &mut Errand, tool: &str) -> Reply {
    let body: OverwriteBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({
        "sourcePath": body.from,
        "destinationPath": body.to,
        "overwrite": body.overwrite,
    });
    call(errand, tool, Ok(arguments)).await
}

pub(super) async fn create_archive(errand: &mut Errand) -> Reply {
    let body: OverwriteBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({
        "dirPath": body.from,
        "archivePath": body.to,
        "overwrite": body.overwrite,
    });
    call(errand, "create_archive", Ok(arguments)).await
}

/// What `POST /archive/extract` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExtractBody {
    /// The archive, from the workspace's root.
    from: String,
    /// The directory to make of it, from the workspace's root.
    to: String,
}

pub(super) async fn extract_archive(errand: &mut Errand) -> Reply {
    let body: ExtractBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let arguments = json!({"archivePath": body.from, "destinationPath": body.to});
    call(errand, "extract_archive", Ok(arguments)).await
}

/// What `POST /undo` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UndoBody {
    /// What a change, or `GET /undo`, named.
    id: String,
}

pub(super) async fn undoable(errand: &Errand) -> Reply {
    errand.done(MachineAsk::Undoable {}, StatusCode::OK).await
}

pub(super) async fn undo(errand: &mut Errand) -> Reply {
    let body: UndoBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let undo = MachineAsk::Undo { id: body.id };
    errand.done(undo, StatusCode::OK).await
}
