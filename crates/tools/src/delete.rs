//! `delete`: a file, or a directory and all below it.

use std::fmt::Write as _;

use portcullis_files::{Authority, UndoPlace};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, RelPath, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::{ShownDiff, afterwards, expect, labels};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file or directory, from the root. A directory goes with all that is below it.
    path: String,
    /// Only if it is still this version, as a read or a change returned it. Default: the version this session last saw.
    expected_version: Option<String>,
    /// Only if the file's content has this SHA-256, in hexadecimal.
    expected_hash: Option<String>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

/// What `delete` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeleteReply")]
pub struct Reply {
    /// Path from the root of what is gone.
    path: String,
    /// How many entries are gone, the one named included.
    entries: u64,
    /// What else to know, such as not_kept.
    labels: Vec<String>,
    /// What a person names to have it back: portcullis undo apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    /// Where it is kept: data_directory, mount_top, in_root or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<&'static str>,
    /// What was in it, where it was a file and there is something to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<ShownDiff>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Remove, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Remove,
        arguments.root.as_deref(),
        &arguments.path,
    )?;
    let expect = expect(
        arguments.expected_version,
        arguments.expected_hash.as_deref(),
    )
    .map_err(|why| authority.gate().refuse(caller, Verb::Remove, &path, why))?;
    let removed = scope.remove(&path, &expect).await?;
    let reply = Reply {
        path: RelPath::parse(&path)?.shown().to_owned(),
        entries: removed.entries,
        labels: labels(&removed.labels),
        undo: removed.undo,
        kept_in: removed.kept_in.map(UndoPlace::as_str),
        diff: removed.diff.map(ShownDiff::from),
    };
    let mut text = format!("deleted {}", reply.path);
    if reply.entries > 1 {
        let _ = write!(text, " and {} below it", reply.entries - 1);
    }
    text.push_str(&afterwards(&reply.labels, reply.undo.as_deref()));
    if let Some(diff) = &reply.diff {
        diff.tell(&mut text);
    }
    Ok((reply, text))
}
