//! The record, read back by a person and by programs.

use std::fs;

use crate::sandbox::Sandbox;

fn recorded() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--client-name", "claude"]);
    client.read("a.txt");
    client.read("nothing.txt");
    client.read("../x");
    assert_eq!(client.leave(), 0);
    sandbox
}

#[test]
fn the_tail_is_readable() {
    let sandbox = recorded();
    sandbox
        .run(&["audit", "tail"])
        .with(0)
        .out_has("✓ done")
        .out_has("workspace:a.txt")
        .out_has("mode:filesystemRead=allow")
        .out_has("user:me")
        .out_has("✗ failed")
        .out_has("✗ denied")
        .out_has("\"../x\"");
    let last = sandbox.run(&["audit", "tail", "-n", "1"]).with(0);
    assert!(
        last.out.contains("../x") && !last.out.contains("a.txt"),
        "{last:?}"
    );
    Sandbox::new()
        .run(&["audit", "tail"])
        .with(0)
        .out_has("Nothing is recorded yet.");
}

#[test]
fn lines_are_found_by_what_they_say() {
    let sandbox = recorded();
    let found = |args: &[&str]| {
        let mut all = vec!["audit", "query"];
        all.extend(args);
        sandbox.run(&all).with(0).out
    };
    assert!(found(&["--outcome", "denied"]).contains("1 line"));
    assert!(found(&["--path", "a.txt"]).contains("1 line"));
    assert!(found(&["--subject", "claude", "--since", "1h"]).contains("3 lines"));
    assert!(found(&["--until", "1h"]).contains("0 lines"));
    assert!(found(&["--operation", "list"]).contains("0 lines"));
    assert!(found(&["--root", "elsewhere"]).contains("0 lines"));
    for line in found(&["--json"]).lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["subject"]["conversationId"], "claude");
    }
}

#[test]
fn an_export_is_whole() {
    let sandbox = recorded();
    let csv = sandbox
        .run(&["audit", "export", "--format", "csv"])
        .with(0)
        .out;
    assert_eq!(csv.lines().count(), 4, "{csv}");
    let jsonl = sandbox.run(&["audit", "export"]).with(0).out;
    assert!(
        jsonl
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );
}

#[test]
fn a_changed_line_is_found() {
    let sandbox = recorded();
    sandbox.run(&["audit", "verify"]).with(0).out_has("✓ sound");
    let audit = sandbox.data().join("audit");
    let chain = fs::read_dir(&audit)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let segment = fs::read_dir(chain).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replace("a.txt", "b.txt")).unwrap();
    sandbox
        .run(&["audit", "verify"])
        .with(1)
        .out_has("✗ not sound");
}
