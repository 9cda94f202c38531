//! Calls that have a name: made once, asked for as often as one likes, through
//! restarts of either end.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope, ScopeSet};
use serde_json::{Value, json};

use crate::client::{Ask, Connection};
use crate::daemon::{Daemon, call, id, init, init_of_ours, next_call, result, text};
use crate::surfaces::{message_in, over_http, request};
use crate::world::{PATIENCE, Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What a daemon says that remembers calls as `instance`.
fn as_instance(instance: &str) -> Value {
    let mut init = init_of_ours("desk");
    init["portcullis"]["instance"] = json!(instance);
    init
}

fn asking(token: &str, name: &str, arguments: &Value) -> Ask {
    let params = json!({"name": "write_file", "arguments": arguments});
    let message = request("tools/call", params);
    over_http("tools/call", Some("write_file"), &message)
        .header("Idempotency-Key", name)
        .bearer(token)
}

/// Calls `write_file` under a name.
fn named(server: &Running, token: &str, name: &str, path: &str) -> Value {
    let ask = asking(token, name, &json!({"filePath": path}));
    message_in(&server.ask(&ask))["result"].clone()
}

/// The same, on a connection of its own that nobody reads.
fn begun(server: &Running, token: &str, name: &str, path: &str) -> Connection {
    let mut caller = server.connect();
    let ask = asking(token, name, &json!({"filePath": path}));
    caller.send(&ask.wire(server.address));
    caller
}

fn reason(reply: &Value) -> &str {
    let reason = reply["structuredContent"]["reason"].as_str();
    reason.unwrap_or_else(|| panic!("no failure with a reason: {reply}"))
}

#[test]
fn a_call_with_a_name_is_made_once_and_told_again_after_a_restart() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k1", "a"));
        daemon.serve(&mut events, "once");
        assert_eq!(text(&called.join().unwrap()), "once");
    });
    assert_eq!(text(&named(&server, &token, "k1", "a")), "once");
    let key = daemon.key.clone();
    drop(events);
    server.kill();
    let server = world.start();
    let daemon = Daemon::with(&server, &key);
    daemon.init(&as_instance("a")).expect(200);
    // Nobody listens: it is told from what is kept.
    assert_eq!(text(&named(&server, &token, "k1", "a")), "once");
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k2", "a"));
        daemon.serve(&mut events, "another");
        assert_eq!(text(&called.join().unwrap()), "another");
    });
}

#[test]
fn a_call_that_is_answered_while_its_caller_is_away_is_told_when_it_asks_again() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let key = daemon.key.clone();
    let mut events = daemon.listen();
    let caller = begun(&server, &token, "k", "a");
    let sent = next_call(&mut events);
    let request = id(&sent).to_owned();
    drop((caller, events));
    server.kill();
    let server = world.start();
    let daemon = Daemon::with(&server, &key);
    daemon.init(&as_instance("a")).expect(200);
    let mut events = daemon.listen();
    assert_eq!(id(&next_call(&mut events)), request, "the very same call");
    daemon.respond(&request, &result("done")).expect(200);
    daemon.respond(&request, &result("again")).expect(404);
    assert_eq!(text(&named(&server, &token, "k", "a")), "done");
}

#[test]
fn who_is_cut_off_ends_no_call_that_has_a_name() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let mut events = daemon.listen();
    let caller = begun(&server, &token, "k", "a");
    let sent = next_call(&mut events);
    drop(caller);
    std::thread::scope(|scope| {
        // Two more ask for it, and all that is heard next is the other call.
        let again: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| named(&server, &token, "k", "a")))
            .collect();
        let other = scope.spawn(|| call(&server, &token, "read_file", &json!({"filePath": "b"})));
        let event = daemon.serve(&mut events, "other");
        assert_ne!(id(&event), id(&sent));
        assert_eq!(text(&other.join().unwrap()), "other");
        daemon.respond(id(&sent), &result("done")).expect(200);
        for again in again {
            assert_eq!(text(&again.join().unwrap()), "done");
        }
    });
}

#[test]
fn a_name_stands_for_one_call_of_one_principal() {
    let world = World::new(Mode::Allow);
    let (token, other) = (world.token("ada", &AGENT), world.token("ada", &AGENT));
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k", "a"));
        daemon.serve(&mut events, "mine");
        called.join().unwrap();
        let refused = named(&server, &token, "k", "b");
        assert_eq!(reason(&refused), "bad_arguments");
        let others = scope.spawn(|| named(&server, &other, "k", "b"));
        let event = daemon.serve(&mut events, "theirs");
        assert_eq!(
            event.data["payload"]["toolCall"]["arguments"]["filePath"],
            "b"
        );
        assert_eq!(text(&others.join().unwrap()), "theirs");
    });
    let odd = asking(&token, &"k".repeat(129), &json!({"filePath": "a"}));
    assert_eq!(
        server.ask(&odd).expect(400).json()["reason"],
        "bad_arguments"
    );
}

