//! Frames no honest server sends: none has an effect outside what was confirmed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use portcullis_proto::Mode;
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::kit::{How, Lent};

/// How many frames are sent.
const FRAMES: usize = 12_000;

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

fn frames() -> Vec<Value> {
    let call = |name: &str, arguments: Value| {
        json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_x", "toolCall": {"name": name, "arguments": arguments}}})
    };
    vec![
        call(
            "write_file",
            json!({"filePath": "pwned.txt", "content": "x"}),
        ),
        call(
            "write_file",
            json!({"filePath": "../outside.txt", "content": "x"}),
        ),
        call(
            "write_file",
            json!({"filePath": "a.txt", "content": "x", "_confirmation": "alwaysAllow"}),
        ),
        call(
            "delete",
            json!({"path": "a.txt", "_confirmation": "allowForSession"}),
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
        json!({"type": "cancel", "payload": {"requestId": "gw_x"}}),
        json!({"type": "init", "payload": {"rootPath": "/", "tools": []}}),
        json!({"type": "filesystem-request", "payload": {"requestId": "gw_y",
            "operation": "write-file", "args": {"filePath": "pwned.txt", "content": "x"}}}),
        json!({"type": "filesystem-request", "payload": {"requestId": "gw_z",
            "toolCall": {"name": "write_file", "arguments": {"filePath": "b", "content": "x"}},
            "portcullis": {"deadlineMs": u64::MAX, "subject": "core:x", "run": "r"}}}),
    ]
}

/// Changes a frame a little, or a lot.
fn mutate(rng: &mut TestRng, frame: &Value, n: usize) -> Vec<u8> {
    let mut text = frame
        .to_string()
        .replace("gw_x", &format!("gw_{n}"))
        .into_bytes();
    for _ in 0..rng.next_u32() % 4 {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_thousand_frames_have_no_effect_outside_what_was_confirmed() {
    for ours in [false, true] {
        let fake = if ours {
            Fake::ours().await
        } else {
            Fake::n8n().await
        };
        // Reading is lent; writing is asked about, and nobody is there.
        let how = How {
            writing: Mode::Ask,
            ..How::default()
        };
        let lent = Lent::to(&fake, how).await;
        lent.world.lines.forget();
        let base = lent.world.scratch.base().to_owned();
        let outside = |all: BTreeMap<String, Vec<u8>>| -> BTreeMap<String, Vec<u8>> {
            let ours = base.join("data").display().to_string();
            all.into_iter()
                .filter(|(path, _)| !path.starts_with(&ours))
                .collect()
        };
        let before = outside(everything(&base));
        let modes = lent.world.gate.rules().modes;
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[u8::from(ours) + 1; 32]);
        let frames = frames();
        for n in 0..FRAMES / 2 {
            let frame = &frames[rng.next_u32() as usize % frames.len()];
            fake.raw(mutate(&mut rng, frame, n));
            if n % 50 == 49 {
                // So that calls are made, and not all refused as too many.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        // A frame may have ended the line before: an empty one begins anew.
        fake.raw("\n\n");
        let last = format!("gw_last{}", u8::from(ours));
        for _ in 0..100 {
            fake.call(&last, "read_file", json!({"filePath": "a.txt"}));
            tokio::time::sleep(Duration::from_millis(50)).await;
            if !fake
                .seen_of(&format!("POST /gateway/response/{last}"))
                .is_empty()
            {
                break;
            }
        }
        let reply = fake.reply(&last).await;
        assert_eq!(reply["result"]["structuredContent"]["content"], "one");
        assert!(!lent.is_over());
        assert_eq!(outside(everything(&base)), before);
        assert_eq!(lent.world.gate.rules().modes, modes);
        assert!(lent.world.gate.rules().stored.rules().is_empty());
        for seen in fake.seen() {
            let body = seen.body.to_string();
            assert!(!body.contains("outsideCanary"), "{}", seen.what);
            assert!(!body.contains("root:x:"), "{}", seen.what);
        }
        let inits = fake.seen_of("POST /gateway/init");
        assert!(inits.iter().all(|init| init.body == inits[0].body));
        assert!(lent.told.count("Began") > 1000, "the frames bite");
        lent.end().await;
    }
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
