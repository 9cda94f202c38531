//! A link without trouble: order, bodies, ends.

use std::time::{Duration, Instant};

use portcullis_daemon::Ended;
use portcullis_link::{Init, Reply, is_tool_name};
use portcullis_proto::Mode;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::kit::{How, Lent};

const INIT: &str = "POST /gateway/init";
const EVENTS: &str = "GET /gateway/events";
/// So long a search takes at least that something can be behind it, and so many files
/// are searched at most to have one.
const LONG_SEARCH: Duration = Duration::from_millis(300);
const MOST_FILES: usize = 6_400;

#[tokio::test]
async fn init_comes_first_then_events_and_a_call_is_replied_to() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.call("gw_1", "read_file", json!({"filePath": "a.txt"}));
    let reply = fake.reply("gw_1").await;
    let result = &reply["result"];
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("one")
    );
    assert_eq!(result["content"][0]["type"], "text");
    assert_eq!(result["structuredContent"]["content"], "one");
    assert!(result.get("isError").is_none() && result.get("_meta").is_none());
    assert_eq!(lent.end().await, Ended::Asked);
    let whats: Vec<String> = fake.seen().into_iter().map(|seen| seen.what).collect();
    let goodbye = "POST /gateway/disconnect";
    assert_eq!(
        whats,
        [INIT, EVENTS, "POST /gateway/response/gw_1", goodbye]
    );
    let keys: Vec<String> = fake.seen().into_iter().map(|seen| seen.key).collect();
    assert_eq!(keys, [Fake::token(), "sess_one", "sess_one", "sess_one"]);
}

#[tokio::test]
async fn what_is_lent_is_said_as_the_shipped_daemon_says_it() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    let body = fake.until(INIT, 1).await.body;
    let init: Init = serde_json::from_value(body.clone()).unwrap();
    assert_eq!(
        init.root_path,
        lent.world.scratch.root().display().to_string()
    );
    assert_eq!(init.host_identifier.as_deref(), Some("ada@laptop"));
    let categories = json!([
        {"name": "filesystem", "enabled": true, "writeAccess": true},
        {"name": "shell", "enabled": false},
        {"name": "screenshot", "enabled": false},
        {"name": "mouse-keyboard", "enabled": false},
        {"name": "browser", "enabled": false},
    ]);
    assert_eq!(body["toolCategories"], categories);
    assert!(init.tools.len() > 10);
    for (tool, sent) in init.tools.iter().zip(body["tools"].as_array().unwrap()) {
        assert!(is_tool_name(&tool.name), "{}", tool.name);
        assert_eq!(sent["inputSchema"]["type"], "object", "{}", tool.name);
        assert_eq!(sent["annotations"]["category"], "filesystem");
    }
    let write = init.tools.iter().find(|tool| tool.name == "write_file");
    let hints = write.unwrap().annotations.clone().unwrap();
    assert_eq!(hints.read_only_hint, Some(false));
    let names = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let mut members = names(&body);
    members.sort();
    assert_eq!(
        members,
        [
            "hostIdentifier",
            "portcullis",
            "rootPath",
            "toolCategories",
            "tools"
        ]
    );
    lent.end().await;
}

#[tokio::test]
async fn a_group_that_is_denied_is_not_offered_and_not_there() {
    let fake = Fake::n8n().await;
    let how = How {
        writing: Mode::Deny,
        ..How::default()
    };
    let lent = Lent::to(&fake, how).await;
    let body = fake.until(INIT, 1).await.body;
    assert_eq!(body["toolCategories"][0]["writeAccess"], false);
    let tools = body["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["name"] != "write_file"));
    fake.call(
        "gw_1",
        "write_file",
        json!({"filePath": "b.txt", "content": "x"}),
    );
    let reply = fake.reply("gw_1").await;
    assert_eq!(
        reply["result"]["structuredContent"]["reason"],
        "unknown_tool"
    );
    assert_eq!(reply["result"]["isError"], true);
    assert_eq!(lent.text("b.txt"), None);
    lent.end().await;
}

#[tokio::test]
async fn a_call_that_comes_again_is_done_once_and_answered_twice() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    let arguments = json!({"filePath": "log.txt", "content": "x"});
    for _ in 0..3 {
        fake.call("gw_1", "append_file", arguments.clone());
    }
    fake.until("POST /gateway/response/gw_1", 1).await;
    fake.call("gw_1", "append_file", arguments);
    fake.until("POST /gateway/response/gw_1", 2).await;
    assert_eq!(lent.text("log.txt").as_deref(), Some("x"));
    let replies = fake.seen_of("POST /gateway/response/gw_1");
    assert_eq!(replies[0].body, replies[1].body);
    // The same id with other arguments is another call, and is not made.
    fake.call(
        "gw_1",
        "append_file",
        json!({"filePath": "log.txt", "content": "y"}),
    );
    let reply = fake.until("POST /gateway/response/gw_1", 3).await;
    assert!(reply.body["error"].is_string(), "{reply:?}");
    assert_eq!(lent.text("log.txt").as_deref(), Some("x"));
    lent.end().await;
}

