//! What daemons reply, where it is not what they may say.

use portcullis_proto::{Mode, Scope};
use serde_json::json;

use crate::client::Ask;
use crate::daemon::{Daemon, call, id, init, init_of_ours, next_call, result, text, tool};
use crate::world::World;

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

#[test]
fn a_daemon_picks_no_status_of_a_route() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let mut init = init();
    init["tools"] = json!([tool("delete", "filesystem", false)]);
    let daemon = Daemon::pair(&world, &server, "ada", &init);
    let mut events = daemon.listen();
    for (kind, status, want) in [
        ("x", 200, 503),
        ("x", 101, 503),
        ("path_not_found", 200, 404),
    ] {
        let ask = Ask::post("/file/delete", &json!({"path": "a"})).bearer(&token);
        let failed = json!({"result": {"content": [], "isError": true,
            "structuredContent": {"errorKind": kind, "status": status, "error": "no"}}});
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| server.ask(&ask));
            let event = next_call(&mut events);
            daemon.respond(id(&event), &failed).expect(200);
            let told = asked.join().unwrap().expect(want).json();
            assert_eq!(
                (&told["status"], &told["error"]),
                (&json!(want), &json!("no"))
            );
        });
    }
}

#[test]
fn pieces_of_what_is_no_result_are_taken_again_from_the_first() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut events = daemon.listen();
    let in_two = |whole: &str| {
        let (first, second) = whole.split_at(whole.len() / 2);
        [(0, first), (1, second)].map(
            |(index, text)| json!({"chunk": {"index": index, "last": index == 1, "text": text}}),
        )
    };
    let read = json!({"filePath": "a"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        let event = next_call(&mut events);
        let [first, second] = in_two(&json!({"result": {"content": "none"}}).to_string());
        daemon.respond(id(&event), &first).expect(200);
        daemon.respond(id(&event), &second).expect(400);
        for piece in in_two(&result("whole").to_string()) {
            daemon.respond(id(&event), &piece).expect(200);
        }
        assert_eq!(text(&called.join().unwrap()), "whole");
    });
}

#[test]
fn who_says_what_does_not_fit_is_not_told_all_of_it_again() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut events = daemon.listen();
    let long = "z".repeat(1 << 20);
    let read = json!({"filePath": "a"});
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &read));
        let event = next_call(&mut events);
        for unfit in [
            json!({"result": {"content": long}}),
            json!({"result": {"content": [{"type": long}]}}),
            json!({"chunk": long}),
            json!({"error": [long]}),
        ] {
            let answer = daemon.respond(id(&event), &unfit).expect(400);
            assert!(answer.body.len() < 1_024, "{} bytes", answer.body.len());
        }
        daemon.respond(id(&event), &result("fits")).expect(200);
        assert_eq!(text(&called.join().unwrap()), "fits");
    });
    // Nor is an agent whose arguments do not.
    let told = server.ask(&Ask::post("/file/write", &json!({"path": [long]})).bearer(&token));
    assert!(told.expect(400).body.len() < 2_048);
}
