//! A link with trouble: what broke comes back, and nothing is done twice.

use std::time::{Duration, Instant};

use portcullis_daemon::Ended;
use serde_json::json;

use crate::fake::Fake;
use crate::kit::{How, Lent};

const INIT: &str = "POST /gateway/init";
const EVENTS: &str = "GET /gateway/events";

#[tokio::test]
async fn our_stream_goes_on_where_it_was_and_n8ns_begins_with_an_init() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    fake.reply("gw_1").await;
    fake.break_streams();
    let again = fake.until(EVENTS, 2).await;
    assert_eq!(again.after.as_deref(), Some("1"));
    assert_eq!(fake.seen_of(INIT).len(), 1);
    lent.end().await;

    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.break_streams();
    let again = fake.until(EVENTS, 2).await;
    assert_eq!(again.after, None);
    let inits = fake.seen_of(INIT);
    assert_eq!(inits.len(), 2);
    assert_eq!(inits[1].key, "sess_one");
    assert_eq!(inits[0].body, inits[1].body, "what is lent stays as it was");
    lent.end().await;
}

#[tokio::test]
async fn errors_are_waited_out_ever_longer() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    for _ in 0..3 {
        fake.plan("events", 500);
    }
    let began = Instant::now();
    fake.break_streams();
    fake.until(EVENTS, 5).await;
    // 1 + 2 + 4 + 8 seconds at most, each of them a random part.
    assert!(began.elapsed() < Duration::from_secs(16));
    assert_eq!(lent.told.count("Waiting"), 4, "{:?}", lent.told.all());
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    fake.reply("gw_1").await;
    lent.end().await;
}

#[tokio::test]
async fn who_is_not_known_any_more_says_again_who_it_is() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.plan("events", 403);
    fake.break_streams();
    fake.until(INIT, 2).await;
    fake.until(EVENTS, 3).await;
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    fake.reply("gw_1").await;
    lent.end().await;
}

#[tokio::test]
async fn a_session_that_is_lost_is_given_up_after_five_tries() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.forget();
    fake.break_streams();
    assert_eq!(lent.ended().await, Ended::Lost);
    assert_eq!(fake.seen_of(INIT).len(), 1 + 5);
}

#[tokio::test]
async fn a_call_outlives_the_stream_it_came_over() {
    let fake = Fake::ours().await;
    let how = crate::kit::asked(crate::questions::After(Duration::from_millis(500)));
    let lent = Lent::to(&fake, how).await;
    let arguments = json!({"filePath": "log.txt", "content": "x"});
    fake.call("gw_1", "append_file", arguments.clone());
    while lent.told.count("Began") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fake.plan("response", 503);
    fake.break_streams();
    fake.until(EVENTS, 2).await;
    // The server sends again what it has no result of.
    fake.call("gw_1", "append_file", arguments);
    let reply = fake.until("POST /gateway/response/gw_1", 2).await;
    assert!(reply.body["result"].get("isError").is_none(), "{reply:?}");
    assert_eq!(lent.text("log.txt").as_deref(), Some("x"));
    lent.end().await;
}

#[tokio::test]
async fn a_goodbye_of_n8n_that_was_not_meant_is_tried_once() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    let goodbye = json!({"type": "gateway-disconnect"});
    fake.send(&goodbye);
    fake.until(INIT, 2).await;
    fake.until(EVENTS, 2).await;
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    fake.reply("gw_1").await;
    fake.send(&goodbye);
    assert_eq!(lent.ended().await, Ended::ByServer);
    assert!(fake.seen_of("POST /gateway/disconnect").is_empty());

    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.forget();
    fake.send(&goodbye);
    assert_eq!(lent.ended().await, Ended::ByServer);
}

#[tokio::test]
async fn our_own_server_is_taken_at_its_word() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.send(&json!({"type": "gateway-disconnect"}));
    assert_eq!(lent.ended().await, Ended::ByServer);
    assert_eq!(fake.seen_of(INIT).len(), 1);

    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.send(&json!({"type": "replaced", "payload": {"by": "ada@desk"}}));
    assert_eq!(lent.ended().await, Ended::Replaced("ada@desk".into()));
}

#[tokio::test]
async fn nobody_there_is_said_after_a_few_tries() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let lent = Lent::begin(&format!("http://127.0.0.1:{port}"), How::default());
    assert!(matches!(lent.ended().await, Ended::Unreachable(_)));
}

#[tokio::test(start_paused = true)]
async fn where_streams_bring_nothing_events_are_looked_for() {
    let fake = Fake::ours().await;
    fake.fall_mute();
    let lent = Lent::to(&fake, How::default()).await;
    let call = json!({"type": "filesystem-request", "payload": {
        "requestId": "gw_1", "toolCall": {"name": "stat", "arguments": {"path": "a.txt"}}}});
    fake.leave(7, call);
    let looked = fake
        .until_within("GET /gateway/poll", 2, Duration::from_mins(10))
        .await;
    assert_eq!(fake.seen_of(EVENTS).len(), 2);
    drop(looked);
    fake.until_within("POST /gateway/response/gw_1", 1, Duration::from_mins(10))
        .await;
    lent.end().await;
}
