//! A search that tells how far it is, over a real connection.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use serde_json::Value;

use crate::client::{Ask, Event, Events};
use crate::world::{PATIENCE, Running, World};

fn told(server: &Running, token: &str, target: &str) -> Events {
    let ask = Ask::get(target)
        .bearer(token)
        .header("Accept", "text/event-stream");
    server.connect().listen(&ask, server.address)
}

fn all(mut events: Events) -> Vec<Event> {
    std::iter::from_fn(|| events.next()).collect()
}

fn named<'a>(events: &'a [Event], name: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event.name == name)
        .map(|event| &event.data)
        .collect()
}

#[test]
fn a_search_tells_how_far_it_is_and_ends_with_what_json_says() {
    let world = World::new(Mode::Allow);
    for dir in 0..40 {
        for file in 0..50 {
            let text = format!("a line\nneedle {file}\n");
            world.scratch.file(&format!("d{dir}/f{file}.txt"), text);
        }
    }
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let target = "/search?query=needle%20%5B0-9%5D%2B&glob=*.txt&maxResults=20";
    let events = all(told(&server, &token, target));
    let json = server.ask(&Ask::get(target).bearer(&token)).expect(200);

    let results = named(&events, "result");
    assert_eq!(results, [&json.json()]);
    assert_eq!(
        events.last().unwrap().name,
        "result",
        "nothing comes after it"
    );
    let progress = named(&events, "progress");
    for field in ["entries", "filesSearched", "matches"] {
        let numbers: Vec<u64> = progress
            .iter()
            .map(|one| one[field].as_u64().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "{field}: {numbers:?}");
        assert!(*numbers.last().unwrap() >= 20, "{field}: {numbers:?}");
    }
    let last = progress.last().unwrap();
    assert_eq!(last["filesSearched"], results[0]["filesSearched"]);
    let handled = named(&events, "handled");
    let attempt = handled[0]["requestId"].as_str().unwrap();
    assert!(
        world
            .closings()
            .iter()
            .any(|record| record.request_id.as_deref() == Some(attempt)),
        "{attempt} is in the record"
    );
    // Without asking for events there are none.
    assert!(json.header("content-type").unwrap().contains("json"));
}

#[test]
fn a_search_that_fails_says_so_as_json_would() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    for (target, status) in [
        ("/search?query=x&path=nowhere", 404),
        ("/search?query=x&path=../out", 400),
        ("/search?query=%28", 400),
        ("/search", 400),
    ] {
        let json = server.ask(&Ask::get(target).bearer(&token)).expect(status);
        let events = all(told(&server, &token, target));
        let last = events.last().unwrap();
        assert_eq!((last.name.as_str(), &last.data), ("error", &json.json()));
        assert!(named(&events, "result").is_empty());
    }
    // Who may not ask is told so in the head.
    let other = world.token("ada", &[Scope::FsWrite]);
    let ask = Ask::get("/search?query=x").header("Accept", "text/event-stream");
    server.ask(&ask.clone().bearer(&other)).expect(403);
    server.ask(&ask).expect(401);
}

#[test]
fn a_search_ends_with_who_asked_for_it() {
    let world = World::new(Mode::Allow);
    // Some hundred megabytes with nothing in them to find: longer than the test.
    let line = "some words that nearly match and never do so at the very end\n";
    let text = line.repeat((4 << 20) / line.len());
    for n in 0..100 {
        world.scratch.file(&format!("big/f{n}.txt"), text.clone());
    }
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let query = "/search?query=%5Cw%2B%20%5Cw%2B%20%5Cw%2Bzz&path=big";
    let mut events = told(&server, &token, query);
    let first = events.wait_for("progress");
    assert!(first.data["filesSearched"].as_u64().unwrap() < 100);
    drop(events);
    let began = Instant::now();
    let ended = loop {
        let closings = world.closings();
        let search = closings
            .iter()
            .find(|record| record.operation.as_deref() == Some("search"));
        if let Some(search) = search {
            break search.clone();
        }
        assert!(began.elapsed() < PATIENCE, "it goes on without anybody");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_ne!(ended.outcome.as_deref(), Some("success"));
    assert_eq!(ended.reason.as_deref(), Some("cancelled"), "{ended:?}");
}
