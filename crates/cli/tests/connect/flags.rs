//! What can be said to `connect`, and what it means.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fake::{Fake, TOKEN};
use crate::sandbox::{Came, Sandbox};
use crate::tmux::Tmux;

/// A daemon nobody watches, until it is dropped.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    pub(crate) fn start(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = sandbox.command(args);
        command.envs(env.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Ends it as `kill` does; how it came out.
    pub(crate) fn end(mut self) -> Came {
        let pid = rustix_pid(&self.0);
        std::process::Command::new("kill")
            .arg(pid)
            .status()
            .unwrap();
        let began = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(
                began.elapsed() < portcullis_testkit::PATIENCE,
                "it does not end"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut out = String::new();
        let mut err = String::new();
        std::io::Read::read_to_string(&mut self.0.stdout.take().unwrap(), &mut out).unwrap();
        std::io::Read::read_to_string(&mut self.0.stderr.take().unwrap(), &mut err).unwrap();
        Came {
            code: self.0.wait().unwrap().code().unwrap_or(-1),
            out,
            err,
        }
    }
}

fn rustix_pid(child: &Child) -> String {
    child.id().to_string()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub(crate) fn auto<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![
        "connect",
        url,
        TOKEN,
        "--auto-confirm",
        "--allowed-origins",
        url,
    ];
    args.extend(more);
    args
}

#[test]
fn without_a_terminal_nothing_is_connected_unless_a_flag_says_so_for_that_server() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let connect = |more: &[&str]| {
        let mut args = vec!["connect", url.as_str(), TOKEN];
        args.extend(more);
        sandbox.run(&args).with(2)
    };
    connect(&[]).err_has("no terminal");
    connect(&["--non-interactive"]).err_has("nobody can confirm");
    connect(&["--auto-confirm"]).err_has("--allowed-origins");
    connect(&[
        "--auto-confirm",
        "--allowed-origins",
        "https://other.example",
    ])
    .err_has("--allowed-origins");
    let port = url.rsplit(':').next().unwrap();
    let other = format!("http://127.0.0.1:1{port}");
    connect(&["--auto-confirm", "--allowed-origins", &other]);
    assert_eq!(fake.count(), 0);
}

#[test]
fn auto_confirm_answers_no_question_and_says_which_flags_do() {
    for (more, said) in [
        (&[][..], "portcullis approve --watch"),
        (&["--non-interactive"][..], "Asked is nobody"),
    ] {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        sandbox.file(".env", "KEY=1");
        let url = fake.url();
        let more = [&["--filesystem-write-access"], more].concat();
        let daemon = Daemon::start(&sandbox, &auto(&url, &more), &[]);
        fake.linked();
        fake.write("gw_1", "b.txt", "x");
        fake.call("gw_2", "read_file", json!({"filePath": ".env"}));
        for id in ["gw_1", "gw_2"] {
            let reason = fake.reply(id);
            assert_eq!(reason.as_deref(), Some("approval_unavailable"), "{more:?}");
        }
        assert!(!sandbox.dir().join("b.txt").exists());
        let came = daemon.end().with(0);
        assert!(came.out.is_empty(), "{came:?}");
        came.err_has("answers no question")
            .err_has("--permission-filesystem-write allow")
            .err_has(said);
        sandbox.run(&["rules", "list"]).out_has("No answer");
        assert_eq!(fake.seen("POST /gateway/disconnect").len(), 1);
    }
}

#[test]
fn without_a_terminal_whoever_runs_approve_is_asked() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let writing = ["--filesystem-write-access"];
    let daemon = Daemon::start(&sandbox, &auto(&url, &writing), &[]);
    fake.linked();
    let there = Tmux::run(&sandbox, &["approve", "--watch"]);
    there.until("Watching for questions", 1);
    fake.write("gw_1", "b.txt", "x");
    there.until("Your answer", 1);
    there.keys(&["1", "Enter"]);
    assert_eq!(fake.reply("gw_1"), None);
    assert_eq!(sandbox.text("b.txt"), "x");
    daemon.end().with(0);
}

