//! Raw bytes, changes as they happen, and what can be undone.

use std::sync::Arc;

use portcullis_files::{Authority, ByteWindow, ScopedFs, UndoEntry, WatchRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Json, Principal, Reason, RelPath, Verb};
use serde_json::{Value, json};

use crate::arguments::scope;
use crate::machine::ResourceWatch;

/// Some bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawBytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many the file has.
    pub size: u64,
    /// Changes when the file does.
    pub version: String,
    /// Whether its times are too fresh to tell the next change from the last,
    /// so that its content is part of the version. In a moment it is not.
    pub is_fresh: bool,
}

/// How many operations are told at once, the newest first.
const MAX_UNDO: usize = 1_000;

pub(crate) async fn raw(
    authority: &Authority,
    caller: &Caller,
    root: Option<&str>,
    path: &str,
    window: ByteWindow,
) -> Result<RawBytes, Failure> {
    let (scope, path) = scope(authority, caller, Verb::Read, root, path)?;
    let page = scope.read_bytes(&path, window).await?;
    Ok(RawBytes {
        size: page.meta.size,
        version: page.meta.version(),
        is_fresh: page.meta.content.is_some(),
        bytes: page.bytes,
    })
}

pub(crate) async fn watch(
    authority: &Authority,
    caller: &Caller,
    root: Option<&str>,
    path: &str,
) -> Result<ResourceWatch, Failure> {
    let (scope, path) = scope(authority, caller, Verb::Watch, root, path)?;
    let watch = scope.watch(&path, WatchRequest::default()).await?;
    let root = scope.declared().entry().id().clone();
    let gate = Arc::clone(authority.gate());
    Ok(ResourceWatch::new(watch, root, gate, caller))
}

/// Whether the person behind `caller` did it: by hand, through a token or
/// through an extension. An extension itself has only what it did.
fn is_own(caller: &Caller, entry: &UndoEntry) -> bool {
    let (Principal::User { id: user } | Principal::Token { user, .. }) = &caller.subject.principal
    else {
        return entry.subject == caller.subject.label();
    };
    let acting = ["token:", "extension:"]
        .into_iter()
        .find_map(|kind| entry.subject.strip_prefix(kind))
        .and_then(|acting| acting.split_once('/'));
    entry.subject == format!("user:{user}") || acting.is_some_and(|(of, _)| of == &**user)
}

fn is_own_here(scope: &ScopedFs, caller: &Caller, entry: &UndoEntry) -> bool {
    entry.root_identity == scope.declared().root().identity() && is_own(caller, entry)
}

async fn own(scope: &ScopedFs, caller: &Caller) -> Result<Vec<UndoEntry>, Failure> {
    let mut entries = scope.list_undo().await?;
    entries.retain(|entry| is_own_here(scope, caller, entry));
    entries.reverse();
    Ok(entries)
}

fn told(entry: &UndoEntry) -> Value {
    json!({
        "id": entry.id,
        "at": entry.at,
        "operation": entry.verb.as_str(),
        "path": entry.path.shown(),
        "to": entry.to.as_ref().map(RelPath::shown),
        "by": entry.subject,
        "run": entry.run,
    })
}

pub(crate) async fn undoable(
    authority: &Authority,
    caller: &Caller,
    root: Option<&str>,
) -> Result<Json, Failure> {
    let (scope, _) = scope(authority, caller, Verb::Stat, root, ".")?;
    // Who may not look at the root is not told what was done there either.
    scope.stat(".").await?;
    let entries = own(&scope, caller).await?;
    let shown: Vec<Value> = entries.iter().take(MAX_UNDO).map(told).collect();
    let more = entries.len().saturating_sub(MAX_UNDO);
    written(&json!({"operations": shown, "more": more}))
}

pub(crate) async fn undo(
    authority: &Authority,
    caller: &Caller,
    root: Option<&str>,
    id: &str,
) -> Result<Json, Failure> {
    let (scope, _) = scope(authority, caller, Verb::Undo, root, ".")?;
    let entry = scope.undo_entry(id).await?;
    let is_own = entry.is_some_and(|entry| is_own_here(&scope, caller, &entry));
    if !is_own {
        let why = Failure::new(Reason::NotFound, "No such operation of yours is kept.")
            .hint("GET /undo tells those that are.");
        return Err(authority.gate().refuse(caller, Verb::Undo, id, why));
    }
    let undone = scope.undo_one(id).await?;
    let mut told = told(&undone.entry);
    if let Some(object) = told.as_object_mut() {
        object.insert("redo".to_owned(), undone.redo.into());
    }
    written(&told)
}

fn written(value: &Value) -> Result<Json, Failure> {
    Json::of(value).map_err(|error| Failure::from(Reason::Bug).detail(error))
}
