//! The server as a client starts it: what it refuses to start with, and that
//! nothing but the wire is on its standard output.

use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::sandbox::Sandbox;

#[test]
fn with_every_group_denied_it_does_not_start() {
    let sandbox = Sandbox::new();
    let groups = [
        "filesystem-read",
        "filesystem-write",
        "shell",
        "computer",
        "browser",
    ];
    let mut args = vec!["mcp".to_owned(), "--dir".to_owned(), ".".to_owned()];
    for group in groups {
        args.extend([format!("--permission-{group}"), "deny".to_owned()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    sandbox
        .run(&args)
        .with(2)
        .err_has("Every tool group is denied")
        .err_has("hint:");
}

#[test]
fn with_reading_denied_there_is_no_tool() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--permission-filesystem-read", "deny"]);
    let tools = client.request("tools/list", json!({}));
    assert_eq!(tools["result"]["tools"], json!([]));
    assert_eq!(client.leave(), 0);
}

#[test]
fn it_reads_and_refuses_and_ends_with_its_client() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&[]);
    let read = client.read("a.txt");
    assert_eq!(read["structuredContent"]["content"], "one\ntwo\n");
    let refused = client.read("../data/settings.json");
    assert_eq!(refused["isError"], true);
    assert_eq!(client.leave(), 0);
    sandbox.run(&["audit", "verify"]).with(0).out_has("✓ sound");
}

#[test]
fn when_told_to_end_it_signs_its_record_off() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&[]);
    client.read("a.txt");
    let pid = client.pid().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(client.ended(), 0);
    let verified = sandbox.run(&["audit", "verify"]).with(0);
    assert!(!verified.out.contains("not signed"), "{verified:?}");
}

#[test]
fn a_data_directory_that_others_can_reach_is_refused() {
    let sandbox = Sandbox::new();
    Sandbox::mode(&sandbox.data(), 0o777);
    let fix = format!("hint: chmod 700 {}", sandbox.data().display());
    for command in [
        &["mcp", "--dir", "."][..],
        &["audit", "tail"],
        &["rules", "list"],
    ] {
        sandbox
            .run(command)
            .with(1)
            .err_has("open to other users")
            .err_has(&fix);
    }
    sandbox
        .run(&["doctor"])
        .with(1)
        .out_has("✗ missing")
        .out_has("chmod 700");
}

#[test]
fn its_own_state_is_never_served() {
    let sandbox = Sandbox::new();
    sandbox.settings("{}");
    let mut command = sandbox.command(&["policy", "explain", "data/settings.json", "--dir", ".."]);
    let came = crate::sandbox::Came::from(command.output().unwrap());
    came.with(0).out_has("own-state");
}

#[test]
fn settings_that_stand_in_the_directory_served_are_not_served() {
    let sandbox = Sandbox::new();
    sandbox.file("gate.json", "{}");
    let settings = sandbox.dir().join("gate.json");
    let mut client = sandbox.serve(&["--settings", settings.to_str().unwrap()]);
    let read = client.read("gate.json");
    assert_eq!(read["structuredContent"]["reason"], "protected_state");
    assert_eq!(client.leave(), 0);
}

#[test]
fn what_is_under_way_when_it_is_told_to_end_has_its_line() {
    let sandbox = Sandbox::new();
    for n in 0..3_000 {
        sandbox.file(&format!("many/{n}/x"), "");
    }
    let mut client = sandbox.serve(&[]);
    client.send(&json!({"jsonrpc": "2.0", "id": 90, "method": "tools/call",
        "params": {"name": "glob", "arguments": {"pattern": "**/nothing"}}}));
    // The read is answered while the walk goes on beside it.
    client.read("a.txt");
    let pid = client.pid().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert_eq!(client.ended(), 0);
    let verified = sandbox.run(&["audit", "verify"]).with(0);
    assert!(!verified.out.contains("not signed"), "{verified:?}");
    sandbox
        .run(&["audit", "query", "--operation", "glob"])
        .with(0)
        .out_has("glob");
}

#[test]
fn a_directory_that_is_not_there_is_told_with_a_next_step() {
    Sandbox::new()
        .run(&["mcp", "--dir", "nowhere"])
        .with(1)
        .err_has("problem:")
        .err_has("hint:");
}

/// A rule another process takes back stops holding within 100 ms.
#[test]
fn a_rule_removed_elsewhere_stops_holding() {
    let sandbox = Sandbox::new();
    sandbox.file(".env", "TOKEN=x\n");
    let mut client = sandbox.serve(&["--approve-timeout", "6"]);
    crate::approvals::answer_next(&sandbox, "always_allow", || {
        let read = client.read(".env");
        assert_eq!(read["isError"], json!(false), "{read}");
    });
    let listed = sandbox.run(&["rules", "list"]).with(0).out_has("/.env");
    let id = listed
        .out
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    sandbox.run(&["rules", "remove", &id]).with(0);
    let removed = Instant::now();
    // Without a watcher nobody can be asked any more, so it is refused; the
    // watcher of before counts for five seconds and must be gone.
    let mut refused = false;
    while removed.elapsed() < portcullis_testkit::PATIENCE && !refused {
        let explained = sandbox.run(&["policy", "explain", ".env"]);
        assert!(explained.out.contains("asks you"), "{explained:?}");
        refused = client.read(".env")["isError"] == json!(true);
    }
    assert!(refused);
    assert_eq!(client.leave(), 0);
}