#[test]
fn confirmed_by_a_flag_the_server_asks_and_only_its_answer_to_that_question_counts() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    sandbox.file(".env", "KEY=1");
    let url = fake.url();
    let instance = [
        "--filesystem-write-access",
        "--permission-confirmation",
        "instance",
    ];
    let daemon = Daemon::start(&sandbox, &auto(&url, &instance), &[]);
    fake.linked();
    let calls = [
        ("write_file", json!({"filePath": "b.txt", "content": "x"})),
        ("read_file", json!({"filePath": ".env"})),
    ];
    for (n, (tool, arguments)) in calls.into_iter().enumerate() {
        let id = |step: &str| format!("gw_{n}_{step}");
        let said = |answer: &str| {
            let mut arguments = arguments.clone();
            arguments["_confirmation"] = json!(answer);
            arguments
        };
        // An answer before the question is none, and what is asked is not done.
        fake.call(&id("early"), tool, said("allowOnce"));
        let reply = fake.until(&format!("POST /gateway/response/{}", id("early")));
        let asked = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(asked.contains("GATEWAY_CONFIRMATION_REQUIRED::"), "{reply}");
        assert!(!sandbox.dir().join("b.txt").exists() || n > 0);
        fake.call(&id("no"), tool, said("denyOnce"));
        let reason = fake.reply(&id("no"));
        assert_eq!(reason.as_deref(), Some("approval_denied"), "{tool}");
        // The no was the answer; a yes to it comes too late and asks anew.
        fake.call(&id("late"), tool, said("allowOnce"));
        let reason = fake.reply(&id("late"));
        assert_eq!(reason.as_deref(), Some("approval_pending"), "{tool}");
        fake.call(&id("yes"), tool, said("allowOnce"));
        assert_eq!(fake.reply(&id("yes")), None, "{tool}");
    }
    assert_eq!(sandbox.text("b.txt"), "x");
    let came = daemon.end().with(0);
    came.err_has("whoever the server asks");
}

#[test]
fn a_first_start_writes_the_recommended_settings_and_a_damaged_file_stays() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let daemon = Daemon::start(
        &sandbox,
        &auto(&url, &["--permission-filesystem-write", "allow"]),
        &[],
    );
    fake.linked();
    daemon.end();
    let file = sandbox.data().join("settings.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("\"filesystemWrite\": \"ask\""),
        "no flag is kept: {text}"
    );
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = sandbox.data().join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("settings.json"), mode("connect.log")), (0o600, 0o600));
    let damaged = "{\n  \"permissions\": {,}\n}";
    std::fs::write(&file, damaged).unwrap();
    let before = fake.count();
    sandbox
        .run(&auto(&url, &[]))
        .with(1)
        .err_has("settings.json:2:19");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), damaged);
    assert_eq!(fake.count(), before);
}

#[test]
fn a_first_start_says_nothing_of_the_settings_it_writes() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let file = sandbox.data().join("settings.json");
    assert!(!file.exists());
    let daemon = Daemon::start(&sandbox, &auto(&url, &[]), &[]);
    fake.linked();
    let came = daemon.end().with(0);
    assert_eq!(came.out, "");
    // What a flag does not do, that it ended, and no word more.
    let lines: Vec<&str> = came.err.lines().collect();
    assert_eq!(lines.len(), 2, "{came:?}");
    assert!(lines[0].contains("--auto-confirm"), "{came:?}");
    assert_eq!(lines[1], format!("{url}: disconnected"));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let recommended = serde_json::json!({
        "permissions": {"filesystemRead": "allow", "filesystemWrite": "ask", "shell": "ask",
            "computer": "deny", "browser": "ask"},
        "resourcePermissions": {},
    });
    assert_eq!(written, recommended);
}

