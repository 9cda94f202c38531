//! Asking a person: in the middle of a call, by a second call, elsewhere, or
//! not at all.

use portcullis_gate::{Answer, Decision, Surface};
use portcullis_proto::{Mode, QuestionId};
use serde_json::{Value, json};

use crate::client::{Client, World};

async fn next_elicitation(client: &mut Client) -> Value {
    loop {
        let message = client.receive().await;
        if message["method"] == "elicitation/create" {
            return message;
        }
    }
}

#[tokio::test]
async fn an_older_client_is_asked_in_the_middle_of_the_call() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({"elicitation": {}})).await;
    for (decision, outcome) in [
        ("allow_once", "success"),
        ("deny_once", "denied"),
        ("always_allow", "denied"),
        ("nonsense", "denied"),
    ] {
        let id = client
            .start(
                "tools/call",
                json!({"name": "read_file", "arguments": {"filePath": ".env"}}),
            )
            .await;
        let asked = next_elicitation(&mut client).await;
        let offered = asked["params"]["requestedSchema"].to_string();
        assert!(
            offered.contains("allow_once") && !offered.contains("always"),
            "{offered}"
        );
        let answer = json!({"action": "accept", "content": {"decision": decision}});
        client
            .send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}))
            .await;
        let reply = client.receive().await;
        assert_eq!(reply["id"], json!(id), "{reply}");
        assert_eq!(
            reply.to_string().contains("canary-secret"),
            outcome == "success",
            "{decision}: {reply}"
        );
        assert_eq!(world.outcomes().last().unwrap(), outcome, "{decision}");
    }
}

#[tokio::test]
async fn the_question_in_a_client_says_what_would_run() {
    let world = World::writing(Mode::Allow);
    std::fs::create_dir(world.path("plain")).unwrap();
    std::fs::write(world.path("plain/tasks.json"), "{}").unwrap();
    let write = |path: &str| json!({"name": "write_file", "arguments": {"filePath": path, "content": "evil"}});
    let moved =
        json!({"name": "move", "arguments": {"sourcePath": "plain", "destinationPath": ".vscode"}});
    for (call, words) in [
        (
            write(".git/hooks/pre-commit"),
            ".git/hooks/pre-commit: git runs it before every commit",
        ),
        (
            write(".envrc"),
            "of the secret class; .envrc: direnv runs it when a shell enters",
        ),
        (
            moved,
            ".vscode/tasks.json: VS Code runs it as a task, by itself when the folder is opened",
        ),
    ] {
        let mut older = world.connect().handshake(json!({"elicitation": {}})).await;
        older.start("tools/call", call.clone()).await;
        let asked = next_elicitation(&mut older).await;
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        let mut newer = world
            .connect()
            .stateless(json!({"elicitation": {"form": {}}}));
        let asked = newer.request("tools/call", call).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        assert!(asked.to_string().contains(words), "{asked}");
    }
    for path in [".git", ".envrc", ".vscode"] {
        assert!(!world.path(path).exists(), "{path}");
    }
}

#[tokio::test]
async fn a_client_that_cannot_ask_gets_a_no_that_names_the_rule() {
    let world = World::new(Mode::Allow);
    for mut client in [
        world.connect().handshake(json!({})).await,
        world.connect().stateless(json!({})),
    ] {
        let there = client.call("read_file", json!({"filePath": ".env"})).await;
        let absent = client
            .call("read_file", json!({"filePath": "src/.env"}))
            .await;
        assert_eq!(
            there["structuredContent"]["reason"], "approval_unavailable",
            "{there}"
        );
        assert!(
            there["structuredContent"]["hint"]
                .as_str()
                .unwrap()
                .contains("resourcePermissions"),
            "{there}"
        );
        let blank = |reply: &Value| {
            reply["structuredContent"]
                .to_string()
                .replace("src/.env", ".env")
        };
        assert_eq!(
            blank(&there),
            blank(&absent),
            "whether it exists must not show"
        );
    }
}

#[tokio::test]
async fn a_newer_client_is_asked_by_input_required_and_its_answer_counts_once() {
    let world = World::new(Mode::Allow);
    let mut client = world
        .connect()
        .stateless(json!({"elicitation": {"form": {}}}));
    let call = json!({"name": "read_file", "arguments": {"filePath": ".env"}});
    let asked = client.request("tools/call", call.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(world.outcomes(), ["parked"]);
    let state = asked["result"]["requestState"].clone();
    let mut retry = call.clone();
    retry["requestState"] = state.clone();
    retry["inputResponses"] =
        json!({"approval": {"action": "accept", "content": {"decision": "allow_once"}}});

    // Another process of the same state directory finishes it.
    let mut other = world
        .connect()
        .stateless(json!({"elicitation": {"form": {}}}));
    let mut wrong = retry.clone();
    wrong["arguments"]["filePath"] = json!("src/.env");
    let refused = other.request("tools/call", wrong).await;
    assert_eq!(
        refused["result"]["structuredContent"]["reason"], "bad_arguments",
        "{refused}"
    );
    let done = other.request("tools/call", retry.clone()).await;
    assert_eq!(
        done["result"]["structuredContent"]["content"], "KEY=canary-secret\n",
        "{done}"
    );
    let again = client.request("tools/call", retry).await;
    assert_eq!(
        again["result"]["structuredContent"]["reason"], "answer_used",
        "{again}"
    );
    assert!(!again.to_string().contains("canary-secret"));
}

#[tokio::test]
async fn what_changed_while_the_question_was_open_is_not_read() {
    let world = World::new(Mode::Ask);
    let mut client = world
        .connect()
        .stateless(json!({"elicitation": {"form": {}}}));
    let call = json!({"name": "read_file", "arguments": {"filePath": "src/main.rs"}});
    let asked = client.request("tools/call", call.clone()).await;
    std::fs::write(world.path("other"), "other bytes").unwrap();
    std::fs::rename(world.path("other"), world.path("src/main.rs")).unwrap();
    let mut retry = call;
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] =
        json!({"approval": {"action": "accept", "content": {"decision": "allow_once"}}});
    let reply = client.request("tools/call", retry).await;
    assert_eq!(
        reply["result"]["structuredContent"]["reason"], "changed",
        "{reply}"
    );
    assert_eq!(world.outcomes(), ["parked", "failed"]);
}

