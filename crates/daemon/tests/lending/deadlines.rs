//! How long a call and a question last, by a clock that stands still while anybody
//! has something to do.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::Caller;
use portcullis_link::Dialect;
use portcullis_proto::{Failure, Group, Mode, ToolCall, ToolReply, ToolSpec};
use portcullis_testkit::FakeClock;
use portcullis_tools::{Here, Machine, Task};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fake::Fake;
use crate::kit::{How, Lent, asked};
use crate::questions::Never;

/// Longer than anything here, by that clock.
const LONG: Duration = Duration::from_mins(10);

/// A machine whose tools never come to an end.
pub(crate) struct Endless(pub(crate) Here);

impl Machine for Endless {
    fn catalog(&self, caller: &Caller) -> Vec<ToolSpec> {
        self.0.catalog(caller)
    }

    fn instructions(&self) -> String {
        self.0.instructions()
    }

    fn group_of(&self, name: &str) -> Option<Group> {
        self.0.group_of(name)
    }

    fn call<'a>(&'a self, _caller: &'a Caller, _call: ToolCall) -> Task<'a, ToolReply> {
        Box::pin(pending())
    }

    fn refuse(&self, caller: &Caller, name: &str, why: Failure) -> Failure {
        self.0.refuse(caller, name, why)
    }
}

/// Has one thing done, and hears what came of it after how long.
async fn done(dialect: Dialect, how: How, addition: Option<Value>) -> (Value, Duration) {
    done_late(dialect, how, addition, Duration::ZERO).await
}

/// The same, where nothing was heard for so long, by the clock that also runs while a
/// machine sleeps.
async fn done_late(
    dialect: Dialect,
    mut how: How,
    addition: Option<Value>,
    gap: Duration,
) -> (Value, Duration) {
    let clock = Arc::new(FakeClock::new());
    how.clock = Arc::clone(&clock) as _;
    let fake = Fake::start(dialect, None).await;
    let lent = Lent::begin(&fake.url(), how);
    fake.until_within("GET /gateway/events", 1, LONG).await;
    clock.pass(gap);
    let began = Instant::now();
    let mut payload = if dialect == Dialect::Seed {
        json!({"operation": "read-file", "args": {"filePath": "a.txt"}})
    } else {
        let arguments = json!({"filePath": "b.txt", "content": "x"});
        json!({"toolCall": {"name": "write_file", "arguments": arguments}})
    };
    payload["requestId"] = "gw_1".into();
    if let Some(addition) = addition {
        payload["portcullis"] = addition;
    }
    fake.send(&json!({"type": "filesystem-request", "payload": payload}));
    let reply = fake
        .until_within("POST /gateway/response/gw_1", 1, LONG)
        .await;
    let took = began.elapsed();
    assert_eq!(lent.text("b.txt"), None);
    lent.end().await;
    (reply.body, took)
}

