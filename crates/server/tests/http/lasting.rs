//! The stream of a linked machine, once it is told over the bare connection:
//! still HTTP, still bounded, and ended in order.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::daemon::{Daemon, REST, call, init, text};
use crate::world::{PATIENCE, Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::Approve];

fn is_linked(server: &Running, token: &str) -> bool {
    let ask = Ask::get(&format!("{REST}/status")).bearer(token);
    server.ask(&ask).expect(200).json()["data"]["connected"] == true
}

/// A connection that has asked to listen, and what its head says.
fn listening(server: &Running, daemon: &Daemon<'_>) -> Connection {
    let mut connection = server.connect();
    connection.send(&daemon.get("/events").wire(server.address));
    connection
}

fn called_over(world: &World) {
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(world, &server, "ada", &init());
    let mut events = daemon.listen();
    // More than a socket takes at once.
    let long = "x".repeat(3 << 20);
    let replied = std::thread::scope(|scope| {
        let called = scope.spawn(|| {
            call(
                &server,
                &token,
                "read_file",
                &json!({"filePath": long.clone()}),
            )
        });
        let event = daemon.serve(&mut events, "read");
        let asked = &event.data["payload"]["toolCall"]["arguments"]["filePath"];
        assert_eq!(asked.as_str().map(str::len), Some(long.len()));
        called.join().unwrap()
    });
    assert_eq!(text(&replied), "read");
    server.join();
    assert!(events.next().is_none(), "it ends with the server, in order");
}

#[test]
fn what_lasts_is_told_whole_and_ends_with_the_server() {
    called_over(&World::new(Mode::Allow));
}

#[test]
fn what_lasts_is_told_whole_and_ends_with_the_server_over_tls() {
    called_over(&World::new(Mode::Allow).encrypted());
}

#[test]
fn its_head_is_the_head_of_any_reply() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut connection = listening(&server, &daemon);
    let head = connection.head().unwrap().expect(200);
    for (name, want) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
    ] {
        assert_eq!(head.header(name), Some(want));
    }
    assert!(head.header("x-request-id").is_some());
    let date = head.header("date").unwrap();
    assert!(date.ends_with(" GMT"), "{date}");
}

#[test]
fn who_hangs_up_is_missed() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut connection = listening(&server, &daemon);
    connection.head().unwrap().expect(200);
    assert!(is_linked(&server, &token));
    drop(connection);
    let began = Instant::now();
    while is_linked(&server, &token) {
        assert!(began.elapsed() < PATIENCE, "nobody noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn who_talks_instead_of_listening_is_let_go() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut connection = listening(&server, &daemon);
    connection.head().unwrap().expect(200);
    // A request behind it is not answered, and does no harm.
    connection.send(&Ask::get("/health").wire(server.address));
    connection.send(&vec![b'x'; 64 * 1024]);
    assert!(connection.is_ended());
    server.ask(&Ask::get("/health")).expect(200);
}

#[test]
fn a_peer_of_the_older_http_hears_it_too() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut connection = server.connect();
    let wire = daemon.get("/events").wire(server.address);
    let wire = String::from_utf8(wire)
        .unwrap()
        .replace("HTTP/1.1", "HTTP/1.0");
    connection.send(wire.as_bytes());
    let head = connection.head().unwrap().expect(200);
    assert_eq!(head.header("transfer-encoding"), None);
    assert!(is_linked(&server, &token));
}
