//! Frames no honest server sends: none has an effect outside what was confirmed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis_daemon::{Asking, Ended};
use portcullis_link::Dialect;
use portcullis_proto::Mode;
use portcullis_testkit::ScriptedApprover;
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::kit::{How, Lent};

/// How many frames are sent, and how many to one daemon: fewer than it refuses
/// without a pause, each of them twice.
const FRAMES: usize = 100_000;
const SESSION: usize = 1_000;
/// How many are sent before the next ones wait a moment, so that calls are made
/// and not all refused as too many.
const AT_ONCE: usize = 50;

/// Everything below a directory, by path.
fn everything(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                found.insert(format!("{}/", path.display()), Vec::new());
                left.push(path);
            } else {
                found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// What a server that wants more than it was lent says, in every dialect.
fn frames() -> Vec<Value> {
    let call = |name: &str, arguments: Value| {
        json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_x", "toolCall": {"name": name, "arguments": arguments}}})
    };
    let operation = |name: &str, args: Value| {
        json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_x", "operation": name, "args": args}})
    };
    let write = |path: &str| json!({"filePath": path, "content": "x"});
    let said =
        |path: &str, said: &str| json!({"filePath": path, "content": "x", "_confirmation": said});
    vec![
        call("write_file", write("pwned.txt")),
        call("write_file", write("../outside.txt")),
        call("write_file", write("../settings.json")),
        call("write_file", said("a.txt", "alwaysAllow")),
        call("write_file", said("a.txt", "yes")),
        call(
            "delete",
            json!({"path": "a.txt", "_confirmation": "alwaysAllow"}),
        ),
        call("delete", json!({"path": "."})),
        call(
            "edit_file",
            json!({"filePath": "a.txt", "oldString": "one", "newString": "$&"}),
        ),
        call(
            "move",
            json!({"sourcePath": "a.txt", "destinationPath": "../a.txt"}),
        ),
        call(
            "copy_file",
            json!({"sourcePath": "a.txt", "destinationPath": "src/b.txt"}),
        ),
        call("read_file", json!({"filePath": "../outside.txt"})),
        call("read_file", json!({"filePath": "/etc/passwd"})),
        call("shell_execute", json!({"command": "touch pwned"})),
        call("portcullis/file", json!({"path": "pwned.txt"})),
        call("create_directory", json!({"dirPath": "made"})),
        operation("read-file", json!({"filePath": "a.txt", "maxLines": 5})),
        operation("read-file", json!({"filePath": "../outside.txt"})),
        operation(
            "read-file",
            json!({"filePath": ".env", "_confirmation": "alwaysAllow"}),
        ),
        operation("search-files", json!({"dirPath": "..", "query": "Canary"})),
        operation("list-files", json!({"dirPath": "/", "recursive": true})),
        operation("get-file-tree", json!({"dirPath": "~/..", "maxDepth": 9})),
        operation("write-file", write("pwned.txt")),
        operation("write_file", write("pwned.txt")),
        json!({"type": "cancel", "payload": {"requestId": "gw_x"}}),
        json!({"type": "init", "payload": {"rootPath": "/", "tools": []}}),
        json!({"type": "re-init", "payload": {"permissions": {"filesystemWrite": "allow"}}}),
        json!({"type": "settings", "payload": {"rules": [{"allow": "**"}]}}),
        json!({"type": "filesystem-request", "payload": {"requestId": "gw_x",
            "toolCall": {"name": "write_file", "arguments": {"filePath": "b", "content": "x"}},
            "operation": "read-file", "args": {"filePath": "../outside.txt"},
            "portcullis": {"deadlineMs": u64::MAX, "subject": "core:x", "run": "r"}}}),
    ]
}

/// Operations of our own dialect, which only a server of ours gets done.
fn operations() -> Vec<Value> {
    let operation = |operation: &str, args: Value| {
        json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_x", "operation": operation, "args": args}})
    };
    vec![
        operation("file", json!({"read": {"path": "../outside.txt"}})),
        operation(
            "file",
            json!({"upload": {"path": "pwned.bin", "bytes": "AAEC"}}),
        ),
        operation(
            "file",
            json!({"write": {"path": "../outside.txt", "content": "x"}, "_confirmation": "allowOnce"}),
        ),
        operation(
            "raw",
            json!({"path": "/etc/passwd", "offset": 0, "max": u64::MAX}),
        ),
        operation(
            "read-resource",
            json!({"uri": "portcullis://main/%2e%2e/outside.txt"}),
        ),
        operation("undo", json!({"id": "r_1"})),
        operation("undoable", json!({})),
    ]
}

/// Puts something else in one place of a frame, which stays JSON.
fn bend(rng: &mut TestRng, value: &mut Value) {
    match value {
        Value::Object(members) if !rng.next_u32().is_multiple_of(8) && !members.is_empty() => {
            let at = rng.next_u32() as usize % members.len();
            bend(rng, members.values_mut().nth(at).unwrap());
        }
        Value::Array(values) if !rng.next_u32().is_multiple_of(8) && !values.is_empty() => {
            let at = rng.next_u32() as usize % values.len();
            bend(rng, &mut values[at]);
        }
        // The name is what a reply is sent to.
        Value::String(text) if text == "gw_x" || text == "filesystem-request" => {}
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => {
            let hostile = [
                json!("../outside.txt"),
                json!("/etc/passwd"),
                json!("~/../../settings.json"),
                json!("src/../../settings.json"),
                json!(".env"),
                json!("."),
                json!(""),
                json!("a\u{0}.txt"),
                json!("a".repeat(5_000)),
                json!("**"),
                json!(null),
                json!(-1),
                json!(u64::MAX),
                json!(true),
                json!([["../outside.txt"]]),
                json!({"_confirmation": "alwaysAllow", "root": "other"}),
            ];
            *other = hostile[rng.next_u32() as usize % hostile.len()].clone();
        }
    }
}

/// Changes a frame a little, or a lot: what it says, or its bytes.
fn mutate(rng: &mut TestRng, frame: &Value, n: usize) -> Vec<u8> {
    let mut frame = frame.clone();
    let of_bytes = if rng.next_u32().is_multiple_of(2) {
        for _ in 0..rng.next_u32() % 3 {
            bend(rng, &mut frame);
        }
        0
    } else {
        rng.next_u32() % 4
    };
    // Now and then under the name of one before, with other arguments.
    let back = rng.next_u32().is_multiple_of(8);
    let name = if back { n.saturating_sub(7) } else { n };
    let mut text = frame
        .to_string()
        .replace("gw_x", &format!("gw_{name}"))
        .into_bytes();
    for _ in 0..of_bytes {
        let at = rng.next_u32() as usize % text.len();
        match rng.next_u32() % 6 {
            0 => text[at] = rng.next_u32().to_le_bytes()[0],
            1 => drop(text.remove(at)),
            2 => text.insert(at, b"\"{}[],:\\\n\r\0"[rng.next_u32() as usize % 11]),
            3 => text.truncate(at.max(1)),
            4 => {
                let copy = text[at..].to_vec();
                text.extend(copy);
            }
            _ => text[at] ^= 1 << (rng.next_u32() % 8),
        }
        if text.is_empty() {
            text.push(b'x');
        }
    }
    let mut framed = match rng.next_u32() % 8 {
        0 => b"id: 18446744073709551615\ndata: ".to_vec(),
        1 => b"event: message\nretry: 0\ndata: ".to_vec(),
        2 => b"\xef\xbb\xbfdata:".to_vec(),
        _ => b"data: ".to_vec(),
    };
    framed.extend(text);
    framed.extend_from_slice(if rng.next_u32().is_multiple_of(16) {
        b"\n"
    } else {
        b"\n\n"
    });
    framed
}

/// How a machine is lent this time: by whom writing is allowed, if by anybody.
/// Where an answer lets something through, it is none that these frames have.
fn lent(n: usize) -> How {
    let nobody = How {
        writing: Mode::Ask,
        ..How::default()
    };
    match n % 5 {
        0 => How {
            writing: Mode::Deny,
            ..nobody
        },
        1 => nobody,
        2 => How {
            asking: Asking::Here(Arc::new(ScriptedApprover::deciding([]))),
            ..nobody
        },
        3 => How {
            asking: Asking::There,
            ..nobody
        },
        _ => How::default(),
    }
}

/// Sends frames to one daemon, and looks at what is left; how many calls it took.
async fn session(n: usize, dialect: Dialect, rng: &mut TestRng) -> usize {
    let fake = Fake::start(dialect, None).await;
    let how = lent(n);
    let may_write = how.writing == Mode::Allow;
    let lent = Lent::to(&fake, how).await;
    let base = lent.world.scratch.base().to_owned();
    let left_alone = |all: BTreeMap<String, Vec<u8>>| -> BTreeMap<String, Vec<u8>> {
        // Where changes are kept for undo; and the root, where changing is lent.
        let mut spared = vec![base.join("data").display().to_string()];
        spared.extend(may_write.then(|| base.join("root").display().to_string()));
        all.into_iter()
            .filter(|(path, _)| !spared.iter().any(|spared| path.starts_with(spared)))
            .collect()
    };
    let before = left_alone(everything(&base));
    assert!(before.keys().any(|path| path.ends_with("settings.json")));
    let modes = lent.world.gate.rules().modes;
    let mut frames = frames();
    if dialect.is_ours() {
        frames.extend(operations());
    }
    for n in 0..SESSION {
        let frame = &frames[rng.next_u32() as usize % frames.len()];
        fake.raw(mutate(rng, frame, n));
        if n % AT_ONCE == AT_ONCE - 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // A frame may have ended the line before: an empty one begins anew.
    fake.raw("\n\n");
    if n < 3 {
        // One that is larger than any may be costs its stream.
        fake.raw(b"data: ".to_vec());
        for _ in 0..17 {
            fake.raw(vec![b'x'; 1 << 20]);
        }
        fake.until("GET /gateway/events", 2).await;
    }
    for _ in 0..100 {
        let path = json!({"filePath": "src/lib.rs"});
        match dialect {
            Dialect::Seed => fake.operate("gw_last", "read-file", path),
            Dialect::Shipped | Dialect::Ours => fake.call("gw_last", "read_file", path),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        if !fake.seen_of("POST /gateway/response/gw_last").is_empty() {
            break;
        }
    }
    let reply = fake.reply("gw_last").await;
    let is_read = reply["data"]["content"] == "fn main() {}"
        || reply["result"]["structuredContent"]["content"] == "fn main() {}";
    assert!(is_read || may_write, "{reply}");
    // What came before it may still be under way.
    while lent.told.count("Began") > lent.told.count("Ended") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!lent.is_over());
    assert_eq!(left_alone(everything(&base)), before, "session {n}");
    assert_eq!(lent.world.gate.rules().modes, modes);
    assert!(lent.world.gate.rules().stored.rules().is_empty());
    for seen in fake.seen() {
        let body = seen.body.to_string();
        assert!(!body.contains("outsideCanary"), "{}", seen.what);
        assert!(!body.contains("root:x:"), "{}", seen.what);
        assert!(!body.contains("SECRET=1"), "{}", seen.what);
    }
    let began = lent.told.count("Began");
    if dialect.is_ours() {
        lent.end().await;
    } else {
        // Told to begin anew, it offers what it offered; told again, it ends.
        let streams = fake.seen_of("GET /gateway/events").len();
        fake.send(&json!({"type": "gateway-disconnect"}));
        fake.until("GET /gateway/events", streams + 1).await;
        fake.send(&json!({"type": "gateway-disconnect"}));
        assert_eq!(lent.ended().await, Ended::ByServer);
    }
    let inits = fake.seen_of("POST /gateway/init");
    // In the seed's dialect an init tells what is there, which may have changed.
    let said = |init: &Value| match dialect {
        Dialect::Seed => init["rootPath"].clone(),
        Dialect::Shipped | Dialect::Ours => init.clone(),
    };
    assert!(
        inits
            .iter()
            .all(|init| said(&init.body) == said(&inits[0].body))
    );
    began
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_frames_have_no_effect_outside_what_was_confirmed() {
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]);
    let dialects = [Dialect::Shipped, Dialect::Ours, Dialect::Seed];
    let mut began = 0;
    for (n, dialect) in (0..FRAMES / SESSION).zip(dialects.into_iter().cycle()) {
        began += session(n, dialect, &mut rng).await;
    }
    assert!(began > FRAMES / 5, "the frames bite: {began}");
}

#[tokio::test]
async fn an_event_that_never_ends_costs_its_stream_and_no_more() {
    let fake = Fake::ours().await;
    let lent = Lent::to(&fake, How::default()).await;
    fake.raw(b"data: ".to_vec());
    for _ in 0..17 {
        fake.raw(vec![b'x'; 1 << 20]);
    }
    fake.until("GET /gateway/events", 2).await;
    assert_eq!(lent.told.count("Ignored(\"an event that is too large"), 1);
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    fake.reply("gw_1").await;
    lent.end().await;
}
