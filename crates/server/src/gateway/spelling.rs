//! Arguments as another daemon's tools want them: what ours take for granted is
//! said, and what theirs would not hear is not left out in silence.

use portcullis_proto::{Failure, Reason, ToolSpec};
use serde_json::{Map, Value};

/// What the one root of a machine is called that says nothing of it.
pub(super) const ROOT: &str = "workspace";
/// The argument a root is named in.
const ROOT_ARGUMENT: &str = "root";
/// What a call promises by saying it: a tool that does not know the word would
/// do without the promise.
const PROMISES: [&str; 4] = ["expectedHash", "expectedVersion", "overwrite", "edits"];
/// What means more than itself in a regular expression.
const SIGNS: &str = "\\.+*?()|[]{}^$";

fn knows(tool: &ToolSpec, argument: &str) -> bool {
    let properties = tool.input_schema.get("properties");
    properties.is_some_and(|properties| properties.get(argument).is_some())
}

/// Takes the name out again that a machine's one root has only here.
pub(super) fn leave_root(tool: &ToolSpec, arguments: &mut Map<String, Value>) {
    let named = arguments.get(ROOT_ARGUMENT).and_then(Value::as_str);
    if named == Some(ROOT) && !knows(tool, ROOT_ARGUMENT) {
        arguments.remove(ROOT_ARGUMENT);
    }
}

/// Says what our own tools take for granted and another daemon's want said: the
/// root itself, and every file. What it cannot be told is refused.
pub(super) fn fill_in(tool: &ToolSpec, arguments: &mut Map<String, Value>) -> Result<(), Failure> {
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    let wants = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    if wants("dirPath") && !arguments.contains_key("dirPath") {
        arguments.insert("dirPath".to_owned(), ".".into());
    }
    if tool.name == "search_files" && wants("name") && !arguments.contains_key("name") {
        name_files(arguments)?;
    }
    let says_no = |name: &str| match (name, arguments.get(name)) {
        // It is what such a tool does anyway.
        ("overwrite", Some(Value::Bool(true))) | (_, None) => false,
        (_, Some(_)) => true,
    };
    let lost = PROMISES
        .into_iter()
        .find(|name| says_no(name) && !knows(tool, name));
    if let Some(name) = lost {
        return Err(not_offered(format!("its {} knows no {name}", tool.name)));
    }
    if !knows(tool, "overwrite") {
        arguments.remove("overwrite");
    }
    Ok(())
}

/// A search of ours for a daemon that wants files named, and looks for texts.
fn name_files(arguments: &mut Map<String, Value>) -> Result<(), Failure> {
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    };
    let pattern = match text(arguments.remove("filePattern")) {
        Some(pattern) if pattern.contains('/') => pattern,
        Some(pattern) => format!("**/{pattern}"),
        None => "**/*".to_owned(),
    };
    let dir = text(arguments.remove("dirPath")).unwrap_or_default();
    let dir = dir.trim_start_matches("./").trim_end_matches('/');
    let name = match dir {
        "" | "." => pattern,
        dir => format!("{dir}/{pattern}"),
    };
    arguments.insert("name".to_owned(), name.into());
    let is_literal = arguments.remove("literal") == Some(Value::Bool(true));
    let query = arguments.get("query").and_then(Value::as_str);
    if !is_literal && query.is_some_and(|query| query.contains(|sign| SIGNS.contains(sign))) {
        return Err(not_offered(
            "it looks for texts, and for no regular expressions: say literal".to_owned(),
        ));
    }
    Ok(())
}

fn not_offered(why: String) -> Failure {
    Failure::new(
        Reason::NotOffered,
        format!("The linked machine offers tools of its own: {why}."),
    )
}

/// A value that is an object, for arguments that have to be one.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_link::Tool;
    use serde_json::json;

    use super::super::surface::Offer;
    use super::*;

    #[track_caller]
    fn check(tool: &str, schema: Value, arguments: Value, want: Option<Value>) {
        let tool = Tool {
            name: tool.to_owned(),
            description: None,
            input_schema: schema,
            annotations: None,
        };
        let offer = Offer::of(&[tool], Vec::new()).unwrap();
        let mut filled = object(arguments.clone());
        let result = fill_in(&offer.tools[0], &mut filled);
        let got = result.is_ok().then_some(Value::Object(filled));
        assert_eq!(got, want, "{arguments}");
    }

    #[test]
    fn a_search_of_ours_is_one_of_theirs_or_none() {
        let schema = || {
            json!({"type": "object", "required": ["name"],
                "properties": {"name": {}, "query": {}, "ignoreCase": {}, "maxResults": {}}})
        };
        for (ours, theirs) in [
            (
                json!({"query": "x"}),
                Some(json!({"query": "x", "name": "**/*"})),
            ),
            (
                json!({"query": "x", "filePattern": "*.rs"}),
                Some(json!({"query": "x", "name": "**/*.rs"})),
            ),
            (
                json!({"query": "x", "dirPath": "./src/"}),
                Some(json!({"query": "x", "name": "src/**/*"})),
            ),
            (
                json!({"query": "a.b", "literal": true}),
                Some(json!({"query": "a.b", "name": "**/*"})),
            ),
            (json!({"query": "a.b"}), None),
            (
                json!({"query": "a.b", "name": "*"}),
                Some(json!({"query": "a.b", "name": "*"})),
            ),
        ] {
            check("search_files", schema(), ours, theirs);
        }
    }

    #[test]
    fn a_promise_is_kept_or_not_made() {
        let move_it = || json!({"type": "object", "properties": {"sourcePath": {}}});
        check(
            "move",
            move_it(),
            json!({"overwrite": true}),
            Some(json!({})),
        );
        check("move", move_it(), json!({"overwrite": false}), None);
        check("move", move_it(), json!({"expectedHash": "x"}), None);
        check("edit_file", move_it(), json!({"edits": []}), None);
        let knows = json!({"type": "object", "properties": {"overwrite": {}}});
        check(
            "move",
            knows,
            json!({"overwrite": false}),
            Some(json!({"overwrite": false})),
        );
    }
}
