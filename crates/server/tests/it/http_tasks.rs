//! A call that waits for a person as a task.

use portcullis_gate::{Answer, Decision, Surface};
use portcullis_proto::{Mode, QuestionId};
use portcullis_store::Stage;
use serde_json::{Value, json};

use crate::client::{Site, World};
use crate::http_client::Visitor;

fn secret() -> Value {
    json!({"name": "read_file", "arguments": {"filePath": ".env"}})
}

fn able(site: &Site, token: &str) -> Visitor {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    Visitor::new(site, token, "fs:read").able(tasks)
}

async fn look(client: &Visitor, task: &str) -> Value {
    let looked = client.request("tasks/get", json!({"taskId": task})).await;
    looked["result"].clone()
}

/// Looks until the task is no longer what it was.
async fn until_not(client: &Visitor, task: &str, status: &str) -> Value {
    for _ in 0..200 {
        let looked = look(client, task).await;
        if looked["status"] != status {
            return looked;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("still {status}");
}

/// Begins a call that has to wait; the task, and its question.
async fn begin(client: &Visitor) -> (String, QuestionId) {
    let begun = client.request("tools/call", secret()).await;
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    let task = begun["result"]["taskId"].as_str().unwrap().to_owned();
    let waits = until_not(client, &task, "working").await;
    assert_eq!(waits["status"], "input_required", "{waits}");
    let url = waits["inputRequests"]["approval"]["params"]["url"]
        .as_str()
        .unwrap();
    let id = url
        .strip_prefix("http://127.0.0.1:7654/approve/")
        .unwrap_or_else(|| panic!("{url}"));
    (task, QuestionId::new(id))
}

#[tokio::test]
async fn a_task_waits_for_the_answer_and_then_does_the_call_once() {
    let world = World::new(Mode::Allow);
    let site = world.http();
    let mine = able(&site, "mine");
    for (decision, outcome) in [
        (Decision::AllowOnce, "success"),
        (Decision::DenyOnce, "denied"),
    ] {
        let (task, question) = begin(&mine).await;
        let answer = Answer {
            decision,
            surface: Surface::Console,
            by: "me".into(),
        };
        let said = world
            .store
            .answer(&question, &answer, world.clock().now_ms())
            .unwrap();
        assert_eq!(format!("{said:?}"), "Answered");
        let done = until_not(&mine, &task, "input_required").await;
        assert_eq!(done["status"], "completed", "{done}");
        assert_eq!(
            done.to_string().contains("canary-secret"),
            decision.allows(),
            "{done}"
        );
        assert_eq!(done["result"]["isError"], !decision.allows(), "{done}");
        assert_eq!(world.outcomes().last().unwrap(), outcome);
    }
    assert_eq!(world.outcomes(), ["parked", "success", "parked", "denied"]);
}

#[tokio::test]
async fn another_principals_task_is_not_there_and_asking_for_it_is_on_the_record() {
    let world = World::new(Mode::Allow);
    let site = world.http();
    let (mine, other) = (able(&site, "mine"), able(&site, "other"));
    let (task, question) = begin(&mine).await;
    for (method, route) in [
        ("tasks/get", "mcp/tasks/get"),
        ("tasks/update", "mcp/tasks/update"),
        ("tasks/cancel", "mcp/tasks/cancel"),
    ] {
        let asked = json!({"taskId": task, "inputResponses": {}});
        let refused = other.request(method, asked).await;
        let absent = json!({"taskId": "none", "inputResponses": {}});
        let absent = other.request(method, absent).await;
        assert_eq!(refused["error"]["data"]["reason"], "not_found", "{refused}");
        assert_eq!(refused["error"], absent["error"]);
        let lines = world.lines_of(route);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.who == "token:me/other"));
    }
    assert_eq!(look(&mine, &task).await["status"], "input_required");
    let now = world.clock().now_ms();
    assert_eq!(world.store.poll(&question, now).unwrap(), Stage::Pending);
}

#[tokio::test]
async fn a_cancelled_task_takes_its_question_back() {
    let world = World::new(Mode::Allow);
    let site = world.http();
    let mine = able(&site, "mine");
    let (task, question) = begin(&mine).await;
    mine.request("tasks/cancel", json!({"taskId": task})).await;
    for _ in 0..200 {
        if look(&mine, &task).await["status"] == "cancelled" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(look(&mine, &task).await["status"], "cancelled");
    let now = world.clock().now_ms();
    assert_eq!(world.store.poll(&question, now).unwrap(), Stage::Withdrawn);
    assert_eq!(world.outcomes(), ["parked"]);
}

#[tokio::test]
async fn a_client_whose_person_declines_has_said_no() {
    let world = World::new(Mode::Allow);
    let site = world.http();
    let mine = able(&site, "mine");
    let (task, _) = begin(&mine).await;
    let declined = json!({"taskId": task, "inputResponses": {"approval": {"action": "decline"}}});
    mine.request("tasks/update", declined).await;
    for status in ["input_required", "working"] {
        until_not(&mine, &task, status).await;
    }
    let done = look(&mine, &task).await;
    assert_eq!(done["status"], "completed", "{done}");
    let reason = &done["result"]["structuredContent"]["reason"];
    assert_eq!(reason, "approval_denied", "{done}");
}

#[tokio::test]
async fn who_has_sixteen_tasks_is_given_the_page_instead() {
    let world = World::new(Mode::Allow);
    let site = world.http();
    let mine = able(&site, "mine");
    for _ in 0..16 {
        begin(&mine).await;
    }
    let pending = mine.request("tools/call", secret()).await;
    let told = &pending["result"]["structuredContent"];
    assert_eq!(told["reason"], "approval_pending", "{pending}");
    begin(&able(&site, "another")).await;
}
