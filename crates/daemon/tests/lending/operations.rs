//! Operations of our own dialect: what is no tool, done as tools are.

use std::time::Duration;

use portcullis_proto::Mode;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::kit::{How, Lent, asked};
use crate::questions::Never;

impl Fake {
    /// What the reply to an operation says: the body, or the failure.
    async fn operated(&self, id: &str, operation: &str, args: Value) -> Result<Value, Value> {
        self.operate(id, operation, args);
        let reply = self.reply(id).await;
        let result = &reply["result"];
        if result["isError"] == true {
            return Err(result["structuredContent"].clone());
        }
        let text = result["content"][0]["text"].as_str().unwrap();
        Ok(serde_json::from_str(text).unwrap())
    }
}

fn upload(path: &str) -> Value {
    json!({"upload": {"path": path, "bytes": "AAEC/w=="}})
}

#[tokio::test]
async fn an_operation_is_answered_word_for_word_and_done_once() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    let init = fake.until("POST /gateway/init", 1).await.body;
    let files = json!({"operations": 1, "root": "main", "kind": "workspace", "trusted": true});
    assert_eq!(init["portcullis"]["files"], files);
    let read = json!({"read": {"path": "a.txt"}});
    let body = fake.operated("gw_1", "file", read).await.unwrap();
    assert_eq!(
        (&body["kind"], &body["content"]),
        (&json!("file"), &json!("one"))
    );
    let reply = fake.reply("gw_1").await;
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with(r#"{"kind":"file","path":"a.txt","content":"one","#),
        "{text}"
    );
    let raw = json!({"path": "a.txt", "offset": 1, "max": u64::from(u32::MAX)});
    let body = fake.operated("gw_2", "raw", raw).await.unwrap();
    assert_eq!((&body["bytes"], &body["size"]), (&json!("bmU="), &json!(3)));
    // Sent again under its name it is answered, and not done again.
    for _ in 0..3 {
        fake.operate("gw_3", "file", upload("up.bin"));
    }
    fake.until("POST /gateway/response/gw_3", 1).await;
    fake.operate("gw_3", "file", upload("up.bin"));
    fake.until("POST /gateway/response/gw_3", 2).await;
    assert!(lent.world.scratch.at("up.bin").exists());
    assert!(!lent.world.scratch.at("up (1).bin").exists());
    // Under that name, a tool is another call.
    fake.call("gw_3", "read_file", json!({"filePath": "a.txt"}));
    let other = fake.until("POST /gateway/response/gw_3", 3).await;
    assert!(other.body["error"].is_string(), "{other:?}");
    lent.end().await;
}

#[tokio::test]
async fn what_a_server_changed_it_may_take_back() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    let made = fake
        .operated("gw_1", "file", upload("up.bin"))
        .await
        .unwrap();
    fake.call("gw_2", "delete", json!({"path": "a.txt"}));
    let deleted = fake.reply("gw_2").await;
    let deleted = &deleted["result"]["structuredContent"]["undo"];
    let list = fake.operated("gw_3", "undoable", json!({})).await.unwrap();
    let ids: Vec<&Value> = list["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, [deleted, &made["undo"]]);
    fake.operated("gw_4", "undo", json!({"id": deleted}))
        .await
        .unwrap();
    assert_eq!(lent.text("a.txt").as_deref(), Some("one"));
    let failed = fake
        .operated("gw_5", "undo", json!({"id": "r_other"}))
        .await;
    assert_eq!(failed.unwrap_err()["reason"], "not_found");
    lent.end().await;
}

#[tokio::test]
async fn no_operation_reaches_what_no_tool_reaches() {
    let fake = Fake::ours().await;
    let how = How {
        writing: Mode::Deny,
        ..How::default()
    };
    let lent = Lent::to(&fake, how).await;
    for (n, (operation, args, reason)) in [
        ("file", json!({"read": {"path": "../outside.txt"}}), "escape"),
        ("file", json!({"bytes": {"path": "/etc/passwd", "offset": 0, "maxBytes": 9}}), "outside_roots"),
        ("raw", json!({"path": "../outside.txt", "offset": 0, "max": 9}), "escape"),
        ("file", json!({"read": {"path": ".env"}}), "approval_unavailable"),
        ("raw", json!({"path": ".env", "offset": 0, "max": 9}), "approval_unavailable"),
        ("read-resource", json!({"uri": "portcullis://main/../outside.txt"}), "escape"),
        ("file", upload("pwned.bin"), "denied_by_mode"),
        ("file", json!({"edit": {"path": "a.txt", "old": "one", "new": "x", "expected": "0".repeat(64)}}), "denied_by_mode"),
        ("undo", json!({"id": "x"}), "denied_by_mode"),
        ("remove", json!({"path": "a.txt"}), "not_offered"),
        ("file", json!({"remove": {"path": "a.txt"}}), "not_offered"),
        ("write_file", json!({"filePath": "pwned.txt", "content": "x"}), "not_offered"),
        ("", Value::Null, "not_offered"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("gw_{n}");
        let failed = fake.operated(&id, operation, args.clone()).await.unwrap_err();
        assert_eq!(failed["reason"], reason, "{operation} {args}");
    }
    assert_eq!(lent.text("a.txt").as_deref(), Some("one"));
    assert_eq!(lent.text("pwned.bin"), None);
    lent.end().await;
}

#[tokio::test]
async fn a_server_that_is_not_ours_gets_no_operation_done() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.operate("gw_1", "file", upload("up.bin"));
    let reply = fake.reply("gw_1").await;
    assert!(reply["error"].is_string(), "{reply}");
    assert_eq!(lent.text("up.bin"), None);
    lent.end().await;
}

#[tokio::test]
async fn a_question_about_one_resource_holds_up_no_other() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, asked(Never)).await;
    let uri = |path: &str| json!({"uri": format!("portcullis://main/{path}")});
    fake.operate("gw_1", "read-resource", uri(".env"));
    while lent.told.count("Began") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for n in 2..5 {
        let body = fake
            .operated(&format!("gw_{n}"), "read-resource", uri("a.txt"))
            .await
            .unwrap();
        assert!(body.to_string().contains("one"), "{body}");
    }
    assert!(fake.seen_of("POST /gateway/response/gw_1").is_empty());
    lent.end().await;
}
