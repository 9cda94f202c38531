//! The seed's dialect, as a daemon speaks it: it uploads the tree of what it
//! lends, and is asked for what is in files. Four operations, each of them one
//! of our tools that look; there is none that changes anything.

use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use portcullis_link::{Confirmation, Far, Operation, SeedInit, TreeEntry, bounds};
use portcullis_proto::ToolReply;
use portcullis_tools::Machine;
use serde_json::{Map, Value, json};

use crate::surface::{Errands, Surface};

/// How long a person has to answer whether the tree may be uploaded.
pub(crate) const QUESTION: Duration = bounds::SEED_DEADLINE.saturating_sub(bounds::QUESTION_MARGIN);
/// What the tool is called whose group is all this dialect has.
pub(crate) const READS: &str = "read_file";

/// What stays free of an init's limit, for what is around the tree.
const MARGIN: usize = 64 * 1024;
/// What an entry takes besides its path, at most.
const AROUND: usize = 64;
/// How much of an operation's name is recorded.
const MAX_NAME: usize = 64;

/// The operations: the tool behind each, and the arguments it takes.
const OPERATIONS: [(&str, &str, &[&str]); 4] = [
    ("read-file", READS, &["filePath", "startLine", "maxLines"]),
    (
        "search-files",
        "search_files",
        &[
            "dirPath",
            "query",
            "filePattern",
            "ignoreCase",
            "maxResults",
        ],
    ),
    (
        "list-files",
        "list_files",
        &["dirPath", "pattern", "type", "recursive", "maxResults"],
    ),
    (
        "get-file-tree",
        "get_file_tree",
        &["dirPath", "maxDepth", "exclude"],
    ),
];

