//! `extract_archive`: an archive, unpacked into a new directory.

use portcullis_files::{Authority, UndoPlace};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::{afterwards, labels};
use crate::shown::containment;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The archive, from the root: zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst, whatever its name.
    archive_path: String,
    /// The directory to unpack it to, from the root. It is made, and those above it; one that is there is refused.
    destination_path: String,
    /// Which root; the workspace where none is named.
    root: Option<String>,
    /// Which root the directory belongs to. Default: the same.
    destination_root: Option<String>,
}

/// What `extract_archive` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExtractReply")]
pub struct Reply {
    /// The directory that was made, from the root.
    path: String,
    /// What kind of archive it was, by its content.
    format: &'static str,
    /// How many files and directories were in it.
    entries: u64,
    /// Bytes of all files together.
    bytes: u64,
    /// kernel_atomic or best_effort.
    containment: String,
    /// What else to know, such as not_kept or not_synced.
    labels: Vec<String>,
    /// What a person names to have it undone: portcullis undo apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    /// Where what undoing it takes is kept: data_directory, mount_top, in_root or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<&'static str>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let typed: Arguments = parse(authority, caller, Verb::Extract, arguments)?;
    let verb = Verb::Extract;
    let root = typed.root.as_deref();
    let (from, archive) = scope(authority, caller, verb, root, &typed.archive_path)?;
    let root = typed.destination_root.as_deref().or(root);
    let (to, destination) = scope(authority, caller, verb, root, &typed.destination_path)?;
    let done = from.extract_archive(&archive, &to, &destination).await?;
    let reply = Reply {
        path: done.receipt.path.shown().to_owned(),
        format: done.format.as_str(),
        entries: done.entries,
        bytes: done.bytes,
        containment: containment(done.receipt.containment),
        labels: labels(&done.receipt.labels),
        kept_in: done.receipt.kept_in.map(UndoPlace::as_str),
        undo: done.receipt.undo,
    };
    let text = format!(
        "unpacked {archive} to {}: {} entries, {} bytes{}",
        reply.path,
        reply.entries,
        reply.bytes,
        afterwards(&reply.labels, reply.undo.as_deref())
    );
    Ok((reply, text))
}
