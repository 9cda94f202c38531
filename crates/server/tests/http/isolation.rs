//! What is one person's is nobody else's: refused, and on the record.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::Ask;
use crate::world::{Running, World, now_ms};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];
const DESK: [Scope; 4] = [Scope::FsRead, Scope::FsWrite, Scope::Approve, Scope::Audit];

fn write(path: &str) -> Ask {
    Ask::post(
        "/file/write",
        &json!({"path": path, "content": "x", "mode": "create"}),
    )
}

/// Raises a question, and tells its id.
#[track_caller]
fn raise(server: &Running, token: &str, path: &str) -> String {
    let answer = server.ask(&write(path).bearer(token)).expect(403);
    let body = answer.json();
    assert_eq!(body["reason"], "approval_pending", "{body}");
    body["questionId"].as_str().unwrap().to_owned()
}

fn say(id: &str, decision: &str) -> Ask {
    Ask::post(&format!("/approvals/{id}"), &json!({"decision": decision}))
}

/// The cookie of a browser `user` signed in with.
pub(crate) fn cookie(world: &World, user: &str) -> String {
    let link = world.store.create_sign_in_link(user, now_ms()).unwrap();
    let signed_in = world
        .store
        .use_sign_in_link(link.expose(), now_ms())
        .unwrap();
    signed_in.unwrap().cookie.expose().to_owned()
}

/// That `ask` is refused with `status`, and that it is on the record of `user`.
#[track_caller]
fn refused(world: &World, server: &Running, user: &str, ask: &Ask, status: u16) -> Value {
    let before = world.denials(user);
    let answer = server.ask(ask).expect(status);
    assert_eq!(
        world.denials(user),
        before + 1,
        "{ask:?} is not on the record"
    );
    answer.json()
}

#[test]
fn a_question_is_its_owners_alone() {
    let world = World::new(Mode::Ask);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &DESK));
    let bobs = cookie(&world, "bob");
    let server = world.start();
    let mut seen = server
        .connect()
        .listen(&Ask::get("/approvals/events").bearer(&bob), server.address);
    let id = raise(&server, &ada, "a.txt");

    for ask in [
        Ask::get("/approvals").bearer(&bob),
        Ask::get("/approvals").cookie(&bobs),
    ] {
        assert_eq!(
            server.ask(&ask).expect(200).json(),
            json!({"approvals": []})
        );
    }
    for decision in ["allow_once", "deny_once", "always_allow", "nonsense"] {
        for ask in [
            say(&id, decision).bearer(&bob),
            say(&id, decision).cookie(&bobs),
        ] {
            let told = refused(&world, &server, "bob", &ask, 404);
            let nothing = say("q_nothing", decision).bearer(&bob);
            let same = refused(&world, &server, "bob", &nothing, 404);
            assert_eq!(
                told["error"], same["error"],
                "another's and none look alike"
            );
        }
    }
    // Brought by another: neither while it waits, nor once it is answered.
    let brought = write("a.txt").header("Portcullis-Question", &id);
    refused(&world, &server, "bob", &brought.clone().bearer(&bob), 400);
    let own = world.token("ada", &[Scope::Approve]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.ask(&say(&id, "allow_once").bearer(&own)).expect(200);
    refused(&world, &server, "bob", &brought.clone().bearer(&bob), 400);
    // Another token of the same person is another principal, too.
    let other = world.token("ada", &AGENT);
    std::thread::sleep(std::time::Duration::from_millis(200));
    refused(&world, &server, "ada", &brought.clone().bearer(&other), 400);
    assert!(!world.scratch.at("a.txt").exists());
    // It was not used up by those.
    server.ask(&brought.clone().bearer(&ada)).expect(201);
    let again = refused(&world, &server, "ada", &brought.bearer(&ada), 403);
    assert_eq!(again["reason"], "answer_used", "{again}");

    // Bob's stream told him of his own question, and of no other.
    let mine = raise(&server, &bob, "b.txt");
    let first = seen.next().unwrap();
    assert_eq!(
        (first.name.as_str(), first.id.as_str()),
        ("question", mine.as_str())
    );
}

