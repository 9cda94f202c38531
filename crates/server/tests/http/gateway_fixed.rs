//! The key that needs no pairing: what it stands for, and what it does not.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::Ask;
use crate::daemon::{Daemon, call, id, init_of_ours, next_call, result, text};
use crate::world::World;

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];
const FIXED: &str = "a-key-that-is-never-changed";

#[test]
fn a_machine_that_is_paired_is_not_the_fixed_keys_any_more() {
    let world = World::new(Mode::Allow).with_fixed_key(FIXED, "ada");
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let first = Daemon::with(&server, FIXED);
    first.init(&init_of_ours("desk")).expect(200);
    let _deaf = first.listen();
    // Its owner pairs another daemon as the same machine.
    let second = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut events = second.listen();
    let read = json!({"filePath": "a", "machine": "desk"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        let event = next_call(&mut events);
        server.ask(&first.get("/events")).expect(403);
        server.ask(&first.get("/poll")).expect(403);
        first.respond(id(&event), &result("forged")).expect(404);
        server
            .ask(&first.post("/disconnect", &json!({})))
            .expect(403);
        second.respond(id(&event), &result("mine")).expect(200);
        assert_eq!(text(&called.join().unwrap()), "mine");
    });
    // Introduced anew it is another machine, and ends nobody.
    let other = first.init(&init_of_ours("desk")).expect(200).json();
    assert_ne!(other["data"]["portcullis"]["machine"], "desk");
    first.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        second.serve(&mut events, "still mine");
        assert_eq!(text(&called.join().unwrap()), "still mine");
    });
    second.init(&init_of_ours("desk")).expect(200);
}

#[test]
fn who_is_put_out_by_the_next_with_that_key_is_told_to_its_owner_and_on_the_record() {
    let world = World::new(Mode::Allow).with_fixed_key(FIXED, "ada");
    let token = world.token("ada", &[Scope::Approve]);
    let server = world.start();
    let daemon = Daemon::with(&server, FIXED);
    let first = daemon.init(&init_of_ours("desk")).expect(200).json();
    let first = first["data"]["portcullis"]["machineId"].as_str().unwrap();
    let owner = Ask::get("/approvals/events").bearer(&token);
    let mut owner = server.connect().listen(&owner, server.address);
    let mut other = init_of_ours("shelf");
    other["hostIdentifier"] = "ada@shelf".into();
    daemon.init(&other).expect(200);
    let told = loop {
        let told = owner.wait_for("machine");
        if told.data["linked"] == false {
            break told;
        }
    };
    assert_eq!(told.id, first);
    let noted = world.closings().into_iter();
    let noted = noted.filter(|line| format!("{line:?}").contains("link put out"));
    assert_eq!(noted.count(), 1);
}

/// What a machine of that name says of itself.
fn of_host(name: &str) -> Value {
    let mut init = init_of_ours(name);
    init["hostIdentifier"] = format!("ada@{name}").into();
    init
}

fn put_out(world: &World) -> usize {
    let noted = world.closings().into_iter();
    noted
        .filter(|line| format!("{line:?}").contains("link put out"))
        .count()
}

#[test]
fn of_two_that_come_at_once_with_that_key_one_stays() {
    let world = World::new(Mode::Allow).with_fixed_key(FIXED, "ada");
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::with(&server, FIXED);
    let coming = ["desk", "shelf"].map(|name| {
        let ask = daemon.post("/init", &of_host(name));
        let body = of_host(name).to_string();
        let wire = ask.header("Expect", "100-continue").wire(server.address);
        let mut connection = server.connect();
        connection.send(&wire[..wire.len() - body.len()]);
        // Its key was looked at, and its body is waited for.
        connection.head().unwrap().expect(100);
        (connection, body)
    });
    for (mut connection, body) in coming {
        connection.send(body.as_bytes());
        connection.answer().unwrap().expect(200);
    }
    let status = server.ask(&Ask::get("/status").bearer(&token)).expect(200);
    assert_eq!(status.json()["machines"], json!(["shelf"]));
    assert_eq!(put_out(&world), 1);
    let mut events = daemon.listen();
    let read = json!({"filePath": "a", "machine": "shelf"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        daemon.serve(&mut events, "of the shelf");
        assert_eq!(text(&called.join().unwrap()), "of the shelf");
    });
}

#[test]
fn who_had_left_is_not_said_to_be_put_out() {
    let world = World::new(Mode::Allow).with_fixed_key(FIXED, "ada");
    let server = world.start();
    let daemon = Daemon::with(&server, FIXED);
    daemon.init(&of_host("desk")).expect(200);
    let leave = daemon.post("/disconnect", &json!({}));
    server.ask(&leave).expect(200);
    // The key stands for no machine any more.
    server.ask(&leave).expect(403);
    daemon.init(&of_host("shelf")).expect(200);
    assert_eq!(put_out(&world), 0);
}
