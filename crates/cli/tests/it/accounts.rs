//! Users, tokens and extensions, typed while nothing or a server runs.

use std::fs::OpenOptions;

use portcullis_proto::{Principal, Scope, ScopeSet};
use portcullis_store::Store;

use crate::sandbox::Sandbox;

/// Before anything that the real clock stamps.
const NOW: u64 = 1_700_000_000_000;

fn store(sandbox: &Sandbox) -> Store {
    Store::new(sandbox.data())
}

fn token(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut all = vec!["token", "create"];
    all.extend(args);
    let came = sandbox.run(&all).with(0);
    let (token, rest) = came.out.split_once('\n').unwrap();
    assert_eq!(rest, "", "the token stands alone");
    assert!(!came.err.contains(token), "{came:?}");
    token.to_owned()
}

#[test]
fn users_are_added_listed_changed_and_removed() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["user", "list"])
        .with(0)
        .out_has("portcullis user add NAME");
    sandbox
        .run(&["user", "add", "ada", "--scope", "fs:read"])
        .with(0)
        .out_has("✓ added: ada")
        .out_has("admin")
        .out_has("The first user may do everything");
    sandbox
        .run(&["user", "add", "bob"])
        .with(0)
        .out_has("for fs:read,approve,audit");
    sandbox
        .run(&["user", "add", "bob"])
        .with(1)
        .err_has("already");
    sandbox
        .run(&["user", "add", "../eve"])
        .with(1)
        .err_has("a-z");
    sandbox
        .run(&["user", "scope", "bob", "fs:read,fs:write"])
        .with(0);
    let listed = sandbox.run(&["user", "list"]).with(0).out;
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines[1].starts_with("ada") && lines[1].ends_with("admin"));
    assert!(lines[2].starts_with("bob") && lines[2].ends_with("fs:read,fs:write"));
    for words in [&["remove", "ada"][..], &["scope", "ada", "fs:read"]] {
        sandbox
            .run(&[&["user"][..], words].concat())
            .with(1)
            .err_has("last user who may administer")
            .err_has("hint: ");
    }
    sandbox.run(&["user", "remove", "bob"]).with(0);
    for words in [&["remove", "bob"][..], &["scope", "bob", "fs:read"]] {
        sandbox
            .run(&[&["user"][..], words].concat())
            .with(1)
            .err_has("There is no user bob");
    }
}

#[test]
fn without_a_user_there_is_no_token_and_it_says_what_to_type() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["token", "create", "--scope", "fs:read"])
        .with(1)
        .err_has("There is no user yet")
        .err_has("portcullis user add NAME");
    sandbox
        .run(&["token", "list"])
        .with(0)
        .out_has("There is no token");
}

#[test]
fn a_token_is_printed_once_and_alone_and_holds_until_it_is_revoked() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    // As somebody has it who serves meanwhile.
    let serving = store(&sandbox);
    let before = serving.version().unwrap();
    let text = token(&sandbox, &["--scope", "fs:read", "--name", "my laptop"]);
    assert_ne!(serving.version().unwrap(), before);
    let known = serving.credentials().unwrap().bearer(&text, NOW).unwrap();
    let Principal::Token { user, id } = &known.principal else {
        panic!("{known:?}");
    };
    assert_eq!(&**user, "ada");
    assert_eq!(known.scopes, ScopeSet::of(&[Scope::FsRead]));
    let listed = sandbox
        .run(&["token", "list"])
        .with(0)
        .out_has(id)
        .out_has("✓ until")
        .out_has("my laptop");
    let (_, secret) = text.split_at(15);
    assert!(!listed.out.contains(secret));
    // Typed whole, it is not repeated.
    let whole = sandbox.run(&["token", "revoke", &text]).with(2);
    assert!(!whole.err.contains(secret), "{whole:?}");
    assert!(serving.credentials().unwrap().bearer(&text, NOW).is_some());
    sandbox
        .run(&["token", "revoke", id])
        .with(0)
        .out_has("within 100 ms");
    assert_eq!(serving.credentials().unwrap().bearer(&text, NOW), None);
    sandbox
        .run(&["token", "revoke", id])
        .with(1)
        .err_has("There is no token");
}

