//! Two paths: what `move` and `copy_file` have in common.

use portcullis_files::{Authority, ScopedFs};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// What to take, from the root.
    source_path: String,
    /// The new path, from the root, the new name included. Directories above it are made.
    destination_path: String,
    /// Whether a file that is there may be replaced. Default true.
    #[serde(default = "yes")]
    overwrite: bool,
    /// Which root; the workspace where none is named.
    root: Option<String>,
    /// Which root the new path belongs to. Default: the same.
    destination_root: Option<String>,
}

const fn yes() -> bool {
    true
}

/// From where to where.
pub(crate) struct Way {
    pub(crate) from: ScopedFs,
    pub(crate) source: String,
    pub(crate) to: ScopedFs,
    pub(crate) destination: String,
    pub(crate) overwrite: bool,
}

/// The way that `arguments` mean.
pub(crate) fn way(
    authority: &Authority,
    caller: &Caller,
    verb: Verb,
    arguments: Value,
) -> Result<Way, Failure> {
    let typed: Arguments = parse(authority, caller, verb, arguments)?;
    let root = typed.root.as_deref();
    let (from, source) = scope(authority, caller, verb, root, &typed.source_path)?;
    let root = typed.destination_root.as_deref().or(root);
    let (to, destination) = scope(authority, caller, verb, root, &typed.destination_path)?;
    Ok(Way {
        from,
        source,
        to,
        destination,
        overwrite: typed.overwrite,
    })
}
