//! What a person changes at the terminal is in the record, and no secret with it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use portcullis_store::Store;
use serde_json::Value;

use crate::approvals::answer_next;
use crate::sandbox::Sandbox;

/// Before anything that the real clock stamps.
const NOW: u64 = 1_700_000_000_000;

/// The lines of commands: which command, what it names, how it ended. Each has
/// its opening, and all of them are the local person's.
fn lines(sandbox: &Sandbox) -> Vec<(String, String, String)> {
    let exported = sandbox.run(&["audit", "export"]).with(0).out;
    let lines: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| {
            let route = line["route"].as_str();
            route.is_some_and(|route| route.starts_with("cli/"))
        })
        .collect();
    let word = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let (closing, opening): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line["phase"] == "closing");
    assert_eq!(opening.len(), closing.len(), "{exported}");
    for (before, after) in opening.iter().zip(&closing) {
        assert_eq!(before["requestId"], after["requestId"]);
        assert_eq!(before["alleged"], after["alleged"]);
        assert_eq!(after["subject"]["type"], "user");
        assert_eq!(after["subject"]["id"], "me");
    }
    closing
        .into_iter()
        .map(|line| {
            (
                word(line, "route"),
                word(line, "alleged"),
                word(line, "outcome"),
            )
        })
        .collect()
}

/// Runs a command, and tells the lines it left.
#[track_caller]
fn left(sandbox: &Sandbox, args: &[&str], code: i32) -> (String, Vec<(String, String, String)>) {
    let before = lines(sandbox);
    let came = sandbox.run(args).with(code);
    let mut after = lines(sandbox);
    for line in &before {
        let at = after.iter().position(|one| one == line).unwrap();
        after.remove(at);
    }
    (came.out, after)
}

#[track_caller]
fn check(sandbox: &Sandbox, args: &[&str], code: i32, want: &[(&str, &str, &str)]) -> String {
    let (out, got) = left(sandbox, args, code);
    let got: Vec<_> = got
        .iter()
        .map(|(route, what, outcome)| (&**route, &**what, &**outcome))
        .collect();
    assert_eq!(got, want, "{args:?}");
    out
}

#[test]
fn what_is_changed_at_the_terminal_has_its_lines_and_no_secret() {
    let sandbox = Sandbox::new();
    let ok = "success";
    let all = "fs:read,fs:write,shell,screen,browser,sandbox,approve,audit,admin";
    check(
        &sandbox,
        &["user", "add", "ada"],
        0,
        &[
            ("cli/user", "user add ada fs:read,approve,audit", ok),
            ("cli/user", &format!("user ada is the first, for {all}"), ok),
        ],
    );
    for (args, want) in [
        (
            &["user", "add", "bob", "--scope", "fs:read"][..],
            "user add bob fs:read",
        ),
        (
            &["user", "scope", "bob", "fs:read,audit"],
            "user scope bob fs:read,audit",
        ),
        (&["user", "files", "bob", "off"], "user files bob off"),
        (&["user", "files", "bob", "on"], "user files bob on"),
    ] {
        check(&sandbox, args, 0, &[("cli/user", want, ok)]);
    }
    let link = check(
        &sandbox,
        &["user", "link", "bob"],
        0,
        &[("cli/user", "user link bob", ok)],
    );
    // What is refused is on the record, too, and what only looks is not.
    let failed = [("cli/user", "user remove eve", "failed")];
    check(&sandbox, &["user", "remove", "eve"], 1, &failed);
    for looks in [["user", "list"], ["token", "list"], ["extension", "list"]] {
        check(&sandbox, &looks, 0, &[]);
    }

    let create = [
        "token",
        "create",
        "--user",
        "bob",
        "--scope",
        "fs:read",
        "--expires",
        "never",
    ];
    let (token, made) = left(&sandbox, &create, 0);
    let token = token.trim_end();
    let id = token.split('_').nth(1).unwrap();
    let want = [
        "token create for bob fs:read until revoked",
        &format!("token {id} made for bob"),
    ];
    let said: Vec<&str> = made.iter().map(|(_, what, _)| what.as_str()).collect();
    assert_eq!(said, want);
    let revoked = format!("token revoke {id}");
    check(
        &sandbox,
        &["token", "revoke", id],
        0,
        &[("cli/token", &revoked, ok)],
    );
    // A whole token typed for a name is not kept for good.
    let typed = [("cli/user", "user remove pcl_…", "failed")];
    check(&sandbox, &["user", "remove", token], 1, &typed);

    let asked = ["filesystem:workspace:read".to_owned()];
    let store = Store::new(sandbox.data());
    store
        .register_extension("notes", "ada", &asked, NOW)
        .unwrap();
    for (word, want) in [
        (
            "approve",
            "extension approve notes for ada filesystem:workspace:read",
        ),
        ("revoke", "extension revoke notes"),
        ("remove", "extension remove notes"),
    ] {
        check(
            &sandbox,
            &["extension", word, "notes"],
            0,
            &[("cli/extension", want, ok)],
        );
    }
    check(
        &sandbox,
        &["user", "remove", "bob"],
        0,
        &[("cli/user", "user remove bob", ok)],
    );

    sandbox.run(&["audit", "verify"]).with(0).out_has("sound");
    let exported = sandbox.run(&["audit", "export"]).with(0).out;
    let secret = token.splitn(3, '_').nth(2).unwrap();
    let link = link.trim_end().rsplit('#').next().unwrap();
    for secret in [token, secret, link] {
        assert!(secret.len() > 10 && !exported.contains(secret), "{secret}");
    }
}

