//! The same tools over HTTP, in both eras, and only those a credential is for.

use portcullis_proto::Mode;
use serde_json::{Value, json};

use crate::client::World;
use crate::http_client::Visitor;

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// What differs from one call to the next.
fn blank(mut result: Value) -> Value {
    result["_meta"]["portcullis/warrant"]["requestId"].take();
    // A version names the content too, as long as the file is new.
    if let Some(version) = result.pointer_mut("/structuredContent/version") {
        let times = version.as_str().unwrap().splitn(6, '-').take(5);
        *version = times.collect::<Vec<_>>().join("-").into();
    }
    result
}

#[tokio::test]
async fn both_transports_and_both_eras_give_the_same_json() {
    let world = World::writing(Mode::Allow);
    let http = world.http();
    let calls = [
        ("read_file", json!({"filePath": "src/main.rs"})),
        ("list_files", json!({"dirPath": "."})),
        ("get_file_tree", json!({"dirPath": "."})),
        ("read_file", json!({"filePath": "no\\such \"file\""})),
        ("stat", json!({"wrong": 1.5})),
    ];
    let newer = Visitor::owner(&http);
    let mut newer_pipe = world.connect().stateless(json!({}));
    let older = Visitor::owner(&http).handshake().await;
    let mut older_pipe = world.connect().handshake(json!({})).await;
    for (tool, arguments) in calls {
        let piped = blank(newer_pipe.call(tool, arguments.clone()).await);
        let got = blank(newer.call(tool, arguments.clone()).await);
        assert_eq!(got["resultType"], "complete", "{got}");
        assert!(got["structuredContent"].is_object(), "{got}");
        assert_eq!(got, piped, "{tool}, newer");
        let piped = blank(older_pipe.call(tool, arguments.clone()).await);
        let got = blank(older.call(tool, arguments).await);
        assert_eq!(got.get("resultType"), None, "{got}");
        assert_eq!(got, piped, "{tool}, older");
    }
    let listed = newer.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
    let piped = newer_pipe.request("tools/list", json!({})).await;
    assert_eq!(listed["result"], piped["result"]);
    let found = newer.request("server/discover", json!({})).await;
    let instructions = found["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("workspace"), "{instructions}");
    assert_eq!(found["result"]["cacheScope"], "private", "{found}");
    // What is answered is declared.
    let prompts = newer.request("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"], json!([]), "{prompts}");
    let declared = &found["result"]["capabilities"];
    assert!(declared["prompts"].is_object(), "{found}");
}

#[tokio::test]
async fn a_group_without_its_scope_is_not_there() {
    let world = World::writing(Mode::Allow);
    let http = world.http();
    let writer = Visitor::owner(&http);
    let reader = Visitor::new(&http, "reader", "fs:read,shell,audit");
    let older = Visitor::new(&http, "reader", "fs:read").handshake().await;
    let nobody = Visitor::new(&http, "nobody", "approve");
    let all = names(&writer.request("tools/list", json!({})).await);
    assert!(all.iter().any(|name| name == "write_file"), "{all:?}");
    for reader in [&reader, &older] {
        let some = names(&reader.request("tools/list", json!({})).await);
        assert!(some.iter().any(|name| name == "read_file"), "{some:?}");
        assert!(!some.iter().any(|name| name == "write_file"), "{some:?}");
        let arguments = json!({"filePath": "new", "content": "x"});
        let absent = reader.call("write_file", arguments.clone()).await;
        let unknown = reader.call("no_such_tool", arguments).await;
        assert_eq!(absent["structuredContent"]["reason"], "unknown_tool");
        assert_eq!(absent["structuredContent"], unknown["structuredContent"]);
    }
    assert!(!world.path("new").exists());
    let lines = world.lines_of("mcp/tools/call");
    let reasons: Vec<_> = lines.iter().map(|line| line.reason).collect();
    assert_eq!(reasons, [Some("unknown_tool"); 4], "{lines:?}");

    assert!(names(&nobody.request("tools/list", json!({})).await).is_empty());
    let listed = nobody.request("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]), "{listed}");
    let uri = json!({"uri": "portcullis://workspace/src/main.rs"});
    let read = nobody.request("resources/read", uri.clone()).await;
    assert_eq!(read["error"]["data"]["reason"], "no_grant", "{read}");
    assert_eq!(world.lines_of("mcp/resources/read").len(), 1);
    let read = reader.request("resources/read", uri).await;
    assert_eq!(
        read["result"]["contents"][0]["text"], "fn main() {}\n",
        "{read}"
    );
}

#[tokio::test]
async fn a_group_in_deny_mode_is_not_there() {
    let world = World::writing(Mode::Deny);
    let http = world.http();
    let writer = Visitor::owner(&http);
    let some = names(&writer.request("tools/list", json!({})).await);
    assert!(!some.iter().any(|name| name == "write_file"), "{some:?}");
    let refused = writer
        .call("write_file", json!({"filePath": "new", "content": "x"}))
        .await;
    assert_eq!(refused["structuredContent"]["reason"], "unknown_tool");
    assert_eq!(world.lines_of("mcp/tools/call").len(), 1);
}

#[tokio::test]
async fn who_has_no_machine_has_no_tools_and_a_record() {
    let world = World::new(Mode::Allow);
    let http = world.http_without_machine();
    let me = Visitor::owner(&http);
    assert!(names(&me.request("tools/list", json!({})).await).is_empty());
    let refused = me.call("read_file", json!({"filePath": ".env"})).await;
    assert_eq!(refused["structuredContent"]["reason"], "unknown_tool");
    let uri = json!({"uri": "portcullis://workspace/src/main.rs"});
    let read = me.request("resources/read", uri).await;
    assert_eq!(read["error"]["data"]["reason"], "unknown_root", "{read}");
    assert_eq!(world.outcomes().len(), 2);
}

#[tokio::test]
async fn a_name_of_a_conversation_that_is_none_is_refused() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    for bad in ["", "a\tb", &"x".repeat(129)] {
        let me = Visitor::owner(&http).with("portcullis-conversation", bad);
        let refused = me.request("tools/list", json!({})).await;
        assert_eq!(refused["error"]["code"], -32602, "{bad:?}: {refused}");
    }
}