#[test]
fn a_message_may_name_its_call_too() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let mut events = daemon.listen();
    let mut params = json!({"name": "write_file", "arguments": {"filePath": "a"}});
    params["_meta"]["portcullis/call"] = json!("k");
    let message = request("tools/call", params);
    let ask = || over_http("tools/call", Some("write_file"), &message).bearer(&token);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| message_in(&server.ask(&ask())));
        daemon.serve(&mut events, "once");
        called.join().unwrap();
    });
    assert_eq!(text(&message_in(&server.ask(&ask()))["result"]), "once");
    // The same name in the head is the same.
    assert_eq!(text(&named(&server, &token, "k", "a")), "once");
}

#[test]
fn what_one_daemon_was_sent_is_not_sent_to_the_next() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let key = daemon.key.clone();
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let with_name = scope.spawn(|| named(&server, &token, "k", "a"));
        next_call(&mut events);
        let without = scope.spawn(|| call(&server, &token, "read_file", &json!({"filePath": "a"})));
        next_call(&mut events);
        // The same key, and nothing it remembers.
        daemon.init(&as_instance("b")).expect(200);
        let last = events.next_unnamed().unwrap();
        assert_eq!(last.data["type"], "replaced");
        assert_eq!(reason(&with_name.join().unwrap()), "link_lost");
        assert_eq!(reason(&without.join().unwrap()), "link_lost");
    });
    assert_eq!(reason(&named(&server, &token, "k", "a")), "link_lost");
    // One that comes back after it was replaced introduces itself first.
    let late = daemon.get("/events").header("X-Portcullis-Instance", "a");
    server.ask(&late).expect(403);
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k2", "a"));
        daemon.serve(&mut events, "done");
        assert_eq!(text(&called.join().unwrap()), "done");
        let _waits = begun(&server, &token, "k3", "a");
        next_call(&mut events);
    });
    // Through a restart of the server, too.
    drop(events);
    server.kill();
    let server = world.start();
    let daemon = Daemon::with(&server, &key);
    daemon.init(&as_instance("c")).expect(200);
    assert_eq!(reason(&named(&server, &token, "k3", "a")), "link_lost");
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k4", "a"));
        daemon.serve(&mut events, "done");
        assert_eq!(text(&called.join().unwrap()), "done");
    });
}

#[test]
fn what_nobody_was_sent_waits_for_whoever_comes() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k", "a"));
        // It is written down, and nobody listens.
        let machine = world.store.machines(Some("ada")).unwrap().remove(0);
        let waits = || world.store.waiting_link_calls(&machine.id, 0).unwrap();
        while waits().is_empty() {
            std::thread::yield_now();
        }
        daemon.init(&as_instance("b")).expect(200);
        let mut events = daemon.listen();
        daemon.serve(&mut events, "done");
        assert_eq!(text(&called.join().unwrap()), "done");
    });
}

#[test]
fn a_call_right_after_a_restart_waits_for_the_machine_that_was_linked() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let key = Daemon::pair(&world, &server, "ada", &as_instance("a")).key;
    server.kill();
    let server = world.start();
    std::thread::scope(|scope| {
        // Without waiting it would be one for the server's own files.
        let called = scope.spawn(|| call(&server, &token, "read_file", &json!({"filePath": "a"})));
        let daemon = Daemon::with(&server, &key);
        daemon.init(&as_instance("a")).expect(200);
        let mut events = daemon.listen();
        daemon.serve(&mut events, "there");
        assert_eq!(text(&called.join().unwrap()), "there");
    });
}

#[test]
fn a_machine_that_is_known_and_not_linked_is_told_so() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    server
        .ask(&daemon.post("/disconnect", &json!({})))
        .expect(200);
    let arguments = json!({"filePath": "a", "machine": "desk"});
    let refused = call(&server, &token, "read_file", &arguments);
    assert_eq!(reason(&refused), "not_linked");
}

#[test]
fn a_name_counts_in_n8ns_dialect_as_long_as_the_server_runs() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut events = daemon.listen();
    let caller = begun(&server, &token, "k", "a");
    let sent = next_call(&mut events);
    assert!(sent.data["payload"].get("portcullis").is_none());
    drop(caller);
    daemon.respond(id(&sent), &result("done")).expect(200);
    assert_eq!(text(&named(&server, &token, "k", "a")), "done");
}

