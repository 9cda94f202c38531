//! Who made a change that is watched: told to who made it, and to nobody else.

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_files::sha256;
use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Ask, Events};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

fn watch(server: &Running, token: &str) -> Events {
    let ask = Ask::get("/watch").bearer(token);
    let mut events = server.connect().listen(&ask, server.address);
    events.wait_for("begun");
    events
}

/// The next change of `path`.
#[track_caller]
fn change_of(events: &mut Events, path: &str) -> Value {
    loop {
        let told = events.wait_for("changes").data;
        let changes = told["changes"].as_array().unwrap();
        if let Some(change) = changes.iter().find(|change| change["path"] == path) {
            return change.clone();
        }
    }
}

fn write(path: &str, content: &str) -> Ask {
    let body = json!({"path": path, "content": content, "mode": "create"});
    Ask::post("/file/write", &body)
}

#[test]
fn a_change_names_the_call_that_made_it_to_who_made_the_call() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    // Another token of the same person is another principal.
    let other = world.token("ada", &AGENT);
    let server = world.start();
    let mut streams = [&ada, &bob, &other].map(|token| watch(&server, token));

    let made = server.ask(&write("a.txt", "x").bearer(&ada)).expect(201);
    let call = made.header("portcullis-request-id").unwrap().to_owned();
    let [adas, bobs, others] = &mut streams;
    let told = change_of(adas, "a.txt");
    assert_eq!(told["requestId"], call.as_str(), "{told}");
    assert_eq!(told["operation"], "write", "{told}");
    for stream in [bobs, others] {
        let told = change_of(stream, "a.txt");
        assert_eq!(told["change"], "created");
        assert_eq!((told.get("requestId"), told.get("operation")), (None, None));
    }
    // What somebody else does there afterwards is not taken for it.
    std::fs::write(world.scratch.at("a.txt"), "from outside").unwrap();
    let [adas, ..] = &mut streams;
    let told = change_of(adas, "a.txt");
    assert_eq!(told.get("requestId"), None, "{told}");

    // What lies below, and what was made on the way.
    let body = json!({"path": "deep/er"});
    let made = server
        .ask(&Ask::post("/directory", &body).bearer(&ada))
        .expect(200);
    let call = made.header("portcullis-request-id").unwrap();
    let told = change_of(adas, "deep");
    assert_eq!(told["requestId"], call, "{told}");
    world.scratch.file("tree/one.txt", "1");
    let told = change_of(adas, "tree/one.txt");
    assert_eq!(told.get("requestId"), None, "{told}");
    let moved = json!({"from": "tree", "to": "wood"});
    let moved = server
        .ask(&Ask::post("/file/move", &moved).bearer(&ada))
        .expect(200);
    let call = moved.header("portcullis-request-id").unwrap();
    let told = change_of(adas, "wood");
    assert_eq!(told["requestId"], call, "{told}");
}

#[test]
fn what_was_refused_made_no_change() {
    let world = World::new(Mode::Allow);
    let ada = world.token("ada", &AGENT);
    let server = world.start();
    let mut events = watch(&server, &ada);
    // It is there already: the call fails, and changes nothing.
    server
        .ask(&write("notes.txt", "x").bearer(&ada))
        .expect(409);
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(world.scratch.at("notes.txt"), "from outside").unwrap();
    let told = change_of(&mut events, "notes.txt");
    assert_eq!(told.get("requestId"), None, "{told}");
}

/// One change by each route there is: how it is asked for, and what of it is told.
fn every_change(server: &Running, token: &str) -> Vec<(Ask, &'static str, &'static str)> {
    let hash = |content: &str| format!("sha256:{}", sha256(content.as_bytes()).hex());
    let edited = json!({
        "path": "written.txt", "oldText": "one", "newText": "two", "expectedHash": hash("one"),
    });
    let edits = json!({"path": "written.txt", "edits": [{"oldText": "two", "newText": "three"}]});
    let mut changes = vec![
        (write("written.txt", "one"), "written.txt", "write"),
        (Ask::post("/file/edit", &edited), "written.txt", "edit"),
        (Ask::post("/file/edits", &edits), "written.txt", "edit"),
        (
            Ask::post(
                "/file/append",
                &json!({"path": "written.txt", "content": "+"}),
            ),
            "written.txt",
            "append",
        ),
        (
            Ask::new("POST", "/file/upload?path=up.bin")
                .header("Content-Type", "application/octet-stream")
                .body(*b"bytes"),
            "up.bin",
            "write",
        ),
        (
            Ask::post("/file/copy", &json!({"from": "up.bin", "to": "copied.bin"})),
            "copied.bin",
            "copy",
        ),
        (
            Ask::post(
                "/file/move",
                &json!({"from": "copied.bin", "to": "moved.bin"}),
            ),
            "moved.bin",
            "move",
        ),
        (
            Ask::post("/directory", &json!({"path": "made"})),
            "made",
            "mkdir",
        ),
        (
            Ask::post("/archive/create", &json!({"from": "src", "to": "src.zip"})),
            "src.zip",
            "archive",
        ),
        (
            Ask::post(
                "/archive/extract",
                &json!({"from": "src.zip", "to": "unpacked"}),
            ),
            "unpacked",
            "extract",
        ),
    ];
    let deleted = (
        Ask::post("/file/delete", &json!({"path": "up.bin"})),
        "up.bin",
        "remove",
    );
    let undone = server
        .ask(&write("undone.txt", "x").bearer(token))
        .expect(201)
        .json();
    changes.push(deleted);
    changes.push((
        Ask::post("/undo", &json!({"id": undone["undo"]})),
        "undone.txt",
        "undo",
    ));
    changes
}

#[test]
fn every_route_that_changes_files_is_told_to_who_watches() {
    let world = World::new(Mode::Allow);
    let ada = world.token("ada", &AGENT);
    let server = world.start();
    let changes = every_change(&server, &ada);
    // Not one is left out, also not one that comes tomorrow.
    let document = server
        .ask(&Ask::get("/openapi.json").bearer(&ada))
        .expect(200)
        .json();
    let writes = |way: &Value| way["post"]["security"][0]["bearer"][0] == "fs:write";
    let paths = document["paths"].as_object().unwrap();
    let routes: BTreeSet<&str> = paths
        .iter()
        .filter(|(path, way)| !path.starts_with("/workspaces/") && writes(way))
        .map(|(path, _)| path.as_str())
        .collect();
    let tried: BTreeSet<&str> = changes
        .iter()
        .filter_map(|(ask, ..)| ask.target().split('?').next())
        .collect();
    assert_eq!(tried, routes);

    let mut events = watch(&server, &ada);
    for (ask, path, operation) in changes {
        let answer = server.ask(&ask.clone().bearer(&ada));
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        let call = answer.header("portcullis-request-id").unwrap().to_owned();
        // The change of an earlier call may still be on its way.
        let told = loop {
            let told = change_of(&mut events, path);
            if told["requestId"] == call.as_str() {
                break told;
            }
        };
        assert_eq!(told["operation"], operation, "{ask:?}: {told}");
    }
}