#[tokio::test]
async fn a_read_is_not_stuck_behind_searches() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    // No line has as many letters as it asks for, and no way to find that out is short.
    let query = json!({"query": "[a-t][a-t ]{20}[e-x][a-t ]{20}[a-t][a-t ]{30}"});
    let text = "some text that stands here to be read\n".repeat(1_000);
    let mut files = 0;
    loop {
        let more = files.max(100);
        for n in files..files + more {
            let name = format!("big/{n}.txt");
            lent.world.scratch.file(&name, &text);
        }
        files += more;
        let began = Instant::now();
        let id = format!("gw_w{files}");
        fake.call(&id, "search_files", query.clone());
        fake.reply(&id).await;
        let took = began.elapsed();
        if took > LONG_SEARCH {
            break;
        }
        assert!(files < MOST_FILES, "{files} files are searched in {took:?}");
    }
    for n in 0..8 {
        fake.call(&format!("gw_s{n}"), "search_files", query.clone());
    }
    fake.call("gw_r", "read_file", json!({"filePath": "a.txt"}));
    fake.reply("gw_r").await;
    let order: Vec<String> = fake.seen().into_iter().map(|seen| seen.what).collect();
    let at = |id: &str| {
        order
            .iter()
            .position(|what| what.ends_with(id))
            .unwrap_or(usize::MAX)
    };
    let searched = (0..8)
        .filter(|n| at(&format!("gw_s{n}")) < at("gw_r"))
        .count();
    assert!(searched < 8, "{order:?}");
    lent.end().await;
}

#[tokio::test]
async fn too_many_calls_at_once_are_told_so() {
    let fake = Fake::ours().await;
    let how = crate::kit::asked(crate::questions::Never);
    let lent = Lent::to(&fake, how).await;
    for n in 0..65 {
        let arguments = json!({"filePath": format!("{n}.txt"), "content": "x"});
        fake.call(&format!("gw_{n}"), "write_file", arguments);
    }
    let reply = fake.reply("gw_64").await;
    assert_eq!(reply["result"]["structuredContent"]["reason"], "overload");
    lent.end().await;
}

#[tokio::test]
async fn who_takes_no_replies_is_not_heard_until_it_does() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.take_replies(false);
    for n in 0..300 {
        fake.call(&format!("gw_{n}"), "stat", json!({"path": "a.txt"}));
    }
    while lent.told.count("Ended") < 128 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Time enough for the others, were they heard.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(lent.told.count("Began"), 128);
    fake.take_replies(true);
    fake.until_within("POST /gateway/response/gw_299", 1, Duration::from_mins(1))
        .await;
    lent.end().await;
}

#[tokio::test]
async fn refusals_are_heard_at_a_pace_and_each_is_recorded() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    let began = Instant::now();
    for n in 0..6_000 {
        fake.call(&format!("gw_{n}"), "shell_execute", json!({}));
    }
    while lent.told.count("Ended") < 2_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let heard = lent.told.count("Ended");
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    // 128 may have been under way when the last of them was refused.
    assert!(
        heard <= 2_000 + 128 + 10 * seconds,
        "{heard} in {seconds} s"
    );
    assert!(lent.world.lines.closing().len() >= heard);
    lent.end().await;
}

#[tokio::test]
async fn a_call_nobody_waits_for_is_let_go() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, crate::kit::asked(crate::questions::Never)).await;
    fake.call(
        "gw_1",
        "write_file",
        json!({"filePath": "b.txt", "content": "x"}),
    );
    while lent.told.count("Began") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fake.send(&json!({"type": "cancel", "payload": {"requestId": "gw_1"}}));
    while lent.told.count("Ended") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(fake.seen_of("POST /gateway/response/gw_1").is_empty());
    assert_eq!(lent.text("b.txt"), None);
    lent.end().await;
}

