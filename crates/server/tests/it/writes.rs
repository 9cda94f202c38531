//! Tools that change files, over a pipe: what they reply, what they refuse, and
//! when there are any.

use std::fs;

use portcullis_proto::Mode;
use serde_json::{Value, json};

use crate::client::{Client, World};

/// How many tools look, and stand before those that change.
const LOOKING: usize = 6;
const CHANGING: [&str; 9] = [
    "write_file",
    "edit_file",
    "append_file",
    "create_directory",
    "delete",
    "move",
    "copy_file",
    "extract_archive",
    "create_archive",
];

async fn tools(client: &mut Client) -> Vec<Value> {
    let listed = client.request("tools/list", json!({})).await;
    listed["result"]["tools"].as_array().unwrap().clone()
}

/// Calls a tool; the reply must not name a place on the host.
async fn call(world: &World, client: &mut Client, tool: &str, arguments: Value) -> Value {
    let reply = client.call(tool, arguments).await;
    let host = world.dir.to_str().unwrap();
    assert!(!reply.to_string().contains(host), "{reply}");
    reply
}

#[track_caller]
fn is_receipt(reply: &Value, path: &str, diff: Option<(u64, u64)>) {
    assert_ne!(reply["isError"], true, "{reply}");
    let receipt = &reply["structuredContent"];
    assert_eq!(receipt["path"], path, "{reply}");
    assert_eq!(receipt["containment"], "kernel_atomic", "{reply}");
    assert_eq!(receipt["cas"], "exact", "{reply}");
    assert!(receipt["version"].as_str().unwrap().starts_with('v'));
    assert!(receipt["undo"].as_str().unwrap().starts_with("r_"));
    assert_eq!(receipt["labels"], json!([]), "{reply}");
    let text = reply["content"][0]["text"].as_str().unwrap();
    assert!(text.lines().next().unwrap().contains(path), "{text}");
    match diff {
        None => assert!(receipt.get("diff").is_none(), "{reply}"),
        Some((added, removed)) => {
            assert_eq!(receipt["sha256"].as_str().unwrap().len(), 64);
            assert_eq!(receipt["diff"]["added"], added, "{reply}");
            assert_eq!(receipt["diff"]["removed"], removed, "{reply}");
            assert_eq!(receipt["diff"]["truncated"], false, "{reply}");
            assert!(text.contains(receipt["diff"]["text"].as_str().unwrap()));
        }
    }
}

#[track_caller]
fn is_refused(reply: &Value, kind: &str, reason: &str) {
    assert_eq!(reply["isError"], true, "{reply}");
    assert_eq!(reply["structuredContent"]["errorKind"], kind, "{reply}");
    assert_eq!(reply["structuredContent"]["reason"], reason, "{reply}");
}

#[tokio::test]
async fn tools_that_change_are_listed_only_where_writing_is_on() {
    let world = World::writing(Mode::Allow);
    let listed = tools(&mut world.connect().handshake(json!({})).await).await;
    let names: Vec<&str> = listed[LOOKING..]
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, CHANGING);
    for tool in &listed[LOOKING..] {
        assert_eq!(tool["annotations"]["readOnlyHint"], false, "{tool}");
        assert_eq!(tool["annotations"]["openWorldHint"], false, "{tool}");
    }
    // In deny mode, and where nobody switched it on, there are none.
    for world in [World::writing(Mode::Deny), World::new(Mode::Allow)] {
        let mut client = world.connect().handshake(json!({})).await;
        assert_eq!(tools(&mut client).await.len(), LOOKING);
        for tool in CHANGING {
            is_refused(
                &client.call(tool, json!({"path": "a"})).await,
                "parse_error",
                "unknown_tool",
            );
        }
    }
}

