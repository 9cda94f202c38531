//! Calling tools, and what comes back.

use portcullis_proto::Mode;
use serde_json::json;

use crate::client::World;

#[tokio::test]
async fn both_eras_list_the_same_tools_with_truthful_annotations() {
    let world = World::new(Mode::Allow);
    let mut old = world.connect().handshake(json!({})).await;
    let mut new = world.connect().stateless(json!({}));
    let old_tools = old.request("tools/list", json!({})).await;
    let new_tools = new.request("tools/list", json!({})).await;
    let names = |reply: &serde_json::Value| -> Vec<String> {
        reply["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&old_tools),
        [
            "get_file_tree",
            "list_files",
            "read_file",
            "stat",
            "glob",
            "search_files",
            "grep",
            "inspect_archive"
        ]
    );
    assert_eq!(names(&old_tools), names(&new_tools));
    for tool in old_tools["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
    }
}

#[tokio::test]
async fn a_server_that_needs_no_handshake_says_what_it_is() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().stateless(json!({}));
    let found = client.request("server/discover", json!({})).await;
    assert!(
        found["result"]["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28")),
        "{found}"
    );
}

#[tokio::test]
async fn a_group_in_deny_mode_has_no_tools() {
    let world = World::new(Mode::Deny);
    let mut client = world.connect().handshake(json!({})).await;
    let tools = client.request("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"], json!([]));
    let reply = client
        .call("read_file", json!({"filePath": "src/main.rs"}))
        .await;
    assert_eq!(
        reply["structuredContent"]["reason"], "unknown_tool",
        "{reply}"
    );
}

#[tokio::test]
async fn a_read_comes_structured_and_as_text_with_its_warrant() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    let reply = client
        .call("read_file", json!({"filePath": "src/main.rs"}))
        .await;
    assert_eq!(
        reply["structuredContent"]["content"], "fn main() {}\n",
        "{reply}"
    );
    assert_eq!(reply["content"][0]["text"], "fn main() {}\n");
    assert_eq!(reply["structuredContent"]["containment"], "kernel_atomic");
    assert_eq!(
        reply["_meta"]["portcullis/warrant"]["policySource"],
        "mode:filesystemRead=allow"
    );
    assert_eq!(world.outcomes(), ["success"]);
}

#[tokio::test]
async fn absolute_paths_below_the_root_are_understood_and_none_is_ever_shown() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    let inside = world.path("src/main.rs");
    let reply = client
        .call("read_file", json!({"filePath": inside.to_str().unwrap()}))
        .await;
    assert_eq!(reply["structuredContent"]["path"], "src/main.rs", "{reply}");
    for (tool, arguments, kind) in [
        (
            "read_file",
            json!({"filePath": "../state/x"}),
            "path_outside_workspace",
        ),
        (
            "read_file",
            json!({"filePath": "/etc/passwd"}),
            "path_outside_workspace",
        ),
        ("read_file", json!({"filePath": "nope"}), "path_not_found"),
        ("read_file", json!({"filePath": "raw.bin"}), "binary_file"),
        ("read_file", json!({"filePath": "a\0b"}), "parse_error"),
        ("read_file", json!({"path": "a"}), "parse_error"),
        (
            "list_files",
            json!({"dirPath": "src/main.rs"}),
            "parse_error",
        ),
        (
            "stat",
            json!({"path": "x", "root": "no-such"}),
            "path_not_found",
        ),
        (
            "glob",
            json!({"pattern": "[", "dirPath": "."}),
            "parse_error",
        ),
        (
            "read_file",
            json!({"filePath": ".portcullis/audit/key"}),
            "permission_denied",
        ),
    ] {
        let reply = client.call(tool, arguments.clone()).await;
        assert_eq!(reply["isError"], true, "{tool} {arguments}: {reply}");
        assert_eq!(
            reply["structuredContent"]["errorKind"], kind,
            "{tool} {arguments}: {reply}"
        );
        assert!(
            !reply.to_string().contains(world.dir.to_str().unwrap()),
            "a host path is shown: {reply}"
        );
    }
    assert_eq!(
        world.outcomes().len(),
        11,
        "every refusal has its line, also of what does not fit a tool: {:?}",
        world.outcomes()
    );
}

#[tokio::test]
async fn a_walk_tells_its_progress_to_who_asks() {
    let world = World::new(Mode::Allow);
    for n in 0..40 {
        std::fs::create_dir_all(world.path(&format!("d{n}/e"))).unwrap();
    }
    let mut client = world.connect().handshake(json!({})).await;
    let params =
        json!({"name": "glob", "arguments": {"pattern": "**/*"}, "_meta": {"progressToken": "p"}});
    let id = client.start("tools/call", params).await;
    let mut told = 0;
    loop {
        let message = client.receive().await;
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "p");
            told += 1;
        }
        if message["id"] == json!(id) {
            break;
        }
    }
    // The last word may come behind the reply; one must have come before or come now.
    if told == 0 {
        assert_eq!(client.receive().await["method"], "notifications/progress");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_before_it_reaches_a_tool_has_its_line() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().stateless(json!({}));
    for arguments in [
        json!({"filePath": "src/main.rs", "bogus": 1}),
        json!({"filePath": 5}),
        json!({"filePath": "src/main.rs", "startLine": 0}),
    ] {
        let reply = client.call("read_file", arguments).await;
        assert_eq!(reply["structuredContent"]["reason"], "bad_arguments");
    }
    let forged = json!({
        "name": "read_file",
        "arguments": {"filePath": ".env"},
        "requestState": "forged",
        "inputResponses": {"approval": {"action": "accept", "content": {"decision": "allow_once"}}},
    });
    let reply = client.request("tools/call", forged).await;
    assert_eq!(reply["result"]["isError"], true, "{reply}");
    client
        .request("resources/list", json!({"cursor": "nowhere"}))
        .await;
    assert_eq!(world.outcomes(), ["failed"; 5]);
}

