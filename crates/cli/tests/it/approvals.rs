//! Questions, answered from another process.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use portcullis_gate::{Decision, Question};
use portcullis_proto::{
    Access, Digest, Facts, Principal, QuestionId, RelPath, Resource, RootId, RootKind, Subject,
    Verb,
};
use portcullis_store::Store;
use serde_json::json;

use crate::sandbox::Sandbox;

/// Watches, runs `act` on a thread of its own, and answers the question it
/// raises. Gives back how the question was shown.
pub(crate) fn answer_next(sandbox: &Sandbox, decision: &str, act: impl FnOnce() + Send) -> String {
    let mut watcher = sandbox
        .command(&["approve", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(watcher.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("Watching"), "{line}");
    let until = Instant::now() + portcullis_testkit::PATIENCE;
    let shown = thread::scope(|scope| {
        let acting = scope.spawn(act);
        let shown = loop {
            let listed = sandbox.run(&["approve", "list"]).with(0).out;
            let id = listed
                .split_whitespace()
                .find(|word| word.starts_with("q_"));
            if let Some(id) = id {
                sandbox.run(&["approve", "answer", id, decision]).with(0);
                break listed;
            }
            assert!(Instant::now() < until, "no question came: {listed}");
        };
        acting.join().unwrap();
        shown
    });
    watcher.kill().ok();
    watcher.wait().unwrap();
    shown
}

#[test]
fn a_question_is_shown_and_answered_by_a_script() {
    let sandbox = Sandbox::new();
    sandbox.file(".env", "TOKEN=x\n");
    let mut client = sandbox.serve(&["--approve-timeout", "20"]);
    answer_next(&sandbox, "allow_once", || {
        let read = client.read(".env");
        assert_eq!(read["structuredContent"]["content"], "TOKEN=x\n", "{read}");
    });
    answer_next(&sandbox, "deny_once", || {
        assert_eq!(client.read(".env")["isError"], json!(true));
    });
    sandbox
        .run(&["rules", "list"])
        .with(0)
        .out_has("No answer was given for good");
    sandbox
        .run(&["audit", "tail"])
        .with(0)
        .out_has("answered by terminal:tester");
}

#[test]
fn the_question_at_the_terminal_says_what_would_run() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.serve(&["--write", "--approve-timeout", "20"]);
    for (path, words) in [
        (".git/hooks/pre-commit", "git runs it before every commit"),
        (".envrc", "direnv runs it when a shell enters the directory"),
    ] {
        let listed = answer_next(&sandbox, "deny_once", || {
            let call = json!({"filePath": path, "content": "evil"});
            let reply = client.call("write_file", call);
            let reason = &reply["structuredContent"]["reason"];
            assert_eq!(reason, "approval_denied", "{reply}");
        });
        assert!(
            listed.contains(&format!("runs     {path}: {words}")),
            "{listed}"
        );
        assert!(!sandbox.dir().join(path).exists());
    }
}

#[test]
fn where_nobody_watches_the_answer_is_no_at_once() {
    let sandbox = Sandbox::new();
    sandbox.file(".env", "TOKEN=x\n");
    let mut client = sandbox.serve(&[]);
    let asked = Instant::now();
    let read = client.read(".env");
    assert_eq!(read["isError"], json!(true));
    assert!(asked.elapsed() < portcullis_testkit::promised(Duration::from_secs(5)));
    assert!(
        !sandbox.data().join("state.db").exists(),
        "no question, no database"
    );
}

#[test]
fn a_question_that_is_not_there_cannot_be_answered() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["approve", "answer", "q_none", "allow_once"])
        .with(1)
        .err_has("no such question");
    sandbox
        .run(&["approve", "list"])
        .with(0)
        .out_has("Nothing waits");
    sandbox.run(&["approve"]).with(0).out_has("Nothing waits");
}

/// A question of one of two people, which waits for as long as the test takes.
fn waiting(n: usize) -> Question {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let asked_at = u64::try_from(now.as_millis()).unwrap();
    Question {
        id: QuestionId::new(format!("q_{n}")),
        digest: Digest([7; 32]),
        subject: Subject::of(Principal::User {
            id: format!("u{}", n % 2).into(),
        }),
        facts: Facts {
            verb: Verb::Read,
            resources: vec![Resource {
                root: RootId::parse("workspace").unwrap(),
                kind: RootKind::Workspace,
                path: RelPath::parse(".env").unwrap(),
                access: Access::Read,
                identity: None,
                above: None,
            }],
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        },
        class: Some("secret".to_owned()),
        source: "builtin:secret".to_owned(),
        exact_path: true,
        about: None,
        offered: vec![Decision::AllowOnce, Decision::DenyOnce],
        asked_at,
        deadline: asked_at + 600_000,
    }
}

#[test]
fn whoever_watches_is_shown_all_that_waits() {
    const MANY: usize = 1_100;
    let sandbox = Sandbox::new();
    let store = Store::new(sandbox.data());
    for n in 0..MANY {
        store.ask(&waiting(n)).unwrap();
    }
    let mut watcher = sandbox
        .command(&["approve", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(watcher.stdout.take().unwrap());
    let (shows, shown) = mpsc::channel();
    thread::spawn(move || {
        let lines = said.lines().map_while(Result::ok);
        lines
            .filter(|line| line.contains("An agent wants to"))
            .try_for_each(|card| shows.send(card))
    });
    for n in 0..MANY {
        let card = shown.recv_timeout(portcullis_testkit::PATIENCE);
        let card = card.unwrap_or_else(|_| panic!("the question {n} is not shown"));
        assert!(card.ends_with(&format!("q_{n}")), "{n}: {card}");
    }
    watcher.kill().ok();
    watcher.wait().unwrap();
}

#[test]
fn a_root_inside_a_protected_directory_keeps_its_classes() {
    let sandbox = Sandbox::new();
    for dir in [".aws", ".git/hooks", "plain"] {
        fs::create_dir_all(sandbox.dir().join(dir)).unwrap();
    }
    sandbox.file(".aws/credentials", "aws_secret_access_key = x\n");
    sandbox.file("plain/credentials", "of nobody\n");
    let mut client = sandbox.serve_below(".aws", &[]);
    let read = client.read("credentials");
    assert_eq!(read["structuredContent"]["reason"], "approval_unavailable");
    let found = client.call("search_files", json!({"query": "aws_secret"}));
    assert_eq!(found["structuredContent"]["reason"], "approval_unavailable");
    assert_eq!(client.leave(), 0);
    for dir in [".git", ".git/hooks"] {
        let mut client = sandbox.serve_below(dir, &["--write"]);
        let path = if dir == ".git" {
            "hooks/pre-commit"
        } else {
            "pre-commit"
        };
        let call = json!({"filePath": path, "content": "evil"});
        let written = client.call("write_file", call);
        let reason = &written["structuredContent"]["reason"];
        assert_eq!(reason, "approval_unavailable", "{written}");
        assert_eq!(client.leave(), 0);
    }
    // A name that is in no table protects nothing.
    let mut client = sandbox.serve_below("plain", &[]);
    assert_eq!(client.read("credentials")["isError"], json!(false));
    assert_eq!(client.leave(), 0);
}
