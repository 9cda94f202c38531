//! The seed's dialect: subscribe first, upload a tree, answer operations.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Ask, Connection};
use crate::daemon::{Daemon, call, id, next_call, pairing, text, tools};
use crate::world::{PATIENCE, Running, World};

const SEED: &str = "/instance-ai/gateway";

fn init() -> Value {
    json!({
        "rootPath": "/home/ada/work",
        "tree": [
            {"path": "src", "type": "directory"},
            {"path": "src/main.rs", "type": "file", "sizeBytes": 12},
            {"path": "notes.txt", "type": "file", "sizeBytes": 5},
        ],
        "treeText": "src/\n  main.rs\nnotes.txt",
    })
}

fn post(server: &Running, key: &str, path: &str, body: &Value) -> crate::client::Answer {
    let ask = Ask::post(&format!("{SEED}{path}"), body).header("X-Gateway-Key", key);
    server.ask(&ask)
}

#[test]
fn a_daemon_of_the_seeds_subscribes_uploads_and_answers() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead, Scope::Approve]);
    let server = world.start();
    let create = Ask::new("POST", &format!("{SEED}/create-link")).bearer(&token);
    let made = server.ask(&create).expect(200).json();
    let pairing = made["token"].as_str().unwrap();
    // The pairing token opens the stream, and is not used up by it.
    let events = Ask::get(&format!("{SEED}/events?apiKey={pairing}"));
    let connection: Connection = server.connect();
    let mut events = connection.listen(&events, server.address);
    let paired = post(&server, pairing, "/init", &init()).expect(200).json();
    assert_eq!(paired["ok"], true);
    let key = paired["sessionKey"].as_str().unwrap();
    post(&server, pairing, "/init", &init()).expect(403);
    assert_eq!(
        tools(&server, &token)
            .iter()
            .filter(|name| *name == "write_file")
            .count(),
        0,
        "the seed only reads"
    );
    // The tree is listed here, without a round trip.
    let shown = call(&server, &token, "get_file_tree", &json!({}));
    assert_eq!(text(&shown), "notes.txt\nsrc/\n  main.rs");
    let listed = call(&server, &token, "list_files", &json!({"dirPath": "src"}));
    assert_eq!(
        listed["structuredContent"]["entries"][0]["path"],
        "src/main.rs"
    );
    // The stream goes on under the session key.
    let asked = json!({"filePath": "notes.txt", "maxLines": 5});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &asked));
        let event = next_call(&mut events);
        let payload = &event.data["payload"];
        assert_eq!(payload["operation"], "read-file");
        assert_eq!(
            payload["args"],
            json!({"filePath": "notes.txt", "maxLines": 5})
        );
        assert!(payload["toolCall"].is_null());
        let path = format!("/response/{}", id(&event));
        post(&server, key, &path, &json!({"neither": 1})).expect(400);
        let data = json!({"data": {"path": "notes.txt", "content": "some words", "totalLines": 1}});
        let done = post(&server, key, &path, &data).expect(200).json();
        assert_eq!(done, json!({"ok": true}), "bare, and not in data");
        let read = called.join().unwrap();
        assert_eq!(text(&read), "some words");
        assert_eq!(read["structuredContent"]["totalLines"], 1);
    });
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "search_files", &json!({"query": "x"})));
        let event = next_call(&mut events);
        assert_eq!(event.data["payload"]["operation"], "search-files");
        let path = format!("/response/{}", id(&event));
        post(&server, key, &path, &json!({"error": "Access denied"})).expect(200);
        let failed = called.join().unwrap();
        assert_eq!(failed["isError"], true);
        assert_eq!(failed["structuredContent"]["error"], "Access denied");
    });
    let status = server.ask(&Ask::get(&format!("{SEED}/status")).bearer(&token));
    assert_eq!(status.json()["directory"], "/home/ada/work");
    // A listing needs no daemon, and so is there while the stream is waited for.
    drop(events);
    let shown = call(&server, &token, "get_file_tree", &json!({"dirPath": "src"}));
    assert_eq!(text(&shown), "main.rs");
    post(&server, key, "/disconnect", &json!({})).expect(200);
    assert_eq!(post(&server, key, "/init", &init()).status, 403);
}

