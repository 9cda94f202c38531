//! The record as events: resumed without a gap, filtered as asked.

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_proto::{Mode, Scope};

use crate::client::{Ask, Events};
use crate::world::{Running, World};

const DESK: [Scope; 3] = [Scope::FsRead, Scope::FsWrite, Scope::Audit];

/// More lines than one page of the record has.
const MANY: usize = 2_300;

fn listen(server: &Running, ask: Ask, token: &str) -> Events {
    server.connect().listen(&ask.bearer(token), server.address)
}

fn look(server: &Running, token: &str, times: usize) {
    let wire = Ask::get("/stat?path=notes.txt")
        .bearer(token)
        .wire(server.address);
    let mut connection = server.connect();
    for _ in 0..times {
        connection.send(&wire);
        connection.answer().unwrap().expect(200);
    }
}

#[test]
fn who_comes_back_after_a_thousand_lines_misses_none() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &DESK), world.token("bob", &DESK));
    let server = world.start();
    look(&server, &ada, 1);
    let first = server
        .ask(&Ask::get("/audit").bearer(&ada))
        .expect(200)
        .json();
    let first = first["last"].as_str().unwrap().to_owned();
    look(&server, &ada, MANY / 2);
    look(&server, &bob, 50);
    look(&server, &ada, MANY / 2);
    let own: BTreeSet<u64> = world
        .closings()
        .iter()
        .filter(|record| {
            let subject = record.subject.as_ref().unwrap();
            subject.user.as_deref() == Some("ada")
                && format!("{}:{}", record.chain, record.n) != first
        })
        .map(|record| record.n)
        .collect();
    assert_eq!(own.len(), MANY);
    let resumed = Ask::get("/audit/events").header("Last-Event-ID", &first);
    let mut events = listen(&server, resumed, &ada);
    let mut heard = BTreeSet::new();
    while heard.len() < own.len() {
        let event = events.next().expect("it goes on");
        assert_ne!(event.name, "dropped");
        heard.insert(event.data["n"].as_u64().unwrap());
    }
    assert_eq!(heard, own);
    // And what is written from now on.
    look(&server, &ada, 1);
    let next = events.wait_for("fs.access");
    assert!(!own.contains(&next.data["n"].as_u64().unwrap()));
}

#[test]
fn what_is_asked_for_holds_for_what_is_written_later() {
    let world = World::new(Mode::Allow);
    let ada = world.token("ada", &DESK);
    let server = world.start();
    let mut failed = listen(&server, Ask::get("/audit/events?outcome=failed"), &ada);
    let mut other = listen(&server, Ask::get("/audit/events?path=src"), &ada);
    look(&server, &ada, 3);
    for path in ["nowhere", "src/main.rs"] {
        let ask = Ask::get(&format!("/stat?path={path}")).bearer(&ada);
        server.ask(&ask);
    }
    let told = failed.next().unwrap().data;
    assert_eq!(told["outcome"], "failed", "{told}");
    let told = other.next().unwrap().data;
    assert_eq!(told["relativePath"], "src/main.rs", "{told}");
    let wrong = Ask::get("/audit/events?outcome=nonsense").bearer(&ada);
    server.ask(&wrong).expect(400);
}

/// More than the buffers of a connection hold, in lines of almost four kilobytes.
const LONG_LINES: usize = 6_000;
/// How long a reader may take nothing, and a little more.
const TOO_LONG: Duration = Duration::from_secs(25);

#[test]
fn who_does_not_read_is_let_go_and_told_so_and_comes_back_to_every_line() {
    let world = World::new(Mode::Allow);
    let ada = world.token("ada", &DESK);
    let server = world.start();
    look(&server, &ada, 1);
    let first = server
        .ask(&Ask::get("/audit").bearer(&ada))
        .expect(200)
        .json();
    let first = first["last"].as_str().unwrap().to_owned();
    let long = vec!["a".repeat(250); 15].join("/");
    let wire = Ask::get(&format!("/stat?path={long}"))
        .bearer(&ada)
        .wire(server.address);
    let mut connection = server.connect();
    for _ in 0..LONG_LINES {
        connection.send(&wire);
        connection.answer().unwrap().expect(404);
    }
    let written = world.closings().len() - 1;
    assert!(written >= LONG_LINES);

    let resume = |after: &str| Ask::get("/audit/events").header("Last-Event-ID", after);
    let mut events = listen(&server, resume(&first), &ada);
    std::thread::sleep(TOO_LONG);
    // It reads again: what was on its way, then why there is no more.
    let (mut heard, mut last) = (0, first);
    let mut dropped = None;
    while let Some(event) = events.next() {
        assert_eq!(dropped, None, "nothing comes behind it");
        if event.name == "dropped" {
            dropped = Some(event.data["reason"].as_str().unwrap().to_owned());
        } else {
            heard += 1;
            last = event.id;
        }
    }
    let dropped = dropped.expect("it is told that it was let go");
    assert!(dropped.contains("not read in time"), "{dropped}");
    assert!(heard < written, "{heard} of {written} were kept for it");
    // Not one is lost to it.
    let mut events = listen(&server, resume(&last), &ada);
    for n in heard..written {
        let event = events.next();
        assert!(event.is_some_and(|event| event.name == "fs.access"), "{n}");
    }
}
