//! Undoing at the terminal what an agent did.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Client, Sandbox};

#[track_caller]
fn id(reply: &Value) -> String {
    let undo = reply["structuredContent"]["undo"].as_str();
    assert!(undo.is_some(), "{reply}");
    undo.unwrap().to_owned()
}

fn edit(client: &mut Client, old: &str, new: &str) -> String {
    id(&client.call(
        "edit_file",
        json!({"filePath": "a.txt", "oldString": old, "newString": new}),
    ))
}

#[test]
fn a_change_is_listed_shown_compared_and_put_back() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["undo", "list"])
        .with(0)
        .out_has("Nothing can be undone here");
    let mut client = sandbox.serve(&["--write"]);
    let edited = edit(&mut client, "two", "2");
    assert_eq!(client.leave(), 0);
    sandbox
        .run(&["undo", "list"])
        .with(0)
        .out_has(&edited)
        .out_has("edit")
        .out_has("a.txt");
    sandbox
        .run(&["undo", "show", &edited])
        .with(0)
        .out_has("user:me")
        .out_has("before   a file of 8 B");
    sandbox
        .run(&["undo", "diff", &edited])
        .with(0)
        .out_has("-2\n+two\n");
    let came = sandbox
        .run(&["undo", "apply", &edited])
        .with(0)
        .out_has("✓ put back")
        .out_has("redo: ");
    assert_eq!(sandbox.text("a.txt"), "one\ntwo\n");
    // An undoing can be undone as well.
    let redo = came.out.trim().rsplit("redo: ").next().unwrap().to_owned();
    sandbox.run(&["undo", "apply", &redo]).with(0);
    assert_eq!(sandbox.text("a.txt"), "one\n2\n");
    sandbox
        .run(&["undo", "apply", &edited])
        .with(1)
        .err_has("Nothing is kept of")
        .err_has("hint:");
    sandbox
        .run(&["audit", "query", "--operation", "undo"])
        .with(0)
        .out_has("a.txt");
    // A change is one line for people, and every line for programs.
    let tail = sandbox.run(&["audit", "tail"]).with(0);
    assert!(!tail.out.contains("begun"), "{tail:?}");
    sandbox
        .run(&["audit", "tail", "--json"])
        .with(0)
        .out_has("\"opening\"");
    sandbox.run(&["audit", "verify"]).with(0).out_has("✓ sound");
}

#[test]
fn a_whole_run_is_put_back_newest_first() {
    let sandbox = Sandbox::new();
    sandbox.file("dir/x", "x\n");
    let mut client = sandbox.serve(&["--write"]);
    let first = edit(&mut client, "two", "2");
    edit(&mut client, "one", "1");
    client.call(
        "append_file",
        json!({"filePath": "a.txt", "content": "3\n"}),
    );
    client.call(
        "move",
        json!({"sourcePath": "a.txt", "destinationPath": "deep/b.txt"}),
    );
    client.call("delete", json!({"path": "dir"}));
    client.call(
        "write_file",
        json!({"filePath": "n/new.txt", "content": "n"}),
    );
    client.call("create_directory", json!({"dirPath": "empty/er"}));
    assert_eq!(client.leave(), 0);
    let run = first.rsplit_once('_').unwrap().0;
    sandbox
        .run(&["undo", "list", "--run", run])
        .with(0)
        .out_has(&first);
    sandbox
        .run(&["undo", "apply", "--run", "another"])
        .with(0)
        .out_has("Nothing to undo");
    let came = sandbox.run(&["undo", "apply", "--run", run]).with(0);
    assert_eq!(came.out.matches("✓ put back").count(), 7, "{came:?}");
    assert_eq!(sandbox.text("a.txt"), "one\ntwo\n");
    assert_eq!(sandbox.text("dir/x"), "x\n");
    let mut names: Vec<String> = fs::read_dir(sandbox.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a.txt", "dir"]);
    // What is left to undo are undoings, which a sweep leaves out.
    sandbox
        .run(&["undo", "apply", "--since", "1h"])
        .with(0)
        .out_has("Nothing to undo");
}

#[test]
fn what_somebody_changed_since_is_left_alone_and_said() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--write"]);
    edit(&mut client, "two", "2");
    let other = id(&client.call("write_file", json!({"filePath": "b.txt", "content": "b\n"})));
    assert_eq!(client.leave(), 0);
    sandbox.file("a.txt", "mine\n");
    sandbox
        .run(&["undo", "apply", "--since", "1h"])
        .with(1)
        .out_has("✗ left alone  edit a.txt  changed_since")
        .out_has("✓ put back    write b.txt");
    assert_eq!(sandbox.text("a.txt"), "mine\n");
    assert!(!sandbox.dir().join("b.txt").exists());
    sandbox.run(&["undo", "show", &other]).with(1);
}

#[test]
fn a_rule_that_denies_holds_at_the_terminal_too() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--write"]);
    let edited = edit(&mut client, "two", "2");
    assert_eq!(client.leave(), 0);
    sandbox.settings(r#"{"resourcePermissions": {"filesystemWrite": {"deny": ["a.txt"]}}}"#);
    sandbox
        .run(&["undo", "apply", &edited])
        .with(1)
        .out_has("denied_by_rule");
    assert_eq!(sandbox.text("a.txt"), "one\n2\n");
}

#[test]
fn what_was_asked_about_can_be_put_back_by_the_person_who_types_it() {
    let sandbox = Sandbox::new();
    sandbox.file(".envrc", "export A=1\n");
    let mut client = sandbox.serve(&["--write", "--approve-timeout", "6"]);
    let mut written = Value::Null;
    crate::approvals::answer_next(&sandbox, "allow_once", || {
        written = client.call(
            "write_file",
            json!({"filePath": ".envrc", "content": "export A=2\n"}),
        );
    });
    assert_eq!(client.leave(), 0);
    sandbox
        .run(&["undo", "apply", &id(&written)])
        .with(0)
        .out_has("✓ put back");
    assert_eq!(sandbox.text(".envrc"), "export A=1\n");
}

#[test]
fn what_undo_keeps_is_freed_by_a_person_who_says_so() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["undo", "prune", "--yes"])
        .with(0)
        .out_has("Nothing is kept here");
    let mut client = sandbox.serve(&["--write"]);
    let edited = edit(&mut client, "two", "2");
    assert_eq!(client.leave(), 0);
    // It is shown first; where nobody can be asked, nothing goes without a word.
    sandbox
        .run(&["undo", "prune"])
        .with(2)
        .out_has("1 operation, 8")
        .err_has("portcullis undo prune --yes");
    sandbox
        .run(&["undo", "prune", "--older-than", "1h", "--yes"])
        .with(0)
        .out_has("Nothing is kept here");
    sandbox.run(&["undo", "list"]).with(0).out_has(&edited);
    sandbox
        .run(&["undo", "prune", "--yes"])
        .with(0)
        .out_has("freed  1 operation,");
    sandbox
        .run(&["undo", "list"])
        .with(0)
        .out_has("Nothing can be undone here");
    assert_eq!(sandbox.text("a.txt"), "one\n2\n");
    sandbox
        .run(&["audit", "query", "--subject", "user:me"])
        .with(0)
        .out_has("undo prune: 1");
}
