//! Our own dialect: nothing is lost, nothing is asked twice under two names, and
//! who gives up is heard.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_store::{BegunCall, CallName, NewCall};
use serde_json::{Value, json};

use crate::client::Ask;
use crate::daemon::{Daemon, call, id, init, init_of_ours, next_call, pairing, result, text};
use crate::surfaces::{over_http, request};
use crate::world::{World, now_ms};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

fn file(path: &str) -> Value {
    json!({"filePath": path})
}

#[test]
fn our_own_daemon_is_told_so_and_gets_ids_deadlines_and_subjects() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::with(&server, &pairing(&world, "ada"));
    let paired = daemon.init(&init_of_ours("Desk")).expect(200).json();
    let ours = &paired["data"]["portcullis"];
    assert_eq!(ours["protocol"], 1);
    assert_eq!(ours["machine"], "desk");
    assert_eq!(ours["pingSeconds"], 15);
    assert!(ours["machineId"].as_str().unwrap().starts_with("m_"));
    let daemon = Daemon::with(&server, paired["data"]["sessionKey"].as_str().unwrap());
    let mut events = daemon.listen();
    for n in 1..=3 {
        std::thread::scope(|scope| {
            let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
            let event = daemon.serve(&mut events, "x");
            assert_eq!(event.id, n.to_string());
            let told = &event.data["payload"]["portcullis"];
            assert!(told["deadlineMs"].as_u64().unwrap() <= 60_000);
            assert!(
                told["subject"].as_str().unwrap().starts_with("token:ada/"),
                "{told}"
            );
            called.join().unwrap();
        });
    }
}

#[test]
fn what_has_no_result_is_sent_again_and_answered_once() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut first = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        let sent = next_call(&mut first);
        drop(first);
        let again = daemon.get("/events").header("Last-Event-ID", &sent.id);
        let mut second = server.connect().listen(&again, server.address);
        let repeated = next_call(&mut second);
        assert_eq!((id(&repeated), &repeated.id), (id(&sent), &sent.id));
        daemon.respond(id(&sent), &result("once")).expect(200);
        daemon.respond(id(&sent), &result("twice")).expect(404);
        assert_eq!(text(&called.join().unwrap()), "once");
        // Answered, it is not sent a third time.
        let mut third = daemon.listen();
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("b")));
        let other = daemon.serve(&mut third, "other");
        assert_ne!(id(&other), id(&sent));
        called.join().unwrap();
    });
}

#[test]
fn a_call_with_a_name_is_sent_again_when_the_server_was_killed_and_one_without_is_not() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let key = Daemon::pair(&world, &server, "ada", &init_of_ours("desk")).key;
    server.kill();
    // What a server that was killed between sending and hearing leaves.
    let machine = world.store.machines(Some("ada")).unwrap().remove(0);
    let kept = json!({
        "call": {"name": "read_file", "arguments": file("a")},
        "addition": {"deadlineMs": 60_000},
    });
    let (kept, now) = (kept.to_string(), now_ms());
    let begin = |request: &str, deadline: u64, name: Option<u8>| {
        let named = name.map(|byte| CallName {
            name: [byte; 32],
            what: [byte; 32],
        });
        let call = NewCall {
            machine: &machine.id,
            request_id: request,
            call: &kept,
            deadline,
            sent_to: Some(""),
            named: named.map(|named| (named, Scope::FsRead)),
        };
        match world.store.begin_link_call(call, now).unwrap() {
            BegunCall::New(number) => number,
            BegunCall::Known(known) => panic!("it has no name: {known:?}"),
        }
    };
    begin("gw_over", now, Some(1));
    begin("gw_nameless", now + 30_000, None);
    let number = begin("gw_kept", now + 30_000, Some(2));
    let server = world.start();
    let daemon = Daemon::with(&server, &key);
    daemon.init(&init_of_ours("desk")).expect(200);
    let mut events = daemon.listen();
    let again = next_call(&mut events);
    assert_eq!((id(&again), &again.id), ("gw_kept", &number.to_string()));
    let payload = &again.data["payload"];
    assert_eq!(payload["toolCall"]["arguments"], file("a"));
    assert!(payload["portcullis"]["deadlineMs"].as_u64().unwrap() <= 30_000);
    daemon.respond("gw_over", &result("late")).expect(404);
    // Its caller went with the server it asked: nobody can ask for it again.
    daemon.respond("gw_nameless", &result("late")).expect(404);
    daemon.respond("gw_kept", &result("done")).expect(200);
    daemon.respond("gw_kept", &result("done")).expect(404);
}