#[test]
fn the_record_is_ones_own() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &DESK), world.token("bob", &DESK));
    let admin = world.token("ada", &[Scope::Audit, Scope::Admin]);
    let server = world.start();
    let mut seen = server
        .connect()
        .listen(&Ask::get("/audit/events").bearer(&bob), server.address);
    server.ask(&write("a.txt").bearer(&ada)).expect(201);
    let of = |token: &str, query: &str| {
        let ask = Ask::get(&format!("/audit{query}")).bearer(token);
        server.ask(&ask).expect(200).json()
    };
    let adas = of(&ada, "");
    assert!(adas.to_string().contains("a.txt"), "{adas}");
    let line = adas["last"].as_str().unwrap().to_owned();
    assert_eq!(of(&bob, "")["lines"], json!([]));
    for query in [
        "?path=a.txt",
        "?outcome=success",
        "?since=0&limit=1000",
        "?all=0",
    ] {
        assert_eq!(of(&bob, query)["lines"], json!([]), "{query}");
    }
    let all = Ask::get("/audit?all=1");
    refused(&world, &server, "bob", &all.clone().bearer(&bob), 403);
    refused(&world, &server, "ada", &all.clone().bearer(&ada), 403);
    let events = Ask::get("/audit/events?all=1").bearer(&bob);
    refused(&world, &server, "bob", &events, 403);
    let everybody = server.ask(&all.bearer(&admin)).expect(200).json();
    assert!(everybody.to_string().contains("a.txt"));
    // Another's line is no place to begin behind.
    let after = Ask::get(&format!("/audit?after={line}")).bearer(&bob);
    refused(&world, &server, "bob", &after, 400);
    let resumed = Ask::get("/audit/events").header("Last-Event-ID", &line);
    refused(&world, &server, "bob", &resumed.bearer(&bob), 400);

    server.ask(&write("b.txt").bearer(&bob)).expect(201);
    loop {
        let event = seen.next().unwrap();
        let text = event.data.to_string();
        assert!(
            !text.contains("a.txt") && !text.contains("\"ada\""),
            "{text}"
        );
        if text.contains("b.txt") {
            break;
        }
    }
}

#[test]
fn an_undo_is_ones_own() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    server.ask(&write("a.txt").bearer(&ada)).expect(201);
    let list = |token: &str| {
        server
            .ask(&Ask::get("/undo").bearer(token))
            .expect(200)
            .json()
    };
    let id = list(&ada)["operations"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(list(&bob)["operations"], json!([]));
    let undo = Ask::post("/undo", &json!({"id": id}));
    refused(&world, &server, "bob", &undo.clone().bearer(&bob), 404);
    assert!(world.scratch.at("a.txt").exists());
    server.ask(&undo.bearer(&ada)).expect(200);
    assert!(!world.scratch.at("a.txt").exists());
}

#[test]
fn who_asks_does_not_answer_and_only_a_person_says_always() {
    let world = World::new(Mode::Ask);
    let agent = world.token("ada", &DESK);
    let other = world.token("ada", &[Scope::Approve]);
    let adas = cookie(&world, "ada");
    let server = world.start();
    let id = raise(&server, &agent, "a.txt");
    for decision in ["allow_once", "deny_once", "always_allow"] {
        refused(
            &world,
            &server,
            "ada",
            &say(&id, decision).bearer(&agent),
            403,
        );
    }
    for lasting in ["always_allow", "always_deny"] {
        refused(
            &world,
            &server,
            "ada",
            &say(&id, lasting).bearer(&other),
            403,
        );
    }
    refused(
        &world,
        &server,
        "ada",
        &say(&id, "sure").bearer(&other),
        400,
    );
    let offered = |ask: Ask| {
        let told = server.ask(&ask).expect(200).json();
        told["approvals"][0]["offered"].to_string()
    };
    assert!(!offered(Ask::get("/approvals").bearer(&other)).contains("always"));
    assert!(offered(Ask::get("/approvals").cookie(&adas)).contains("always_allow"));

    server
        .ask(&say(&id, "always_allow").cookie(&adas))
        .expect(200);
    server.ask(&say(&id, "deny_once").cookie(&adas)).expect(409);
    let brought = write("a.txt").header("Portcullis-Question", &id);
    server.ask(&brought.bearer(&agent)).expect(201);
    assert_eq!(
        world.store.load().unwrap().len(),
        1,
        "the answer became a rule"
    );
}
