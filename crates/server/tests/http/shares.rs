//! One principal takes all it can of everything there is only so much of, and
//! the others get theirs.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use portcullis_proto::{Mode, Scope};
use portcullis_testkit::promised;
use serde_json::json;

use crate::client::{Answer, Ask, Connection, Events};
use crate::world::{Running, World};

const AGENT: [Scope; 3] = [Scope::FsRead, Scope::FsWrite, Scope::Approve];

/// What limits.rs says.
const WATCHES_OF_ONE: usize = 8;
const STREAMS_OF_ONE: usize = 64;
const UPLOADS_OF_ONE: usize = 4;
const IN_LINE_OF_ONE: usize = 64;

/// That it was told to come again, and when.
#[track_caller]
fn over(answer: Answer) {
    let answer = answer.expect(429);
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert!(!answer.json()["error"].as_str().unwrap().is_empty());
}

fn open(server: &Running, target: &str, token: &str) -> Events {
    let ask = Ask::get(target).bearer(token);
    server.connect().listen(&ask, server.address)
}

#[test]
fn one_that_takes_all_watches_and_streams_it_can_leaves_the_others_theirs() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let mut watches: Vec<Events> = (0..WATCHES_OF_ONE)
        .map(|_| open(&server, "/watch", &ada))
        .collect();
    for watch in &mut watches {
        watch.wait_for("begun");
    }
    over(server.ask(&Ask::get("/watch").bearer(&ada)));
    open(&server, "/watch", &bob).wait_for("begun");
    // Every way in counts alike.
    let streams: Vec<Events> = (WATCHES_OF_ONE..STREAMS_OF_ONE)
        .map(|_| open(&server, "/approvals/events", &ada))
        .collect();
    over(server.ask(&Ask::get("/approvals/events").bearer(&ada)));
    let told = Ask::get("/search?query=x").header("Accept", "text/event-stream");
    over(server.ask(&told.bearer(&ada)));
    drop(open(&server, "/approvals/events", &bob));
    // Whoever ends one may begin another.
    drop(streams);
    drop(watches);
    let mut again = Vec::new();
    for _ in 0..WATCHES_OF_ONE {
        until(|| {
            let mut connection = server.connect();
            connection.send(&Ask::get("/watch").bearer(&ada).wire(server.address));
            let is_open = connection.head().unwrap().status == 200;
            again.push(connection);
            is_open
        });
    }
}

