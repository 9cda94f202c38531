//! The shipped daemon's flags and variables, each by what it does here; those
//! that do nothing here say so.

use std::process::Stdio;

use serde_json::Value;

use crate::fake::{Fake, TOKEN};
use crate::flags::Daemon;
use crate::sandbox::{Came, Sandbox};
use crate::tmux::{Begun, Tmux};

/// What shows that something was understood.
enum Shows {
    /// `inner` is what is lent.
    Inner,
    /// Changing files is lent, or not.
    Writes(bool),
    /// Linked, and this is said on standard error.
    Told(&'static str),
    /// Linked, and this is not said.
    Untold(&'static str),
    /// Nothing is connected (2), with these words.
    Refused(&'static str),
}

use Shows::{Inner, Refused, Told, Untold, Writes};

/// One thing that is said: typed, or by a variable.
struct Row {
    typed: &'static [&'static str],
    set: &'static [(&'static str, &'static str)],
    shows: Shows,
}

const fn flag(typed: &'static [&'static str], shows: Shows) -> Row {
    let set = &[];
    Row { typed, set, shows }
}

const fn variable(set: &'static [(&'static str, &'static str)], shows: Shows) -> Row {
    let typed = &[];
    Row { typed, set, shows }
}

const NO_SHELL: &str = "shell: not available here";
const NO_COMPUTER: &str = "computer: not available here";
const NO_BROWSER: &str = "browser: not available here";

/// Section 2 of what the shipped daemon takes, and the seeds' own.
const ROWS: &[Row] = &[
    flag(&["--dir", "inner"], Inner),
    flag(&["-d", "inner"], Inner),
    flag(&["--filesystem-dir", "inner"], Inner),
    variable(&[("N8N_GATEWAY_FILESYSTEM_DIR", "inner")], Inner),
    flag(
        &["--permission-filesystem-read", "deny"],
        Refused("nothing to lend"),
    ),
    variable(
        &[("N8N_GATEWAY_PERMISSION_FILESYSTEM_READ", "deny")],
        Refused("nothing to lend"),
    ),
    flag(&["--permission-filesystem-write", "deny"], Writes(false)),
    variable(
        &[("N8N_GATEWAY_PERMISSION_FILESYSTEM_WRITE", "deny")],
        Writes(false),
    ),
    flag(&["--filesystem-write-access"], Writes(true)),
    variable(
        &[("N8N_GATEWAY_FILESYSTEM_WRITE_ACCESS", "true")],
        Writes(true),
    ),
    variable(
        &[
            ("N8N_GATEWAY_FILESYSTEM_WRITE_ACCESS", "true"),
            ("N8N_GATEWAY_PERMISSION_FILESYSTEM_WRITE", "deny"),
        ],
        Told("N8N_GATEWAY_FILESYSTEM_WRITE_ACCESS does not overrule"),
    ),
    flag(&["--permission-shell", "allow"], Told(NO_SHELL)),
    flag(&["--permission-computer", "ask"], Told(NO_COMPUTER)),
    flag(&["--permission-browser", "allow"], Told(NO_BROWSER)),
    flag(&["--permission-browser", "deny"], Untold("browser")),
    variable(&[("N8N_GATEWAY_PERMISSION_SHELL", "allow")], Told(NO_SHELL)),
    variable(
        &[("N8N_GATEWAY_PERMISSION_COMPUTER", "ask")],
        Told(NO_COMPUTER),
    ),
    variable(
        &[("N8N_GATEWAY_PERMISSION_BROWSER", "allow")],
        Told(NO_BROWSER),
    ),
    variable(
        &[("N8N_GATEWAY_PERMISSION_BROWSER", "deny")],
        Untold("browser"),
    ),
    variable(
        &[("N8N_GATEWAY_PERMISSION_COMPUTER", "maybe")],
        Refused("N8N_GATEWAY_PERMISSION_COMPUTER"),
    ),
    flag(
        &["--computer-shell-timeout", "5000"],
        Told("--computer-shell-timeout has no effect here"),
    ),
    variable(
        &[("N8N_GATEWAY_COMPUTER_SHELL_TIMEOUT", "5000")],
        Told("N8N_GATEWAY_COMPUTER_SHELL_TIMEOUT has no effect here"),
    ),
    flag(
        &["--dangerously-disable-shell-sandbox"],
        Told("--dangerously-disable-shell-sandbox has no effect here"),
    ),
    variable(
        &[("N8N_GATEWAY_DANGEROUSLY_DISABLE_SHELL_SANDBOX", "true")],
        Told("N8N_GATEWAY_DANGEROUSLY_DISABLE_SHELL_SANDBOX has no effect here"),
    ),
    flag(
        &["--browser-default", "chrome"],
        Told("--browser-default has no effect here"),
    ),
    variable(
        &[("N8N_GATEWAY_BROWSER_DEFAULT", "chrome")],
        Told("N8N_GATEWAY_BROWSER_DEFAULT has no effect here"),
    ),
    flag(&["--log-level", "info"], Told("info: connected to")),
    flag(&["--log-level", "debug"], Told("info: connected to")),
    flag(&["--log-level", "warn"], Untold("connected to")),
    variable(
        &[("N8N_GATEWAY_LOG_LEVEL", "info")],
        Told("info: connected to"),
    ),
    variable(&[("N8N_GATEWAY_LOG_LEVEL", "warn")], Untold("connected to")),
    variable(
        &[
            ("N8N_GATEWAY_LOG_LEVEL", "silent"),
            ("N8N_GATEWAY_BROWSER_DEFAULT", "chrome"),
        ],
        Untold("no effect"),
    ),
    variable(
        &[("N8N_GATEWAY_LOG_LEVEL", "loud")],
        Refused("N8N_GATEWAY_LOG_LEVEL"),
    ),
    flag(
        &["--permission-confirmation", "perhaps"],
        Refused("--permission-confirmation"),
    ),
    variable(
        &[("N8N_GATEWAY_PERMISSION_CONFIRMATION", "perhaps")],
        Refused("N8N_GATEWAY_PERMISSION_CONFIRMATION"),
    ),
    variable(
        &[("N8N_GATEWAY_NON_INTERACTIVE", "perhaps")],
        Refused("N8N_GATEWAY_NON_INTERACTIVE"),
    ),
];

fn check(row: &Row) {
    let Row { typed, set, shows } = row;
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    sandbox.file("inner/c.txt", "c");
    let url = fake.url();
    let mut args = vec!["connect", "--url", &url, "--api-key", TOKEN];
    args.extend(["--auto-confirm", "--allowed-origins", &url]);
    args.extend(*typed);
    if let Refused(words) = shows {
        let mut command = sandbox.command(&args);
        command.envs(set.iter().copied());
        Came::from(command.output().unwrap()).with(2).err_has(words);
        assert_eq!(fake.count(), 0, "{typed:?} {set:?}");
        return;
    }
    let daemon = Daemon::start(&sandbox, &args, set);
    let init: Value = fake.linked();
    // What is said of the link is said once it is up.
    fake.call("gw_1", "stat", serde_json::json!({"path": "."}));
    assert_eq!(fake.reply("gw_1"), None);
    let came = daemon.end().with(0);
    let root = init["rootPath"].as_str().unwrap();
    let (is_inner, writes) = (root.ends_with("/inner"), &init["toolCategories"][0]);
    let is_so = match shows {
        Inner => is_inner,
        Writes(want) => !is_inner && writes["writeAccess"] == *want,
        Told(words) => came.err.contains(words),
        Untold(words) => !came.err.contains(words),
        Refused(_) => false,
    };
    assert!(is_so, "{typed:?} {set:?}: {init:#}\n{came:#?}");
}

#[test]
fn every_flag_and_variable_of_the_shipped_daemon_has_its_effect_or_says_that_it_has_none() {
    for row in ROWS {
        check(row);
    }
}

#[test]
fn who_confirms_and_who_is_asked_can_be_said_by_the_shipped_daemons_variables() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let connect = |env: &[(&str, &str)], more: &[&str]| {
        let mut command = sandbox.command(&[&["connect", &url, TOKEN], more].concat());
        command.envs(env.iter().copied()).stdin(Stdio::null());
        Came::from(command.output().unwrap()).with(2)
    };
    let nobody = ("N8N_GATEWAY_NON_INTERACTIVE", "true");
    connect(&[nobody], &[]).err_has("nobody can confirm");
    let confirmed = ("N8N_GATEWAY_AUTO_CONFIRM", "true");
    connect(&[confirmed], &[]).err_has("--allowed-origins");
    assert_eq!(fake.count(), 0);
    // Both: linked, and every question is a no.
    let writing = "--filesystem-write-access";
    let args = ["connect", &url, TOKEN, "--allowed-origins", &url, writing];
    let daemon = Daemon::start(&sandbox, &args, &[nobody, confirmed]);
    fake.linked();
    fake.write("gw_1", "b.txt", "x");
    let reason = fake.reply("gw_1");
    assert_eq!(reason.as_deref(), Some("approval_unavailable"));
    daemon.end().with(0);
    for (value, asked) in [
        ("instance", "whoever the server asks"),
        ("client", "you, in this terminal"),
    ] {
        let begun = Begun {
            env: &[("N8N_GATEWAY_PERMISSION_CONFIRMATION", value)],
            ..Begun::default()
        };
        let tmux = Tmux::begin(&sandbox, &["connect", &url, TOKEN], &begun);
        tmux.until("Lend this machine?", 1);
        tmux.until(asked, 1);
        tmux.keys(&["Enter"]);
        tmux.until("ended with 0.", 1);
    }
}
