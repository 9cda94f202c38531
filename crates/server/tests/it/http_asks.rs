//! Asking a person over HTTP: by a form, by a second call, by a page.

use http::Method;
use portcullis_gate::{Answer, Decision, Surface};
use portcullis_proto::{Mode, QuestionId};
use serde_json::{Value, json};

use crate::client::World;
use crate::http_client::Visitor;

fn secret() -> Value {
    json!({"name": "read_file", "arguments": {"filePath": ".env"}})
}

fn retry(asked: &Value, decision: &str) -> Value {
    let mut call = secret();
    call["requestState"] = asked["result"]["requestState"].clone();
    call["inputResponses"] =
        json!({"approval": {"action": "accept", "content": {"decision": decision}}});
    call
}

fn reason(reply: &Value) -> &str {
    reply["result"]["structuredContent"]["reason"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn any_server_finishes_a_call_once_and_only_for_who_began_it() {
    let world = World::new(Mode::Allow);
    let (here, there) = (world.http(), world.http());
    let forms = json!({"elicitation": {"form": {}}});
    let mine = Visitor::new(&here, "mine", "fs:read").able(forms.clone());
    let other = Visitor::new(&here, "other", "fs:read").able(forms);
    let asked = mine.request("tools/call", secret()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let call = retry(&asked, "allow_once");
    let refused = other.request("tools/call", call.clone()).await;
    assert_eq!(reason(&refused), "bad_arguments", "{refused}");
    let line = world.lines_of("mcp/tools/call").pop().unwrap();
    assert_eq!(
        (&*line.who, line.reason),
        ("token:me/other", Some("bad_arguments"))
    );
    let elsewhere = mine.at(&there);
    let done = elsewhere.request("tools/call", call.clone()).await;
    assert!(done.to_string().contains("canary-secret"), "{done}");
    let again = mine.request("tools/call", call).await;
    assert_eq!(reason(&again), "answer_used", "{again}");
}

#[tokio::test]
async fn an_older_client_is_asked_on_the_stream_of_its_call() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let client = Visitor::new(&http, "mine", "fs:read")
        .able(json!({"elicitation": {}}))
        .handshake()
        .await;
    for (decision, allowed) in [("allow_once", true), ("deny_once", false)] {
        let mut stream = client.start("tools/call", secret()).await;
        let asked = stream.message().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let said = json!({"action": "accept", "content": {"decision": decision}});
        let said = json!({"jsonrpc": "2.0", "id": asked["id"], "result": said});
        assert_eq!(client.ask(Method::POST, Some(said)).await.status, 202);
        let reply = stream.message().await.unwrap();
        assert_eq!(
            reply.to_string().contains("canary-secret"),
            allowed,
            "{reply}"
        );
    }
}

#[tokio::test]
async fn for_this_session_is_offered_to_who_names_a_conversation() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let forms = json!({"elicitation": {"form": {}}});
    let plain = Visitor::new(&http, "mine", "fs:read").able(forms.clone());
    let asked = plain.request("tools/call", secret()).await;
    assert!(!asked.to_string().contains("allow_session"), "{asked}");

    let named = plain.clone().with("portcullis-conversation", "c1");
    let asked = named.request("tools/call", secret()).await;
    assert!(asked.to_string().contains("allow_session"), "{asked}");
    let done = named
        .request("tools/call", retry(&asked, "allow_session"))
        .await;
    assert!(done.to_string().contains("canary-secret"), "{done}");
    // By its metadata it is the same conversation; by another's name, or
    // another principal's, it is not.
    let mut call = secret();
    call["_meta"]["portcullis/conversation"] = json!("c1");
    let again = plain.request("tools/call", call.clone()).await;
    assert!(again.to_string().contains("canary-secret"), "{again}");
    call["_meta"]["portcullis/conversation"] = json!("c2");
    let asked = plain.request("tools/call", call).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let other = Visitor::new(&http, "other", "fs:read")
        .able(forms)
        .with("portcullis-conversation", "c1");
    let asked = other.request("tools/call", secret()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_given_the_page_and_fetches_the_answer_once() {
    let world = World::new(Mode::Allow);
    let (here, there) = (world.http(), world.http());
    let newer = Visitor::new(&here, "mine", "fs:read");
    let older = Visitor::new(&here, "mine", "fs:read").handshake().await;
    let other = Visitor::new(&here, "other", "fs:read");
    for mine in [newer, older] {
        let pending = mine.request("tools/call", secret()).await;
        assert_eq!(reason(&pending), "approval_pending", "{pending}");
        assert_eq!(pending["result"]["isError"], true);
        let told = &pending["result"]["structuredContent"];
        let id = told["questionId"].as_str().unwrap().to_owned();
        let page = format!("http://127.0.0.1:7654/approve/{id}");
        assert_eq!(told["approvalUrl"], json!(page), "{told}");
        let text = pending["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&page), "{text}");

        let mut call = secret();
        call["_meta"]["portcullis/question"] = json!(id);
        let waiting = mine.request("tools/call", call.clone()).await;
        assert_eq!(reason(&waiting), "approval_pending", "{waiting}");
        let answer = Answer {
            decision: Decision::AllowOnce,
            surface: Surface::Console,
            by: "me".into(),
        };
        let now = portcullis_gate::Clock::now_ms(&*world.clock());
        let said = world.store.answer(&QuestionId::new(&*id), &answer, now);
        assert_eq!(format!("{:?}", said.unwrap()), "Answered");

        // Another principal neither gets the answer nor uses it up.
        let refused = other.request("tools/call", call.clone()).await;
        assert_eq!(reason(&refused), "not_found", "{refused}");
        let line = world.lines_of("mcp/tools/call").pop().unwrap();
        assert_eq!(line.who, "token:me/other");
        // Nor is it an answer to another call.
        let mine_elsewhere = match mine.session {
            Some(_) => mine.clone(),
            None => mine.at(&there),
        };
        let done = mine_elsewhere.request("tools/call", call.clone()).await;
        assert!(done.to_string().contains("canary-secret"), "{done}");
        let again = mine.request("tools/call", call).await;
        assert_eq!(reason(&again), "answer_used", "{again}");
    }
}

#[tokio::test]
async fn an_answer_to_one_call_is_none_to_another() {
    let world = World::new(Mode::Ask);
    let http = world.http();
    let mine = Visitor::new(&http, "mine", "fs:read");
    let call = json!({"name": "read_file", "arguments": {"filePath": "src/main.rs"}});
    let pending = mine.request("tools/call", call).await;
    let id = pending["result"]["structuredContent"]["questionId"].clone();
    let answer = Answer {
        decision: Decision::AllowOnce,
        surface: Surface::Console,
        by: "me".into(),
    };
    let now = portcullis_gate::Clock::now_ms(&*world.clock());
    let question = QuestionId::new(id.as_str().unwrap());
    let said = world.store.answer(&question, &answer, now).unwrap();
    assert_eq!(format!("{said:?}"), "Answered");
    let mut call = secret();
    call["_meta"]["portcullis/question"] = id;
    let refused = mine.request("tools/call", call).await;
    assert_eq!(reason(&refused), "changed", "{refused}");
    assert!(!refused.to_string().contains("canary"), "{refused}");
}

#[tokio::test]
async fn who_says_how_long_it_waits_gets_the_answer_in_the_same_call() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let patient = Visitor::new(&http, "mine", "fs:read").with("prefer", "wait=20");
    let (store, clock) = (world.store.clone(), world.clock());
    let person = tokio::spawn(async move {
        loop {
            let now = clock.now_ms();
            if let Some(question) = store.pending(1, now).unwrap().pop() {
                let answer = Answer {
                    decision: Decision::AllowOnce,
                    surface: Surface::Console,
                    by: "me".into(),
                };
                return store.answer(&question.id, &answer, now).unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    let done = patient.request("tools/call", secret()).await;
    assert!(done.to_string().contains("canary-secret"), "{done}");
    assert_eq!(format!("{:?}", person.await.unwrap()), "Answered");
}

#[tokio::test]
async fn a_resource_that_needs_a_yes_is_fetched_the_same_way() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let mine = Visitor::new(&http, "mine", "fs:read");
    let uri = "portcullis://workspace/.env";
    let pending = mine.request("resources/read", json!({"uri": uri})).await;
    let told = &pending["error"]["data"];
    assert_eq!(told["reason"], "approval_pending", "{pending}");
    let id = told["questionId"].as_str().unwrap();
    let answer = Answer {
        decision: Decision::AllowOnce,
        surface: Surface::Console,
        by: "me".into(),
    };
    let now = portcullis_gate::Clock::now_ms(&*world.clock());
    let said = world.store.answer(&QuestionId::new(id), &answer, now);
    assert_eq!(format!("{:?}", said.unwrap()), "Answered");
    let again = json!({"uri": uri, "_meta": {"portcullis/question": id}});
    let read = mine.request("resources/read", again).await;
    assert!(read.to_string().contains("canary-secret"), "{read}");
}
