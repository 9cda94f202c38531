//! How far a call to a linked machine is, heard by who made it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_testkit::promised;
use serde_json::{Value, json};

use crate::daemon::{Daemon, id, init_of_ours, next_call, result};
use crate::lent::{How, Lent};
use crate::surfaces::{over_http, request};
use crate::world::{PATIENCE, Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];
/// The most a search is given to do before it is said to tell nothing.
const MOST_FILES: usize = 6_400;

/// Calls a tool as who wants to hear how far it is: what is told, one by one.
fn asked(
    server: &Running,
    token: &str,
    tool: &str,
    arguments: &Value,
) -> Box<dyn Iterator<Item = Value>> {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
    let message = request("tools/call", params);
    let ask = over_http("tools/call", Some(tool), &message).bearer(token);
    let mut connection = server.connect();
    connection.send(&ask.wire(server.address));
    let head = connection.head().unwrap().expect(200);
    // Where there is nothing to tell before the result, that is the whole reply.
    if head.header("content-type") == Some("application/json") {
        let whole = connection.whole(head).unwrap().json();
        return Box::new(std::iter::once(whole));
    }
    let mut events = connection.events();
    Box::new(std::iter::from_fn(move || {
        Some(events.next_unnamed()?.data)
    }))
}

/// So many lines of 60 letters, the same ones every time.
fn lines_by_chance(many: usize) -> String {
    let mut state = 1_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b"abcdefghij "[usize::try_from(state >> 16).unwrap() % 11])
    };
    let mut line = || (0..60).map(|_| letter()).chain(['\n']).collect::<String>();
    (0..many).map(|_| line()).collect()
}

/// How far it is, where that is what is told next.
fn further(message: &Value) -> Option<u64> {
    (message["method"] == "notifications/progress").then(|| {
        let told = &message["params"];
        assert_eq!(told["progressToken"], "p", "{message}");
        let progress = told["progress"].as_f64().unwrap();
        serde_json::from_str(&format!("{progress:.0}")).unwrap()
    })
}

#[test]
fn how_far_a_call_is_is_heard_by_who_made_it() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init_of_ours("desk"));
    let mut events = daemon.listen();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || {
            for message in asked(server, &token, "read_file", &json!({"filePath": "a"})) {
                tell.send(message).unwrap();
            }
        });
        let event = next_call(&mut events);
        let path = format!("/progress/{}", id(&event));
        for entries in [5, 9] {
            let body = json!({"entries": entries, "searched": 2, "matches": 1});
            server.ask(&daemon.post(&path, &body)).expect(200);
            let heard = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!(further(&heard), Some(entries), "{heard}");
        }
        daemon.respond(id(&event), &result("done")).expect(200);
        let last = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(last["result"]["content"][0]["text"], "done", "{last}");
        // Nobody waits any more: there is nobody to tell.
        let body = json!({"entries": 10, "searched": 2, "matches": 1});
        server.ask(&daemon.post(&path, &body)).expect(404);
    });
}

#[test]
fn our_daemon_tells_how_far_a_long_search_is_and_its_caller_hears_it() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let token = near.token("ada", &AGENT);
    let server = near.start();
    let lent = Lent::to(&near, &server, &far, How::named("laptop"));
    // Every line is too short for it by a few letters, and no way to find that out is short:
    // what is left open between its parts doubles with every letter.
    let query = json!({"query": "[a-e][a-j ]{20}[f-j][a-j ]{20}[a-e][a-j ]{30}"});
    let lines = lines_by_chance(4_000);
    let mut files = 0;
    let (heard, took) = loop {
        let more = files.max(400);
        for n in files..files + more {
            far.scratch
                .file(&format!("d{}/{n}.txt", n % 10), lines.as_bytes());
        }
        files += more;
        let began = Instant::now();
        let mut messages = asked(&server, &token, "search_files", &query);
        let first = messages.next().expect("something is told");
        if let Some(entries) = further(&first) {
            break (entries, began.elapsed());
        }
        let found = &first["result"]["structuredContent"];
        assert_eq!(found["totalMatches"], 0, "{first}");
        // What took so long was to be told of; what was faster is made longer.
        let took = began.elapsed();
        assert!(
            took < promised(Duration::from_secs(3)),
            "nothing was told in {took:?}"
        );
        assert!(files < MOST_FILES, "{files} files are searched in {took:?}");
    };
    println!("{heard} of {files} files were come across after {took:?}");
    assert!(heard > 0);
    lent.end();
}
