//! Files that the operator named and that stand in the directory served.

use serde_json::{Value, json};

use crate::sandbox::{Client, Sandbox};

const PASSES: &str = "cat >/dev/null; echo '{\"decision\":\"pass\"}'\n";

#[track_caller]
fn refused(client: &mut Client, tool: &str, arguments: Value) {
    let reply = client.call(tool, arguments);
    let reason = &reply["structuredContent"]["reason"];
    assert_eq!(*reason, "protected_state", "{tool}: {reply}");
}

/// A sandbox with a hook that is a program, and one that a shell is given.
fn with_hooks() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("tools/one.sh", &format!("#!/bin/sh\n{PASSES}"));
    sandbox.file("tools/two.sh", PASSES);
    let dir = sandbox.dir();
    Sandbox::mode(&dir.join("tools/one.sh"), 0o755);
    let (one, two) = (dir.join("tools/one.sh"), dir.join("tools/two.sh"));
    let hooks = json!({"hooks": [
        {"id": "one", "command": [one], "timeoutMs": 60_000},
        {"id": "two", "command": ["/bin/sh", two], "timeoutMs": 60_000},
    ]});
    sandbox.settings(&hooks.to_string());
    sandbox
}

#[test]
fn an_agent_does_not_change_the_hooks_that_judge_it() {
    let sandbox = with_hooks();
    let mut client = sandbox.serve(&["--write"]);
    for path in ["tools/one.sh", "tools/two.sh"] {
        let before = sandbox.text(path);
        refused(
            &mut client,
            "write_file",
            json!({"filePath": path, "content": "mine"}),
        );
        refused(
            &mut client,
            "append_file",
            json!({"filePath": path, "content": "mine"}),
        );
        refused(&mut client, "delete", json!({"path": path}));
        assert_eq!(sandbox.text(path), before);
        let read = client.read(path);
        assert!(read["isError"] != true, "{read}");
    }
    refused(&mut client, "delete", json!({"path": "tools"}));
    let beside = json!({"filePath": "tools/notes.txt", "content": "x"});
    let written = client.call("write_file", beside);
    assert_eq!(written["structuredContent"]["created"], true, "{written}");
    assert_eq!(client.leave(), 0);
}

#[test]
fn the_doctor_warns_of_a_hook_inside_a_root() {
    let sandbox = with_hooks();
    sandbox
        .run(&["doctor"])
        .with(0)
        .out_has("the hook \"one\" stands inside the root")
        .out_has("the hook \"two\" stands inside the root")
        .out_has("move it out of what is served");
}
