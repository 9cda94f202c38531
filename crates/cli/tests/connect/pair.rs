//! A server of ours and a daemon of ours, each a process of its own.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::flags::{Daemon, auto};
use crate::sandbox::Sandbox;
use crate::served::{Served, sign_in, signal, token};
use crate::tmux::Tmux;

/// Calls a tool as an agent does; its result.
fn call(server: &Served, token: &str, tool: &str, arguments: &Value) -> Value {
    call_with(server, token, tool, arguments, None)
}

/// Calls it with the name of a question that was answered.
fn call_with(
    server: &Served,
    token: &str,
    tool: &str,
    arguments: &Value,
    question: Option<&str>,
) -> Value {
    let version = "2026-07-28";
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(question) = question {
        meta["portcullis/question"] = json!(question);
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta}});
    let bearer = format!("Bearer {token}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let answer = server
        .ask("POST /mcp", &fields, &body.to_string())
        .with(200);
    answer.json()["result"].take()
}

/// A server, and what to type to lend a machine to it.
fn served(server: &Sandbox, port: &str) -> (Served, String) {
    let command = server.command(&["serve", "--dir", ".", "--port", port]);
    let served = Served::of(server, command);
    let url = format!("http://{}", served.address());
    (served, url)
}

fn pairing(server: &Sandbox, url: &str) -> String {
    let came = server.run(&["link", "create", "--url", url]).with(0);
    let mut words = came.out.split_whitespace();
    let token = words.find(|word| word.starts_with("gw_"));
    token.unwrap().to_owned()
}

#[test]
fn a_machine_is_lent_in_the_seeds_dialect_to_a_server_of_ours() {
    let (there, here) = (Sandbox::new(), Sandbox::new());
    here.file("laptop.txt", "of the laptop");
    here.file("src/main.rs", "fn main() {}");
    here.file("node_modules/a.js", "");
    let (server, url) = served(&there, "0");
    let pairing = pairing(&there, &url);
    let mut args = auto(&url, &["--dialect", "seed"]);
    args[2] = &pairing;
    let daemon = Daemon::start(&here, &args, &[]);
    let agent = token(&there, "fs:read,fs:write");
    until_connected(&here);
    let read = json!({"filePath": "laptop.txt"});
    let result = call(&server, &agent, "read_file", &read);
    let structured = &result["structuredContent"];
    assert_eq!(structured["content"], "of the laptop", "{result}");
    assert_eq!(structured["totalLines"], 1);
    // What was uploaded, without a round trip.
    let tree = call(&server, &agent, "get_file_tree", &json!({}));
    let tree = tree["structuredContent"]["tree"].as_str().unwrap();
    assert!(tree.contains("src/\n  main.rs"), "{tree}");
    assert!(!tree.contains("node_modules"), "{tree}");
    let found = call(&server, &agent, "search_files", &json!({"query": "MAIN"}));
    let first = &found["structuredContent"]["matches"][0];
    assert_eq!(
        (&first["path"], &first["lineNumber"]),
        (&json!("src/main.rs"), &json!(1))
    );
    let outside = json!({"filePath": "../../etc/passwd"});
    let refused = call(&server, &agent, "read_file", &outside);
    assert_eq!(refused["isError"], true, "{refused}");
    // There is nothing that writes.
    let write = json!({"filePath": "b.txt", "content": "x"});
    let refused = call(&server, &agent, "write_file", &write);
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!here.dir().join("b.txt").exists());
    daemon.end().with(0);
}