#[test]
fn the_log_holds_calls_and_neither_contents_nor_secrets() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let more = [
        "--filesystem-write-access",
        "--permission-filesystem-write",
        "allow",
        "--log-level",
        "debug",
    ];
    let daemon = Daemon::start(&sandbox, &auto(&url, &more), &[]);
    fake.linked();
    fake.write("gw_1", "nameCanary.txt", "contentCanary");
    assert_eq!(fake.reply("gw_1"), None);
    let came = daemon.end().with(0);
    let log = std::fs::read_to_string(sandbox.data().join("connect.log")).unwrap();
    assert!(log.contains("call gw_1 write_file began"), "{log}");
    for canary in ["contentCanary", "nameCanary", TOKEN, "sess_one"] {
        assert!(
            !log.contains(canary) && !came.err.contains(canary),
            "{canary}: {log}"
        );
    }
}

#[test]
fn the_shipped_daemons_flags_and_variables_mean_what_ours_mean() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    sandbox.file("inner/c.txt", "c");
    let url = fake.url();
    let dir = sandbox.dir().join("inner").display().to_string();
    let env = [
        ("N8N_GATEWAY_FILESYSTEM_DIR", dir.as_str()),
        ("N8N_GATEWAY_PERMISSION_FILESYSTEM_WRITE", "deny"),
        ("N8N_GATEWAY_AUTO_CONFIRM", "true"),
        ("N8N_GATEWAY_LOG_LEVEL", "silent"),
        ("PORTCULLIS_GATEWAY_TOKEN", "sess_from_the_environment"),
        ("PORTCULLIS_MACHINE", "desk"),
    ];
    let args = [
        "connect",
        "--url",
        &url,
        "--allowed-origins",
        &url,
        "--browser-default",
        "x",
    ];
    let daemon = Daemon::start(&sandbox, &args, &env);
    let init = fake.linked();
    assert_eq!(init["rootPath"], dir);
    assert_eq!(init["toolCategories"][0]["writeAccess"], false);
    assert_eq!(init["portcullis"]["machine"], "desk");
    assert!(
        init["hostIdentifier"]
            .as_str()
            .unwrap()
            .starts_with("tester@")
    );
    daemon.end().with(0);
    // A flag wins over the environment.
    let fake = Fake::start();
    let url = fake.url();
    let args = [
        "connect",
        &url,
        "--allowed-origins",
        &url,
        "--filesystem-write-access",
        "--permission-filesystem-write",
        "allow",
        "--filesystem-dir",
        ".",
    ];
    let daemon = Daemon::start(&sandbox, &args, &env);
    let init = fake.linked();
    assert_eq!(
        init["rootPath"],
        sandbox.dir().join(".").display().to_string()
    );
    assert_eq!(init["toolCategories"][0]["writeAccess"], true);
    daemon.end().with(0);
    let mut odd = sandbox.command(&["connect", &url, TOKEN]);
    odd.env("N8N_GATEWAY_PERMISSION_SHELL", "maybe");
    Came::from(odd.output().unwrap())
        .with(2)
        .err_has("N8N_GATEWAY_PERMISSION_SHELL");
}

#[test]
fn what_a_server_is_to_serve_is_not_what_is_lent() {
    let sandbox = Sandbox::new();
    sandbox.file("served/c.txt", "c");
    let served = sandbox.dir().join("served").display().to_string();
    for name in [
        "PORTCULLIS_FILESYSTEM_PATH",
        "N8N_INSTANCE_AI_FILESYSTEM_PATH",
    ] {
        let fake = Fake::start();
        let url = fake.url();
        let daemon = Daemon::start(&sandbox, &auto(&url, &[]), &[(name, &served)]);
        let init = fake.linked();
        let here = sandbox.dir().display().to_string();
        assert_eq!(init["rootPath"], here, "{name}");
        daemon.end().with(0);
    }
}