#[tokio::test]
async fn a_file_is_written_edited_added_to_copied_moved_and_deleted() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    let written = call(
        &world,
        client,
        "write_file",
        json!({"filePath": "notes/a.txt", "content": "one\ntwo\nthree\n"}),
    )
    .await;
    is_receipt(&written, "notes/a.txt", Some((3, 0)));
    assert_eq!(written["structuredContent"]["created"], true);
    let edited = call(
        &world,
        client,
        "edit_file",
        json!({"filePath": "notes/a.txt", "oldString": "two", "newString": "$& TWO"}),
    )
    .await;
    is_receipt(&edited, "notes/a.txt", Some((1, 1)));
    let several = json!([{"oldString": "one", "newString": "1"}, {"oldString": "e", "newString": "E", "replaceAll": true}]);
    let edited = call(
        &world,
        client,
        "edit_file",
        json!({"filePath": "notes/a.txt", "edits": several}),
    )
    .await;
    // The two meet in "one", so neither is made.
    assert_eq!(edited["isError"], true, "{edited}");
    let several =
        json!([{"oldString": "one", "newString": "1"}, {"oldString": "three", "newString": "3"}]);
    let edited = call(
        &world,
        client,
        "edit_file",
        json!({"filePath": "notes/a.txt", "edits": several}),
    )
    .await;
    is_receipt(&edited, "notes/a.txt", Some((2, 2)));
    let added = call(
        &world,
        client,
        "append_file",
        json!({"filePath": "notes/a.txt", "content": "four\n"}),
    )
    .await;
    is_receipt(&added, "notes/a.txt", Some((1, 0)));
    assert_eq!(
        fs::read_to_string(world.path("notes/a.txt")).unwrap(),
        "1\n$& TWO\n3\nfour\n"
    );
    let copied = call(
        &world,
        client,
        "copy_file",
        json!({"sourcePath": "notes/a.txt", "destinationPath": "deep/er/b.txt"}),
    )
    .await;
    is_receipt(&copied, "deep/er/b.txt", Some((4, 0)));
    assert_eq!(copied["structuredContent"]["from"], "notes/a.txt");
    assert_eq!(
        copied["structuredContent"]["sha256"],
        added["structuredContent"]["sha256"]
    );
    let moved = call(
        &world,
        client,
        "move",
        json!({"sourcePath": "deep/er/b.txt", "destinationPath": "c.txt"}),
    )
    .await;
    let diff = moved["structuredContent"]["diff"]["text"].as_str();
    assert_eq!(diff, Some("rename from deep/er/b.txt\nrename to c.txt\n"));
    assert!(!world.path("deep/er/b.txt").exists() && world.path("c.txt").exists());
    let deleted = call(&world, client, "delete", json!({"path": "c.txt"})).await;
    let diff = &deleted["structuredContent"]["diff"];
    assert_eq!((&diff["added"], &diff["removed"]), (&json!(0), &json!(4)));
    let deleted = call(&world, client, "delete", json!({"path": "notes"})).await;
    assert_eq!(deleted["structuredContent"]["path"], "notes", "{deleted}");
    assert_eq!(deleted["structuredContent"]["entries"], 2);
    assert!(deleted["structuredContent"]["undo"].is_string());
    assert!(!world.path("notes").exists());
}