#[tokio::test]
async fn a_person_watching_elsewhere_is_asked_when_the_client_cannot() {
    let world = World::new(Mode::Allow);
    let now = || {
        u64::try_from(
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_millis(),
        )
        .unwrap()
    };
    world.store.watcher_heartbeat("w", now()).unwrap();
    let mut client = world.connect().handshake(json!({})).await;
    client
        .start(
            "tools/call",
            json!({"name": "read_file", "arguments": {"filePath": ".env"}}),
        )
        .await;
    let question: QuestionId = loop {
        if let Some(question) = world.store.pending(10, now()).unwrap().pop() {
            break question.id;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let answer = Answer {
        decision: Decision::AlwaysAllow,
        surface: Surface::Terminal,
        by: "me".into(),
    };
    let said = world.store.answer(&question, &answer, now()).unwrap();
    assert_eq!(format!("{said:?}"), "Answered");
    let reply = client.receive().await;
    assert_eq!(
        reply["result"]["structuredContent"]["content"], "KEY=canary-secret\n",
        "{reply}"
    );
    let reply = client.call("read_file", json!({"filePath": ".env"})).await;
    assert_eq!(
        reply["structuredContent"]["content"], "KEY=canary-secret\n",
        "from now on it is not asked: {reply}"
    );
    assert_eq!(world.store.load().unwrap().len(), 1);
}

#[tokio::test]
async fn a_cancelled_call_ends_in_one_line_and_does_nothing() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({"elicitation": {}})).await;
    let id = client
        .start(
            "tools/call",
            json!({"name": "read_file", "arguments": {"filePath": ".env"}}),
        )
        .await;
    next_elicitation(&mut client).await;
    client
        .notify(
            "notifications/cancelled",
            json!({"requestId": id, "reason": "enough"}),
        )
        .await;
    for _ in 0..200 {
        if !world.outcomes().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(world.outcomes(), ["abandoned"]);
}

/// A tar with a hook in it, and a plain file that says `text`.
fn tar_with_a_hook(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in [("plain", text), (".git/hooks/pre-commit", "#!/bin/sh\n")] {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(content.as_bytes());
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

#[tokio::test]
async fn an_archive_with_what_runs_by_itself_is_one_question_and_one_yes() {
    for mode in [Mode::Ask, Mode::Allow] {
        let world = World::writing(mode);
        std::fs::write(world.path("a.tar"), tar_with_a_hook("one")).unwrap();
        let mut client = world
            .connect()
            .stateless(json!({"elicitation": {"form": {}}}));
        let call = json!({
            "name": "extract_archive",
            "arguments": {"archivePath": "a.tar", "destinationPath": "out"},
        });
        let yes = |asked: &Value| {
            assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
            let words = asked.to_string();
            assert!(words.contains("git runs it before every commit"), "{words}");
            // The next archive is another one.
            assert!(!words.contains("allow_session"), "{words}");
            let mut retry = call.clone();
            retry["requestState"] = asked["result"]["requestState"].clone();
            retry["inputResponses"] =
                json!({"approval": {"action": "accept", "content": {"decision": "allow_once"}}});
            retry
        };
        // Another archive by now: the yes was to the first.
        let asked = client.request("tools/call", call.clone()).await;
        std::fs::write(world.path("a.tar"), tar_with_a_hook("two")).unwrap();
        let reply = client.request("tools/call", yes(&asked)).await;
        let reason = &reply["result"]["structuredContent"]["reason"];
        assert_eq!(reason, "changed", "{mode:?}: {reply}");
        assert!(!world.path("out").exists());
        // It is asked about anew, and one yes is enough.
        let asked = client.request("tools/call", call.clone()).await;
        let reply = client.request("tools/call", yes(&asked)).await;
        let entries = &reply["result"]["structuredContent"]["entries"];
        assert_eq!(entries, 2, "{mode:?}: {reply}");
        assert_eq!(std::fs::read(world.path("out/plain")).unwrap(), b"two");
        assert!(world.path("out/.git/hooks/pre-commit").exists());
        assert_eq!(
            world.outcomes(),
            ["parked", "failed", "parked", "success"],
            "{mode:?}"
        );
    }
}
