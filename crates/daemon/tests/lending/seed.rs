//! The seed's dialect: where n8n's route is not there, a tree is uploaded and
//! operations are answered.

use portcullis_daemon::{Ended, Speaking};
use portcullis_link::Dialect;
use portcullis_proto::Mode;
use portcullis_testkit::ScriptedApprover;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::kit::{How, Lent, asked};

const INIT: &str = "POST /gateway/init";
const EVENTS: &str = "GET /gateway/events";

/// What was uploaded: `path type`.
fn uploaded(init: &Value) -> Vec<String> {
    let word = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let tree = init["tree"].as_array().unwrap().iter();
    tree.map(|entry| format!("{} {}", word(entry, "path"), word(entry, "type")))
        .collect()
}

#[tokio::test]
async fn where_n8ns_route_is_not_there_the_seeds_is_spoken() {
    let fake = Fake::seed().await;
    let lent = Lent::to(&fake, How::default()).await;
    let whats: Vec<String> = fake.seen().into_iter().map(|seen| seen.what).collect();
    assert_eq!(whats, ["POST /rest/instance-ai/gateway/init", INIT, EVENTS]);
    let init = fake.until(INIT, 1).await.body;
    let root = lent.world.scratch.root().display().to_string();
    assert_eq!(init["rootPath"], root);
    // What is secret is not told, and directories stand first.
    assert_eq!(
        uploaded(&init),
        ["src directory", "a.txt file", "src/lib.rs file"]
    );
    assert_eq!(init["tree"][1]["sizeBytes"], 3);
    assert!(init["tree"][0].get("sizeBytes").is_none());
    assert_eq!(init["treeText"], "src/\n  lib.rs\na.txt");
    assert_eq!(init.as_object().unwrap().len(), 3);
    fake.operate(
        "gw_1",
        "read-file",
        json!({"filePath": "a.txt", "maxLines": 5}),
    );
    assert_eq!(
        fake.reply("gw_1").await,
        json!({"data": {"path": "a.txt", "content": "one", "truncated": false, "totalLines": 1}})
    );
    fake.operate(
        "gw_2",
        "search-files",
        json!({"dirPath": ".", "query": "MAIN"}),
    );
    assert_eq!(
        fake.reply("gw_2").await,
        json!({"data": {"query": "MAIN", "truncated": false, "totalMatches": 1, "matches": [
            {"path": "src/lib.rs", "lineNumber": 1, "line": "fn main() {}"}]}})
    );
    fake.operate("gw_3", "list-files", json!({"dirPath": "src"}));
    assert_eq!(
        fake.reply("gw_3").await,
        json!({"data": [{"path": "src/lib.rs", "type": "file", "sizeBytes": 12}]})
    );
    fake.operate("gw_4", "get-file-tree", json!({"dirPath": "."}));
    let tree = fake.reply("gw_4").await;
    assert!(tree["data"].as_str().unwrap().contains("lib.rs"), "{tree}");
    fake.operate("gw_5", "read-file", json!({"filePath": "../outside.txt"}));
    let outside = fake.reply("gw_5").await;
    assert!(outside["error"].is_string() && outside.get("data").is_none());
    assert_eq!(lent.end().await, Ended::Asked);
    let keys = |what: &str| -> Vec<(String, Option<String>)> {
        let seen = fake.seen_of(what).into_iter();
        seen.map(|seen| (seen.key, seen.query)).collect()
    };
    // The header alone, where that is enough.
    assert_eq!(keys(INIT), [(Fake::token().to_owned(), None)]);
    assert_eq!(keys(EVENTS), [("sess_one".to_owned(), None)]);
    assert_eq!(
        keys("POST /gateway/disconnect"),
        [("sess_one".to_owned(), None)]
    );
}

#[tokio::test]
async fn what_is_no_operation_is_refused_and_recorded_and_so_is_a_tool() {
    let fake = Fake::seed().await;
    let lent = Lent::to(&fake, How::default()).await;
    let before = lent.world.lines.closing().len();
    let write = json!({"filePath": "b.txt", "content": "x"});
    fake.operate("gw_1", "write-file", write.clone());
    fake.operate("gw_2", "write_file", write.clone());
    fake.call("gw_3", "write_file", write);
    for id in ["gw_1", "gw_2", "gw_3"] {
        let reply = fake.reply(id).await;
        assert!(reply["error"].is_string(), "{reply}");
    }
    assert_eq!(lent.text("b.txt"), None);
    assert_eq!(lent.world.lines.closing().len(), before + 3);
    lent.end().await;
}

