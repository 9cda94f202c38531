//! Machines that come to `portcullis serve`: with a fixed key, under either
//! prefix, and what their owner says of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::served::{Answer, PATIENCE, Served, sign_in, token};

const REST: &str = "/rest/instance-ai/gateway";
const SEED: &str = "/instance-ai/gateway";
const KEY: &str = "keyCanary-of-16-or-more";

/// A server with a file that holds the fixed key.
fn with_key_file(sandbox: &Sandbox, more: &[&str]) -> Served {
    let file = sandbox.data().join("gateway-key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    let file = file.display().to_string();
    Served::start(sandbox, &[&["--gateway-key-file", &file], more].concat())
}

fn post(server: &Served, key: &str, path: &str, body: &Value) -> Answer {
    let line = format!("POST {path}");
    server.ask(&line, &[("x-gateway-key", key)], &body.to_string())
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"),
        "inputSchema": {"type": "object"}, "annotations": {"category": "shell"}})
}

fn offering(tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    json!({"rootPath": "/home/ada/work", "hostIdentifier": "ada@laptop", "tools": tools,
        "toolCategories": []})
}

/// What the seed's daemon says.
fn uploading() -> Value {
    let tree = json!([{"path": "notes.txt", "type": "file", "sizeBytes": 3}]);
    json!({"rootPath": "/home/ada/work", "tree": tree, "treeText": "notes.txt"})
}

/// A stream of events, its head read.
struct Events(BufReader<TcpStream>);

impl Events {
    fn listen(server: &Served, path: &str, key: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let key = key.map_or(String::new(), |key| format!("x-gateway-key: {key}\r\n"));
        let host = server.address();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n{key}\r\n").unwrap();
        let mut events = Self(BufReader::new(stream));
        events.until("HTTP/1.1 200");
        events
    }

    /// Reads on to a line that has this in it.
    #[track_caller]
    fn until(&mut self, part: &str) -> String {
        let mut read = String::new();
        loop {
            let mut line = String::new();
            let count = self.0.read_line(&mut line).unwrap();
            read.push_str(&line);
            assert_ne!(count, 0, "no {part:?} in {read}");
            if line.contains(part) {
                return line;
            }
        }
    }
}

/// Whose machines are listed.
fn owners(sandbox: &Sandbox) -> Vec<String> {
    let listed = sandbox.run(&["link", "list"]).with(0).out;
    let rows = listed.lines().filter(|line| line.starts_with("m_"));
    let owner = |row: &str| row.split_whitespace().nth(1).unwrap().to_owned();
    rows.map(owner).collect()
}

#[test]
fn the_key_of_a_file_lets_machines_in_as_the_first_users_or_those_of_who_is_named() {
    for (more, owner) in [
        (&[][..], "zoe"),
        (&["--gateway-user", "ada"][..], "ada"),
        (&["--gateway-user", "zoe"][..], "zoe"),
    ] {
        let sandbox = Sandbox::new();
        // The first, and not the first by name.
        for name in ["zoe", "ada"] {
            sandbox.run(&["user", "add", name]).with(0);
        }
        let server = with_key_file(&sandbox, more);
        let init = format!("{REST}/init");
        let linked = post(&server, KEY, &init, &offering(&["look"])).with(200);
        assert_eq!(linked.json(), json!({"data": {"ok": true}}));
        post(&server, "keyCanary-another-of-16", &init, &offering(&[])).with(403);
        // Held to what it offered first.
        post(&server, KEY, &init, &offering(&["look", "rm"])).with(409);
        assert_eq!(owners(&sandbox), [owner], "{more:?}");
        assert!(!server.end().contains("keyCanary"));
    }
}

#[test]
fn a_key_file_that_is_not_there_and_a_user_nobody_knows_are_refused_at_the_start() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    sandbox.file("key", KEY);
    let serve = |more: &[&str]| {
        let came = sandbox.run(&[&["serve", "--dir", ".", "--port", "0"], more].concat());
        came.with(2)
    };
    serve(&["--gateway-key-file", "nowhere"]).err_has("There is no file");
    serve(&["--gateway-key-file", "key", "--gateway-user", "bob"])
        .err_has("no user of that name")
        .err_has("portcullis user list");
    sandbox.file("key", "short");
    serve(&["--gateway-key-file", "key"]).err_has("16 to 256");
}