#[test]
fn an_answer_at_the_terminal_has_its_lines() {
    let sandbox = Sandbox::new();
    sandbox.file(".env", "TOKEN=x\n");
    answer_next(&sandbox, "always_allow", || {
        let mut agent = sandbox.serve(&[]);
        assert_eq!(agent.read(".env")["isError"], false);
        agent.leave();
    });
    let said = lines(&sandbox);
    let [(route, what, outcome)] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert_eq!(
        (route.as_str(), outcome.as_str()),
        ("cli/approve", "success")
    );
    let (question, decision) = what.split_once(' ').unwrap();
    assert!(
        question.starts_with("q_") && decision == "always_allow",
        "{what}"
    );
    // Once more it does not count, and that is on the record.
    let late = [("cli/approve", &*format!("{question} deny_once"), "denied")];
    let again = ["approve", "answer", question, "deny_once"];
    check(&sandbox, &again, 1, &late);
    let listed = sandbox.run(&["rules", "list"]).with(0).out;
    let rule = listed.lines().nth(1).unwrap();
    let rule = rule.split_whitespace().next().unwrap();
    let gone = [("cli/rules", &*format!("rule remove {rule}"), "success")];
    check(&sandbox, &["rules", "remove", rule], 0, &gone);
    sandbox.run(&["audit", "verify"]).with(0).out_has("sound");
}

#[test]
fn trust_in_a_directory_has_its_lines_and_no_host_path() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let found = fs::metadata(&dir).unwrap();
    let identity = format!("{}:{}", found.dev(), found.ino());
    for word in ["add", "remove"] {
        let want = format!("trust {word} {identity}");
        let args = ["trust", word, dir.to_str().unwrap()];
        check(&sandbox, &args, 0, &[("cli/trust", &want, "success")]);
    }
    let exported = sandbox.run(&["audit", "export"]).with(0).out;
    assert!(!exported.contains(dir.to_str().unwrap()), "{exported}");
}

#[test]
fn what_cannot_be_recorded_is_not_changed() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    let audit = sandbox.data().join("audit");
    let away = sandbox.data().join("audit-away");
    fs::rename(&audit, &away).unwrap();
    fs::write(&audit, "in the way").unwrap();
    sandbox.run(&["user", "add", "bob"]).with(1);
    let created = sandbox
        .run(&["token", "create", "--scope", "fs:read"])
        .with(1);
    assert_eq!(created.out, "");
    fs::remove_file(&audit).unwrap();
    fs::rename(&away, &audit).unwrap();
    let users = sandbox.run(&["user", "list"]).with(0).out;
    assert!(users.contains("ada") && !users.contains("bob"), "{users}");
    sandbox
        .run(&["token", "list"])
        .with(0)
        .out_has("There is no token");
}