#[test]
fn who_gives_up_is_heard_by_the_machine() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut events = daemon.listen();
    let message = request(
        "tools/call",
        json!({"name": "read_file", "arguments": file("a")}),
    );
    let ask = over_http("tools/call", Some("read_file"), &message).bearer(&token);
    let mut caller = server.connect();
    caller.send(&ask.wire(server.address));
    let sent = next_call(&mut events);
    drop(caller);
    let cancel = events.next_unnamed().unwrap();
    assert_eq!(cancel.data["type"], "cancel");
    assert_eq!(cancel.data["payload"]["requestId"], id(&sent));
    daemon.respond(id(&sent), &result("late")).expect(404);
    let until = Instant::now() + portcullis_testkit::PATIENCE;
    let abandoned = || {
        let lines = world.closings();
        lines.iter().any(|line| {
            line.operation.as_deref() == Some("relay")
                && line.outcome.as_deref() == Some("abandoned")
        })
    };
    while !abandoned() {
        assert!(Instant::now() < until, "its line says so");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_large_result_comes_in_pieces() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut events = daemon.listen();
    let whole = result(&"z".repeat(3 << 20)).to_string();
    let pieces: Vec<&str> = whole
        .as_bytes()
        .chunks(512 * 1024)
        .map(|piece| std::str::from_utf8(piece).unwrap())
        .collect();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        let event = next_call(&mut events);
        let chunk = |index: usize| {
            let last = index + 1 == pieces.len();
            json!({"chunk": {"index": index, "last": last, "text": pieces[index]}})
        };
        daemon.respond(id(&event), &chunk(1)).expect(400);
        for index in 0..pieces.len() {
            daemon.respond(id(&event), &chunk(index)).expect(200);
        }
        assert_eq!(text(&called.join().unwrap()).len(), 3 << 20);
    });
}

#[test]
fn who_cannot_hold_a_stream_asks_for_events() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        let poll = |after: u64| {
            let answer = server
                .ask(&daemon.get(&format!("/poll?after={after}")))
                .expect(200);
            answer.json()["data"]["events"].clone()
        };
        let heard = poll(0);
        assert_eq!(heard.as_array().unwrap().len(), 1, "{heard}");
        assert_eq!(heard[0]["id"], 1);
        // Lost on the way, it is told again; heard, it is not.
        assert_eq!(poll(0)[0]["id"], 1);
        let request = heard[0]["event"]["payload"]["requestId"].as_str().unwrap();
        let further = json!({"entries": 5, "searched": 2, "matches": 1});
        server
            .ask(&daemon.post(&format!("/progress/{request}"), &further))
            .expect(200);
        server
            .ask(&daemon.post("/progress/gw_nobody", &further))
            .expect(404);
        daemon.respond(request, &result("polled")).expect(200);
        assert_eq!(text(&called.join().unwrap()), "polled");
    });
    // n8n's dialect has no such thing.
    let shipped = Daemon::pair(&world, &server, "bob", &init());
    server.ask(&shipped.get("/poll")).expect(403);
}

#[test]
fn a_daemon_of_ours_is_told_by_whom_it_was_replaced() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let first = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut heard = first.listen();
    let mut moved = init_of_ours("desk");
    moved["hostIdentifier"] = json!("ada@other");
    moved["rootPath"] = json!("/elsewhere");
    let token = pairing(&world, "ada");
    let told = Daemon::with(&server, &token)
        .init(&moved)
        .expect(200)
        .json();
    assert_eq!(told["data"]["portcullis"]["replaced"], "ada@laptop");
    let last = heard.next_unnamed().unwrap();
    assert_eq!(
        last.data,
        json!({"type": "replaced", "payload": {"by": "ada@other"}})
    );
    assert!(heard.next_unnamed().is_none());
    assert_eq!(world.store.machines(Some("ada")).unwrap().len(), 1);
}

#[test]
fn clients_hear_that_there_are_other_tools() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead, Scope::Approve]);
    let server = world.start();
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let begin = Ask::post("/mcp", &begin)
        .header("Accept", "application/json, text/event-stream")
        .bearer(&token);
    let begun = server.ask(&begin).expect(200);
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let with = |ask: Ask| {
        ask.header("Accept", "application/json, text/event-stream")
            .header("Mcp-Session-Id", &session)
            .bearer(&token)
    };
    server.ask(&with(Ask::post("/mcp", &ready))).expect(202);
    let mut heard = server
        .connect()
        .listen(&with(Ask::get("/mcp")), server.address);
    let watched = Ask::get("/approvals/events").bearer(&token);
    let mut owner = server.connect().listen(&watched, server.address);
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let told = heard.next_unnamed().unwrap();
    assert_eq!(told.data["method"], "notifications/tools/list_changed");
    let linked = owner.wait_for("machine");
    assert_eq!(linked.data, json!({"name": "desk", "linked": true}));
    server
        .ask(&daemon.post("/disconnect", &json!({})))
        .expect(200);
    let told = heard.next_unnamed().unwrap();
    assert_eq!(told.data["method"], "notifications/tools/list_changed");
    assert_eq!(owner.wait_for("machine").data["linked"], false);
}