/// The failure in a reply: its reason, or in the seed's dialect its words.
fn why(reply: &Value) -> String {
    let reason = &reply["result"]["structuredContent"]["reason"];
    let told = reason.as_str().or_else(|| reply["error"].as_str());
    told.unwrap_or_else(|| panic!("it did not fail: {reply}"))
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_before_its_call_does() {
    let within = |ms: u64| Some(json!({ "deadlineMs": ms }));
    for (dialect, addition, seconds) in [
        (Dialect::Seed, None, 25.0),
        (Dialect::Shipped, None, 55.0),
        (Dialect::Ours, None, 55.0),
        // n8n's server cannot say how long it waits.
        (Dialect::Shipped, within(20_000), 55.0),
        (Dialect::Ours, within(60_000), 55.0),
        (Dialect::Ours, within(20_000), 15.0),
        // Of a call that has hardly any time left, a question has a part.
        (Dialect::Ours, within(5_500), 1.0),
        (Dialect::Ours, within(1_200), 0.6),
    ] {
        let how = How {
            reading: if dialect == Dialect::Seed {
                Mode::Ask
            } else {
                Mode::Allow
            },
            ..asked(Never)
        };
        let (reply, took) = done(dialect, how, addition.clone()).await;
        let case = format!("{dialect:?} {addition:?}: {reply} after {took:?}");
        let (took, why) = (took.as_secs_f64(), why(&reply));
        if dialect == Dialect::Seed {
            assert!(why.contains("answer"), "{case}");
        } else {
            assert_eq!(why, "approval_timeout", "{case}");
        }
        assert!((seconds..seconds + 0.5).contains(&took), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_is_ended_at_its_deadline() {
    // A change has a moment more to come to something, and is replied to after it.
    let within = |ms: u64| Some(json!({ "deadlineMs": ms }));
    for (dialect, addition, seconds) in [
        (Dialect::Seed, None, 30.0),
        (Dialect::Shipped, None, 60.0 + 10.0),
        (Dialect::Ours, None, 60.0 + 10.0),
        (Dialect::Ours, within(7_000), 7.0 + 10.0),
    ] {
        let how = How {
            is_endless: true,
            ..How::default()
        };
        let (reply, took) = done(dialect, how, addition.clone()).await;
        let case = format!("{dialect:?} {addition:?}: {reply} after {took:?}");
        if dialect != Dialect::Seed {
            assert_eq!(why(&reply), "deadline", "{case}");
        }
        let took = took.as_secs_f64();
        assert!((seconds..seconds + 0.5).contains(&took), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_call_may_have_lain_here_is_taken_off_where_it_does_not_tell() {
    for (dialect, addition, seconds) in [
        (Dialect::Seed, None, 30.0 - 20.0),
        (Dialect::Shipped, None, 60.0 - 20.0 + 10.0),
        (Dialect::Ours, None, 60.0 - 20.0 + 10.0),
        (
            Dialect::Ours,
            Some(json!({"deadlineMs": 7_000})),
            7.0 + 10.0,
        ),
    ] {
        let how = How {
            is_endless: true,
            ..How::default()
        };
        // Twenty seconds more than from one ping to the next.
        let gap = Duration::from_secs(35);
        let (reply, took) = done_late(dialect, how, addition.clone(), gap).await;
        let case = format!("{dialect:?} {addition:?}: {reply} after {took:?}");
        let took = took.as_secs_f64();
        assert!((seconds..seconds + 0.5).contains(&took), "{case}");
    }
}

#[tokio::test]
async fn what_came_while_the_machine_slept_is_not_taken_for_new() {
    for dialect in [Dialect::Ours, Dialect::Shipped] {
        let clock = Arc::new(FakeClock::new());
        let how = How {
            clock: Arc::clone(&clock) as _,
            ..How::default()
        };
        let fake = Fake::start(dialect, None).await;
        let lent = Lent::to(&fake, how).await;
        fake.call("gw_1", "stat", json!({"path": "a.txt"}));
        fake.reply("gw_1").await;
        clock.pass(Duration::from_secs(41));
        let write = json!({"filePath": "b.txt", "content": "x"});
        fake.call("gw_2", "write_file", write.clone());
        let again = fake.until("GET /gateway/events", 2).await;
        assert_eq!(lent.told.count("Began"), 1, "{:?}", lent.told.all());
        assert_eq!(lent.text("b.txt"), None);
        if dialect.is_ours() {
            // As though it had not been heard: what still counts is sent again.
            assert_eq!(again.after.as_deref(), Some("1"));
        } else {
            assert_eq!(fake.seen_of("POST /gateway/init").len(), 2);
        }
        fake.call("gw_2", "write_file", write);
        fake.reply("gw_2").await;
        assert_eq!(lent.text("b.txt").as_deref(), Some("x"));
        lent.end().await;
    }
}

#[tokio::test]
async fn what_a_call_waits_for_a_place_is_part_of_its_time() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.take_replies(false);
    for n in 0..128 {
        fake.call(&format!("gw_{n}"), "stat", json!({"path": "a.txt"}));
    }
    let write = json!({"name": "write_file", "arguments": {"filePath": "b.txt", "content": "x"}});
    fake.send(
        &json!({"type": "filesystem-request", "payload": {"requestId": "gw_late",
        "toolCall": write, "portcullis": {"deadlineMs": 300}}}),
    );
    while lent.told.count("Ended") < 128 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    fake.take_replies(true);
    assert_eq!(why(&fake.reply("gw_late").await), "deadline");
    assert_eq!(lent.text("b.txt"), None);
    let closing = lent.world.lines.closing();
    assert!(closing.len() > 128, "it is on the record");
    lent.end().await;
}