#[test]
fn a_token_that_lasts_is_not_typed_and_one_may_come_over_standard_input() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let typed = ["connect", url.as_str(), "static-key", "--auto-confirm"];
    sandbox
        .run(&typed)
        .with(2)
        .err_has("PORTCULLIS_GATEWAY_TOKEN");
    sandbox
        .run(&["connect", &url, "--auto-confirm"])
        .with(2)
        .err_has("No token");
    sandbox.run(&["connect"]).with(2).err_has("no terminal");
    sandbox
        .run(&["connect", "http://ada:hunter2@h", TOKEN])
        .with(2)
        .err_has("more than a host");
    let mut args = auto(&url, &[]);
    args[2] = "-";
    let mut command = sandbox.command(&args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"static-key\n").unwrap();
    let daemon = Daemon(child);
    fake.linked();
    daemon.end().with(0);
}

#[test]
fn the_fixed_key_of_the_environment_lets_the_daemon_in() {
    let ours = ("PORTCULLIS_GATEWAY_API_KEY", "ours-canary");
    let theirs = ("N8N_INSTANCE_AI_GATEWAY_API_KEY", "theirs-canary");
    let token = ("PORTCULLIS_GATEWAY_TOKEN", "token-canary");
    for (env, want) in [
        (&[theirs][..], theirs.1),
        (&[ours], ours.1),
        (&[ours, theirs], ours.1),
        (&[ours, token], token.1),
    ] {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        sandbox.file("inner/c.txt", "c");
        let url = fake.url();
        let mut args = auto(&url, &[]);
        // The second word is the directory, as the token comes from elsewhere.
        args[2] = "inner";
        let daemon = Daemon::start(&sandbox, &args, env);
        let init = fake.linked();
        assert!(init["rootPath"].as_str().unwrap().ends_with("/inner"));
        assert_eq!(fake.first_key(), want);
        daemon.end().with(0);
    }
}

#[test]
fn groups_without_tools_here_are_told_and_do_not_count_as_on() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let all_denied = auto(
        &url,
        &[
            "--permission-filesystem-read",
            "deny",
            "--permission-shell",
            "allow",
        ],
    );
    sandbox.run(&all_denied).with(2).err_has("nothing to lend");
    assert_eq!(fake.count(), 0);
    let daemon = Daemon::start(&sandbox, &auto(&url, &["--permission-shell", "allow"]), &[]);
    let init = fake.linked();
    assert_eq!(init["toolCategories"][1]["enabled"], false);
    daemon.end().with(0).err_has("shell: not available here");
}

#[test]
fn what_ends_a_link_decides_the_exit_code() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let daemon = Daemon::start(&sandbox, &auto(&url, &[]), &[]);
    fake.linked();
    // Said twice: the first time n8n may not have meant it.
    for n in 1..=2 {
        while fake.seen("GET /gateway/events").len() < n {
            std::thread::sleep(Duration::from_millis(20));
        }
        fake.send(&serde_json::json!({"type": "gateway-disconnect"}));
    }
    let mut daemon = daemon;
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
}

#[test]
fn status_and_disconnect_reach_the_daemon_of_this_data_directory() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    sandbox.run(&["status"]).with(0).out_has("not lent");
    sandbox.run(&["disconnect"]).with(0).out_has("not lent");
    let mut daemon = Daemon::start(&sandbox, &auto(&url, &[]), &[]);
    fake.linked();
    let socket = sandbox.data().join("connect.sock");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    sandbox
        .run(&["status"])
        .with(0)
        .out_has("connected")
        .out_has(&url);
    sandbox
        .run(&["status", "--json"])
        .with(0)
        .out_has("\"state\":\"connected\"");
    sandbox.run(&["disconnect"]).with(0).out_has("Disconnected");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!(fake.seen("POST /gateway/disconnect").len(), 1);
    assert!(!socket.exists());
}

