//! Who hears what: looks that bring calls in any order, streams that take each
//! other's place, and how much may wait for one.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_store::{BegunCall, NewCall};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::daemon::{Daemon, call, id, init_of_ours, next_call, result, text};
use crate::surfaces::{message_in, over_http, request};
use crate::world::{PATIENCE, Running, World, now_ms};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

fn as_instance(instance: &str) -> Value {
    let mut init = init_of_ours("desk");
    init["portcullis"]["instance"] = json!(instance);
    init
}

/// What a look behind `after` brings.
#[track_caller]
fn look(server: &Running, daemon: &Daemon<'_>, after: u64) -> Vec<Value> {
    let ask = daemon.get(&format!("/poll?after={after}"));
    let looked = server.ask(&ask).expect(200).json();
    looked["data"]["events"].as_array().unwrap().clone()
}

/// Calls `write_file` under a name, on a connection that nobody reads.
fn begun(server: &Running, token: &str, name: &str, content: &str) -> Connection {
    let params = json!({"name": "write_file", "arguments": {"filePath": name, "content": content}});
    let message = request("tools/call", params);
    let ask = over_http("tools/call", Some("write_file"), &message)
        .header("Idempotency-Key", name)
        .bearer(token);
    let mut caller = server.connect();
    caller.send(&ask.wire(server.address));
    caller
}

#[test]
fn a_call_that_is_brought_after_a_later_one_is_brought_all_the_same() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let machine = world.store.machines(Some("ada")).unwrap().remove(0);
    let kept = json!({
        "call": {"name": "read_file", "arguments": {"filePath": "a"}},
        "addition": {"deadlineMs": 60_000},
    });
    let (kept, now) = (kept.to_string(), now_ms());
    let begin = |request: &str| {
        let call = NewCall {
            machine: &machine.id,
            request_id: request,
            call: &kept,
            deadline: now + 60_000,
            sent_to: Some("a"),
            named: None,
        };
        match world.store.begin_link_call(call, now).unwrap() {
            BegunCall::New(number) => number,
            BegunCall::Known(known) => panic!("it has no name: {known:?}"),
        }
    };
    let look = |after: u64| -> Vec<u64> {
        let looked = look(&server, &daemon, after);
        looked
            .iter()
            .map(|one| one["id"].as_u64().unwrap())
            .collect()
    };
    let (first, second) = (begin("gw_1"), begin("gw_2"));
    // The second was heard, and the first not yet: it was written down later.
    assert_eq!(look(second), [first]);
    // Lost on the way, it is brought again; heard, it is not.
    assert_eq!(look(second), [first]);
    assert_eq!(look(first), [second]);
    let third = begin("gw_3");
    assert_eq!(look(second), [third]);
    daemon.respond("gw_1", &result("done")).expect(200);
}

#[test]
fn who_was_replaced_meanwhile_hears_nothing_and_ends_nothing() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let said = |instance: &str| {
        let ask = daemon.get("/events");
        ask.header("X-Portcullis-Instance", instance)
    };
    daemon.init(&as_instance("b")).expect(200);
    let mut events = server.connect().listen(&said("b"), server.address);
    let read = json!({"filePath": "a"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        let event = next_call(&mut events);
        server.ask(&said("a")).expect(403);
        let poll = daemon.get("/poll").header("X-Portcullis-Instance", "a");
        server.ask(&poll).expect(403);
        daemon.respond(id(&event), &result("b's")).expect(200);
        assert_eq!(text(&called.join().unwrap()), "b's");
    });
}

#[test]
fn what_waits_for_a_machine_is_bounded_by_bytes() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let large = "x".repeat(9 << 20);
    let machine = world.store.machines(Some("ada")).unwrap().remove(0);
    let waits = || {
        let waiting = world.store.waiting_link_calls(&machine.id, 0);
        waiting.unwrap().len()
    };
    // Whoever hangs up leaves a call that has a name to its machine.
    for n in 1..=7 {
        let caller = begun(&server, &token, &format!("k{n}"), &large);
        let began = Instant::now();
        while waits() < n {
            assert!(began.elapsed() < PATIENCE, "{} of {n} wait", waits());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(caller);
    }
    let mut over = begun(&server, &token, "k8", &large);
    let told = message_in(&over.answer().unwrap());
    let why = &told["result"]["structuredContent"];
    assert_eq!(why["reason"], "overload", "{told}");
    assert_eq!(waits(), 7);
    // A stream that is not read is let go of when another takes its place, with
    // all that it was to be told.
    let mut slow = server.connect();
    slow.send(&daemon.get("/events").wire(server.address));
    assert_eq!(slow.head().unwrap().status, 200);
    let mut events = daemon.listen();
    for _ in 0..7 {
        let event = next_call(&mut events);
        daemon.respond(id(&event), &result("done")).expect(200);
    }
    assert!(slow.rest() < 20 << 20, "what the system had taken already");
}
