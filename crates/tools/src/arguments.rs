//! Arguments as agents send them: checked whole, before anything is done.

use portcullis_files::{Authority, ScopedFs};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Reason, RootId, Verb, misfit};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads `arguments` as `T`; what does not fit is named, and the call is in the
/// audit like any other, without what it said.
pub(crate) fn parse<T: DeserializeOwned>(
    authority: &Authority,
    caller: &Caller,
    verb: Verb,
    arguments: Value,
) -> Result<T, Failure> {
    let arguments = if arguments.is_null() {
        Value::Object(serde_json::Map::new())
    } else {
        arguments
    };
    serde_json::from_value(arguments).map_err(|error| {
        let why = Failure::new(
            Reason::BadArguments,
            format!("The arguments do not fit the tool: {}.", misfit(&error)),
        )
        .hint("Look at the tool's input schema, and call it again.");
        authority.gate().refuse(caller, verb, "", why)
    })
}

/// The scope and the path in it that `path` means.
pub(crate) fn scope(
    authority: &Authority,
    caller: &Caller,
    verb: Verb,
    root: Option<&str>,
    path: &str,
) -> Result<(ScopedFs, String), Failure> {
    let refuse = |failure: Failure| authority.gate().refuse(caller, verb, path, failure);
    let named = match root {
        None => None,
        Some(name) => Some(
            RootId::parse(name)
                .ok_or(Reason::UnknownRoot)
                .map_err(Failure::from)
                .map_err(refuse)?,
        ),
    };
    let located = authority.locate(named.as_ref(), path).map_err(refuse)?;
    let scope = authority
        .scope(caller, Some(&located.root))
        .map_err(refuse)?;
    Ok((scope, located.alleged))
}