#[tokio::test]
async fn every_limit_clamps_and_says_so() {
    let world = World::new(Mode::Allow);
    std::fs::write(
        world.path("long.txt"),
        "line\n".repeat(600) + &"x".repeat(5_000) + "\n",
    )
    .unwrap();
    std::fs::create_dir(world.path("wide")).unwrap();
    for n in 0..1_010 {
        std::fs::write(world.path(&format!("wide/{n:04}")), "").unwrap();
    }
    let mut client = world.connect().handshake(json!({})).await;
    let huge = 1_000_000;
    let reply = client
        .call(
            "read_file",
            json!({"filePath": "long.txt", "maxLines": huge}),
        )
        .await["structuredContent"]
        .take();
    assert_eq!(
        (&reply["lineCount"], &reply["clamped"], &reply["hasMore"]),
        (&json!(500), &json!(true), &json!(true))
    );
    let rest = client
        .call(
            "read_file",
            json!({"filePath": "long.txt", "cursor": reply["nextCursor"]}),
        )
        .await["structuredContent"]
        .take();
    assert_eq!(
        (&rest["lineCount"], &rest["cutLines"]),
        (&json!(101), &json!(1)),
        "{rest}"
    );
    let bytes = client
        .call(
            "read_file",
            json!({"filePath": "long.txt", "byteOffset": 0, "byteLength": huge * 100}),
        )
        .await["structuredContent"]
        .take();
    assert_eq!(bytes["clamped"], true);
    let list = client
        .call("list_files", json!({"dirPath": "wide", "maxResults": huge}))
        .await["structuredContent"]
        .take();
    assert_eq!(list["entries"].as_array().unwrap().len(), 1_000);
    assert_eq!(
        (&list["clamped"], &list["truncated"]),
        (&json!(true), &json!(true))
    );
    let tree = client
        .call("get_file_tree", json!({"maxDepth": 99, "maxEntries": huge}))
        .await["structuredContent"]
        .take();
    assert_eq!(
        (&tree["clamped"], &tree["complete"]),
        (&json!(true), &json!(false))
    );
    let found = client
        .call("glob", json!({"pattern": "**/*", "maxResults": huge}))
        .await["structuredContent"]
        .take();
    assert_eq!(
        (&found["clamped"], &found["truncated"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn a_search_comes_structured_and_as_text_in_both_dialects() {
    let world = World::new(Mode::Allow);
    std::fs::create_dir(world.path(".hidden")).unwrap();
    std::fs::write(world.path("src/lib.rs"), "// one\n// Two fn\n// three\n").unwrap();
    std::fs::write(world.path(".hidden/x.rs"), "fn hidden\n").unwrap();
    let mut client = world.connect().handshake(json!({})).await;
    let reply = client
        .call(
            "search_files",
            json!({"dirPath": ".", "query": "FN \\w+\\(|two", "filePattern": "*.rs", "maxResults": 500}),
        )
        .await;
    let found = &reply["structuredContent"];
    assert_eq!(
        found["matches"],
        json!([
            {"path": "src/lib.rs", "lineNumber": 2, "column": 4, "line": "// Two fn"},
            {"path": "src/main.rs", "lineNumber": 1, "column": 1, "line": "fn main() {}"},
        ]),
        "{reply}"
    );
    assert_eq!(
        (&found["complete"], &found["clamped"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(found["totalMatches"], 2);
    let reply = client
        .call(
            "grep",
            json!({"pattern": "Two", "path": "src/*.rs", "contextLines": 1, "maxCount": 1}),
        )
        .await;
    assert_eq!(
        reply["content"][0]["text"],
        "1 match across 1 file\n---\n./src/lib.rs:1- // one\n./src/lib.rs:2:4: // Two fn\n./src/lib.rs:3- // three"
    );
    let found = &reply["structuredContent"]["matches"][0];
    assert_eq!(
        (&found["before"][0], &found["after"][0]),
        (&json!("// one"), &json!("// three"))
    );
    for (hidden, matches) in [(false, 1), (true, 2)] {
        let asked = json!({"pattern": "fn [mh]", "includeHidden": hidden});
        let reply = client.call("grep", asked).await;
        assert_eq!(
            reply["structuredContent"]["totalMatches"], matches,
            "{reply}"
        );
    }
    let reply = client.call("grep", json!({"pattern": "("})).await;
    assert_eq!(
        reply["structuredContent"]["errorKind"], "parse_error",
        "{reply}"
    );
    assert_eq!(world.outcomes().len(), 5);
}
