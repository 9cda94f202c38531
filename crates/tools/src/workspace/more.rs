//! Raw bytes, changes as they happen, and what can be undone.

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
    Ok(ResourceWatch {
        root: scope.declared().entry().id().clone(),
        watch: scope.watch(&path, WatchRequest::default()).await?,
    })
}

/// Whether the person behind `caller` did it: by hand, or through a token.
fn is_own(caller: &Caller, entry: &UndoEntry) -> bool {
    let (Principal::User { id: user } | Principal::Token { user, .. }) = &caller.subject.principal
    else {
        return entry.subject == caller.subject.principal.label();
    };
    entry.subject == format!("user:{user}")
        || entry
            .subject
            .strip_prefix("token:")
            .and_then(|token| token.split_once('/'))
            .is_some_and(|(of, _)| of == &**user)
}

fn own(scope: &ScopedFs, caller: &Caller) -> Result<Vec<UndoEntry>, Failure> {
    let here = scope.declared().root().identity();
    let mut entries = scope.undo_entries()?;
    entries.retain(|entry| entry.root_identity == here && is_own(caller, entry));
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

pub(crate) fn undoable(
    authority: &Authority,
    caller: &Caller,
    root: Option<&str>,
) -> Result<Json, Failure> {
    let (scope, _) = scope(authority, caller, Verb::Stat, root, ".")?;
    let entries = own(&scope, caller)?;
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
    if !own(&scope, caller)?.iter().any(|entry| entry.id == id) {
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