#[test]
fn under_the_seeds_prefix_the_fixed_key_does_for_every_request_in_its_order() {
    let sandbox = Sandbox::new();
    let server = with_key_file(&sandbox, &[]);
    let agent = token(&sandbox, "fs:read,approve");
    // The seed's daemon listens first, with the key in the query.
    let events = format!("{SEED}/events?apiKey={KEY}");
    let mut events = Events::listen(&server, &events, None);
    let linked = post(&server, KEY, &format!("{SEED}/init"), &uploading()).with(200);
    assert_eq!(linked.json(), json!({"ok": true}), "bare, and no other key");
    let status = server
        .get(&agent, &format!("{SEED}/status"))
        .with(200)
        .json();
    assert_eq!(status["directory"], "/home/ada/work");
    std::thread::scope(|scope| {
        let read = scope.spawn(|| server.get(&agent, "/file?path=notes.txt"));
        let event = events.until("data:");
        let event: Value = serde_json::from_str(event.trim_start_matches("data:")).unwrap();
        assert_eq!(event["payload"]["operation"], "read-file", "{event}");
        let id = event["payload"]["requestId"].as_str().unwrap();
        let data = json!({"data": {"path": "notes.txt", "content": "abc", "totalLines": 1}});
        post(&server, KEY, &format!("{SEED}/response/{id}"), &data).with(200);
        assert!(read.join().unwrap().with(200).body.contains("abc"));
    });
    post(&server, KEY, &format!("{SEED}/disconnect"), &json!({})).with(200);
    let status = server
        .get(&agent, &format!("{SEED}/status"))
        .with(200)
        .json();
    assert_eq!(status["connected"], false);
    // The key counts on; and a daemon may introduce itself first.
    post(&server, KEY, &format!("{SEED}/init"), &uploading()).with(200);
    Events::listen(&server, &format!("{SEED}/events"), Some(KEY));
    let wrong = format!("{SEED}/init?apiKey=keyCanary-another-of-16");
    server.ask(&format!("POST {wrong}"), &[], "{}").with(403);
}

/// Pairs a machine of the first user with this; its session key.
fn paired(sandbox: &Sandbox, server: &Served, offered: &Value) -> String {
    let came = sandbox.run(&["link", "create"]).with(0).out;
    let pairing = came.split_whitespace().nth(3).unwrap();
    let paired = post(server, pairing, &format!("{REST}/init"), offered).with(200);
    let key = paired.json()["data"]["sessionKey"].take();
    key.as_str().unwrap().to_owned()
}

#[test]
fn a_wider_offer_is_listed_and_its_owner_approves_it_with_the_command_shown() {
    let sandbox = Sandbox::new();
    let server = Served::start(&sandbox, &[]);
    sandbox.run(&["user", "add", "bob"]).with(0);
    let key = paired(&sandbox, &server, &offering(&["look"]));
    let list = || sandbox.run(&["link", "list"]).with(0).out;
    assert!(!list().contains("was refused"), "{}", list());
    let wider = offering(&["look", "rm"]);
    let init = |offered: &Value| post(&server, &key, &format!("{REST}/init"), offered);
    assert_eq!(init(&wider).with(409).json()["reason"], "surface_widened");
    let listed = list();
    let refused = listed.lines().find(|line| line.contains("was refused"));
    assert!(refused.unwrap().contains("rm"), "{listed}");
    // The very command that is shown.
    let (_, shown) = listed.split_once("Let it: portcullis ").unwrap();
    let command: Vec<&str> = shown.lines().next().unwrap().split(' ').collect();
    assert_eq!(command[..2], ["link", "approve"]);
    // Nobody else's, and nothing that does not wait.
    for other in [
        &[command[0], command[1], command[2], "--user", "bob"][..],
        &["link", "approve", "m_nothing"],
    ] {
        let came = sandbox.run(other).with(1);
        came.err_has("waits to be approved")
            .err_has("portcullis link list");
    }
    init(&wider).with(409);
    sandbox.run(&command).with(0).out_has("rm");
    init(&wider).with(200);
    assert!(!list().contains("was refused"), "{}", list());
    sandbox
        .run(&command)
        .with(1)
        .err_has("waits to be approved");
    // What was not approved is refused as before.
    init(&offering(&["look", "rm", "dd"])).with(409);
    let query = ["audit", "query", "--operation", "administer"];
    sandbox.run(&query).with(0).out_has("link approve m_");
}

#[test]
fn disconnect_session_ends_machines_under_either_prefix() {
    for (prefix, reply) in [
        (REST, json!({"data": {"ok": true}})),
        (SEED, json!({"ok": true})),
    ] {
        let sandbox = Sandbox::new();
        let server = Served::start(&sandbox, &[]);
        let person = sign_in(&server);
        let person = [("cookie", person.as_str())];
        let key = paired(&sandbox, &server, &offering(&["look"]));
        let mut events = Events::listen(&server, &format!("{REST}/events"), Some(&key));
        let line = format!("POST {prefix}/disconnect-session");
        // An agent that may not answer for a person ends nothing.
        let agent = token(&sandbox, "fs:read");
        server
            .post(&agent, &format!("{prefix}/disconnect-session"), "{}")
            .with(403);
        let ended = server.ask(&line, &person, "{}").with(200);
        assert_eq!(ended.json(), reply);
        events.until("gateway-disconnect");
        let status = server.ask(&format!("GET {prefix}/status"), &person, "");
        assert!(
            status.with(200).body.contains("\"connected\":false"),
            "{prefix}"
        );
        post(&server, &key, &format!("{REST}/init"), &offering(&["look"])).with(403);
    }
}
