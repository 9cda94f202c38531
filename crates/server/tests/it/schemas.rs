//! Every reply of every tool fits the schema the tool is listed with: clients that
//! check turn a reply that does not fit into an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;

use jsonschema::Validator;
use portcullis_proto::{Mode, ToolSpec};
use serde_json::{Value, json};

use crate::client::World;

/// What holds the replies of each tool to its output schema.
static SCHEMAS: Mutex<BTreeMap<String, Validator>> = Mutex::new(BTreeMap::new());

/// Remembers what the tools of a world are listed with.
pub(crate) fn remember(tools: &[ToolSpec]) {
    let mut schemas = SCHEMAS.lock().unwrap();
    for tool in tools {
        let schema = tool.output_schema.as_ref().unwrap();
        let validator = jsonschema::validator_for(schema).unwrap();
        schemas.insert(tool.name.clone().into_owned(), validator);
    }
}

/// Holds the result of a call to its tool's schema, as any client here does.
#[track_caller]
pub(crate) fn hold(tool: &str, result: &Value) {
    let Some(structured) = result.get("structuredContent") else {
        return;
    };
    let schemas = SCHEMAS.lock().unwrap();
    let Some(validator) = schemas.get(tool) else {
        return;
    };
    let errors: Vec<String> = validator
        .iter_errors(structured)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    drop(schemas);
    assert!(errors.is_empty(), "{tool}: {errors:#?}\n{structured}");
}

