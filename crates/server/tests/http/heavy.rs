//! JSON that would take many times its length: whatever it is sent to, the process
//! grows by a bounded amount, and others are answered meanwhile.
//!
//! Each shape is a test of its own, and so a process of its own: what an allocator
//! keeps of one does not hide the next.

use std::thread;

use portcullis_proto::{Mode, Scope};
use serde_json::Value;

use crate::client::Ask;
use crate::floods::{forget_peak, peak_kib};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];
/// The largest message.
const LARGEST: usize = 16 << 20;
/// The largest JSON body of other routes.
const LARGEST_BODY: usize = 10 << 20;
/// What one message may make the process grow by. Client and server are one process
/// here: what the client sends was there before.
const MAX_GROWTH_KIB: u64 = 128 * 1024;

/// `before`, as many `item` with commas as fit, `after`.
fn filled(before: &str, item: &str, after: &str, length: usize) -> Vec<u8> {
    let room = length - before.len() - after.len() - item.len();
    let items = item.to_owned() + &format!(",{item}").repeat(room / (item.len() + 1));
    [before, &items, after].concat().into_bytes()
}

/// What is sent to `/mcp` with `arguments` written so.
fn call(before: &str, item: &str, after: &str) -> Vec<u8> {
    let head = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},"name":"stat","arguments":{"#;
    filled(
        &format!("{head}{before}"),
        item,
        &format!("{after}}}}}}}"),
        LARGEST,
    )
}