/// The call behind an operation. What is none of the four is named as no tool
/// can be, so that it is refused and recorded like any tool that is not lent.
pub(crate) fn far(asked: Operation) -> Far {
    let Operation { operation, args } = asked;
    let known = OPERATIONS.iter().find(|(name, ..)| *name == operation);
    let Some((_, tool, takes)) = known else {
        let name: String = operation.chars().take(MAX_NAME).collect();
        return Far {
            name: format!("operation {name}"),
            arguments: args,
        };
    };
    let arguments = match args {
        Value::Object(given) => {
            let is_taken = |name: &str| takes.contains(&name) || name == Confirmation::ARGUMENT;
            let kept = given.into_iter().filter(|(name, _)| is_taken(name));
            Value::Object(kept.collect())
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => other,
    };
    Far {
        name: (*tool).to_owned(),
        arguments,
    }
}

/// The body of a reply, in the shapes of the seed's service interface.
pub(crate) fn body(far: &Far, reply: &ToolReply) -> Bytes {
    if reply.is_error {
        return Bytes::from(format!(r#"{{"error":{}}}"#, reply.text.get()));
    }
    let structured: Map<String, Value> =
        serde_json::from_str(reply.structured.get()).unwrap_or_default();
    let of = |name: &str| structured.get(name).cloned().unwrap_or(Value::Null);
    let data = match far.name.as_str() {
        READS => json!({
            "path": of("path"), "content": of("content"),
            "truncated": of("hasMore"), "totalLines": lines(&structured),
        }),
        "search_files" => json!({
            "query": far.arguments.get("query"),
            "matches": each(&structured, "matches", &["path", "lineNumber", "line"]),
            "truncated": of("truncated"), "totalMatches": of("totalMatches"),
        }),
        "list_files" => {
            let listed = each(&structured, "entries", &["path", "type", "sizeBytes"]);
            let is_either = |entry: &Value| {
                entry["path"].is_string()
                    && (entry["type"] == "file" || entry["type"] == "directory")
            };
            Value::Array(listed.into_iter().filter(is_either).collect())
        }
        _ => of("tree"),
    };
    Bytes::from(json!({ "data": data }).to_string())
}

/// How many lines a file has; where it was not counted, as many as are known of.
fn lines(read: &Map<String, Value>) -> Value {
    let number = |name: &str| read.get(name).and_then(Value::as_u64);
    let known = || {
        let before = number("startLine").unwrap_or(1).saturating_sub(1);
        before + number("lineCount").unwrap_or(0)
    };
    number("totalLines").unwrap_or_else(known).into()
}

/// The entries of a list, each with these members alone.
fn each(structured: &Map<String, Value>, name: &str, members: &[&str]) -> Vec<Value> {
    let list = structured.get(name).and_then(Value::as_array);
    let kept = |entry: &Value| {
        let member = |name: &&str| Some(((*name).to_owned(), entry.get(*name)?.clone()));
        Value::Object(members.iter().filter_map(member).collect())
    };
    list.into_iter().flatten().map(kept).collect()
}

/// What is said first: the directory and what is in it, as the gate shows it.
/// Where that is refused the tree is empty, and each file is still judged when
/// it is asked for.
pub(crate) async fn init(machine: &dyn Machine, errands: &Errands, surface: &Surface) -> Bytes {
    let caller = errands.caller(None, None, QUESTION).called("init".into());
    let scanned = machine.scan(&caller).await.unwrap_or_default();
    let mut room = bounds::MAX_INIT - MARGIN;
    let mut is_room = |bytes: usize| {
        let fits = bytes <= room;
        room -= if fits { bytes } else { room };
        fits
    };
    // Its lines and its quotes are escaped, which doubles them at worst.
    let text = scanned.text;
    let text = is_room(2 * text.len()).then_some(text);
    let entries = scanned.entries.into_iter().take(bounds::MAX_TREE);
    let tree = entries
        .take_while(|entry| is_room(2 * entry.path.len() + AROUND))
        .map(|entry| TreeEntry {
            kind: if entry.directory { "directory" } else { "file" }.to_owned(),
            path: entry.path,
            size_bytes: entry.size,
        });
    let init = SeedInit {
        root_path: surface.root_path.clone(),
        tree: tree.collect(),
        tree_text: Some(text.unwrap_or_default()),
    };
    serde_json::to_vec(&init).unwrap_or_default().into()
}

/// What the stream of events is opened at, by a server that looks for the key in
/// the query and nowhere else.
pub(crate) fn with_key(path: &str, key: &[u8]) -> String {
    /// What stands for itself in a query.
    const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~');
    format!("{path}?apiKey={}", percent_encode(key, PLAIN))
}

#[cfg(test)]
mod tests {
    use portcullis_proto::{Json, Reason};

    use super::*;

    fn asked(operation: &str, args: Value) -> Far {
        far(Operation {
            operation: operation.to_owned(),
            args,
        })
    }

    #[test]
    fn an_operation_is_one_of_four_and_takes_its_own_arguments() {
        let read = asked(
            "read-file",
            json!({"filePath": "a", "byteOffset": 1, "root": "x"}),
        );
        assert_eq!(
            (read.name.as_str(), read.arguments),
            ("read_file", json!({"filePath": "a"}))
        );
        for other in ["write-file", "write_file", "read_file", "", "delete"] {
            let far = asked(other, json!({"filePath": "a"}));
            assert_eq!(far.name, format!("operation {other}"));
        }
        assert_eq!(asked("list-files", json!([1])).arguments, json!([1]));
    }

    #[test]
    fn replies_have_the_shapes_of_the_seeds_interface() {
        let check = |far: &Far, structured: Value, want: Value| {
            let reply = ToolReply {
                structured: Json::of(&structured).unwrap(),
                text: Json::of("x").unwrap(),
                is_error: false,
                attached: Vec::new(),
            };
            let body: Value = serde_json::from_slice(&body(far, &reply)).unwrap();
            assert_eq!(body, json!({ "data": want }));
        };
        let read = json!({"path": "a", "content": "x\n", "startLine": 3, "lineCount": 1,
            "hasMore": true, "version": "v"});
        check(
            &asked("read-file", json!({"filePath": "a"})),
            read,
            json!({"path": "a", "content": "x\n", "truncated": true, "totalLines": 3}),
        );
        let found = json!({"matches": [{"path": "a", "lineNumber": 2, "line": "x", "column": 1}],
            "truncated": false, "totalMatches": 1, "complete": true});
        check(
            &asked("search-files", json!({"query": "x"})),
            found,
            json!({"query": "x", "matches": [{"path": "a", "lineNumber": 2, "line": "x"}],
                "truncated": false, "totalMatches": 1}),
        );
        let listed = json!({"entries": [
            {"name": "a", "path": "d/a", "type": "file", "sizeBytes": 1, "modifiedMs": 5},
            {"name": "l", "path": "d/l", "type": "symlink"},
        ]});
        check(
            &asked("list-files", json!({})),
            listed,
            json!([{"path": "d/a", "type": "file", "sizeBytes": 1}]),
        );
        check(
            &asked("get-file-tree", json!({})),
            json!({"tree": "./\n  a"}),
            json!("./\n  a"),
        );
        let failed = ToolReply::failed(&Reason::NotFound.into());
        let body: Value =
            serde_json::from_slice(&body(&asked("read-file", json!({})), &failed)).unwrap();
        assert!(body["error"].is_string() && body.get("data").is_none());
    }

    #[test]
    fn a_key_stands_in_a_query_as_one_value() {
        assert_eq!(with_key("/e", b"a-B_9.~"), "/e?apiKey=a-B_9.~");
        assert_eq!(with_key("/e", b"a&b=/%"), "/e?apiKey=a%26b%3D%2F%25");
    }
}
