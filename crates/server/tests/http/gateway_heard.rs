//! Who hears what: looks that bring calls in any order, streams that take each
//! other's place, and how much may wait for one.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_store::{BegunCall, NewCall};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::daemon::{Daemon, call, id, init, init_of_ours, next_call, result, text};
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

/// A call too large for a socket to take, on a connection that nobody reads.
fn large(server: &Running, token: &str) -> Connection {
    let content = "x".repeat(LARGE);
    let params = json!({"name": "write_file", "arguments": {"filePath": "a", "content": content}});
    let ask = over_http(
        "tools/call",
        Some("write_file"),
        &request("tools/call", params),
    );
    let mut caller = server.connect();
    caller.send(&ask.bearer(token).wire(server.address));
    caller
}

/// How much such a call writes: more than sockets hold that nobody reads.
const LARGE: usize = 12 << 20;

/// A stream in the words of that HTTP, stuck in the middle of a large call, and who
/// made that.
fn stuck(
    server: &Running,
    daemon: &Daemon<'_>,
    token: &str,
    http: &str,
) -> (Connection, Connection) {
    let mut stream = server.connect();
    // As it is, the system would take all of the call for who does not read it.
    let socket = socket2::SockRef::from(&*stream.raw());
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let wire = daemon.get("/events").wire(server.address);
    let wire = String::from_utf8(wire).unwrap().replace("HTTP/1.1", http);
    stream.send(wire.as_bytes());
    stream.head().unwrap().expect(200);
    let caller = large(server, token);
    let begun = stream.raw().peek(&mut [0]).unwrap();
    assert_eq!(begun, 1, "it is on its way");
    (stream, caller)
}

/// Whether the server still holds its end of a connection, by the kernel's table: local
/// address, remote address, and 01 for what is established.
fn is_established(server: u16, peer: u16) -> bool {
    let (server, peer) = (format!(":{server:04X}"), format!(":{peer:04X}"));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let mut next = || fields.next().unwrap_or_default();
        next().ends_with(&server) && next().ends_with(&peer) && next() == "01"
    })
}

#[test]
fn a_stream_nobody_reads_is_let_go_of_with_the_call_it_is_in() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    for http in ["HTTP/1.1", "HTTP/1.0"] {
        for how in ["/events", "/init", "/disconnect"] {
            let daemon = Daemon::pair(&world, &server, "ada", &init());
            let (mut stream, _caller) = stuck(&server, &daemon, &token, http);
            let _next = match how {
                "/events" => Some(daemon.listen()),
                "/init" => {
                    daemon.init(&init()).expect(200);
                    None
                }
                other => {
                    server.ask(&daemon.post(other, &json!({}))).expect(200);
                    None
                }
            };
            // Who reads before it is cut off would be sent all of it after all.
            let peer = stream.raw().local_addr().unwrap().port();
            portcullis_testkit::until("the end of a stream nobody reads", || {
                !is_established(server.address.port(), peer)
            });
            let heard = stream.rest();
            assert!(heard < LARGE, "{http} {how}: {heard} bytes");
        }
    }
}

#[test]
fn what_its_caller_was_told_is_over_is_not_sent_from_a_queue() {
    let world = World::new(Mode::Allow).answered_within(Duration::from_secs(15));
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let (stream, mut caller) = stuck(&server, &daemon, &token, "HTTP/1.1");
    // Behind it, so that it is in the queue until its time is over.
    let late = call(&server, &token, "read_file", &json!({"filePath": "late"}));
    assert_eq!(late["structuredContent"]["reason"], "deadline", "{late}");
    caller.answer().unwrap().expect(200);
    let mut events = stream.events();
    let first = next_call(&mut events);
    assert_eq!(first.data["payload"]["toolCall"]["name"], "write_file");
    let read = json!({"filePath": "fresh"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        let event = daemon.serve(&mut events, "done");
        assert_eq!(event.data["payload"]["toolCall"]["arguments"], read);
        assert_eq!(text(&called.join().unwrap()), "done");
    });
}

#[test]
fn a_call_behind_one_that_is_not_read_is_sent_to_the_next_stream() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let (_stream, _caller) = stuck(&server, &daemon, &token, "HTTP/1.1");
    let read = json!({"filePath": "a"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        let began = Instant::now();
        while world.openings("laptop read_file a") == 0 {
            assert!(began.elapsed() < PATIENCE, "it is not asked for");
            std::thread::sleep(Duration::from_millis(5));
        }
        // It is in the queue of a stream that is given up.
        let mut events = daemon.listen();
        daemon.serve(&mut events, "read");
        assert_eq!(text(&called.join().unwrap()), "read");
    });
}
