//! That what is done and refused away from the files is on the record too, and
//! that an answer is used up by the deed it was given for, and by nothing else.

use portcullis_files::Record;
use portcullis_policy::Effect;
use portcullis_proto::{Mode, Scope};
use serde_json::json;

use crate::client::Ask;
use crate::world::{World, now_ms};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

fn write(path: &str) -> Ask {
    Ask::post(
        "/file/write",
        &json!({"path": path, "content": "x", "mode": "create"}),
    )
}

fn say(id: &str, decision: &str) -> Ask {
    Ask::post(&format!("/approvals/{id}"), &json!({"decision": decision}))
}

/// The outcomes on the record of what came in by `route`, in order.
fn outcomes(world: &World, route: &str) -> Vec<String> {
    let came_by = |record: &Record| record.route.as_deref() == Some(route);
    let lines = world.closings().into_iter().filter(came_by);
    lines.filter_map(|line| line.outcome).collect()
}

#[test]
fn an_answer_is_used_up_by_the_deed_it_was_given_for_alone() {
    let world = World::new(Mode::Ask);
    let (agent, desk) = (
        world.token("ada", &AGENT),
        world.token("ada", &[Scope::Approve]),
    );
    let server = world.start();
    let told = server
        .ask(&write("a.txt").bearer(&agent))
        .expect(403)
        .json();
    let id = told["questionId"].as_str().unwrap().to_owned();
    assert!(told["hint"].as_str().unwrap().contains("--write"), "{told}");
    server
        .ask(&say(&id, "allow_once").bearer(&desk))
        .expect(200);
    let with_it = |ask: Ask| ask.bearer(&agent).header("Portcullis-Question", &id);
    // Nothing that fails before the deed is judged, or is another deed, takes it.
    server
        .ask(&with_it(Ask::post("/file/write", &json!({"path": 1}))))
        .expect(400);
    let bad = json!({"path": "a.txt", "content": "x", "mode": "replace"});
    server
        .ask(&with_it(Ask::post("/file/write", &bad)))
        .expect(400);
    let other = server.ask(&with_it(write("b.txt"))).expect(409).json();
    assert_eq!(other["reason"], "changed", "{other}");
    server.ask(&with_it(write("a.txt"))).expect(201);
    let again = server.ask(&with_it(write("c.txt"))).expect(403).json();
    assert_eq!(again["reason"], "answer_used", "{again}");
    assert!(!world.scratch.at("b.txt").exists() && !world.scratch.at("c.txt").exists());
}

#[test]
fn what_is_said_for_good_holds_though_nobody_comes_back_for_it() {
    let world = World::new(Mode::Ask);
    let agent = world.token("bob", &AGENT);
    let link = world.store.create_sign_in_link("ada", now_ms()).unwrap();
    let server = world.start();
    let told = server
        .ask(&write("a.txt").bearer(&agent))
        .expect(403)
        .json();
    let bobs = told["questionId"].as_str().unwrap().to_owned();
    let signed_in = server
        .ask(&Ask::post("/sign-in", &json!({"link": link.expose()})))
        .expect(200);
    let cookie = signed_in.header("set-cookie").unwrap();
    let cookie = cookie
        .split(';')
        .next()
        .unwrap()
        .split_once('=')
        .unwrap()
        .1
        .to_owned();
    // Not hers to answer.
    server
        .ask(&say(&bobs, "always_allow").cookie(&cookie))
        .expect(404);
    let own = world.token("ada", &AGENT);
    let told = server.ask(&write("a.txt").bearer(&own)).expect(403).json();
    let id = told["questionId"].as_str().unwrap().to_owned();
    server
        .ask(&say(&id, "always_allow").cookie(&cookie))
        .expect(200);
    let rules = world.store.load().unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(
        (rules[0].effect, rules[0].pattern.as_str()),
        (Effect::Allow, "/a.txt")
    );
    let late = server
        .ask(&say(&id, "deny_once").cookie(&cookie))
        .expect(409);
    assert_eq!(late.json()["code"], "already_answered");
    assert_eq!(
        outcomes(&world, "POST /approvals/{id}"),
        ["failed", "success", "denied"]
    );
    server
        .ask(&Ask::post("/sign-out", &json!({})).cookie(&cookie))
        .expect(204);
    assert_eq!(outcomes(&world, "POST /sign-in"), ["success"]);
    assert_eq!(outcomes(&world, "POST /sign-out"), ["success"]);
    // Nothing of the link or the cookie is on the record.
    let all = format!("{:?}", world.closings());
    assert!(!all.contains(link.expose()) && !all.contains(&cookie));
}

#[test]
fn what_is_looked_at_and_what_is_refused_has_its_line() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    server.ask(&write("a.txt").bearer(&token)).expect(201);
    let undo = server
        .ask(&Ask::get("/undo").bearer(&token))
        .expect(200)
        .json();
    assert_eq!(undo["operations"].as_array().unwrap().len(), 1, "{undo}");
    assert_eq!(outcomes(&world, "GET /undo"), ["success"]);
    // No cursor at all, and one whose `ino` is the word "none".
    let wordy = "eyJ2IjoxLCJvZmYiOjAsInNpemUiOjEwLCJkZXYiOiIxIiwiaW5vIjoibm9uZSIsIm10aW1lIjoiMSJ9";
    for cursor in ["x", wordy] {
        let ask = Ask::get(&format!("/file?path=notes.txt&cursor={cursor}")).bearer(&token);
        assert_eq!(server.ask(&ask).expect(400).json()["reason"], "bad_cursor");
    }
    assert_eq!(outcomes(&world, "GET /file"), ["failed", "failed"]);
    let range = Ask::get("/file/raw?path=notes.txt").header("Range", "bytes=900-");
    server.ask(&range.bearer(&token)).expect(416);
    // Looked at twice: a file so fresh may change without its times telling.
    let raw = outcomes(&world, "GET /file/raw");
    assert_eq!(raw.last().map(String::as_str), Some("failed"), "{raw:?}");
    let named = write("b.txt").header("X-Qwen-Client-Id", "someone");
    server.ask(&named.bearer(&token)).expect(400);
    assert_eq!(outcomes(&world, "POST /file/write"), ["success", "failed"]);
}

#[test]
fn where_a_workspace_stands_is_for_who_may_work_in_it() {
    let world = World::new(Mode::Allow);
    let (agent, desk) = (
        world.token("ada", &AGENT),
        world.token("ada", &[Scope::Approve]),
    );
    let server = world.start();
    let ask = |token: &str| {
        let answer = server
            .ask(&Ask::get("/capabilities").bearer(token))
            .expect(200);
        answer.json()["workspaces"].as_array().unwrap().len()
    };
    assert_eq!((ask(&agent), ask(&desk)), (1, 0));
}
