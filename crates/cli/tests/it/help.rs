//! Every help text is there, and what cannot be meant ends with 2.

use crate::sandbox::Sandbox;

#[test]
fn every_command_has_help() {
    let sandbox = Sandbox::new();
    for command in [
        "",
        "mcp",
        "connect",
        "demo",
        "policy",
        "policy explain",
        "policy test",
        "policy asks",
        "audit",
        "audit tail",
        "audit query",
        "audit verify",
        "audit export",
        "approve",
        "approve list",
        "approve answer",
        "rules",
        "rules list",
        "rules remove",
        "trust",
        "trust add",
        "trust remove",
        "trust list",
        "settings",
        "settings import",
        "status",
        "disconnect",
        "user",
        "user add",
        "user list",
        "user remove",
        "user scope",
        "user link",
        "user files",
        "token",
        "token create",
        "token list",
        "token revoke",
        "link",
        "link create",
        "link list",
        "link remove",
        "extension",
        "extension list",
        "extension approve",
        "extension revoke",
        "extension remove",
        "undo",
        "undo list",
        "undo show",
        "undo diff",
        "undo apply",
        "recover",
        "doctor",
        "hammer",
    ] {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.push("--help");
        let came = sandbox.run(&words).with(0).out_has("Usage:");
        assert!(came.err.is_empty(), "{came:?}");
    }
    // Asking for help touches nothing.
    assert_eq!(std::fs::read_dir(sandbox.data()).unwrap().count(), 0);
}

#[test]
fn the_version_is_the_crates() {
    Sandbox::new()
        .run(&["--version"])
        .with(0)
        .out_has(env!("CARGO_PKG_VERSION"));
}

#[test]
fn what_cannot_be_meant_ends_with_two() {
    let sandbox = Sandbox::new();
    for words in [
        &["frobnicate"][..],
        &["mcp", "--permission-shell", "maybe"],
        &["mcp", "--root", "notes"],
        &["mcp", "--root", "house:x=/tmp"],
        &["mcp"],
        &[
            "mcp",
            "--dir",
            ".",
            "--write",
            "--permission-filesystem-write",
            "ask",
        ],
        &["undo", "apply"],
        &["undo", "apply", "r_1", "--since", "1h"],
        &["hammer", "--attack", "sideways"],
        &["audit", "query", "--outcome", "odd"],
        &["audit", "query", "--since", "yesterday"],
        &["approve", "answer", "q_1", "perhaps"],
        &["rules", "remove", "first"],
        &["connect"],
        &["connect", "https://h"],
        &["connect", "gate.example", "gw_1"],
        &[
            "connect",
            "https://h",
            "gw_1",
            "--permission-confirmation",
            "me",
        ],
        &["user", "add"],
        &["user", "add", "ada", "--scope", "root"],
        &["user", "add", "ada", "--scope", ""],
        &["user", "link", "ada", "--url", "gate.example"],
        &["token", "create"],
        &["token", "create", "--scope", "fs:read", "--expires", "soon"],
        &["token", "create", "--scope", "fs:read", "--expires", "0d"],
    ] {
        let came = sandbox.run(words).with(2);
        assert!(came.out.is_empty() && !came.err.is_empty(), "{came:?}");
    }
    sandbox
        .run(&["mcp"])
        .err_has("hint: Name one: portcullis mcp --dir .");
}

#[test]
fn no_colour_where_nobody_watches_and_none_where_it_is_unwanted() {
    let sandbox = Sandbox::new();
    let escape = '\u{1b}';
    assert!(
        !sandbox
            .run(&["policy", "asks"])
            .with(0)
            .out
            .contains(escape)
    );
    let always = sandbox
        .run(&["--color", "always", "policy", "asks"])
        .with(0);
    assert!(always.out.contains(escape));
}
