//! How long a refusal takes tells nobody what is there.
//!
//! Two measures. Work that is counted has to be the same: a line of the record is
//! the dearest part of a refusal, so both leave as many. Time is taken of pairs,
//! one after the other, so that whatever else the machine does falls on both.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::world::{Running, World, now_ms};

const AGENT: [Scope; 3] = [Scope::FsRead, Scope::FsWrite, Scope::Approve];
/// How many pairs over the wire, and how many in memory.
const PAIRS: usize = 200;
const LOOKS: usize = 20_000;
/// Where the secret of a bearer begins.
const ID_ENDS: usize = "pcl_0123456789_".len();
/// How much longer one may take than the other. What a refusal would save by not
/// hashing, not looking or not recording is more.
const MARGIN: f64 = 1.5;

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}

#[track_caller]
fn alike(what: &str, there: Duration, nowhere: Duration) {
    let ratio = there.as_secs_f64() / nowhere.as_secs_f64();
    println!("{what}: {there:?} and {nowhere:?}, {ratio:.2}");
    assert!(
        (1.0 / MARGIN..MARGIN).contains(&ratio),
        "{what}: {there:?} for one that is there, {nowhere:?} for one that is not"
    );
}

/// How long `one` and `other` take over one connection, in turns.
fn in_turns(server: &Running, one: &Ask, other: &Ask) -> (Duration, Duration) {
    let mut connection = server.connect();
    let ask = |connection: &mut Connection, ask: &Ask| {
        let began = Instant::now();
        connection.send(&ask.wire(server.address));
        let answer = connection.answer().unwrap();
        assert!((400..500).contains(&answer.status), "{}", answer.text());
        began.elapsed()
    };
    let pairs: Vec<_> = (0..PAIRS)
        .map(|n| {
            if n % 2 == 0 {
                let first = ask(&mut connection, one);
                (first, ask(&mut connection, other))
            } else {
                let first = ask(&mut connection, other);
                (ask(&mut connection, one), first)
            }
        })
        .collect();
    let (ones, others): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    (median(ones), median(others))
}

/// A credential with a known id, one with an unknown id, each with a wrong secret.
#[test]
fn how_long_a_refusal_takes_tells_no_id() {
    let world = World::new(Mode::Ask);
    for _ in 0..50 {
        world.token("ada", &AGENT);
    }
    let known = world.token("ada", &AGENT);
    // `pcl_`, an id of ten characters, `_`, and a secret that may hold one itself.
    let (head, secret) = known.split_at(ID_ENDS);
    let wrong: String = secret.chars().rev().collect();
    let unknown = format!("pcl_aaaaaaaaaa_{wrong}");
    let there = format!("{head}{wrong}");
    assert_eq!(there.len(), unknown.len());
    let book = world.store.credentials().unwrap();
    let mut took = (Vec::new(), Vec::new());
    for _ in 0..LOOKS / 100 {
        for (presented, into) in [(&there, &mut took.0), (&unknown, &mut took.1)] {
            let began = Instant::now();
            for _ in 0..100 {
                let known = book.bearer(std::hint::black_box(presented), now_ms());
                assert!(known.is_none());
            }
            into.push(began.elapsed());
        }
    }
    alike("a credential", median(took.0), median(took.1));
}

#[test]
fn another_principals_id_is_refused_as_fast_as_none() {
    let world = World::new(Mode::Ask);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let write = || {
        let body = json!({"path": "a.txt", "content": "x", "mode": "create"});
        Ask::post("/file/write", &body)
    };
    let asked = server.ask(&write().bearer(&ada)).expect(403).json();
    let question = asked["questionId"].as_str().unwrap().to_owned();
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let begin = Ask::post("/mcp", &begin)
        .header("Accept", "application/json, text/event-stream")
        .bearer(&ada);
    let begun = server.ask(&begin).expect(200);
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    // The same length and letters as the real one, and nobody's.
    let like = |id: &str| -> String {
        let (head, tail) = id.split_at(id.len() - 8);
        let tail: String = tail.chars().rev().collect();
        format!("{head}{tail}")
    };
    let answer = |id: &str| {
        let body = json!({"decision": "allow_once"});
        Ask::post(&format!("/approvals/{id}"), &body).bearer(&bob)
    };
    let bring = |id: &str| write().header("Portcullis-Question", id).bearer(&bob);
    let listen = |id: &str| {
        Ask::get("/mcp")
            .header("Accept", "text/event-stream")
            .header("Mcp-Session-Id", id)
            .bearer(&bob)
    };
    let cases: [(&str, Ask, Ask); 3] = [
        ("an approval", answer(&question), answer(&like(&question))),
        ("a question", bring(&question), bring(&like(&question))),
        ("a session", listen(&session), listen(&like(&session))),
    ];
    for (what, theirs, nobodys) in cases {
        let lines = |ask: &Ask| {
            let before = world.closings().len();
            server.ask(ask);
            world.closings().len() - before
        };
        assert_eq!((lines(&theirs), lines(&nobodys)), (1, 1), "{what}");
        let (there, nowhere) = in_turns(&server, &theirs, &nobodys);
        alike(what, there, nowhere);
    }
}