fn mcp(token: &str, body: Vec<u8>) -> Ask {
    Ask::new("POST", "/mcp")
        .bearer(token)
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
        .header("Mcp-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "stat")
        .body(body)
}

/// Sends what is written already; the status and what was said.
fn send(server: &Running, wire: &[u8]) -> (u16, String) {
    let mut connection = server.connect();
    // Who is answered before it has said all may be cut off; the answer is there.
    drop(connection.try_send(wire));
    let answer = connection.answer().unwrap();
    (
        answer.status,
        String::from_utf8_lossy(&answer.body).into_owned(),
    )
}

/// One message: what it is answered, and by how much the process grew.
#[track_caller]
fn check(make: impl FnOnce(&str) -> Ask, want: u16, said: &str) {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let token = world.token("ada", &AGENT);
    assert_eq!(server.ask(&Ask::get("/health")).status, 200);
    let wire = make(&token).wire(server.address);
    forget_peak();
    let before = peak_kib();
    let (status, body) = send(&server, &wire);
    let grown = peak_kib() - before;
    let shown: String = body.chars().take(2_000).collect();
    assert_eq!(status, want, "{shown}");
    assert!(shown.contains(said), "{shown}");
    assert!(grown <= MAX_GROWTH_KIB, "{} MiB", grown >> 10);
    println!("grown by {} MiB", grown >> 10);
}

#[test]
fn a_message_of_many_small_objects_is_too_large() {
    let many = call(r#""x":["#, r#"{"":0}"#, "]");
    check(|token| mcp(token, many), 413, r#""reason":"too_large""#);
}

#[test]
fn a_message_of_many_numbers_is_too_large() {
    let many = call(r#""x":["#, "0", "]");
    check(|token| mcp(token, many), 413, r#""reason":"too_large""#);
}

#[test]
fn a_message_of_many_empty_lists_is_too_large() {
    let many = call(r#""x":["#, "[[]]", "]");
    check(|token| mcp(token, many), 413, r#""reason":"too_large""#);
}

#[test]
fn the_heaviest_message_that_is_read_grows_the_process_little() {
    // Objects in objects up to what may be built, and text up to what may be sent.
    let nested = format!("{}0{}", "{\"\":".repeat(100), "}".repeat(100));
    let objects = vec![nested; 600].join(",");
    let text = call(
        &format!(r#""x":[{objects}],"y":["#),
        &format!("\"\\n{}\"", "y".repeat(1 << 20)),
        "]",
    );
    check(|token| mcp(token, text), 200, "unknown field `x`");
}

#[test]
fn a_message_with_one_long_text_grows_the_process_little() {
    let text = format!("\"\\n{}\"", "y".repeat(LARGEST - 1_000));
    let text = call("\"path\":", &text, "");
    check(|token| mcp(token, text), 200, "\"isError\":true");
}

#[test]
fn metadata_initialize_and_replies_are_bounded_too() {
    let beside = [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat","_meta":{"x":["#,
            "]}}}",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"experimental":{"x":["#,
            "]}}}}",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"content":["#, "]}}"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":["#,
            "]}",
        ),
        ("[", "]"),
    ];
    let long = format!("\"\\n{}\"", "y".repeat(1 << 20));
    for (before, after) in beside {
        for item in ["{\"\":0}", "0", &long] {
            let body = filled(before, item, after, LARGEST);
            check(|token| mcp(token, body), 413, r#""reason":"too_large""#);
        }
    }
}

#[test]
fn a_rest_body_of_many_values_is_too_large() {
    let body = filled(r#"{"path":["#, r#"{"":0}"#, "]}", LARGEST_BODY);
    let ask = |token: &str| {
        Ask::new("POST", "/file/write")
            .bearer(token)
            .header("Content-Type", "application/json")
            .body(body)
    };
    check(ask, 413, "too_large");
}

/// What many messages at once may make the process grow by: bodies of one credential
/// have 64 MiB, what is built of them has as much, and each is there twice for a moment.
const MAX_GROWTH_OF_MANY_KIB: u64 = 320 * 1024;

#[test]
fn many_heavy_messages_at_once_stay_within_the_room_for_bodies() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let token = world.token("ada", &AGENT);
    // Small enough that many are let in, and as heavy as one may be.
    let nested = format!("{}0{}", "{\"\":".repeat(100), "}".repeat(100));
    let objects = vec![nested; 600].join(",");
    let arguments = format!(r#""x":[{objects}]"#);
    let head = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},"name":"stat","arguments":{"#;
    let body = format!("{head}{arguments}}}}}}}").into_bytes();
    let wire = mcp(&token, body).wire(server.address);
    assert_eq!(server.ask(&Ask::get("/health")).status, 200);
    forget_peak();
    let before = peak_kib();
    thread::scope(|scope| {
        let sending: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| send(&server, &wire)))
            .collect();
        // Others are answered meanwhile.
        assert_eq!(server.ask(&Ask::get("/health")).status, 200);
        for sent in sending {
            let (status, body) = sent.join().unwrap();
            assert!(matches!(status, 200 | 429), "{status}: {body}");
            let told: Value = serde_json::from_str(&body).unwrap();
            assert!(told.get("result").or(told.get("error")).is_some());
        }
    });
    let grown = peak_kib() - before;
    assert!(grown <= MAX_GROWTH_OF_MANY_KIB, "{} MiB", grown >> 10);
}

#[test]
fn json_in_a_text_is_not_parsed_in_a_message() {
    let before = r#""x":{"$serde_json::private::RawValue":"["#;
    let body = call(before, "[0]", r#"]"}"#);
    check(|token| mcp(token, body), 413, "reserved name");
}

#[test]
fn json_in_a_text_is_not_parsed_for_who_signs_in() {
    let text = r#"{"link":{"$serde_json::private::RawValue":"[[0]]"}}"#;
    let body = text.as_bytes().to_vec();
    let sign_in = Ask::new("POST", "/sign-in")
        .header("Content-Type", "application/json")
        .body(body);
    let world = World::new(Mode::Allow);
    let server = world.start();
    let answer = server.ask(&sign_in);
    assert!(
        answer.status >= 400 && answer.status < 500,
        "{}",
        answer.text()
    );
    assert!(answer.text().contains("reserved name"), "{}", answer.text());
}
