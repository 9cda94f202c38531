//! Questions: who is asked, what counts as an answer, and what a server can say.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use portcullis_daemon::Asking;
use portcullis_gate::{Answer, Approver, Decision, Question, Reply, Surface};
use portcullis_link::Confirmation;
use portcullis_proto::Mode;
use portcullis_testkit::ScriptedApprover;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::kit::{How, Lent, asked};

type Asked<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// Somebody who never answers.
pub(crate) struct Never;

impl Approver for Never {
    fn surface(&self) -> Surface {
        Surface::Terminal
    }

    fn ask<'a>(&'a self, _question: &'a Question) -> Asked<'a> {
        Box::pin(pending())
    }
}

/// Somebody who says yes after a while.
pub(crate) struct After(pub(crate) Duration);

impl Approver for After {
    fn surface(&self) -> Surface {
        Surface::Terminal
    }

    fn ask<'a>(&'a self, _question: &'a Question) -> Asked<'a> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Reply::Answered(Answer {
                decision: Decision::AllowOnce,
                surface: Surface::Terminal,
                by: "ada".into(),
            })
        })
    }
}

fn write(path: &str) -> Value {
    json!({"filePath": path, "content": "x"})
}

fn with(mut arguments: Value, said: &str) -> Value {
    arguments["_confirmation"] = said.into();
    arguments
}

fn there() -> How {
    How {
        writing: Mode::Ask,
        asking: Asking::There,
        ..How::default()
    }
}

/// What a reply asks the server to ask.
fn question(reply: &Value) -> Confirmation {
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(reply["result"]["isError"], true);
    assert_eq!(reply["result"]["structuredContent"]["error"], text);
    Confirmation::parse(text).unwrap()
}

#[tokio::test]
async fn what_is_allowed_for_the_session_lasts_over_a_break() {
    let fake = Fake::ours().await;
    let lent = Lent::to(
        &fake,
        asked(ScriptedApprover::deciding([Decision::AllowSession])),
    )
    .await;
    fake.call("gw_1", "write_file", write("b.txt"));
    fake.reply("gw_1").await;
    fake.break_streams();
    fake.until("GET /gateway/events", 2).await;
    // The list of answers is used up: only what was allowed carries it.
    fake.call("gw_2", "write_file", write("b.txt"));
    let reply = fake.reply("gw_2").await;
    assert!(reply["result"].get("isError").is_none(), "{reply}");
    fake.call("gw_3", "write_file", write("c.txt"));
    let reply = fake.reply("gw_3").await;
    let reason = &reply["result"]["structuredContent"]["reason"];
    assert_eq!(*reason, "approval_unavailable");
    lent.end().await;
}

#[tokio::test]
async fn an_answer_nobody_asked_for_counts_for_nothing_and_is_recorded() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, asked(ScriptedApprover::deciding([]))).await;
    for (n, said) in ["allowOnce", "allowForSession", "alwaysAllow", "denyOnce"]
        .into_iter()
        .enumerate()
    {
        let id = format!("gw_{n}");
        fake.call(&id, "write_file", with(write("b.txt"), said));
        let reply = fake.reply(&id).await;
        assert_eq!(reply["result"]["isError"], true, "{said}");
    }
    assert_eq!(lent.text("b.txt"), None);
    assert_eq!(lent.told.count("not asked for"), 4);
    let lines = lent.world.lines.all();
    let recorded = lines
        .iter()
        .filter(|line| line.alleged.as_deref() == Some("_confirmation"));
    assert_eq!(recorded.count(), 4);
    // A call that needs no answer is made, and its tool never hears of it.
    fake.call(
        "gw_r",
        "read_file",
        with(json!({"filePath": "a.txt"}), "allowOnce"),
    );
    let reply = fake.reply("gw_r").await;
    assert!(reply["result"].get("isError").is_none(), "{reply}");
    lent.end().await;
}

#[tokio::test]
async fn where_the_owner_allows_it_the_server_asks_and_its_answer_counts_once() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, there()).await;
    fake.call("gw_1", "write_file", write("b.txt"));
    let asked = question(&fake.reply("gw_1").await);
    assert_eq!(asked.tool_group, "filesystemWrite");
    assert_eq!(asked.resource, "b.txt");
    let mut options = asked.options.clone();
    options.sort();
    assert_eq!(options, ["allowForSession", "allowOnce", "denyOnce"]);
    // Another call, another answer, a lasting answer: none of them is it.
    for (id, arguments) in [
        ("gw_2", with(write("c.txt"), "allowOnce")),
        ("gw_3", with(write("b.txt"), "alwaysAllow")),
    ] {
        fake.call(id, "write_file", arguments);
        question(&fake.reply(id).await);
    }
    assert_eq!((lent.text("b.txt"), lent.text("c.txt")), (None, None));
    fake.call("gw_4", "write_file", with(write("b.txt"), "allowOnce"));
    let reply = fake.reply("gw_4").await;
    assert!(reply["result"].get("isError").is_none(), "{reply}");
    assert_eq!(lent.text("b.txt").as_deref(), Some("x"));
    // It is used up.
    fake.call("gw_5", "write_file", with(write("b.txt"), "allowOnce"));
    question(&fake.reply("gw_5").await);
    lent.end().await;
}

#[tokio::test]
async fn a_yes_for_the_session_and_a_no_given_there_hold() {
    let fake = Fake::n8n().await;
    let lent = Lent::to(&fake, there()).await;
    fake.call("gw_1", "write_file", write("b.txt"));
    question(&fake.reply("gw_1").await);
    fake.call("gw_2", "write_file", with(write("b.txt"), "denyOnce"));
    let reply = fake.reply("gw_2").await;
    let reason = &reply["result"]["structuredContent"]["reason"];
    assert_eq!(*reason, "approval_denied");
    fake.call("gw_3", "write_file", write("b.txt"));
    question(&fake.reply("gw_3").await);
    fake.call(
        "gw_4",
        "write_file",
        with(write("b.txt"), "allowForSession"),
    );
    fake.reply("gw_4").await;
    fake.call(
        "gw_5",
        "write_file",
        json!({"filePath": "b.txt", "content": "again"}),
    );
    let reply = fake.reply("gw_5").await;
    assert!(reply["result"].get("isError").is_none(), "{reply}");
    assert_eq!(lent.text("b.txt").as_deref(), Some("again"));
    lent.end().await;
}
