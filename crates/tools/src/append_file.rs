//! `append_file`: text added to the end of a file.

use portcullis_files::{Authority, WriteOptions};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::{Reply, expect, fits};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file, from the root. It is made where there is none.
    file_path: String,
    /// The text to add, at most 5 MiB. No line break is put before it.
    content: String,
    /// Only if the file is still this version, as a read or a change returned it.
    expected_version: Option<String>,
    /// Only if the file's content has this SHA-256, in hexadecimal.
    expected_hash: Option<String>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Append, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Append,
        arguments.root.as_deref(),
        &arguments.file_path,
    )?;
    let sent = arguments.content.len();
    fits(authority, caller, Verb::Append, &path, sent)?;
    let expect = expect(
        arguments.expected_version,
        arguments.expected_hash.as_deref(),
    )
    .map_err(|why| authority.gate().refuse(caller, Verb::Append, &path, why))?;
    let options = WriteOptions {
        expect,
        ..WriteOptions::default()
    };
    let changed = scope.append(&path, arguments.content, &options).await?;
    let reply = Reply::of_change(changed);
    let text = reply.text("appended to");
    Ok((reply, text))
}