#[test]
fn who_may_no_more_is_not_told_what_it_was_let_do() {
    let world = World::new(Mode::Allow);
    let token = world.token("bob", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "bob", &as_instance("a"));
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k", "a"));
        daemon.serve(&mut events, "once");
        assert_eq!(text(&called.join().unwrap()), "once");
    });
    server
        .ask(&daemon.post("/disconnect", &json!({})))
        .expect(200);
    assert_eq!(text(&named(&server, &token, "k", "a")), "once");
    let reading = ScopeSet::of(&[Scope::FsRead]);
    world.store.set_user_scopes("bob", reading).unwrap();
    let began = Instant::now();
    while named(&server, &token, "k", "a")["isError"] != true {
        assert!(began.elapsed() < PATIENCE, "it is told still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_its_caller_was_told_is_over_is_not_sent_to_the_next_stream() {
    // Long enough for a call that is answered, on a busy machine too, and less than the
    // 10 s for which a machine is waited for that nobody listens for.
    let world = World::new(Mode::Allow).answered_within(Duration::from_secs(7));
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    // Nobody listens, and n8n's dialect has no journal to be sent again from.
    assert_eq!(reason(&named(&server, &token, "k", "stale")), "deadline");
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| named(&server, &token, "k2", "fresh"));
        let event = daemon.serve(&mut events, "done");
        let asked = &event.data["payload"]["toolCall"]["arguments"];
        assert_eq!(asked["filePath"], "fresh");
        assert_eq!(text(&called.join().unwrap()), "done");
    });
}

#[test]
fn who_waits_for_a_machine_when_the_server_ends_in_order_is_told() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let mut server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &as_instance("a"));
    let key = daemon.key.clone();
    let mut events = daemon.listen();
    let with_name = begun(&server, &token, "k", "a");
    let kept = id(&next_call(&mut events)).to_owned();
    let mut without = server.connect();
    let params = json!({"name": "write_file", "arguments": {"filePath": "b"}});
    let message = request("tools/call", params);
    let ask = over_http("tools/call", Some("write_file"), &message).bearer(&token);
    without.send(&ask.wire(server.address));
    let lost = id(&next_call(&mut events)).to_owned();
    server.ask_to_end();
    // The daemon hears no word of farewell, and comes back.
    assert!(events.next_unnamed().is_none());
    for mut caller in [with_name, without] {
        let answer = caller.answer().expect("an answer, and no end without one");
        let reply = message_in(&answer.expect(200));
        assert_eq!(reason(&reply["result"]), "link_lost", "{reply}");
    }
    server.join();
    let lines = world.closings();
    let lost_lines = lines
        .iter()
        .filter(|line| line.reason.as_deref() == Some("link_lost"));
    assert_eq!(lost_lines.count(), 2);
    // Under its name it is still the same call; the other one is over.
    let server = world.start();
    let daemon = Daemon::with(&server, &key);
    daemon.init(&as_instance("a")).expect(200);
    let mut events = daemon.listen();
    assert_eq!(id(&next_call(&mut events)), kept);
    daemon.respond(&kept, &result("done")).expect(200);
    daemon.respond(&lost, &result("late")).expect(404);
    assert_eq!(text(&named(&server, &token, "k", "a")), "done");
}

#[test]
fn what_failed_at_n8ns_daemon_is_told_again_as_it_was_told_first() {
    let world = World::new(Mode::Allow);
    let token = &world.token("ada", &AGENT);
    let server = &world.start();
    let daemon = Daemon::pair(&world, server, "ada", &init());
    let mut events = daemon.listen();
    let missing = "ENOENT: no such directory, open '/home/ada/work/x'";
    let odd = "it hurts at /home/ada/work/x";
    // As its tools fail, and as it says that it could not even call one.
    let by_result = |words: &str| {
        json!({"result": {"content": [], "isError": true,
            "structuredContent": {"error": words}}})
    };
    let in_words = |words: &str| json!({"error": words});
    for (name, failed, want) in [
        ("k1", by_result(missing), "not_found"),
        ("k2", in_words(missing), "not_found"),
        ("k3", by_result(odd), "io"),
        ("k4", in_words(odd), "io"),
    ] {
        let first = std::thread::scope(|scope| {
            let called = scope.spawn(|| named(server, token, name, "x"));
            let event = next_call(&mut events);
            daemon.respond(id(&event), &failed).expect(200);
            called.join().unwrap()
        });
        // And of a call that has no name.
        let nameless = std::thread::scope(|scope| {
            let path = json!({"filePath": "x"});
            let called = scope.spawn(move || call(server, token, "read_file", &path));
            let event = next_call(&mut events);
            daemon.respond(id(&event), &failed).expect(200);
            called.join().unwrap()
        });
        for told in [first, named(server, token, name, "x"), nameless] {
            assert_eq!(reason(&told), want, "{failed}");
            assert!(!told.to_string().contains("/home/ada"), "{told}");
        }
    }
}