#[test]
fn the_shipped_daemons_settings_are_taken_over_once() {
    let sandbox = Sandbox::new();
    let theirs = sandbox.dir().join("theirs.json");
    let text = r#"{"filesystemDir": "/w", "permissions": {"filesystemWrite": "deny"},
        "resourcePermissions": {"filesystemRead": {"allow": ["/w/a"], "deny": ["/w/b"]}}}"#;
    std::fs::write(&theirs, text).unwrap();
    let import = ["settings", "import", "theirs.json"];
    sandbox.run(&import).with(0);
    let file = sandbox.data().join("settings.json");
    let ours = std::fs::read_to_string(&file).unwrap();
    assert!(
        ours.contains("\"/w/b\"") && ours.contains("\"deny\""),
        "{ours}"
    );
    sandbox.run(&["policy", "test"]).with(0);
    sandbox.run(&import).with(1).err_has("already");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ours);
    std::fs::write(&theirs, "{\n\"permissions\": 1}").unwrap();
    sandbox.run(&import).with(1).err_has("theirs.json:2:");
    std::fs::write(&theirs, text.replace("/w/b", "secrets")).unwrap();
    sandbox
        .run(&["settings", "import", "theirs.json", "--replace"])
        .with(1)
        .err_has("would be lost");
    std::fs::write(&theirs, text).unwrap();
    sandbox
        .run(&["settings", "import", "theirs.json", "--replace"])
        .with(0);
    let kept = |name: &str| std::fs::read_to_string(sandbox.data().join(name)).unwrap();
    assert_eq!(kept("settings.json.before-import"), ours);
    // What was kept once stays, however often it is replaced.
    std::fs::write(&theirs, text.replace("/w/b", "/w/c")).unwrap();
    for _ in 0..2 {
        sandbox
            .run(&["settings", "import", "theirs.json", "--replace"])
            .with(0);
    }
    assert_eq!(kept("settings.json.before-import"), ours);
    assert_eq!(kept("settings.json.before-import-2"), ours);
    assert!(kept("settings.json.before-import-3").contains("/w/c"));
}

#[test]
fn an_import_writes_nothing_where_others_are_read() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "theirs.json",
        r#"{"permissions": {"filesystemWrite": "deny"}}"#,
    );
    let ours = sandbox.dir().join("ours.json").display().to_string();
    sandbox.file("ours.json", "{}");
    let flag = ["--settings", &ours, "settings", "import", "theirs.json"];
    let mut variable = sandbox.command(&flag[2..]);
    variable.env("PORTCULLIS_SETTINGS", &ours);
    for came in [sandbox.run(&flag), variable.output().unwrap().into()] {
        came.with(2)
            .err_has("Nothing was changed")
            .err_has("hint: ");
    }
    assert!(!sandbox.data().join("settings.json").exists());
    assert_eq!(sandbox.text("ours.json"), "{}");
}

#[test]
fn settings_that_are_a_link_to_nothing_are_not_taken_for_none() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    let file = sandbox.data().join("settings.json");
    let elsewhere = sandbox.dir().join("elsewhere.json");
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    sandbox.file(
        "theirs.json",
        r#"{"permissions": {"filesystemWrite": "deny"}}"#,
    );
    let import = ["settings", "import", "theirs.json", "--replace"];
    for args in [
        &["policy", "test"][..],
        &import,
        &["mcp", "--dir", "."],
        &auto(&url, &[]),
    ] {
        sandbox
            .run(args)
            .with(1)
            .err_has("a link that leads to nothing")
            .err_has("Nothing was changed")
            .err_has("hint: ");
    }
    assert_eq!(fake.count(), 0);
    assert_eq!(std::fs::read_link(&file).unwrap(), elsewhere);
    // With what it leads to, they hold.
    let denied = r#"{"permissions": {"filesystemWrite": "deny"}}"#;
    sandbox.file("elsewhere.json", denied);
    let daemon = Daemon::start(&sandbox, &auto(&url, &[]), &[]);
    let init = fake.linked();
    assert_eq!(init["toolCategories"][0]["writeAccess"], false);
    daemon.end().with(0);
}

