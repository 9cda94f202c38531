//! Calls as n8n's own tools spell them, where ours are spelled otherwise.
//!
//! Its `search_files` finds files by a glob on their path from the directory,
//! and in them a text, letter for letter.

use portcullis_proto::ToolCall;
use serde_json::{Map, Value, json};

/// How many names theirs finds where nobody says.
const FOUND: u64 = 50;

/// What is meant by a call, said to our tools.
pub(crate) fn meant(call: ToolCall) -> ToolCall {
    let ToolCall { name, arguments } = call;
    match (name.as_str(), arguments) {
        ("search_files", Value::Object(arguments)) if is_theirs(&arguments) => search(arguments),
        (_, arguments) => ToolCall { name, arguments },
    }
}

/// Whether a search is spelled as theirs is: by `name`, and by nothing that only
/// ours knows.
fn is_theirs(arguments: &Map<String, Value>) -> bool {
    let theirs = ["name", "query", "ignoreCase", "maxResults"];
    arguments.get("name").is_some_and(Value::is_string)
        && arguments.keys().all(|key| theirs.contains(&key.as_str()))
}

fn search(mut arguments: Map<String, Value>) -> ToolCall {
    let pattern = arguments.remove("name").unwrap_or_default();
    let has_query = arguments
        .get("query")
        .is_some_and(|query| query.as_str() != Some("") && !query.is_null());
    if !has_query {
        let most = arguments.remove("maxResults").unwrap_or(FOUND.into());
        return ToolCall {
            name: "glob".into(),
            arguments: json!({"pattern": pattern, "type": "file", "maxResults": most}),
        };
    }
    // A name alone would be looked for at every depth; theirs is a path.
    let files = format!("./{}", pattern.as_str().unwrap_or_default());
    arguments.insert("filePattern".into(), files.into());
    arguments.insert("literal".into(), true.into());
    arguments.entry("ignoreCase").or_insert(false.into());
    ToolCall {
        name: "search_files".into(),
        arguments: arguments.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: Value, name: &str, want: Value) {
        let call = ToolCall {
            name: "search_files".into(),
            arguments: said,
        };
        let meant = meant(call);
        assert_eq!((meant.name.as_str(), meant.arguments), (name, want));
    }

    #[test]
    fn a_search_by_name_is_a_glob_and_with_a_text_it_is_literal() {
        check(
            json!({"name": "**/*.ts"}),
            "glob",
            json!({"pattern": "**/*.ts", "type": "file", "maxResults": 50}),
        );
        check(
            json!({"name": "*.ts", "query": "", "maxResults": 3, "ignoreCase": true}),
            "glob",
            json!({"pattern": "*.ts", "type": "file", "maxResults": 3}),
        );
        check(
            json!({"name": "*.ts", "query": "a.b"}),
            "search_files",
            json!({"filePattern": "./*.ts", "query": "a.b", "literal": true, "ignoreCase": false}),
        );
    }

    #[test]
    fn what_is_spelled_as_ours_stays_as_it_is() {
        for ours in [
            json!({"query": "a.b"}),
            json!({"query": "a", "name": "*.ts", "dirPath": "src"}),
            json!({"query": "a", "name": 7}),
            json!({}),
            json!(null),
        ] {
            check(ours.clone(), "search_files", ours);
        }
    }
}
