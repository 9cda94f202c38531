//! A link with trouble: what broke comes back, and nothing is done twice.

use std::time::{Duration, Instant};

use portcullis_daemon::Ended;
use portcullis_testkit::promised;
use serde_json::json;

use crate::fake::Fake;
use crate::kit::{How, Lent};

const INIT: &str = "POST /gateway/init";
const EVENTS: &str = "GET /gateway/events";
/// What four tries take of their own on a busy machine.
const SLACK: Duration = Duration::from_secs(4);

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
    let took = began.elapsed();
    let waits = lent.told.waits();
    assert_eq!(waits.len(), 4, "{:?}", lent.told.all());
    // Each of them a random part.
    let most = [1, 2, 4, 8].map(Duration::from_secs);
    assert!(waits.iter().zip(&most).all(|(wait, most)| wait <= most));
    // It waits as it says, and for nothing else.
    let waited: Duration = waits.iter().sum();
    assert!(
        took >= waited && took < waited + promised(SLACK),
        "{took:?}: {waits:?}"
    );
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
    // Larger than any other answer.
    let path = "x".repeat(1 << 20);
    let call = json!({"type": "filesystem-request", "payload": {"requestId": "gw_2",
        "toolCall": {"name": "stat", "arguments": {"path": path}}}});
    fake.leave(8, call);
    fake.until_within("POST /gateway/response/gw_2", 1, Duration::from_mins(10))
        .await;
    // Where they bring nothing, and are answered at once, they have a pause.
    let looks = || fake.seen_of("GET /gateway/poll").len();
    let (before, began) = (looks(), tokio::time::Instant::now());
    fake.until_within("GET /gateway/poll", before + 3, Duration::from_mins(10))
        .await;
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    lent.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_number_is_heard_by_who_looks_for_events() {
    let fake = Fake::ours().await;
    fake.fall_mute();
    let lent = Lent::to(&fake, How::default()).await;
    let call = |id: &str| {
        json!({"type": "filesystem-request", "payload": {
            "requestId": id, "toolCall": {"name": "stat", "arguments": {"path": "a.txt"}}}})
    };
    fake.leave(7, call("gw_1"));
    // As our own server has it: of the same look, a call comes after it.
    let cancel = json!({"type": "cancel", "payload": {"requestId": "gw_0"}});
    fake.leave(None, cancel);
    fake.leave(8, call("gw_2"));
    for id in ["gw_1", "gw_2"] {
        let reply = format!("POST /gateway/response/{id}");
        fake.until_within(&reply, 1, Duration::from_mins(10)).await;
    }
    assert_eq!(fake.seen_of(EVENTS).len(), 2, "no stream is tried again");
    let asked = fake.seen_of("GET /gateway/poll").len();
    let next = fake
        .until_within("GET /gateway/poll", asked + 1, Duration::from_mins(10))
        .await;
    assert_eq!(next.query.as_deref(), Some("after=8"));
    fake.leave(
        None,
        json!({"type": "replaced", "payload": {"by": "ada@desk"}}),
    );
    assert_eq!(lent.ended().await, Ended::Replaced("ada@desk".into()));
}
