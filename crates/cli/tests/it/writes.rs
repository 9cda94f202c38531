//! Writing as the flags switch it on, and what a crash leaves.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::{Client, Sandbox};

fn names(client: &mut Client) -> usize {
    let tools = client.request("tools/list", json!({}));
    tools["result"]["tools"].as_array().unwrap().len()
}

fn write(client: &mut Client, path: &str) -> Value {
    client.call("write_file", json!({"filePath": path, "content": "new\n"}))
}

#[test]
fn without_a_word_nothing_can_be_changed() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--permission-filesystem-write", "allow"]);
    assert_eq!(names(&mut client), 8);
    let reply = write(&mut client, "a.txt");
    assert_eq!(reply["structuredContent"]["reason"], "unknown_tool");
    assert_eq!(client.leave(), 0);
}

#[test]
fn with_write_it_is_allowed_trusted_and_closed_to_others() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--write"]);
    assert_eq!(names(&mut client), 17);
    let reply = write(&mut client, "new/b.txt");
    assert_eq!(reply["structuredContent"]["created"], true, "{reply}");
    let host = sandbox.dir().to_string_lossy().into_owned();
    assert!(!reply.to_string().contains(&host), "{reply}");
    let mode = |name: &str| {
        let meta = fs::metadata(sandbox.dir().join(name)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!((mode("new"), mode("new/b.txt")), (0o700, 0o600));
    for path in [".git/hooks/pre-commit", ".env"] {
        let asks = write(&mut client, path);
        assert_eq!(
            asks["structuredContent"]["reason"], "approval_unavailable",
            "{asks}"
        );
        let says = asks.to_string().contains("git runs it before every commit");
        assert_eq!(says, path != ".env", "{asks}");
    }
    assert_eq!(client.leave(), 0);
    // The flag lasts as long as its server.
    sandbox
        .run(&["trust", "list"])
        .with(0)
        .out_has("No directory is trusted");
    sandbox.run(&["audit", "verify"]).with(0).out_has("✓ sound");
}

#[test]
fn write_access_asks_and_needs_a_trusted_directory() {
    let sandbox = Sandbox::new();
    sandbox.settings(r#"{"permissions": {"filesystemWrite": "deny"}}"#);
    let mut client = sandbox.serve(&["--filesystem-write-access"]);
    assert_eq!(names(&mut client), 17);
    let reply = write(&mut client, "a.txt");
    assert_eq!(reply["structuredContent"]["reason"], "untrusted", "{reply}");
    assert_eq!(client.leave(), 0);
    sandbox.run(&["trust", "add", "."]).with(0);
    let mut client = sandbox.serve(&["--filesystem-write-access"]);
    let reply = write(&mut client, "a.txt");
    let reason = &reply["structuredContent"]["reason"];
    assert_eq!(reason, "approval_unavailable", "{reply}");
    assert_eq!(client.leave(), 0);
    sandbox.settings(r#"{"permissions": {"filesystemWrite": "allow"}}"#);
    let mut client = sandbox.serve(&["--filesystem-write-access"]);
    let reply = write(&mut client, "a.txt");
    assert_ne!(reply["isError"], true, "{reply}");
    assert_eq!(client.leave(), 0);
}

#[test]
fn the_umask_makes_new_modes_where_it_is_asked_to() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--write", "--new-file-mode", "umask"]);
    write(&mut client, "new/b.txt");
    assert_eq!(client.leave(), 0);
    fs::write(sandbox.dir().join("plain"), "").unwrap();
    let mode = |name: &str| {
        let meta = fs::metadata(sandbox.dir().join(name)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!(mode("new/b.txt"), mode("plain"));
}

#[test]
fn the_rules_are_explained_for_every_verb() {
    let sandbox = Sandbox::new();
    for verb in [
        "write", "edit", "append", "mkdir", "move", "copy", "remove", "chmod", "undo",
    ] {
        sandbox
            .run(&["policy", "explain", "a.txt", "--verb", verb, "--write"])
            .with(0)
            .out_has("allowed");
    }
    let hook = ".git/hooks/pre-commit";
    sandbox
        .run(&["policy", "explain", hook, "--verb", "write", "--write"])
        .with(0)
        .out_has("asks you")
        .out_has("auto-exec: git runs it before every commit");
    sandbox
        .run(&["policy", "explain", ".envrc", "--verb", "write", "--write"])
        .with(0)
        .out_has("secret: direnv runs it when a shell enters the directory");
    sandbox
        .run(&[
            "policy",
            "explain",
            ".github/workflows",
            "--verb",
            "mkdir",
            "--write",
        ])
        .with(0)
        .out_has("allowed");
    sandbox
        .run(&["policy", "explain", "a.txt", "--verb", "write"])
        .with(0)
        .out_has("no_grant");
}

#[test]
fn where_nothing_was_interrupted_there_is_nothing_to_recover() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["recover", "--dry-run"])
        .with(0)
        .out_has("✓ nothing to do");
    let mut client = sandbox.serve(&["--write"]);
    write(&mut client, "a.txt");
    // A server that runs is nobody's leftover.
    sandbox.run(&["recover"]).with(0).out_has("✓ nothing to do");
    assert_eq!(client.leave(), 0);
    sandbox
        .run(&["recover", "--dir", "."])
        .with(0)
        .out_has("✓ nothing to do");
}

#[test]
fn what_a_kill_leaves_is_recovered_and_the_file_is_whole() {
    let sandbox = Sandbox::new();
    let whole: Vec<String> = ["one\n", "two\n", "six\n"]
        .map(|line| line.repeat(60_000))
        .into();
    sandbox.file("a.txt", &whole[0]);
    for round in 0..6 {
        let mut client = sandbox.serve(&["--write"]);
        client.call("stat", json!({"path": "a.txt"}));
        for content in whole.iter().cycle().skip(round).take(4) {
            client.send(
                &json!({"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params":
                {"name": "write_file", "arguments": {"filePath": "a.txt", "content": content}}}),
            );
        }
        client.kill();
        let found = sandbox.run(&["recover", "--dry-run"]).with(0);
        let done = sandbox.run(&["recover"]).with(0);
        assert_eq!(
            found.out.contains("nothing to do"),
            done.out.contains("nothing to do"),
            "{found:?} {done:?}"
        );
        sandbox.run(&["recover"]).with(0).out_has("✓ nothing to do");
        assert!(whole.contains(&sandbox.text("a.txt")), "round {round}");
        let names: Vec<String> = fs::read_dir(sandbox.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, ["a.txt"], "round {round}");
    }
    sandbox.run(&["audit", "verify"]).with(0);
}

#[test]
fn what_recover_puts_right_has_its_closing_line() {
    let sandbox = Sandbox::new();
    sandbox.file("a.txt", "old\n");
    let mut client = sandbox.serve(&["--write"]);
    // Killed when it is about to put the new file in place.
    let mut tracer = Command::new("strace")
        .args(["-f", "-e", "inject=renameat2:signal=SIGKILL", "-p"])
        .arg(client.pid().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(tracer.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "{line}");
    let arguments = json!({"filePath": "a.txt", "content": "new\n"});
    client.send(
        &json!({"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params":
        {"name": "write_file", "arguments": arguments}}),
    );
    std::io::copy(&mut told, &mut std::io::sink()).unwrap();
    tracer.wait().unwrap();
    client.kill();
    assert_eq!(unclosed(&sandbox).len(), 1);
    sandbox.run(&["recover"]).with(0).out_has("put right");
    assert_eq!(unclosed(&sandbox), Vec::<String>::new());
    sandbox.run(&["recover"]).with(0).out_has("nothing to do");
    sandbox.run(&["audit", "verify"]).with(0);
}

/// The requests whose opening line has no closing line.
fn unclosed(sandbox: &Sandbox) -> Vec<String> {
    let exported = sandbox.run(&["audit", "export"]).with(0).out;
    let lines: Vec<Value> = exported
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |phase: &str| -> BTreeSet<String> {
        let lines = lines.iter().filter(|line| line["phase"] == phase);
        lines
            .map(|line| line["requestId"].as_str().unwrap().to_owned())
            .collect()
    };
    let opened = of("opening");
    assert!(!opened.is_empty(), "nothing was opened: {exported}");
    opened.difference(&of("closing")).cloned().collect()
}
