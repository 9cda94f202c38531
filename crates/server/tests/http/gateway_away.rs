//! Machines that stay away and come back: what waits for them is neither lost
//! nor sent to who is not there, and their owners are told.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::Ask;
use crate::daemon::{Daemon, id, init_of_ours, next_call, pairing, result, tool};
use crate::isolation::cookie;
use crate::world::{PATIENCE, Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What a daemon says that remembers calls and removes things.
fn removing() -> Value {
    let mut init = init_of_ours("desk");
    init["portcullis"]["instance"] = json!("a");
    init["tools"] = json!([tool("delete", "filesystem", false)]);
    init
}

/// Waits until as many machines are linked.
#[track_caller]
fn until_linked(server: &Running, token: &str, machines: &[&str]) {
    let began = Instant::now();
    loop {
        let status = server.ask(&Ask::get("/status").bearer(token)).expect(200);
        let linked = status.json()["machines"].clone();
        if linked == json!(machines) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "still {linked}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_call_whose_owner_says_yes_late_goes_to_the_daemon_that_is_there_then() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let person = cookie(&world, "ada");
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &removing());
    let mut events = daemon.listen();
    let asks = format!(
        "GATEWAY_CONFIRMATION_REQUIRED::{}",
        json!({"toolGroup": "filesystemWrite", "resource": "a", "description": "Delete a",
            "options": ["denyOnce", "allowOnce"]})
    );
    let wants = json!({"result": {
        "content": [{"type": "text", "text": json!({"error": asks}).to_string()}],
        "structuredContent": {"error": asks}, "isError": true,
    }});
    let ask = Ask::post("/file/delete", &json!({"path": "a"}))
        .header("Prefer", "wait=50")
        .bearer(&token);
    let mut caller = server.connect();
    caller.send(&ask.wire(server.address));
    let first = next_call(&mut events);
    daemon.respond(id(&first), &wants).expect(200);
    let waiting = || {
        let ask = Ask::get("/approvals").cookie(&person);
        server.ask(&ask).expect(200).json()["approvals"].clone()
    };
    while waiting().as_array().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Nothing is under way, and nobody listens for so long that it is let go of.
    drop(events);
    until_linked(&server, &token, &[]);
    daemon.init(&removing()).expect(200);
    let mut events = daemon.listen();
    let question = waiting()[0]["id"].as_str().unwrap().to_owned();
    let yes = Ask::post(
        &format!("/approvals/{question}"),
        &json!({"decision": "allow_once"}),
    );
    server.ask(&yes.cookie(&person)).expect(200);
    let second = next_call(&mut events);
    let arguments = &second.data["payload"]["toolCall"]["arguments"];
    assert_eq!(arguments["_confirmation"], "allowOnce");
    daemon.respond(id(&second), &result("gone")).expect(200);
    caller.answer().unwrap().expect(200);
}

#[test]
fn a_machine_that_stays_away_is_told_of_and_comes_back_by_an_init() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead, Scope::FsWrite, Scope::Approve]);
    let server = world.start();
    let watched = Ask::get("/approvals/events").bearer(&token);
    let mut owner = server.connect().listen(&watched, server.address);
    let daemon = Daemon::pair(&world, &server, "ada", &removing());
    assert_eq!(owner.wait_for("machine").data["linked"], true);
    let mut events = daemon.listen();
    // A call waits, so that the link is not let go of.
    let ask = Ask::post("/file/delete", &json!({"path": "a"})).bearer(&token);
    let mut caller = server.connect();
    caller.send(&ask.wire(server.address));
    let sent = next_call(&mut events);
    drop(events);
    let lost = owner.wait_for("machine");
    assert_eq!(lost.data, json!({"name": "desk", "linked": false}));
    let is_linked = || world.store.machines(Some("ada")).unwrap()[0].linked;
    let began = Instant::now();
    while is_linked() {
        assert!(began.elapsed() < PATIENCE, "the next server waits for it");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.ask(&daemon.get("/events")).expect(403);
    server.ask(&daemon.get("/poll")).expect(403);
    daemon.init(&removing()).expect(200);
    assert_eq!(owner.wait_for("machine").data["linked"], true);
    assert!(is_linked());
    let mut events = daemon.listen();
    assert_eq!(id(&next_call(&mut events)), id(&sent), "it is not lost");
    daemon.respond(id(&sent), &result("gone")).expect(200);
    caller.answer().unwrap().expect(200);
}

#[test]
fn a_token_that_was_used_up_while_its_body_came_is_refused_as_any_other() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let late = Daemon::with(&server, &pairing(&world, "ada"));
    let wire = late.post("/init", &removing()).wire(server.address);
    let (head, body) = wire.split_at(wire.len() - 9);
    let mut slow = server.connect();
    slow.send(head);
    let quick = Daemon::with(&server, &late.key);
    while quick.init(&removing()).status != 200 {}
    let refused = || {
        let lines = world.closings();
        let refused = lines.iter().filter(|line| {
            line.alleged.as_deref() == Some("gateway key")
                && line.reason.as_deref() == Some("no_grant")
        });
        refused.count()
    };
    let before = refused();
    slow.send(body);
    let answer = slow.answer().unwrap().expect(403);
    assert_eq!(answer.json()["message"], "Invalid gateway key");
    assert_eq!(refused(), before + 1);
}