#[tokio::test]
async fn a_directory_is_packed_looked_into_and_unpacked() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    for format in ["zip", "tar.gz"] {
        let archive = format!("packed/src.{format}");
        let arguments = json!({"dirPath": "src", "archivePath": archive, "format": format});
        let packed = call(&world, client, "create_archive", arguments.clone()).await;
        assert_ne!(packed["isError"], true, "{packed}");
        assert_eq!(packed["structuredContent"]["path"], archive.as_str());
        assert_eq!(packed["structuredContent"]["complete"], true, "{packed}");
        let again = call(&world, client, "create_archive", arguments).await;
        is_refused(&again, "file_already_exists", "already_exists");
        let arguments = json!({"archivePath": archive});
        let seen = call(&world, client, "inspect_archive", arguments).await;
        let seen = &seen["structuredContent"];
        assert_eq!(seen["format"], format, "{seen}");
        assert_eq!(seen["refused"], json!([]), "{seen}");
        assert_eq!(seen["totalEntries"], packed["structuredContent"]["entries"]);
        let into = format!("unpacked/{format}");
        let arguments = json!({"archivePath": archive, "destinationPath": into});
        let done = call(&world, client, "extract_archive", arguments.clone()).await;
        assert_ne!(done["isError"], true, "{done}");
        assert_eq!(done["structuredContent"]["format"], format, "{done}");
        assert!(
            done["structuredContent"]["undo"]
                .as_str()
                .unwrap()
                .starts_with("r_")
        );
        assert_eq!(
            fs::read(world.path(&format!("{into}/main.rs"))).unwrap(),
            fs::read(world.path("src/main.rs")).unwrap()
        );
        let again = call(&world, client, "extract_archive", arguments).await;
        is_refused(&again, "file_already_exists", "already_exists");
    }
    let arguments = json!({"archivePath": "src/main.rs", "destinationPath": "x"});
    let reply = call(&world, client, "extract_archive", arguments).await;
    is_refused(&reply, "parse_error", "unsupported_archive");
    assert!(!world.path("x").exists());
}

#[tokio::test]
async fn bytes_line_ends_and_the_byte_order_mark_are_written_as_told() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    for (arguments, want) in [
        (
            json!({"content": "AP8K", "encoding": "base64"}),
            &b"\x00\xff\n"[..],
        ),
        (
            json!({"content": "a\nb\n", "lineEnding": "crlf"}),
            b"a\r\nb\r\n",
        ),
        (
            // The file ends its lines in CR LF, and keeps doing so.
            json!({"content": "c\nd\n", "bom": true}),
            b"\xef\xbb\xbfc\r\nd\r\n",
        ),
        (
            json!({"content": "e\n", "lineEnding": "lf", "bom": false}),
            b"e\n",
        ),
    ] {
        let mut arguments = arguments;
        arguments["filePath"] = json!("f");
        let reply = call(&world, client, "write_file", arguments).await;
        assert_ne!(reply["isError"], true, "{reply}");
        assert_eq!(fs::read(world.path("f")).unwrap(), want);
    }
    let arguments = json!({"filePath": "f", "content": "no base64!", "encoding": "base64"});
    let reply = call(&world, client, "write_file", arguments).await;
    is_refused(&reply, "parse_error", "bad_arguments");
    assert_eq!(fs::read(world.path("f")).unwrap(), b"e\n");
}

#[tokio::test]
async fn what_is_moved_copied_added_to_or_deleted_can_be_named_by_its_version() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    let stale = json!("v1-1-1-1-1");
    for (tool, arguments) in [
        ("delete", json!({"path": "src/main.rs"})),
        (
            "move",
            json!({"sourcePath": "src/main.rs", "destinationPath": "x"}),
        ),
        (
            "copy_file",
            json!({"sourcePath": "src/main.rs", "destinationPath": "x"}),
        ),
        (
            "append_file",
            json!({"filePath": "src/main.rs", "content": "x"}),
        ),
    ] {
        let before = fs::read(world.path("src/main.rs")).unwrap();
        let mut arguments = arguments;
        arguments["expectedVersion"] = stale.clone();
        let reply = call(&world, client, tool, arguments.clone()).await;
        is_refused(&reply, "hash_mismatch", "version_mismatch");
        assert!(!world.path("x").exists(), "{tool}");
        assert_eq!(fs::read(world.path("src/main.rs")).unwrap(), before);
        arguments["expectedHash"] = json!("0".repeat(64));
        let reply = call(&world, client, tool, arguments).await;
        is_refused(&reply, "parse_error", "bad_arguments");
    }
}

