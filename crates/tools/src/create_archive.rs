//! `create_archive`: what is below a directory, packed into one file.

use portcullis_files::archive::PackAs;
use portcullis_files::{Authority, UndoPlace, WriteMode, WriteOptions};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::{afterwards, expect, labels};
use crate::shown::{Skipped, containment};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The directory to pack, from the root.
    dir_path: String,
    /// The archive to make, from the root. Directories above it are made.
    archive_path: String,
    /// zip or tar.gz. Default zip.
    #[serde(default)]
    format: Format,
    /// Whether a file that is there may be replaced. Default false.
    #[serde(default)]
    overwrite: bool,
    /// Also pack what ignore files and the default exclusions hide.
    #[serde(default)]
    include_ignored: bool,
    /// Only if what is replaced is still this version, as a read or a change returned it.
    expected_version: Option<String>,
    /// Only if the content of what is replaced has this SHA-256, in hexadecimal.
    expected_hash: Option<String>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
    /// Which root the archive belongs to. Default: the same.
    destination_root: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
pub(crate) enum Format {
    #[default]
    #[serde(rename = "zip")]
    Zip,
    #[serde(rename = "tar.gz")]
    TarGz,
}

/// What `create_archive` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ArchiveReply")]
pub struct Reply {
    /// The archive, from the root.
    path: String,
    /// How many files and directories are in it.
    entries: u64,
    /// Bytes of all files in it together.
    packed_bytes: u64,
    /// Bytes of the archive.
    bytes: u64,
    /// SHA-256 of the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Changes when the file does; pass it as expectedVersion to a later change.
    version: String,
    /// What was left out.
    skipped: Skipped,
    /// Links, devices and files that could not be read, left out too.
    special: u64,
    /// Whether everything that may be packed is in it.
    complete: bool,
    /// kernel_atomic or best_effort.
    containment: String,
    /// What else to know, such as not_kept or not_synced.
    labels: Vec<String>,
    /// What a person names to have it undone: portcullis undo apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    /// Where what it displaced is kept: data_directory, mount_top, in_root or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<&'static str>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let verb = Verb::Archive;
    let typed: Arguments = parse(authority, caller, verb, arguments)?;
    let expect = expect(typed.expected_version, typed.expected_hash.as_deref())
        .map_err(|why| authority.gate().refuse(caller, verb, &typed.dir_path, why))?;
    let root = typed.root.as_deref();
    let (from, directory) = scope(authority, caller, verb, root, &typed.dir_path)?;
    let root = typed.destination_root.as_deref().or(root);
    let (to, destination) = scope(authority, caller, verb, root, &typed.archive_path)?;
    let options = WriteOptions {
        mode: if typed.overwrite {
            WriteMode::Overwrite
        } else {
            WriteMode::Create
        },
        expect,
        ..WriteOptions::default()
    };
    let pack_as = match typed.format {
        Format::Zip => PackAs::Zip,
        Format::TarGz => PackAs::TarGz,
    };
    let done = from
        .create_archive(
            &directory,
            &to,
            &destination,
            pack_as,
            typed.include_ignored,
            &options,
        )
        .await?;
    let receipt = done.receipt;
    let reply = Reply {
        path: receipt.path.shown().to_owned(),
        entries: done.entries,
        packed_bytes: done.bytes,
        bytes: receipt.bytes.unwrap_or_default(),
        sha256: receipt.hash.map(|hash| hash.hex()),
        version: receipt.version,
        skipped: Skipped::from(done.counts),
        special: done.special,
        complete: done.complete,
        containment: containment(receipt.containment),
        labels: labels(&receipt.labels),
        kept_in: receipt.kept_in.map(UndoPlace::as_str),
        undo: receipt.undo,
    };
    let mut text = format!(
        "packed {directory} to {}: {} entries, {} bytes",
        reply.path, reply.entries, reply.bytes
    );
    if !reply.complete {
        text.push_str(" (something could not be read)");
    }
    text.push_str(&afterwards(&reply.labels, reply.undo.as_deref()));
    if let Some(left_out) = reply.skipped.sentence() {
        text.push('\n');
        text.push_str(&left_out);
    }
    Ok((reply, text))
}