#[test]
fn a_token_ends_when_it_was_said_to() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    let ends = |args: &[&str]| {
        let text = token(&sandbox, args);
        let book = store(&sandbox).credentials().unwrap();
        book.bearer(&text, NOW).unwrap().expires_at
    };
    let days = |end: Option<u64>| {
        let created = store(&sandbox).tokens(None).unwrap();
        let made = created.iter().find(|one| one.expires_at == end).unwrap();
        (end.unwrap() - made.created_at) / 86_400_000
    };
    assert_eq!(days(ends(&["--scope", "fs:read"])), 90);
    assert_eq!(days(ends(&["--scope", "fs:read", "--expires", "30d"])), 30);
    assert_eq!(ends(&["--scope", "fs:read", "--expires", "never"]), None);
    assert_eq!(
        ends(&["--scope", "fs:read", "--expires", "2100-01-01T00:00:00Z"]),
        Some(4_102_444_800_000)
    );
    store(&sandbox)
        .create_token(
            "ada",
            "old",
            ScopeSet::of(&[Scope::FsRead]),
            Some(NOW + 1),
            NOW,
        )
        .unwrap();
    sandbox
        .run(&["token", "list", "--user", "ada"])
        .with(0)
        .out_has("✗ expired 2023-11-14")
        .out_has("✓ until revoked");
}

#[test]
fn a_token_is_for_no_more_than_its_user() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    sandbox.run(&["user", "add", "bob"]).with(0);
    sandbox
        .run(&[
            "token",
            "create",
            "--user",
            "bob",
            "--scope",
            "fs:read,fs:write",
        ])
        .with(1)
        .err_has("bob does not have fs:write")
        .err_has("portcullis user scope");
    sandbox
        .run(&["token", "create", "--user", "eve", "--scope", "fs:read"])
        .with(1)
        .err_has("There is no user eve");
    let text = token(&sandbox, &["--user", "bob", "--scope", "fs:read"]);
    sandbox.run(&["user", "remove", "bob"]).with(0);
    let book = store(&sandbox).credentials().unwrap();
    assert_eq!(book.bearer(&text, NOW), None);
}

#[test]
fn a_token_that_could_not_be_shown_is_not_left_lying_about() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = sandbox
        .command(&["token", "create", "--scope", "fs:read"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(ended.code(), Some(1));
    assert_eq!(store(&sandbox).tokens(None).unwrap(), []);
}

#[test]
fn a_link_signs_in_once() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    let came = sandbox.run(&["user", "link", "ada"]).with(0);
    let link = came
        .out
        .trim_end()
        .strip_prefix("http://127.0.0.1:7654/sign-in#")
        .unwrap()
        .to_owned();
    let came = came.err_has("5 minutes");
    assert!(!came.err.contains(&link));
    // Made by the real clock, after NOW; that it ends is tested with the store.
    let signed = store(&sandbox).use_sign_in_link(&link, NOW).unwrap();
    assert_eq!(signed.unwrap().user, "ada");
    let again = store(&sandbox).use_sign_in_link(&link, NOW).unwrap();
    assert!(again.is_none());
    sandbox
        .run(&["user", "link", "ada", "--url", "https://gate.example/"])
        .with(0)
        .out_has("https://gate.example/sign-in#pcs_");
    sandbox
        .run(&["user", "link", "eve"])
        .with(1)
        .err_has("There is no user eve");
}

#[test]
fn an_extension_is_approved_for_what_it_asks_and_revoked() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["extension", "list"])
        .with(0)
        .out_has("No extension has registered");
    sandbox.run(&["user", "add", "ada"]).with(0);
    let store = store(&sandbox);
    let asked = ["filesystem:workspace:read".to_owned()];
    store
        .register_extension("notes", "ada", &asked, NOW)
        .unwrap();
    sandbox
        .run(&["extension", "list"])
        .with(0)
        .out_has("? pending");
    sandbox
        .run(&["extension", "approve", "notes"])
        .with(0)
        .out_has("on behalf of ada: filesystem:workspace:read");
    let made = store.create_extension_token("notes", "ada", NOW).unwrap();
    sandbox
        .run(&["token", "list"])
        .with(0)
        .out_has("extension:notes (ada)");
    sandbox.run(&["extension", "revoke", "notes"]).with(0);
    let book = store.credentials().unwrap();
    assert_eq!(book.bearer(made.secret.expose(), NOW), None);
    sandbox
        .run(&["extension", "list"])
        .with(0)
        .out_has("✗ revoked");
    sandbox.run(&["extension", "remove", "notes"]).with(0);
    for word in ["approve", "revoke", "remove"] {
        sandbox
            .run(&["extension", word, "notes"])
            .with(1)
            .err_has("There is no such extension");
    }
}

#[test]
fn an_extension_whose_owner_is_gone_is_nobodys_to_approve() {
    let sandbox = Sandbox::new();
    sandbox.run(&["user", "add", "ada"]).with(0);
    sandbox.run(&["user", "add", "bob"]).with(0);
    let store = store(&sandbox);
    store.register_extension("notes", "bob", &[], NOW).unwrap();
    sandbox.run(&["user", "remove", "bob"]).with(0);
    sandbox
        .run(&["extension", "list"])
        .with(0)
        .out_has("(gone)");
    sandbox
        .run(&["extension", "approve", "notes"])
        .with(1)
        .err_has("portcullis extension remove notes");
}