#[tokio::test]
async fn a_deadline_of_our_own_server_is_kept_and_nothing_is_done_after_it() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, crate::kit::asked(crate::questions::Never)).await;
    fake.send(&json!({"type": "filesystem-request", "payload": {
        "requestId": "gw_1", "portcullis": {"deadlineMs": 5_500},
        "toolCall": {"name": "write_file", "arguments": {"filePath": "b.txt", "content": "x"}}}}));
    let reply = fake.reply("gw_1").await;
    // The question ends before its call does: it has about a second.
    let reason = &reply["result"]["structuredContent"]["reason"];
    assert_eq!(*reason, "approval_timeout", "{reply}");
    assert_eq!(lent.text("b.txt"), None);
    lent.end().await;
}

#[tokio::test]
async fn a_large_result_goes_in_pieces_to_who_knows_them_and_whole_to_others() {
    for ours in [true, false] {
        let fake = if ours {
            Fake::ours().await
        } else {
            Fake::n8n().await
        };
        let lent = Lent::to(&fake, How::default()).await;
        lent.world.scratch.file("big.bin", vec![7; 1 << 20]);
        let arguments = json!({"filePath": "big.bin", "byteOffset": 0, "byteLength": 1 << 20});
        fake.call("gw_1", "read_file", arguments);
        let first = fake.until("POST /gateway/response/gw_1", 1).await;
        let first: Reply = serde_json::from_value(first.body).unwrap();
        assert_eq!(first.chunk.is_some(), ours);
        if ours {
            let last = loop {
                let seen = fake.seen_of("POST /gateway/response/gw_1");
                let reply: Reply =
                    serde_json::from_value(seen.last().unwrap().body.clone()).unwrap();
                if reply.chunk.is_some_and(|chunk| chunk.last) {
                    break seen;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            let mut gathered = portcullis_link::Gathered::default();
            let whole = last.into_iter().find_map(|seen| {
                let reply: Reply = serde_json::from_value(seen.body).unwrap();
                gathered.add(&reply.chunk.unwrap()).unwrap()
            });
            let whole: Value = serde_json::from_str(&whole.unwrap()).unwrap();
            assert!(whole["result"]["structuredContent"]["base64"].is_string());
            let warrant = &whole["result"]["_meta"]["portcullis/warrant"];
            assert!(warrant["policySource"].is_string(), "{warrant}");
        }
        lent.end().await;
    }
}

#[tokio::test]
async fn a_result_the_server_does_not_take_is_followed_by_an_error() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.plan("response/gw_1", 400);
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    let second = fake.until("POST /gateway/response/gw_1", 2).await;
    assert!(second.body["error"].is_string());
    fake.plan("response/gw_2", 404);
    fake.call("gw_2", "stat", json!({"path": "a.txt"}));
    fake.until("POST /gateway/response/gw_2", 1).await;
    lent.end().await;
    assert_eq!(fake.seen_of("POST /gateway/response/gw_2").len(), 1);
}

#[tokio::test]
async fn a_wrong_token_ends_at_once_and_so_does_a_server_that_is_none() {
    let fake = Fake::n8n().await;
    let how = How {
        token: "gw_wrong",
        ..How::default()
    };
    assert_eq!(
        Lent::begin(&fake.url(), how).ended().await,
        Ended::WrongToken
    );
    assert_eq!(fake.seen().len(), 1);
    // Neither n8n's route is there nor the seed's.
    fake.plan("init", 404);
    let lent = Lent::begin(&fake.url(), How::default());
    assert_eq!(lent.ended().await, Ended::Refused(404));
}

#[tokio::test]
async fn a_call_under_way_at_the_end_is_let_finish_and_replied_to() {
    let fake = Fake::n8n().await;
    let how = crate::kit::asked(crate::questions::After(Duration::from_millis(300)));
    let lent = Lent::to(&fake, how).await;
    fake.call(
        "gw_1",
        "write_file",
        json!({"filePath": "b.txt", "content": "x"}),
    );
    while lent.told.count("Began") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(lent.text("b.txt"), None);
    lent.ending.cancel();
    while !lent.is_over() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Done, and said to be: not ended half way.
    assert_eq!(lent.text("b.txt").as_deref(), Some("x"));
    let reply = fake.reply("gw_1").await;
    assert!(reply["result"].get("isError").is_none(), "{reply}");
    assert_eq!(lent.ended().await, Ended::Asked);
    let whats: Vec<String> = fake.seen().into_iter().map(|seen| seen.what).collect();
    let at = |part: &str| whats.iter().position(|what| what.contains(part));
    assert!(
        at("response/gw_1").unwrap() < at("disconnect").unwrap(),
        "{whats:?}"
    );
}