#[test]
fn an_agent_of_the_server_works_with_the_lent_machine_through_a_restart() {
    let (there, here) = (Sandbox::new(), Sandbox::new());
    here.file("laptop.txt", "of the laptop");
    let (server, url) = served(&there, "0");
    let pairing = pairing(&there, &url);
    let mut args = auto(
        &url,
        &[
            "--filesystem-write-access",
            "--permission-filesystem-write",
            "allow",
        ],
    );
    args[2] = &pairing;
    let daemon = Daemon::start(&here, &args, &[]);
    let agent = token(&there, "fs:read,fs:write");
    let read = json!({"filePath": "laptop.txt"});
    let until_linked = |server: &Served| {
        let began = Instant::now();
        loop {
            let result = call(server, &agent, "read_file", &read);
            if result["structuredContent"]["content"] == "of the laptop" {
                return;
            }
            assert!(began.elapsed() < portcullis_testkit::PATIENCE, "{result}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // A call before that would bind the token to the server's own files.
    until_connected(&here);
    until_linked(&server);
    let append = json!({"filePath": "log.txt", "content": "x"});
    call(&server, &agent, "append_file", &append);
    // More than goes in one piece.
    here.file("big.txt", &"y".repeat(1 << 20));
    let big = json!({"filePath": "big.txt", "byteOffset": 0, "byteLength": 1 << 20});
    let result = call(&server, &agent, "read_file", &big);
    let bytes = result["structuredContent"]["base64"].as_str().unwrap();
    assert!(bytes.len() > 1 << 20);
    let port = url.rsplit(':').next().unwrap().to_owned();
    drop(server);
    let (server, _) = served(&there, &port);
    until_linked(&server);
    call(&server, &agent, "append_file", &append);
    assert_eq!(here.text("log.txt"), "xx");
    assert!(!there.dir().join("log.txt").exists());
    daemon.end().with(0);
}

/// Lends from a terminal, confirmed with Yes.
fn lent_at_a_terminal(here: &Sandbox, url: &str, token: &str, more: &[&str]) -> Tmux {
    let tmux = Tmux::run(
        here,
        &[&["connect", url, token, "--filesystem-write-access"], more].concat(),
    );
    tmux.until("Lend this machine?", 1);
    tmux.keys(&["Up", "Up", "Enter"]);
    tmux.until("connected to", 1);
    tmux
}

#[test]
fn when_one_daemon_takes_anothers_place_both_people_see_it() {
    let (there, older, newer) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    let (_server, url) = served(&there, "0");
    let lend = |here: &Sandbox| {
        let token = pairing(&there, &url);
        lent_at_a_terminal(here, &url, &token, &["--machine", "desk"])
    };
    let first = lend(&older);
    assert_eq!(first.count("another daemon"), 0, "{}", first.screen());
    let second = lend(&newer);
    second.until("stood for this machine and was let go", 1);
    first.until("stands for this machine now", 1);
    first.until("ended with 0.", 1);
    // What is said stays, and the line below it goes on.
    let screen = second.screen();
    let (said, kept) = screen.split_once("was let go").unwrap();
    assert!(said.contains("! another daemon, on tester@"), "{screen}");
    assert!(kept.contains("connected to"), "{screen}");
}

#[test]
fn where_its_owner_lets_the_server_ask_what_is_answered_there_is_what_counts() {
    let (there, here) = (Sandbox::new(), Sandbox::new());
    let (server, url) = served(&there, "0");
    let instance = ["--permission-confirmation", "instance"];
    let tmux = lent_at_a_terminal(&here, &url, &pairing(&there, &url), &instance);
    tmux.until("whoever the server asks", 1);
    what_is_answered_there_counts(&server, &there, &here);
    assert_eq!(tmux.count("Esc denies once"), 0, "{}", tmux.screen());
    tmux.keys(&["C-c"]);
    tmux.until("ended with 0.", 1);
}

#[test]
fn without_a_terminal_the_servers_person_is_asked_where_the_owner_says_so() {
    let (there, here) = (Sandbox::new(), Sandbox::new());
    let (server, url) = served(&there, "0");
    let pairing = pairing(&there, &url);
    let mut args = auto(
        &url,
        &[
            "--filesystem-write-access",
            "--permission-confirmation",
            "instance",
        ],
    );
    args[2] = &pairing;
    let daemon = Daemon::start(&here, &args, &[]);
    until_connected(&here);
    what_is_answered_there_counts(&server, &there, &here);
    daemon.end().with(0);
}

/// Waits until the daemon of this machine is linked, and makes no call.
fn until_connected(here: &Sandbox) {
    let began = Instant::now();
    let status = || here.run(&["status", "--json"]);
    while !status().out.contains("\"connected\"") {
        let waited = began.elapsed();
        assert!(waited < Duration::from_mins(1), "{:?}", status());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Calls of an agent end with a question, and do what a person of the server says.
fn what_is_answered_there_counts(server: &Served, there: &Sandbox, here: &Sandbox) {
    let person = sign_in(server);
    let person = [("cookie", person.as_str())];
    let agent = token(there, "fs:read,fs:write");
    for (path, decision) in [("yes.txt", "allow_once"), ("no.txt", "deny_once")] {
        let write = json!({"filePath": path, "content": "x"});
        let asked = call(server, &agent, "write_file", &write);
        let asked = &asked["structuredContent"];
        assert_eq!(asked["reason"], "approval_pending", "{asked}");
        let question = asked["questionId"].as_str().unwrap();
        let waiting = server.ask("GET /approvals", &person, "").with(200).body;
        assert!(
            waiting.contains(question) && waiting.contains(path),
            "{waiting}"
        );
        // Until somebody says so, nothing is done.
        call_with(server, &agent, "write_file", &write, Some(question));
        assert!(!here.dir().join(path).exists());
        let line = format!("POST /approvals/{question}");
        let answer = json!({ "decision": decision }).to_string();
        server.ask(&line, &person, &answer).with(200);
        let came = call_with(server, &agent, "write_file", &write, Some(question));
        let is_yes = decision == "allow_once";
        assert_eq!(here.dir().join(path).exists(), is_yes, "{came}");
        assert_eq!(came["isError"] == true, !is_yes, "{came}");
        if !is_yes {
            assert_eq!(came["structuredContent"]["reason"], "approval_denied");
        }
    }
    assert_eq!(here.text("yes.txt"), "x");
}

/// How many calls to linked machines were begun, as the record has it.
fn begun(server: &Sandbox) -> usize {
    let mut count = 0;
    for chain in std::fs::read_dir(server.data().join("audit")).unwrap() {
        let Ok(files) = std::fs::read_dir(chain.unwrap().path()) else {
            continue;
        };
        for file in files {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
            let is_begun = |line: &&str| line.contains("\"relay\"") && line.contains("\"opening\"");
            count += text.lines().filter(is_begun).count();
        }
    }
    count
}

#[test]
fn a_server_that_is_told_to_end_tells_its_callers_and_the_daemon_comes_back_to_the_next() {
    let (there, here) = (Sandbox::new(), Sandbox::new());
    here.file("laptop.txt", "of the laptop");
    let (server, url) = served(&there, "0");
    let pairing = pairing(&there, &url);
    let mut args = auto(
        &url,
        &[
            "--filesystem-write-access",
            "--permission-filesystem-write",
            "allow",
        ],
    );
    args[2] = &pairing;
    let daemon = Daemon::start(&here, &args, &[]);
    let agent = token(&there, "fs:read,fs:write");
    let until_linked = |server: &Served| {
        let began = Instant::now();
        loop {
            let read = json!({"filePath": "laptop.txt"});
            let result = call(server, &agent, "read_file", &read);
            if result["structuredContent"]["content"] == "of the laptop" {
                return;
            }
            assert!(began.elapsed() < portcullis_testkit::PATIENCE, "{result}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // A call before that would bind the token to the server's own files.
    until_connected(&here);
    until_linked(&server);
    let append = json!({"filePath": "log.txt", "content": "x"});
    // A machine that does not answer now.
    signal(daemon.0.id(), "-STOP");
    let before = begun(&there);
    let told = std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &agent, "append_file", &append));
        let began = Instant::now();
        while begun(&there) == before {
            assert!(
                began.elapsed() < portcullis_testkit::PATIENCE,
                "it is not sent"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(server.pid(), "-TERM");
        called.join().unwrap()
    });
    assert_eq!(told["structuredContent"]["reason"], "link_lost", "{told}");
    server.end();
    signal(daemon.0.id(), "-CONT");
    let port = url.rsplit(':').next().unwrap().to_owned();
    let (server, _) = served(&there, &port);
    until_linked(&server);
    let done = call(&server, &agent, "append_file", &append);
    assert_ne!(done["isError"], true, "{done}");
    // What was lost was done once, or not at all: which of them is what the caller was told
    // not to know.
    let log = here.text("log.txt");
    assert!(log == "x" || log == "xx", "{log:?}");
    daemon.end().with(0);
}
