//! `create_directory`: a directory, and those above it.

use portcullis_files::Authority;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::Reply;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The directory, from the root. Those above it are made; one that is there stays as it is.
    dir_path: String,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Mkdir, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Mkdir,
        arguments.root.as_deref(),
        &arguments.dir_path,
    )?;
    let reply = Reply::of(scope.mkdir(&path).await?);
    let text = reply.text(if reply.created() {
        "created the directory"
    } else {
        "already there:"
    });
    Ok((reply, text))
}
