//! The variables of n8n's that mean what ours mean.

use std::process::Command;

use crate::sandbox::Sandbox;
use crate::served::{Served, token};

const OURS: &str = "PORTCULLIS_FILESYSTEM_PATH";
const THEIRS: &str = "N8N_INSTANCE_AI_FILESYSTEM_PATH";
const OUR_KEY: &str = "PORTCULLIS_GATEWAY_API_KEY";
const THEIR_KEY: &str = "N8N_INSTANCE_AI_GATEWAY_API_KEY";

/// A server with these variables, over two directories that differ.
fn serve(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Served {
    for name in ["ours", "theirs"] {
        sandbox.file(&format!("{name}/{name}.txt"), name);
    }
    let mut command: Command = sandbox.command(&["serve", "--port", "0"]);
    for (name, value) in variables {
        // A directory by its name, or what is no directory as it is.
        let path = sandbox.dir().join(value);
        if path.is_dir() && !value.is_empty() {
            command.env(name, path);
        } else {
            command.env(name, value);
        }
    }
    Served::of(sandbox, command)
}

#[track_caller]
fn check(variables: &[(&str, &str)], served: &str, differ: bool) {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, variables);
    let token = token(&sandbox, "fs:read");
    server
        .get(&token, &format!("/file?path={served}.txt"))
        .with(200);
    let log = server.end();
    let told = format!("{OURS} and {THEIRS} are set and differ: {OURS} holds");
    assert_eq!(log.contains(&told), differ, "{variables:?}: {log}");
}

#[test]
fn the_directory_is_ours_then_theirs_and_a_difference_is_told() {
    check(&[(OURS, "ours")], "ours", false);
    check(&[(THEIRS, "theirs")], "theirs", false);
    check(&[(OURS, "ours"), (THEIRS, "theirs")], "ours", true);
    check(&[(OURS, "ours"), (THEIRS, "ours")], "ours", false);
    // An empty variable says nothing.
    check(&[(OURS, ""), (THEIRS, "theirs")], "theirs", false);
}

#[test]
fn a_gateway_key_by_either_name_counts_and_is_never_shown() {
    let (first, second) = ("keyCanary-1-of-16-or-more", "keyCanary-2-of-16-or-more");
    for variables in [
        &[(OUR_KEY, first)][..],
        &[(THEIR_KEY, first)],
        &[(OUR_KEY, first), (THEIR_KEY, second)],
    ] {
        let sandbox = Sandbox::new();
        let server = serve(&sandbox, variables);
        let init = r#"{"rootPath":"/w","tools":[],"hostIdentifier":"ada@laptop"}"#;
        let init = |key: &str| {
            let fields = [("x-gateway-key", key)];
            server.ask("POST /rest/instance-ai/gateway/init", &fields, init)
        };
        let linked = init(first).with(200);
        assert!(
            linked.body.contains(r#"{"data":{"ok":true}}"#),
            "{}",
            linked.body
        );
        init(second).with(403);
        let banner = server.banner.clone();
        let log = server.end();
        let differ = format!("{OUR_KEY} and {THEIR_KEY} are set and differ");
        assert_eq!(log.contains(&differ), variables.len() == 2, "{log}");
        assert!(!log.contains("keyCanary") && !banner.contains("keyCanary"));
    }
}

#[test]
fn a_short_gateway_key_is_refused_at_the_start() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "--port", "0"]);
    command.env(OUR_KEY, "keyCanary");
    let came = command.output().unwrap();
    assert_eq!(came.status.code(), Some(2));
    let said = String::from_utf8_lossy(&came.stderr).into_owned();
    assert!(
        said.contains("16 to 256") && !said.contains("keyCanary"),
        "{said}"
    );
}

#[test]
fn every_row_of_the_table_in_the_papers_is_known() {
    let page = include_str!("../../../../docs/PROTOCOL.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.contains("| `N8N_INSTANCE_AI_"))
        .collect();
    for (ours, theirs) in [(OURS, THEIRS), (OUR_KEY, THEIR_KEY)] {
        let row = format!("| `{ours}` | `{theirs}` |");
        assert!(rows.iter().any(|line| line.starts_with(&row)), "{row}");
    }
    assert_eq!(rows.len(), 2, "rows that no test holds: {rows:?}");
}