#[test]
fn an_init_may_come_before_the_stream_and_a_tree_is_bounded() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let token = pairing(&world, "ada");
    let entry = json!({"path": "a", "type": "file"});
    let huge = json!({"rootPath": "/w", "tree": vec![entry; 10_001]});
    post(&server, &token, "/init", &huge).expect(400);
    post(&server, &token, "/init", &json!({"tree": []})).expect(400);
    let paired = post(&server, &token, "/init", &init()).expect(200).json();
    let key = paired["sessionKey"].as_str().unwrap();
    let events = Ask::get(&format!("{SEED}/events?apiKey={key}"));
    server.connect().listen(&events, server.address);
}

#[test]
fn who_comes_back_may_listen_first_as_well() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let pairing = pairing(&world, "ada");
    let paired = post(&server, &pairing, "/init", &init()).expect(200).json();
    let key = paired["sessionKey"].as_str().unwrap();
    let stream = Ask::get(&format!("{SEED}/events?apiKey={key}"));
    drop(server.connect().listen(&stream, server.address));
    // It listens, and introduces itself then: its own init does not cut it off.
    let mut events = server.connect().listen(&stream, server.address);
    post(&server, key, "/init", &init()).expect(200);
    let asked = json!({"filePath": "notes.txt"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &asked));
        let event = next_call(&mut events);
        let data = json!({"data": {"path": "notes.txt", "content": "back", "totalLines": 1}});
        let path = format!("/response/{}", id(&event));
        post(&server, key, &path, &data).expect(200);
        assert_eq!(text(&called.join().unwrap()), "back");
    });
}

#[test]
fn who_listens_with_a_token_hears_nothing_of_a_daemon_that_did_not() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let pairing = pairing(&world, "ada");
    // Somebody saw the token in a list of processes, and is quicker.
    let stream = Ask::get(&format!("{SEED}/events?apiKey={pairing}"));
    let mut overheard = server.connect().listen(&stream, server.address);
    let daemon = Daemon::with(&server, &pairing);
    let paired = daemon.init(&crate::daemon::init()).expect(200).json();
    assert!(overheard.next().is_none(), "it is over");
    let key = paired["data"]["sessionKey"].as_str().unwrap();
    let daemon = Daemon::with(&server, key);
    let asked = json!({"filePath": "notes.txt"});
    std::thread::scope(|scope| {
        // Before its own stream is there: it waits for that.
        let called = scope.spawn(|| call(&server, &token, "read_file", &asked));
        daemon.serve(&mut daemon.listen(), "mine");
        assert_eq!(text(&called.join().unwrap()), "mine");
    });
}

#[test]
fn who_stayed_away_listens_first_while_a_call_waits_for_it() {
    let key = "a-key-that-is-never-changed";
    let world = World::new(Mode::Allow).with_fixed_key(key, "ada");
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let stream = Ask::get(&format!("{SEED}/events?apiKey={key}"));
    let mut events = server.connect().listen(&stream, server.address);
    post(&server, key, "/init", &init()).expect(200);
    let asked = json!({"filePath": "notes.txt"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &asked));
        let event = next_call(&mut events);
        drop(events);
        let status = || server.ask(&Ask::get("/status").bearer(&token)).json();
        let began = Instant::now();
        while status()["machines"] != json!([]) {
            assert!(began.elapsed() < PATIENCE, "it is waited for still");
            std::thread::sleep(Duration::from_millis(50));
        }
        let _listens = server.connect().listen(&stream, server.address);
        post(&server, key, "/init", &init()).expect(200);
        let data = json!({"data": {"path": "notes.txt", "content": "late", "totalLines": 1}});
        let path = format!("/response/{}", id(&event));
        post(&server, key, &path, &data).expect(200);
        assert_eq!(text(&called.join().unwrap()), "late");
    });
}
