//! `stat`: what stands at a path.

use portcullis_files::Authority;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::shown::containment;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file or directory, from the root.
    path: String,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reply {
    /// Path from the root.
    path: String,
    /// file, directory, mount or special.
    r#type: String,
    /// Bytes.
    size_bytes: u64,
    /// Last change of content, in milliseconds since 1970.
    modified_ms: i64,
    /// Permission bits, octal.
    mode: String,
    /// How many names it has.
    links: u32,
    /// Changes when the file does.
    version: String,
    /// kernel_atomic or best_effort.
    containment: String,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Stat, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Stat,
        arguments.root.as_deref(),
        &arguments.path,
    )?;
    let seen = scope.stat(&path).await?;
    let reply = Reply {
        path: seen.path.shown().to_owned(),
        r#type: seen.meta.entity.as_str().to_owned(),
        size_bytes: seen.meta.size,
        modified_ms: seen.meta.modified_ms(),
        mode: format!("{:04o}", seen.meta.mode),
        links: seen.meta.links,
        version: seen.meta.version(),
        containment: containment(seen.containment),
    };
    let text = format!(
        "{}: {}, {} B, mode {}",
        reply.path, reply.r#type, reply.size_bytes, reply.mode
    );
    Ok((reply, text))
}