#[tokio::test]
async fn the_key_stands_in_the_query_where_the_header_is_refused() {
    let fake = Fake::seed().await;
    fake.want_query();
    let lent = Lent::begin(&fake.url(), How::default());
    fake.until(EVENTS, 2).await;
    let queries: Vec<_> = fake
        .seen_of(EVENTS)
        .into_iter()
        .map(|seen| seen.query)
        .collect();
    assert_eq!(queries, [None, Some("apiKey=sess_one".to_owned())]);
    fake.operate("gw_1", "read-file", json!({"filePath": "a.txt"}));
    fake.reply("gw_1").await;
    // It is known from now on, and no other request has it.
    fake.break_streams();
    let third = fake.until(EVENTS, 3).await;
    assert_eq!(third.query.as_deref(), Some("apiKey=sess_one"));
    lent.end().await;
    for seen in fake.seen() {
        assert!(seen.what == EVENTS || seen.query.is_none(), "{seen:?}");
    }
}

#[tokio::test]
async fn n8ns_dialect_never_has_a_key_in_a_query() {
    let fake = Fake::n8n().await;
    fake.plan("events", 403);
    let lent = Lent::begin(&fake.url(), How::default());
    fake.until(EVENTS, 2).await;
    lent.end().await;
    assert!(fake.seen().iter().all(|seen| seen.query.is_none()));
}

#[tokio::test]
async fn a_key_that_both_sides_know_needs_no_pairing() {
    let fake = Fake::seed().await;
    fake.know("a key both sides know");
    let how = How {
        token: "a key both sides know",
        ..How::default()
    };
    let lent = Lent::to(&fake, how).await;
    fake.operate("gw_1", "read-file", json!({"filePath": "a.txt"}));
    fake.reply("gw_1").await;
    lent.end().await;
    let ours = fake.seen().into_iter();
    assert!(
        ours.map(|seen| seen.key)
            .all(|key| key == "a key both sides know")
    );
}

#[tokio::test]
async fn without_reading_there_is_nothing_to_lend_and_a_refused_scan_tells_nothing() {
    let fake = Fake::seed().await;
    let how = How {
        reading: Mode::Deny,
        ..How::default()
    };
    let lent = Lent::begin(&fake.url(), how);
    assert_eq!(lent.ended().await, Ended::NothingToLend);
    assert!(fake.seen_of(INIT).is_empty());
    // Nobody is there to say yes: nothing is told, and each file is still asked about.
    let how = How {
        reading: Mode::Ask,
        ..asked(ScriptedApprover::deciding([]))
    };
    let lent = Lent::to(&fake, how).await;
    let init = fake.until(INIT, 1).await.body;
    assert_eq!((&init["tree"], &init["treeText"]), (&json!([]), &json!("")));
    lent.end().await;
}

#[tokio::test]
async fn a_dialect_that_was_chosen_is_spoken_or_none() {
    let only = |dialect| How {
        speaking: Speaking::Only(dialect),
        ..How::default()
    };
    let fake = Fake::seed().await;
    let lent = Lent::begin(&fake.url(), only(Dialect::Shipped));
    assert_eq!(lent.ended().await, Ended::Refused(404));
    let lent = Lent::to(&fake, only(Dialect::Seed)).await;
    lent.end().await;
    let whats: Vec<String> = fake.seen().into_iter().map(|seen| seen.what).collect();
    assert_eq!(whats[1..3], [INIT, EVENTS]);
    let fake = Fake::n8n().await;
    let lent = Lent::begin(&fake.url(), only(Dialect::Ours));
    assert_eq!(lent.ended().await, Ended::OtherDialect);
    let left = fake.until("POST /gateway/disconnect", 1).await;
    assert_eq!(left.key, "sess_one", "no machine stays linked there");
    let fake = Fake::ours().await;
    let lent = Lent::begin(&fake.url(), only(Dialect::Shipped));
    assert_eq!(lent.ended().await, Ended::OtherDialect);
    assert_eq!(fake.seen_of("POST /gateway/disconnect").len(), 1);
    assert!(fake.until(INIT, 1).await.body.get("portcullis").is_none());
}