#[test]
fn without_a_name_the_settings_are_looked_for_where_n8ns_daemon_keeps_them() {
    let sandbox = Sandbox::new();
    let import = ["settings", "import"];
    let missing = sandbox.run(&import).with(1);
    missing.err_has(".n8n-gateway/settings.json");
    let theirs = sandbox.data().join("../.n8n-gateway");
    std::fs::create_dir(&theirs).unwrap();
    let text = r#"{"filesystemDir": "/w", "permissions": {"filesystemWrite": "deny"}}"#;
    std::fs::write(theirs.join("settings.json"), text).unwrap();
    sandbox
        .run(&import)
        .with(0)
        .out_has(".n8n-gateway/settings.json →");
    let file = sandbox.data().join("settings.json");
    let ours: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(ours["filesystemDir"], "/w");
    assert_eq!(ours["permissions"]["filesystemWrite"], "deny");
    let kept = std::fs::read_to_string(theirs.join("settings.json")).unwrap();
    assert_eq!(kept, text, "theirs stay as they were");
}

#[test]
fn an_imported_denial_holds_whichever_directory_is_lent() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let url = fake.url();
    sandbox.file("src/secret/plan.txt", "the plan");
    sandbox.file("src/open.txt", "open");
    let dir = sandbox.dir();
    let denied = dir.join("src/secret");
    let theirs = serde_json::json!({"filesystemDir": dir, "resourcePermissions":
        {"filesystemRead": {"deny": [denied]}}});
    std::fs::write(dir.join("theirs.json"), theirs.to_string()).unwrap();
    sandbox.run(&["settings", "import", "theirs.json"]).with(0);
    // Not the directory that file was about, but one below it.
    let lent = dir.join("src").display().to_string();
    let daemon = Daemon::start(&sandbox, &auto(&url, &["--dir", &lent]), &[]);
    fake.linked();
    let read = |id: &str, path: &str| {
        fake.call(id, "read_file", serde_json::json!({"filePath": path}));
        fake.reply(id)
    };
    assert_eq!(read("gw_1", "open.txt"), None);
    assert_eq!(
        read("gw_2", "secret/plan.txt").as_deref(),
        Some("denied_by_rule")
    );
    daemon.end().with(0);
}