#[tokio::test]
async fn a_directory_is_made_once() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    let made = call(
        &world,
        client,
        "create_directory",
        json!({"dirPath": "p/q"}),
    )
    .await;
    is_receipt(&made, "p/q", None);
    assert_eq!(made["structuredContent"]["created"], true);
    let again = call(
        &world,
        client,
        "create_directory",
        json!({"dirPath": "p/q"}),
    )
    .await;
    assert_eq!(again["structuredContent"]["created"], false, "{again}");
}

#[tokio::test]
async fn what_somebody_else_changed_is_left_alone() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    let path = json!({"filePath": "src/main.rs"});
    let read = call(&world, client, "read_file", path).await;
    let version = read["structuredContent"]["version"].as_str().unwrap();
    fs::write(world.path("src/main.rs"), "fn theirs() {}\n").unwrap();
    // By the version it names, by a hash, and by what this session last saw.
    for expected in [
        json!({"expectedVersion": version}),
        json!({"expectedHash": "0".repeat(64)}),
        json!({}),
    ] {
        let mut arguments = json!({"filePath": "src/main.rs", "content": "mine"});
        for (name, value) in expected.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let reply = call(&world, client, "write_file", arguments).await;
        is_refused(&reply, "hash_mismatch", "version_mismatch");
    }
    let now = fs::read_to_string(world.path("src/main.rs")).unwrap();
    assert_eq!(now, "fn theirs() {}\n");
}

#[tokio::test]
async fn what_a_mode_or_a_flag_does_not_let_be_overwritten_stays() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    let main = "src/main.rs";
    for (tool, arguments, kind, reason) in [
        (
            "write_file",
            json!({"filePath": main, "content": "x", "mode": "create"}),
            "file_already_exists",
            "already_exists",
        ),
        (
            "write_file",
            json!({"filePath": "nope", "content": "x", "mode": "replace"}),
            "path_not_found",
            "not_found",
        ),
        (
            "copy_file",
            json!({"sourcePath": "raw.bin", "destinationPath": main, "overwrite": false}),
            "file_already_exists",
            "already_exists",
        ),
        (
            "move",
            json!({"sourcePath": "raw.bin", "destinationPath": main, "overwrite": false}),
            "file_already_exists",
            "already_exists",
        ),
        (
            "edit_file",
            json!({"filePath": main, "oldString": "absent", "newString": ""}),
            "text_not_found",
            "text_not_found",
        ),
        (
            "edit_file",
            json!({"filePath": main, "oldString": "n", "newString": ""}),
            "ambiguous_text_match",
            "ambiguous_text",
        ),
        (
            "edit_file",
            json!({"filePath": main, "oldString": "n"}),
            "parse_error",
            "bad_arguments",
        ),
        (
            "write_file",
            json!({"filePath": main, "content": "x", "permissions": "4755"}),
            "parse_error",
            "bad_arguments",
        ),
        (
            "write_file",
            json!({"filePath": main, "content": "x", "encoding": "klingon"}),
            "parse_error",
            "bad_encoding",
        ),
        (
            "write_file",
            json!({"filePath": "../w2", "content": "x"}),
            "path_outside_workspace",
            "escape",
        ),
        (
            "move",
            json!({"sourcePath": main, "destinationPath": "/etc/x"}),
            "path_outside_workspace",
            "outside_roots",
        ),
        (
            "delete",
            json!({"path": "."}),
            "permission_denied",
            "protected_state",
        ),
        (
            "write_file",
            json!({"filePath": ".portcullis/settings.json", "content": "{}"}),
            "permission_denied",
            "protected_state",
        ),
    ] {
        let before = world.outcomes().len();
        let reply = call(&world, client, tool, arguments.clone()).await;
        is_refused(&reply, kind, reason);
        assert_eq!(world.outcomes().len(), before + 1, "{tool} {arguments}");
    }
    let now = fs::read_to_string(world.path(main)).unwrap();
    assert_eq!(now, "fn main() {}\n");
}