/// Waits until it is so.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let patience = std::time::Instant::now() + portcullis_testkit::PATIENCE;
    while !is_so() {
        assert!(
            std::time::Instant::now() < patience,
            "it never came to be so"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_that_takes_all_uploads_it_can_leaves_the_others_theirs() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let upload = |name: &str, token: &str| {
        Ask::new("POST", &format!("/file/upload?path={name}"))
            .bearer(token)
            .header("Content-Type", "application/octet-stream")
            .body(vec![7; 1_000])
    };
    let begun: Vec<(Connection, Vec<u8>)> = (0..UPLOADS_OF_ONE)
        .map(|n| {
            let wire = upload(&format!("ada{n}.bin"), &ada)
                .header("Expect", "100-continue")
                .wire(server.address);
            let (first, rest) = wire.split_at(wire.len() - 10);
            let mut connection = server.connect();
            connection.send(first);
            // Sent when the server begins to take the body: the place is taken.
            assert_eq!(connection.head().unwrap().status, 100);
            (connection, rest.to_vec())
        })
        .collect();
    over(server.ask(&upload("ada9.bin", &ada)));
    server.ask(&upload("bob.bin", &bob)).expect(201);
    for (mut connection, rest) in begun {
        connection.send(&rest);
        connection.answer().unwrap().expect(201);
    }
    server.ask(&upload("ada9.bin", &ada)).expect(201);
}

#[test]
fn one_that_searches_without_end_keeps_nobody_waiting() {
    let world = World::new(Mode::Allow);
    let line = "some words that nearly match and never do so at the very end\n";
    let text = line.repeat((2 << 20) / line.len());
    for n in 0..8 {
        world.scratch.file(&format!("big/f{n}.txt"), text.clone());
    }
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let long = Ask::get("/search?query=%5Cw%2B%20%5Cw%2B%20%5Cw%2Bzz&path=big").bearer(&ada);
    // Twice as many as fit, each asking again until one is refused: however quick a
    // search is, they arrive faster than they are answered.
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 * IN_LINE_OF_ONE {
            scope.spawn(|| {
                while refused.load(Ordering::SeqCst) == 0 {
                    let answer = server.ask(&long);
                    if answer.status == 429 {
                        over(answer);
                        refused.fetch_add(1, Ordering::SeqCst);
                    } else {
                        answer.expect(200);
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        // Her line is full when one of hers is told to come again.
        until(|| refused.load(Ordering::SeqCst) > 0);
        let quick = Ask::get("/search?query=notes&glob=notes.txt").bearer(&bob);
        let before = answered.load(Ordering::SeqCst);
        server.ask(&quick).expect(200);
        let behind = answered.load(Ordering::SeqCst) - before;
        assert!(
            behind < IN_LINE_OF_ONE / 2,
            "bob waited behind {behind} searches of ada"
        );
    });
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    println!("{answered} were searched, {refused} told to come again");
    assert!(answered >= IN_LINE_OF_ONE && refused >= 1);
}

#[test]
fn one_that_asks_too_fast_waits_and_the_others_do_not() {
    let world = World::new(Mode::Allow).at_most(5);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let look = |token: &str| Ask::get("/stat?path=notes.txt").bearer(token);
    let mut connection = server.connect();
    let mut refused = 0;
    for _ in 0..200 {
        connection.send(&look(&ada).wire(server.address));
        let answer = connection.answer().unwrap();
        if answer.status == 429 {
            over(answer);
            refused += 1;
        } else {
            answer.expect(200);
        }
    }
    assert!(refused > 100, "{refused}");
    for _ in 0..4 {
        server.ask(&look(&bob)).expect(200);
    }
    std::thread::sleep(Duration::from_secs(1));
    server.ask(&look(&ada)).expect(200);
}

#[test]
fn an_address_that_takes_all_connections_it_can_leaves_the_others_theirs() {
    // Three in four of these are for connections, and three in four of those
    // for one address.
    let world = World::new(Mode::Allow).with_handles(64);
    let server = world.start();
    let health = Ask::get("/health").wire(server.address);
    let mut held: Vec<Connection> = (0..36).map(|_| server.connect()).collect();
    for connection in &mut held {
        connection.send(&health);
        connection.answer().unwrap().expect(200);
    }
    let mut one_more = server.connect();
    over(one_more.answer().unwrap());
    assert!(one_more.is_ended());
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let mut others = Connection::open_from(other, server.address);
    others.send(&health);
    others.answer().unwrap().expect(200);
    drop(held);
    until(|| {
        let mut connection = server.connect();
        connection.try_send(&health).is_ok()
            && connection.answer().is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn a_stream_of_mcp_ends_with_its_credential() {
    let world = World::new(Mode::Allow);
    let token = world.new_token("ada", &AGENT);
    let ada = token.secret.expose().to_owned();
    let server = world.start();
    let both = "application/json, text/event-stream";
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let begin = Ask::post("/mcp", &begin)
        .header("Accept", both)
        .bearer(&ada);
    let begun = server.ask(&begin).expect(200);
    let session = begun.header("mcp-session-id").unwrap();
    let listen = Ask::get("/mcp")
        .header("Accept", "text/event-stream")
        .header("Mcp-Session-Id", session)
        .bearer(&ada);
    let mut events = server.connect().listen(&listen, server.address);
    assert!(world.store.revoke_token(&token.id, None).unwrap());
    let began = std::time::Instant::now();
    while events.next().is_some() {}
    assert!(began.elapsed() < promised(Duration::from_secs(5)));
    server.ask(&listen).expect(401);
}

#[test]
fn a_message_that_is_too_large_is_not_taken() {
    let world = World::new(Mode::Allow);
    let ada = world.token("ada", &AGENT);
    let server = world.start();
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(16 << 20));
    let ask = Ask::new("POST", "/mcp")
        .bearer(&ada)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(large);
    let answer = server.ask(&ask).expect(413).json();
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
}

#[test]
fn bodies_that_never_come_take_the_room_of_who_sends_them_alone() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let write = |path: &str, token: &str, bytes: usize| {
        let body = json!({"path": path, "content": "x".repeat(bytes), "mode": "create"});
        Ask::post("/file/write", &body).bearer(token)
    };
    // Heads of bodies that fill her room, by both ways in, and not a byte of them.
    let head = |target: &str, length: usize| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ada}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n",
            server.address
        )
    };
    let mut begun = Vec::new();
    for target in ["/file/write", "/mcp"].repeat(3) {
        let mut connection = server.connect();
        connection.send(head(target, 10 << 20).as_bytes());
        begun.push(connection);
    }
    let mut last = server.connect();
    last.send(head("/mcp", 4 << 20).as_bytes());
    begun.push(last);
    // Nothing tells when all have begun.
    std::thread::sleep(Duration::from_secs(1));
    let refused = server.ask(&write("hers.txt", &ada, 200_000)).expect(429);
    assert_eq!(refused.json()["reason"], "overload", "{}", refused.text());
    // What is small, and what is another's, needs none of it.
    server.ask(&write("small.txt", &ada, 1_000)).expect(201);
    server.ask(&write("his.txt", &bob, 4 << 20)).expect(201);
    drop(begun);
    until(|| server.ask(&write("hers.txt", &ada, 200_000)).status == 201);
}