#[test]
fn files_are_lent_read_only_until_somebody_offers_to_change_them() {
    let shipped = "N8N_GATEWAY_FILESYSTEM_WRITE_ACCESS";
    let ours = "PORTCULLIS_FILESYSTEM_WRITE_ACCESS";
    let flag = &["--filesystem-write-access"][..];
    let mode = &["--permission-filesystem-write", "allow"][..];
    let both = &[flag, mode].concat()[..];
    let (none, set) = ("", r#"{"filesystemWriteAccess": true}"#);
    for (settings, env, more, want) in [
        (none, None, &[][..], false),
        (none, Some((shipped, "false")), &[], false),
        (none, None, mode, false),
        (
            r#"{"permissions": {"filesystemWrite": "allow"}}"#,
            None,
            &[],
            false,
        ),
        (none, Some((shipped, "true")), &[], true),
        (none, Some((ours, "1")), &[], true),
        (none, None, flag, true),
        (none, None, both, true),
        (set, None, &[], true),
        (set, Some((ours, "false")), &[], false),
        (set, Some((ours, "false")), flag, true),
    ] {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        if !settings.is_empty() {
            sandbox.settings(settings);
        }
        let url = fake.url();
        let env: Vec<_> = env.into_iter().collect();
        let daemon = Daemon::start(&sandbox, &auto(&url, more), &env);
        let init = fake.linked();
        let case = format!("{settings} {env:?} {more:?}");
        assert_eq!(init["toolCategories"][0]["writeAccess"], want, "{case}");
        let tools = init["tools"].as_array().unwrap();
        for name in ["write_file", "edit_file", "delete", "move", "copy_file"] {
            let is_lent = tools.iter().any(|tool| tool["name"] == name);
            assert_eq!(is_lent, want, "{name} {case}");
        }
        let came = daemon.end().with(0);
        // A mode alone offers nothing, and that is said.
        let is_told = came.err.contains("filesystemWrite: off");
        assert_eq!(is_told, more == mode, "{came:?}");
    }
}

#[test]
fn only_the_typed_flag_raises_a_denied_group() {
    let denied = ("N8N_GATEWAY_PERMISSION_FILESYSTEM_WRITE", "deny");
    let access = ("PORTCULLIS_FILESYSTEM_WRITE_ACCESS", "true");
    for (file, env, more, want) in [
        ("ask", &[denied, access][..], &[][..], false),
        ("deny", &[access], &[], false),
        ("ask", &[access], &[], true),
        ("deny", &[], &["--filesystem-write-access"], true),
        ("ask", &[denied], &["--filesystem-write-access"], true),
    ] {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        let text = format!("{{\"permissions\": {{\"filesystemWrite\": \"{file}\"}}}}");
        sandbox.settings(&text);
        let url = fake.url();
        let daemon = Daemon::start(&sandbox, &auto(&url, more), env);
        let init = fake.linked();
        let lends = &init["toolCategories"][0]["writeAccess"];
        assert_eq!(*lends, want, "{file} {env:?} {more:?}");
        let came = daemon.end().with(0);
        let is_told = came.err.contains("does not overrule");
        assert_eq!(is_told, !want, "{came:?}");
    }
}

#[test]
fn a_listed_root_that_is_lent_keeps_its_policy() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    for name in [
        "listed/open.txt",
        "listed/shut.txt",
        "listed/in/a.txt",
        "apart/a.txt",
    ] {
        sandbox.file(name, "x");
    }
    let at = |name: &str| sandbox.dir().join(name).display().to_string();
    sandbox.settings(
        &serde_json::json!({"roots": [
            {"kind": "workspace", "id": "listed", "path": at("listed"), "deniedGlobs": ["/shut.txt"]},
            {"kind": "workspace", "id": "plain", "path": at("apart")},
        ]})
        .to_string(),
    );
    let url = fake.url();
    std::os::unix::fs::symlink(at("listed"), sandbox.dir().join("link")).unwrap();
    // By another name it is the same.
    let daemon = Daemon::start(&sandbox, &auto(&url, &["--dir", &at("link")]), &[]);
    fake.linked();
    for (id, name) in [("gw_1", "open.txt"), ("gw_2", "shut.txt")] {
        fake.call(id, "read_file", serde_json::json!({"filePath": name}));
    }
    assert_eq!(fake.reply("gw_1"), None);
    assert!(fake.reply("gw_2").is_some());
    daemon.end().with(0);
    // What says nothing of its own is in nobody's way.
    let fake = Fake::start();
    let url = fake.url();
    let daemon = Daemon::start(&sandbox, &auto(&url, &["--dir", &at("apart")]), &[]);
    fake.linked();
    daemon.end().with(0);
}

#[test]
fn a_directory_around_or_in_a_listed_root_with_a_policy_is_not_lent() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    sandbox.file("listed/in/a.txt", "x");
    let at = |name: &str| sandbox.dir().join(name).display().to_string();
    sandbox.settings(
        &serde_json::json!({"roots": [
            {"kind": "workspace", "id": "listed", "path": at("listed"), "deniedGlobs": ["/shut.txt"]},
        ]})
        .to_string(),
    );
    let url = fake.url();
    for (dir, how) in [
        (
            sandbox.dir().display().to_string(),
            "contains the root listed",
        ),
        (at("listed/in"), "lies in the root listed"),
        (at("listed/in/../in"), "lies in the root listed"),
    ] {
        sandbox
            .run(&auto(&url, &["--dir", &dir]))
            .with(2)
            .err_has(how)
            .err_has("Nothing was lent");
    }
    assert_eq!(fake.count(), 0);
}