#[tokio::test]
async fn every_reply_of_every_tool_fits_its_schema() {
    let world = World::writing(Mode::Allow);
    fs::create_dir(world.path("empty")).unwrap();
    fs::write(world.path("empty.txt"), "").unwrap();
    fs::write(world.path("lines.txt"), "one\ntwo\nthree\n".repeat(3)).unwrap();
    fs::write(world.path("long.txt"), "needle ".repeat(10_000)).unwrap();
    fs::write(world.path("damaged.zip"), "PK no archive").unwrap();
    let mut client = world.connect().handshake(json!({})).await;
    let mut succeeded = BTreeSet::new();
    let mut failed = BTreeSet::new();
    // In this order: a later one works on what an earlier one made.
    let calls = [
        ("get_file_tree", json!({})),
        ("get_file_tree", json!({"dirPath": "empty"})),
        ("get_file_tree", json!({"dirPath": "nowhere"})),
        ("list_files", json!({})),
        ("list_files", json!({"dirPath": "empty"})),
        ("list_files", json!({"dirPath": "lines.txt"})),
        ("read_file", json!({"filePath": "lines.txt"})),
        (
            "read_file",
            json!({"filePath": "lines.txt", "startLine": 2, "maxLines": 1}),
        ),
        ("read_file", json!({"filePath": "long.txt"})),
        ("read_file", json!({"filePath": "empty.txt"})),
        ("read_file", json!({"filePath": "raw.bin"})),
        ("read_file", json!({"filePath": "../out"})),
        ("stat", json!({"path": "lines.txt"})),
        ("stat", json!({"path": "empty"})),
        ("stat", json!({"path": "nowhere"})),
        ("glob", json!({"pattern": "**/*.txt"})),
        ("glob", json!({"pattern": "**/*.none"})),
        ("glob", json!({"pattern": "[", "dirPath": "nowhere"})),
        ("search_files", json!({"query": "two"})),
        ("search_files", json!({"query": "two", "contextLines": 1})),
        ("search_files", json!({"query": "two", "maxResults": 1})),
        ("search_files", json!({"query": "needle"})),
        ("search_files", json!({"query": "nothing like it"})),
        ("search_files", json!({"query": "("})),
        ("grep", json!({"pattern": "two"})),
        (
            "grep",
            json!({"pattern": "t", "contextLines": 2, "maxCount": 1}),
        ),
        ("grep", json!({"pattern": "needle", "path": "long.txt"})),
        ("grep", json!({"pattern": "nothing like it"})),
        ("grep", json!({"pattern": "("})),
        (
            "write_file",
            json!({"filePath": "made.txt", "content": "a\nb\n"}),
        ),
        (
            "write_file",
            json!({"filePath": "made.txt", "content": "a\nc\n"}),
        ),
        (
            "write_file",
            json!({"filePath": "made.txt", "content": "a\nc\n"}),
        ),
        ("write_file", json!({"filePath": "none.txt", "content": ""})),
        ("write_file", json!({"filePath": "empty", "content": ""})),
        (
            "edit_file",
            json!({"filePath": "made.txt", "oldString": "c", "newString": "d"}),
        ),
        (
            "edit_file",
            json!({"filePath": "made.txt", "edits": [{"oldString": "d", "newString": "d"}]}),
        ),
        (
            "edit_file",
            json!({"filePath": "made.txt", "oldString": "nope", "newString": "d"}),
        ),
        (
            "append_file",
            json!({"filePath": "made.txt", "content": "e\n"}),
        ),
        (
            "append_file",
            json!({"filePath": "made.txt", "content": ""}),
        ),
        ("append_file", json!({"filePath": "empty", "content": "e"})),
        ("create_directory", json!({"dirPath": "dir/below"})),
        ("create_directory", json!({"dirPath": "dir/below"})),
        ("create_directory", json!({"dirPath": "made.txt"})),
        (
            "copy_file",
            json!({"sourcePath": "made.txt", "destinationPath": "dir/copy.txt"}),
        ),
        (
            "copy_file",
            json!({"sourcePath": "empty.txt", "destinationPath": "dir/empty.txt"}),
        ),
        (
            "copy_file",
            json!({"sourcePath": "nowhere", "destinationPath": "dir/x"}),
        ),
        (
            "move",
            json!({"sourcePath": "dir/copy.txt", "destinationPath": "dir/moved.txt"}),
        ),
        (
            "move",
            json!({"sourcePath": "empty", "destinationPath": "dir/empty"}),
        ),
        (
            "move",
            json!({"sourcePath": "nowhere", "destinationPath": "dir/x"}),
        ),
        (
            "create_archive",
            json!({"dirPath": "dir", "archivePath": "made.zip"}),
        ),
        (
            "create_archive",
            json!({"dirPath": "dir/below", "archivePath": "empty.zip"}),
        ),
        (
            "create_archive",
            json!({"dirPath": "nowhere", "archivePath": "x.zip"}),
        ),
        ("inspect_archive", json!({"archivePath": "made.zip"})),
        (
            "inspect_archive",
            json!({"archivePath": "made.zip", "maxResults": 1}),
        ),
        ("inspect_archive", json!({"archivePath": "empty.zip"})),
        ("inspect_archive", json!({"archivePath": "damaged.zip"})),
        ("inspect_archive", json!({"archivePath": "nowhere.zip"})),
        (
            "extract_archive",
            json!({"archivePath": "made.zip", "destinationPath": "out"}),
        ),
        (
            "extract_archive",
            json!({"archivePath": "empty.zip", "destinationPath": "out2"}),
        ),
        (
            "extract_archive",
            json!({"archivePath": "damaged.zip", "destinationPath": "out3"}),
        ),
        ("delete", json!({"path": "made.txt"})),
        ("delete", json!({"path": "dir"})),
        ("delete", json!({"path": "../out"})),
    ];
    for (tool, arguments) in calls {
        let reply = client.call(tool, arguments.clone()).await;
        let structured = reply.get("structuredContent");
        assert!(structured.is_some(), "{tool} {arguments}: {reply}");
        let which = if reply["isError"] == true {
            &mut failed
        } else {
            &mut succeeded
        };
        which.insert(tool.to_owned());
        // What a tool does not know it is called with is a failure of its own.
        let reply = client.call(tool, json!({"unknown": true})).await;
        assert_eq!(reply["isError"], true, "{reply}");
    }
    let all: BTreeSet<String> = SCHEMAS.lock().unwrap().keys().cloned().collect();
    assert_eq!(all.len(), 17);
    assert_eq!((&succeeded, &failed), (&all, &all));
}

#[tokio::test]
async fn a_hit_has_what_it_had_before_and_leaves_out_what_is_not_there() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    let reply = client
        .call("search_files", json!({"query": "fn main"}))
        .await;
    let hit = &reply["structuredContent"]["matches"][0];
    assert_eq!(
        *hit,
        json!({"path": "src/main.rs", "lineNumber": 1, "column": 1, "line": "fn main() {}"})
    );
}
