//! Which rule, which line, what would change it.

use crate::sandbox::Sandbox;

#[test]
fn an_allowed_read_names_its_mode() {
    Sandbox::new()
        .run(&["policy", "explain", "a.txt"])
        .with(0)
        .out_has("✓ allowed  read workspace:a.txt")
        .out_has("mode:filesystemRead=allow");
}

#[test]
fn a_deny_names_the_line_of_its_rule() {
    let sandbox = Sandbox::new();
    sandbox.settings(
        "{\"resourcePermissions\": {\n  \"filesystemRead\": {\"deny\": [\n    \"*.log\"\n  ]}}}",
    );
    sandbox
        .run(&["policy", "explain", "logs/x.log"])
        .with(0)
        .out_has("✗ denied")
        .out_has("settings.json:3 (denied_by_rule)")
        .out_has("change");
    sandbox
        .run(&["policy", "test"])
        .with(0)
        .out_has("✗ deny")
        .out_has("settings.json:3")
        .out_has("1 rule loaded, and every example agrees");
}

#[test]
fn a_secret_asks_and_a_way_out_is_no_path() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["policy", "explain", ".env"])
        .with(0)
        .out_has("? asks you")
        .out_has("class:secret");
    sandbox
        .run(&["policy", "explain", "../x"])
        .with(0)
        .out_has("✗ denied")
        .out_has("no rule can");
    let absolute = sandbox.dir().join("a.txt");
    sandbox
        .run(&["policy", "explain", absolute.to_str().unwrap()])
        .with(0)
        .out_has("read workspace:a.txt");
    sandbox
        .run(&["policy", "explain", "/etc/passwd"])
        .with(1)
        .err_has("hint:");
}

#[test]
fn a_grant_counts_for_whom_it_was_given_and_while_it_lasts() {
    let sandbox = Sandbox::new();
    let path = sandbox.dir();
    let root = |expires: &str| {
        format!(
            r#"{{"roots": [{{"kind": "knowledge", "id": "notes", "path": {path:?},
              "grants": [{{"to": {{"type": "extension", "id": "search"}},
                "access": ["filesystem:knowledge:read"], "expiresAt": "{expires}"}}]}}]}}"#
        )
    };
    let explain =
        |who: &str| sandbox.run(&["policy", "explain", "a.txt", "--root", "notes", "--as", who]);
    sandbox.settings(&root("2999-01-01T00:00:00Z"));
    explain("extension:search").with(0).out_has("✓ allowed");
    explain("user:me").with(0).out_has("no_grant");
    sandbox.settings(&root("2001-01-01T00:00:00Z"));
    explain("extension:search").with(0).out_has("no_grant");
    explain("nobody").with(2);
}

#[test]
fn what_can_ask_is_listed() {
    Sandbox::new()
        .run(&["policy", "asks"])
        .with(0)
        .out_has("secret")
        .out_has("auto-exec")
        .out_has("not available here");
}
