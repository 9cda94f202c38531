//! `glob`: names below a directory that match a pattern.

use portcullis_files::Authority;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, ToolReply, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::get_file_tree::here;
use crate::list_files::{Type, all, find};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// A glob on the path below the directory: `*` stays inside one name, `**` crosses directories.
    pattern: String,
    /// Directory to look below, from the root. Default: the root itself.
    #[serde(default = "here")]
    dir_path: String,
    /// What to find: file, directory or all. Default all.
    #[serde(default = "all")]
    r#type: Type,
    /// How many entries to return. Default 200, at most 1,000.
    max_results: Option<usize>,
    /// Also find what ignore files and the default exclusions hide.
    #[serde(default)]
    include_ignored: bool,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<ToolReply, Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Glob, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Glob,
        arguments.root.as_deref(),
        &arguments.dir_path,
    )?;
    let pattern = Some(arguments.pattern);
    let reply = find(
        &scope,
        &path,
        pattern,
        arguments.r#type,
        arguments.max_results,
        arguments.include_ignored,
    )
    .await?;
    Ok(reply.written())
}