#[tokio::test]
async fn what_brings_too_much_is_refused_before_anything_is_tried_and_recorded() {
    let world = World::writing(Mode::Allow);
    let client = &mut world.connect().handshake(json!({})).await;
    let much = "x".repeat(5 * 1024 * 1024 + 1);
    for (tool, arguments) in [
        ("write_file", json!({"filePath": "new/f", "content": much})),
        ("append_file", json!({"filePath": "new/f", "content": much})),
        (
            "edit_file",
            json!({"filePath": "src/main.rs", "oldString": "main", "newString": much}),
        ),
    ] {
        let before = world.outcomes().len();
        let reply = call(&world, client, tool, arguments).await;
        is_refused(&reply, "file_too_large", "too_large");
        assert_eq!(world.outcomes().len(), before + 1, "{tool}");
    }
    assert!(!world.path("new").exists());
    let most = "x".repeat(5 * 1024 * 1024);
    let arguments = json!({"filePath": "most", "content": most});
    let reply = call(&world, client, "write_file", arguments).await;
    assert_ne!(reply["isError"], true);
    // An edit neither takes a larger file nor makes one.
    let edit = json!({"filePath": "most", "edits": [{"oldString": "x", "newString": "xx", "replaceAll": true}]});
    let reply = call(&world, client, "edit_file", edit).await;
    assert_eq!(reply["structuredContent"]["errorKind"], "file_too_large");
    fs::write(world.path("large"), format!("{most}y")).unwrap();
    let edit = json!({"filePath": "large", "oldString": "y", "newString": "z"});
    let reply = call(&world, client, "edit_file", edit).await;
    is_refused(&reply, "file_too_large", "too_large");
}

#[tokio::test]
async fn what_runs_later_and_what_is_secret_asks_even_where_writing_is_allowed() {
    let world = World::writing(Mode::Allow);
    let mut silent = world.connect().handshake(json!({})).await;
    for path in [".git/hooks/pre-commit", ".env", ".github/workflows/ci.yml"] {
        let arguments = json!({"filePath": path, "content": "x"});
        let reply = call(&world, &mut silent, "write_file", arguments).await;
        is_refused(&reply, "permission_denied", "approval_unavailable");
    }
    let arguments = json!({"sourcePath": "src/main.rs", "destinationPath": ".envrc"});
    let reply = call(&world, &mut silent, "move", arguments).await;
    is_refused(&reply, "permission_denied", "approval_unavailable");
    assert!(!world.path(".git").exists());
    let mut asked = world.connect().handshake(json!({"elicitation": {}})).await;
    for (decision, done) in [("deny_once", false), ("allow_once", true)] {
        let arguments = json!({"filePath": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"});
        asked
            .start(
                "tools/call",
                json!({"name": "write_file", "arguments": arguments}),
            )
            .await;
        let question = loop {
            let message = asked.receive().await;
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        let answer = json!({"action": "accept", "content": {"decision": decision}});
        asked
            .send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}))
            .await;
        let reply = asked.receive().await;
        assert_eq!(reply["result"]["isError"] != true, done, "{reply}");
        assert_eq!(world.path(".git/hooks/pre-commit").exists(), done);
    }
}

#[tokio::test]
async fn a_secret_is_not_told_by_a_diff() {
    let world = World::writing(Mode::Allow);
    let mut client = world.connect().handshake(json!({"elicitation": {}})).await;
    let arguments = json!({"filePath": ".env", "content": "KEY=new\n"});
    client
        .start(
            "tools/call",
            json!({"name": "write_file", "arguments": arguments}),
        )
        .await;
    let question = client.receive().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({"action": "accept", "content": {"decision": "allow_once"}});
    client
        .send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}))
        .await;
    let reply = client.receive().await;
    assert_ne!(reply["result"]["isError"], true, "{reply}");
    assert!(!reply.to_string().contains("canary-secret"), "{reply}");
}
