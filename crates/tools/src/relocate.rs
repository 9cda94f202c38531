//! Two paths: what `move` and `copy_file` have in common.

use portcullis_files::{Authority, Expect, ScopedFs};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::expect;

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
    /// Only if what is taken is still this version, as a read or a change returned it.
    expected_version: Option<String>,
    /// Only if the content of what is taken has this SHA-256, in hexadecimal.
    expected_hash: Option<String>,
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
    /// What is expected to be taken: anything, where nothing is said of it.
    pub(crate) expect: Expect,
}

/// The way that `arguments` mean.
pub(crate) fn way(
    authority: &Authority,
    caller: &Caller,
    verb: Verb,
    arguments: Value,
) -> Result<Way, Failure> {
    let typed: Arguments = parse(authority, caller, verb, arguments)?;
    let refuse = |why| {
        authority
            .gate()
            .refuse(caller, verb, &typed.source_path, why)
    };
    let expect = match expect(typed.expected_version, typed.expected_hash.as_deref()) {
        Ok(Expect::LastSeen) => Expect::Anything,
        other => other.map_err(refuse)?,
    };
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
        expect,
    })
}
