//! What MCP keeps for one principal, and cursors, brought by another: refused
//! over the wire, and each refusal has its line.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::surfaces::{message_in, over_http, request};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// Two who have no business with what somebody else's agent keeps: another
/// person's token, and another token of the same person.
fn others(world: &World) -> [(&'static str, String); 2] {
    [
        ("bob", world.token("bob", &AGENT)),
        ("ada", world.token("ada", &AGENT)),
    ]
}

/// That `ask` leaves one line about `user`, for `reason`; what was answered.
#[track_caller]
fn recorded(world: &World, server: &Running, user: &str, ask: &Ask, reason: &str) -> Answer {
    let before = world.closings().len();
    let answer = server.ask(ask);
    let lines = world.closings().split_off(before);
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            let who = line.subject.as_ref().and_then(|who| who.user.as_deref());
            (who, line.reason.as_deref())
        })
        .collect();
    assert_eq!(said, [(Some(user), Some(reason))], "{ask:?}");
    answer
}

fn tool(arguments: Value, able: &Value) -> Value {
    let mut params = json!({"name": "read_file", "arguments": arguments});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able.clone();
    params
}

fn call(params: &Value) -> Ask {
    let message = request("tools/call", params.clone());
    over_http("tools/call", Some("read_file"), &message)
}

fn reason(answer: &Answer) -> String {
    let told = message_in(answer);
    let told = &told["result"]["structuredContent"]["reason"];
    told.as_str().unwrap_or_default().to_owned()
}

#[test]
fn another_principals_session_is_refused_over_http_and_recorded() {
    let world = World::new(Mode::Allow);
    let mine = world.token("ada", &AGENT);
    let others = others(&world);
    let server = world.start();
    let plain = |method: &str| {
        Ask::new(method, "/mcp").header("Accept", "application/json, text/event-stream")
    };
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let begun = server
        .ask(&plain("POST").json(&begin).bearer(&mine))
        .expect(200);
    let id = begun.header("mcp-session-id").unwrap().to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let tries = || [plain("GET"), plain("POST").json(&list), plain("DELETE")];
    for (user, token) in &others {
        for ask in tries() {
            let theirs = ask.clone().header("Mcp-Session-Id", &id).bearer(token);
            let told = recorded(&world, &server, user, &theirs, "no_grant").expect(404);
            let nobodys = ask
                .header("Mcp-Session-Id", "4ae57cc0-0000-4000-8000-000000000000")
                .bearer(token);
            let same = recorded(&world, &server, user, &nobodys, "not_found").expect(404);
            assert_eq!(told.body, same.body, "another's and none look alike");
        }
    }
    // Nothing came of it: who opened it goes on, and ends it.
    let own = |ask: Ask| ask.header("Mcp-Session-Id", &id).bearer(&mine);
    server.ask(&own(plain("POST").json(&list))).expect(200);
    server.ask(&own(plain("DELETE"))).expect(202);
}

#[test]
fn another_principals_request_state_and_question_are_refused_over_http_and_recorded() {
    let world = World::new(Mode::Allow);
    world.scratch.file(".env", "KEY=canary");
    let mine = world.token("ada", &AGENT);
    let others = others(&world);
    let server = world.start();

    let secret = json!({"filePath": ".env"});
    let mut params = tool(secret.clone(), &json!({"elicitation": {"form": {}}}));
    let asked = message_in(&server.ask(&call(&params).bearer(&mine)).expect(200));
    let state = &asked["result"]["requestState"];
    assert!(state.is_string(), "{asked}");
    params["requestState"] = state.clone();
    params["inputResponses"] =
        json!({"approval": {"action": "accept", "content": {"decision": "allow_once"}}});
    for (user, token) in &others {
        let ask = call(&params).bearer(token);
        let told = recorded(&world, &server, user, &ask, "bad_arguments");
        assert_eq!(reason(&told), "bad_arguments");
        assert!(!told.text().contains("canary"));
    }
    // It was not used up by those.
    let done = server.ask(&call(&params).bearer(&mine)).expect(200);
    assert!(done.text().contains("canary"), "{}", done.text());

    let mut params = tool(secret, &json!({}));
    let asked = message_in(&server.ask(&call(&params).bearer(&mine)).expect(200));
    let id = &asked["result"]["structuredContent"]["questionId"];
    assert!(id.is_string(), "{asked}");
    params["_meta"]["portcullis/question"] = id.clone();
    for (user, token) in &others {
        let ask = call(&params).bearer(token);
        let told = recorded(&world, &server, user, &ask, "bad_arguments");
        params["_meta"]["portcullis/question"] = json!("q_nothing");
        let ask = call(&params).bearer(token);
        let same = recorded(&world, &server, user, &ask, "bad_arguments");
        assert_eq!(told.body, same.body, "another's and none look alike");
        params["_meta"]["portcullis/question"] = id.clone();
    }
}

