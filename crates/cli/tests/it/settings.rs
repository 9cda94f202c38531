//! The settings file: what is wrong with it is told with its place, and it is
//! never replaced.

use std::fs;

use crate::sandbox::Sandbox;

#[track_caller]
fn check_refused(text: &str, place: &str, says: &str) {
    let sandbox = Sandbox::new();
    let file = sandbox.settings(text);
    let want = format!("settings.json:{place}: ");
    for command in [&["policy", "test"][..], &["mcp", "--dir", "."]] {
        sandbox
            .run(command)
            .with(1)
            .err_has("problem:")
            .err_has(&want)
            .err_has(says)
            .err_has("hint: Mend line");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), text, "never replaced");
}

#[test]
fn a_damaged_file_is_refused_with_line_and_column() {
    check_refused(
        "{\n  \"permissions\": {,}\n}",
        "2:19",
        "key must be a string",
    );
    check_refused("", "1:1", "EOF");
    check_refused("[1]", "1:2", "invalid type");
}

#[test]
fn a_misspelt_key_is_refused_wherever_it_stands() {
    check_refused("{\n  \"permisions\": {}\n}", "2:14", "permisions");
    check_refused("{\"permissions\":\n {\"shel\": \"ask\"}}", "2:8", "shel");
    check_refused(
        "{\"roots\": [\n {\"kind\": \"temp\", \"id\": \"t\", \"path\": \"/x\",\n  \"simlinks\": \"reject\"}]}",
        "3:12",
        "simlinks",
    );
    check_refused(
        "{\"resourcePermissions\": {\"filesystemRead\":\n {\"denny\": []}}}",
        "2:9",
        "denny",
    );
    check_refused(
        "{\"hooks\": [\n  {\"id\": \"x\", \"command\": []}]}",
        "2:3",
        "no command",
    );
}

#[test]
fn a_rule_that_disagrees_with_its_example_does_not_load() {
    check_refused(
        "{\"resourcePermissions\": {\"filesystemRead\": {\"deny\": [\n  {\"pattern\": \"/src\", \"examples\": {\"match\": [\"lib/src\"]}}]}}}",
        "2:3",
        "does not match its own example \"lib/src\"",
    );
}

#[test]
fn a_settings_file_that_was_named_must_be_there() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["--settings", "nowhere.json", "policy", "test"])
        .with(2)
        .err_has("no settings file");
}

#[test]
fn a_relative_directory_in_the_settings_means_nothing() {
    let sandbox = Sandbox::new();
    sandbox.settings("{\"filesystemDir\": \"work\"}");
    sandbox
        .run(&["mcp"])
        .with(1)
        .err_has("hint: Write the path in full, or as ~/work.");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let sandbox = Sandbox::new();
    sandbox.settings("{\"permissions\": {\"filesystemRead\": \"deny\"}}");
    let explain = ["policy", "explain", "a.txt"];
    sandbox
        .run(&explain)
        .with(0)
        .out_has("filesystemRead is deny");
    let env = |value: &str, args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("PORTCULLIS_PERMISSION_FILESYSTEM_READ", value);
        crate::sandbox::Came::from(command.output().unwrap())
    };
    env("ask", &explain)
        .with(0)
        .out_has("filesystemRead is ask");
    env(
        "ask",
        &[
            "policy",
            "explain",
            "a.txt",
            "--permission-filesystem-read",
            "allow",
        ],
    )
    .with(0)
    .out_has("filesystemRead is allow");
    env("perhaps", &explain)
        .with(2)
        .err_has("PORTCULLIS_PERMISSION_FILESYSTEM_READ");
}
