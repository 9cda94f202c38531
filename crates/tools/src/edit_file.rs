//! `edit_file`: exact pieces of a file replaced, every other byte kept.

use portcullis_files::text::{Charset, Edit, EncodingChoice};
use portcullis_files::{Authority, WriteOptions};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Reason, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::{Reply, expect, fits};
use crate::limits::LIMITS;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file, from the root. It has to be there, and to have at most 5 MiB.
    file_path: String,
    /// The exact text to replace. It has to occur once, unless replaceAll is true.
    old_string: Option<String>,
    /// The text to put in its place, taken as it is.
    new_string: Option<String>,
    /// Replace every occurrence. Default false.
    replace_all: Option<bool>,
    /// Several edits instead of one: all of them are made, or none.
    #[serde(default)]
    edits: Vec<OneEdit>,
    /// Take the file's text to be in this encoding instead of finding out.
    encoding: Option<String>,
    /// Only if the file is still this version, as a read or a change returned it.
    expected_version: Option<String>,
    /// Only if the file's content has this SHA-256, in hexadecimal.
    expected_hash: Option<String>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneEdit {
    /// The exact text to replace. It has to occur once, unless replaceAll is true.
    old_string: String,
    /// The text to put in its place, taken as it is.
    new_string: String,
    /// Replace every occurrence. Default false.
    #[serde(default)]
    replace_all: bool,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Edit, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Edit,
        arguments.root.as_deref(),
        &arguments.file_path,
    )?;
    let refuse = |why| authority.gate().refuse(caller, Verb::Edit, &path, why);
    let (encoding, options) = how(&arguments).map_err(refuse)?;
    let edits = edits(arguments).map_err(refuse)?;
    let sent = edits
        .iter()
        .map(|edit| edit.old.len() + edit.new.len())
        .sum();
    fits(authority, caller, Verb::Edit, &path, sent)?;
    let changed = scope.edit(&path, edits, encoding, &options).await?;
    let reply = Reply::of_change(changed);
    let text = reply.text("edited");
    Ok((reply, text))
}

fn how(arguments: &Arguments) -> Result<(EncodingChoice, WriteOptions), Failure> {
    let encoding = match &arguments.encoding {
        None => EncodingChoice::Detect,
        Some(label) => EncodingChoice::Named(Charset::for_label(label)?),
    };
    let options = WriteOptions {
        expect: expect(
            arguments.expected_version.clone(),
            arguments.expected_hash.as_deref(),
        )?,
        max_bytes: LIMITS.write_bytes.max as u64,
        ..WriteOptions::default()
    };
    Ok((encoding, options))
}

/// One edit, or several; not both, and not none.
fn edits(arguments: Arguments) -> Result<Vec<Edit>, Failure> {
    let single = arguments.replace_all.is_some()
        || arguments.old_string.is_some()
        || arguments.new_string.is_some();
    if single && !arguments.edits.is_empty() {
        return Err(bad("Give oldString and newString, or edits, not both."));
    }
    if !arguments.edits.is_empty() {
        let edits = arguments.edits.into_iter();
        return Ok(edits
            .map(|edit| Edit {
                old: edit.old_string,
                new: edit.new_string,
                all: edit.replace_all,
            })
            .collect());
    }
    match (arguments.old_string, arguments.new_string) {
        (Some(old), Some(new)) => Ok(vec![Edit {
            old,
            new,
            all: arguments.replace_all.unwrap_or(false),
        }]),
        _ => Err(bad("An edit has an oldString and a newString.")),
    }
}

fn bad(what: &str) -> Failure {
    Failure::new(Reason::BadArguments, what.to_owned())
        .hint("Look at the tool's input schema, and call it again.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(arguments: Value, want: Option<usize>) {
        let arguments: Arguments = serde_json::from_value(arguments).unwrap();
        assert_eq!(edits(arguments).ok().map(|edits| edits.len()), want);
    }

    #[test]
    fn an_edit_is_one_or_several_and_never_both() {
        let one = json!({"oldString": "a", "newString": "b"});
        check(
            json!({"filePath": "f", "oldString": "a", "newString": "b"}),
            Some(1),
        );
        check(json!({"filePath": "f", "edits": [one, one]}), Some(2));
        check(
            json!({"filePath": "f", "oldString": "a", "newString": "b", "edits": [one]}),
            None,
        );
        check(
            json!({"filePath": "f", "replaceAll": true, "edits": [one]}),
            None,
        );
        check(json!({"filePath": "f", "oldString": "a"}), None);
        check(json!({"filePath": "f"}), None);
    }
}