#[test]
fn another_principals_task_is_refused_over_http_and_recorded() {
    let world = World::new(Mode::Allow);
    world.scratch.file(".env", "KEY=canary");
    let mine = world.token("ada", &AGENT);
    let others = others(&world);
    let server = world.start();
    let able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = tool(json!({"filePath": ".env"}), &able);
    let begun = message_in(&server.ask(&call(&params).bearer(&mine)).expect(200));
    let id = begun["result"]["taskId"]
        .as_str()
        .expect("a task")
        .to_owned();
    let about = |method: &str| {
        let mut params = json!({"taskId": id, "inputResponses": {}});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able.clone();
        over_http(method, Some(&id), &request(method, params))
    };
    for (user, token) in &others {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let ask = about(method).bearer(token);
            let told = message_in(&recorded(&world, &server, user, &ask, "not_found"));
            assert_eq!(
                told["error"]["data"]["reason"], "not_found",
                "{method}: {told}"
            );
        }
    }
    let looked = message_in(&server.ask(&about("tasks/get").bearer(&mine)).expect(200));
    assert!(looked["result"]["status"].is_string(), "{looked}");
}

/// A cursor is a place and no more: it lets nobody in who is not let in without
/// it, and one into something else is refused.
#[test]
fn another_principals_cursor_lets_nobody_in_and_that_is_recorded() {
    let world = World::new(Mode::Allow);
    world.scratch.file("lines.txt", "one\ntwo\nthree\n");
    let mine = world.token("ada", &AGENT);
    let blind = world.token("bob", &[Scope::FsWrite, Scope::Audit]);
    let bob = world.token("bob", &AGENT);
    let server = world.start();
    let next = |target: &str| {
        let told = server
            .ask(&Ask::get(target).bearer(&mine))
            .expect(200)
            .json();
        told["nextCursor"]
            .as_str()
            .expect("there is more")
            .to_owned()
    };
    let read = next("/file?path=lines.txt&limit=1");
    let list = next("/list?path=.&limit=1");
    for target in [
        format!("/file?path=lines.txt&cursor={read}"),
        format!("/list?path=.&limit=1&cursor={list}"),
    ] {
        let ask = Ask::get(&target).bearer(&blind);
        recorded(&world, &server, "bob", &ask, "no_grant").expect(403);
    }
    // Taken to another file it leads nowhere, whoever brings it.
    let elsewhere = Ask::get(&format!("/file?path=notes.txt&cursor={read}")).bearer(&bob);
    let before = world.closings().len();
    let told = server.ask(&elsewhere).expect(409);
    assert!(!told.text().contains("some notes"), "{}", told.text());
    // That the file was looked at, and that nothing of it was told.
    let lines: Vec<_> = world.closings().split_off(before);
    let outcomes: Vec<_> = lines
        .iter()
        .filter_map(|line| line.outcome.as_deref())
        .collect();
    assert_eq!(outcomes, ["success", "failed"]);
    let forged = Ask::get("/list?path=.&limit=1&cursor=forged").bearer(&bob);
    recorded(&world, &server, "bob", &forged, "bad_cursor").expect(400);
    let outside = Ask::get(&format!("/list?path=..&limit=1&cursor={list}")).bearer(&bob);
    recorded(&world, &server, "bob", &outside, "escape").expect(400);
}
