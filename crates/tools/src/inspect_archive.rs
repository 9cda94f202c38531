//! `inspect_archive`: what is in an archive, without unpacking it.

use std::fmt::Write as _;

use portcullis_files::Authority;
use portcullis_files::archive::ItemKind;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::limits::LIMITS;
use crate::shown::containment;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The archive, from the root: zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst, whatever its name.
    archive_path: String,
    /// How many entries to return. Default 200, at most 1,000.
    max_results: Option<usize>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

/// What `inspect_archive` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InspectReply")]
pub struct Reply {
    /// The archive.
    path: String,
    /// zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst, by its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// What would be unpacked, in the archive's order.
    entries: Vec<Entry>,
    /// How many entries it has, refused ones included, as far as it was read.
    total_entries: u64,
    /// Bytes of all files together, as the archive claims.
    total_bytes: u64,
    /// Bytes of the archive itself.
    archive_bytes: u64,
    /// What unpacking refuses; with one of these, nothing is unpacked.
    refused: Vec<Refusal>,
    /// Whether there are more entries than were returned.
    truncated: bool,
    /// Whether all of the archive was read.
    complete: bool,
    /// Whether a limit asked for was over the maximum.
    clamped: bool,
    /// kernel_atomic or best_effort.
    containment: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ArchiveEntry")]
pub(crate) struct Entry {
    /// Path below the directory it is unpacked to.
    path: String,
    /// file or directory.
    r#type: &'static str,
    /// Bytes, as the archive claims.
    size_bytes: u64,
    /// Bytes it takes in the archive, where entries are packed one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    packed_bytes: Option<u64>,
    /// Whether it is a program.
    executable: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ArchiveRefusal")]
pub(crate) struct Refusal {
    /// The entry, its odd characters escaped; none where it is the archive itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// Why, as a word.
    why: &'static str,
    /// The reason unpacking gives.
    reason: &'static str,
    /// Why, as a sentence.
    message: &'static str,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Inspect, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Inspect,
        arguments.root.as_deref(),
        &arguments.archive_path,
    )?;
    let (max, clamped) = LIMITS.entries.of(arguments.max_results);
    let inspected = scope.inspect_archive(&path).await?;
    let manifest = inspected.manifest;
    let entries = manifest.items.iter().take(max).map(|item| Entry {
        path: item.path.as_str().to_owned(),
        r#type: match item.kind {
            ItemKind::File => "file",
            ItemKind::Directory => "directory",
        },
        size_bytes: item.size,
        packed_bytes: item.packed,
        executable: item.executable,
    });
    let reply = Reply {
        path: inspected.path.shown().to_owned(),
        format: manifest.format.map(|format| format.as_str().to_owned()),
        entries: entries.collect(),
        total_entries: manifest.entries,
        total_bytes: manifest.bytes,
        archive_bytes: inspected.meta.size,
        refused: manifest
            .refused
            .into_iter()
            .map(|refused| Refusal {
                entry: refused.entry,
                why: refused.why.as_str(),
                reason: refused.why.reason().as_str(),
                message: refused.why.sentence(),
            })
            .collect(),
        truncated: manifest.items.len() > max,
        complete: manifest.complete,
        clamped,
        containment: containment(inspected.containment),
    };
    let text = text(&reply);
    Ok((reply, text))
}

fn text(reply: &Reply) -> String {
    let format = reply.format.as_deref().unwrap_or("no known archive");
    let mut text = format!(
        "{}: {format}, {} entries, {} bytes unpacked",
        reply.path, reply.total_entries, reply.total_bytes
    );
    for refused in &reply.refused {
        let entry = refused.entry.as_deref().unwrap_or("the archive");
        let _ = write!(text, "\nrefused: {entry}: {}", refused.message);
    }
    for entry in &reply.entries {
        let end = if entry.r#type == "directory" { "/" } else { "" };
        let _ = write!(text, "\n{}{end} {}", entry.path, entry.size_bytes);
    }
    if reply.truncated {
        text.push_str("\n(there are more entries)");
    }
    text
}
