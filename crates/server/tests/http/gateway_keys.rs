//! The keys of daemons: one answer to all that are nobody's, and what ends a good one.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_server::routes;
use portcullis_store::{Lent, Store};
use portcullis_testkit::promised;
use serde_json::json;

use crate::client::Ask;
use crate::daemon::{Daemon, init, pairing};
use crate::strangers::to;
use crate::world::{World, now_ms};

/// Keys of one address that are nobody's before it has to wait.
const TOLD: usize = 30;

const LENT: Lent<'_> = Lent {
    named: None,
    host: "ada@laptop",
    root: "/home/ada/work",
    surface: "{}",
};

#[test]
fn a_key_that_is_nobodys_gets_one_answer_whatever_became_of_it() {
    let world = World::new(Mode::Allow);
    let store = &world.store;
    let used = pairing(&world, "ada");
    let paired = store.pair(&used, LENT, now_ms()).unwrap().unwrap();
    let revoked = paired.session.expose().to_owned();
    assert!(store.end_link_session(&paired.machine.id, None).unwrap());
    let old = now_ms() - 10 * 60 * 1000;
    let expired = store.create_pairing("ada", old).unwrap();
    let wrong = format!("gw_{}", "x".repeat(32));
    let keys = [
        Some(wrong.as_str()),
        Some(used.as_str()),
        Some(revoked.as_str()),
        Some(expired.token.expose()),
        Some(""),
        None,
    ];
    let want = json!({"code": 403, "message": "Invalid gateway key"});
    let mut checked = 0;
    let mut routes = routes();
    routes.retain(|route| route.of_daemons);
    for some in routes.chunks(TOLD / keys.len() / 2) {
        let server = world.start();
        for route in some {
            for key in keys {
                let ask = to(route.method, route.path);
                let ask = match key {
                    Some(key) => ask.header("X-Gateway-Key", key),
                    None => ask,
                };
                let before = world.closings().len();
                let answer = server.ask(&ask).expect(403);
                assert_eq!(answer.json(), want, "{} {key:?}", route.name);
                let lines = world.closings().split_off(before);
                assert_eq!(lines.len(), 1, "{} {key:?}", route.name);
                assert_eq!(lines[0].reason.as_deref(), Some("no_grant"));
                checked += 1;
            }
        }
        // A bearer opens nothing here.
        let bearer = world.token("ada", &[Scope::Admin, Scope::FsRead]);
        let first = some.first().unwrap();
        server
            .ask(&to(first.method, first.path).bearer(&bearer))
            .expect(403);
    }
    assert_eq!(checked, routes.len() * keys.len());
    assert!(checked >= 60, "{checked}");
}

#[test]
fn who_guesses_keys_has_to_wait_and_locks_no_daemon_out() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let guess = Daemon::with(&server, "sess_guess");
    for _ in 0..TOLD {
        guess.init(&init()).expect(403);
    }
    let before = world.closings().len();
    guess.init(&init()).expect(429);
    assert_eq!(world.closings().len(), before, "the record is not flooded");
    daemon.init(&init()).expect(200);
}

#[test]
fn the_key_stands_in_the_query_in_the_seeds_dialect_alone() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let query = format!("?apiKey={}", daemon.key);
    let rest = Ask::get(&format!("/rest/instance-ai/gateway/events{query}"));
    assert_eq!(
        server.ask(&rest).expect(403).json()["message"],
        "Invalid gateway key"
    );
    let twice = daemon.get("/events").header("X-Gateway-Key", &daemon.key);
    server.ask(&twice).expect(403);
    let seed = Ask::get(&format!("/instance-ai/gateway/events{query}"));
    server.connect().listen(&seed, server.address);
}

#[test]
fn how_long_a_refused_key_takes_tells_nothing_of_it() {
    let world = World::new(Mode::Allow);
    let store = &world.store;
    for _ in 0..7 {
        pairing(&world, "ada");
    }
    let used = pairing(&world, "ada");
    let paired = store.pair(&used, LENT, now_ms()).unwrap().unwrap();
    store.end_link_session(&paired.machine.id, None).unwrap();
    let expired = store
        .create_pairing("bob", now_ms() - 10 * 60 * 1000)
        .unwrap();
    let wrong = format!("gw_{}", "x".repeat(32));
    let keys = [
        &wrong,
        &used,
        paired.session.expose(),
        expired.token.expose(),
    ];
    // A difference that is there is there each time; one the machine made is not.
    let differ = (0..3).all(|_| {
        let medians = medians(store, keys);
        println!("wrong, used, revoked, expired: {medians:?}");
        let (least, most) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
        most.as_secs_f64() / least.as_secs_f64() >= 1.5
    });
    assert!(!differ);
}

/// What twenty looks for each key take. In turns, so that whatever else the
/// machine does falls on all of them.
fn medians(store: &Store, keys: [&str; 4]) -> [Duration; 4] {
    let mut took = keys.map(|_| Vec::new());
    for _ in 0..400 {
        for (key, took) in keys.iter().zip(&mut took) {
            let began = Instant::now();
            for _ in 0..20 {
                let key = std::hint::black_box(key);
                assert!(store.link_key(key, now_ms()).unwrap().is_none());
            }
            took.push(began.elapsed());
        }
    }
    took.map(|mut took| {
        took.sort();
        took[took.len() / 2]
    })
}

#[test]
fn a_session_key_outlives_the_server_and_not_its_machine() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let key = Daemon::pair(&world, &server, "ada", &init()).key;
    server.kill();
    let server = world.start();
    let daemon = Daemon::with(&server, &key);
    server.ask(&daemon.get("/events")).expect(403);
    let back = daemon.init(&init()).expect(200).json();
    assert!(back["data"]["sessionKey"].is_null(), "{back}");
    let mut events = daemon.listen();
    // Another process removes the machine: its daemon is told and let go.
    let machine = world.store.machines(Some("ada")).unwrap().remove(0);
    assert!(world.store.remove_machine(&machine.id, None).unwrap());
    let began = Instant::now();
    let last = events.next_unnamed().unwrap();
    assert_eq!(last.data["type"], "gateway-disconnect");
    assert!(events.next_unnamed().is_none());
    assert!(began.elapsed() < promised(Duration::from_secs(5)));
    daemon.init(&init()).expect(403);
}
