//! Lines of JSON that would take many times their length, on a pipe.

use portcullis_proto::Mode;
use serde_json::json;

use crate::client::World;

/// The longest line.
const LONGEST: usize = (16 << 20) - 1;
/// What one line may make the process grow by; the line itself was there before.
const MAX_GROWTH_KIB: u64 = 128 * 1024;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// `before`, as many `item` with commas as fit, `after`.
fn filled(before: &str, item: &str, after: &str) -> Vec<u8> {
    let room = LONGEST - before.len() - after.len() - item.len();
    let items = item.to_owned() + &format!(",{item}").repeat(room / (item.len() + 1));
    [before, &items, after].concat().into_bytes()
}

/// One line: the reason it is refused for, or none where it is a call that fails.
async fn check(before: &str, item: &str, after: &str, id: Option<u64>, reason: &str) {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    let line = filled(before, item, after);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let peak = peak_kib();
    client.send_line(&line).await;
    let told = client.receive().await;
    let grown = peak_kib() - peak;
    assert_eq!(told["id"], json!(id), "{told}");
    let why = told.pointer("/error/data/reason");
    let why = why.or(told.pointer("/result/structuredContent/reason"));
    assert_eq!(why.unwrap(), reason, "{told}");
    assert!(grown <= MAX_GROWTH_KIB, "{} MiB", grown >> 10);
    // The pipe goes on.
    let read = client.call("stat", json!({"path": "src"})).await;
    assert_ne!(read["isError"], true, "{read}");
}

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"stat","arguments":{"x":["#;

#[tokio::test]
async fn a_line_of_many_small_objects_is_too_large() {
    check(CALL, r#"{"":0}"#, "]}}}", Some(7), "too_large").await;
}

#[tokio::test]
async fn a_line_with_long_texts_in_arguments_grows_the_process_little() {
    let long = format!("\"\\n{}\"", "y".repeat(1 << 20));
    check(CALL, &long, "]}}}", Some(7), "bad_arguments").await;
}

#[tokio::test]
async fn a_line_with_much_beside_its_arguments_is_too_large() {
    let long = format!("\"\\n{}\"", "y".repeat(1 << 20));
    for item in [r#"{"":0}"#, "0", &long] {
        let before = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"stat","_meta":{"x":["#;
        check(before, item, "]}}}", Some(7), "too_large").await;
        let before = r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":["#;
        check(before, item, "]}}", Some(7), "too_large").await;
        // A reply to us is no request: nothing is told under its id.
        let before = r#"{"jsonrpc":"2.0","id":7,"result":{"x":["#;
        check(before, item, "]}}", None, "too_large").await;
        check("[", item, "]", None, "too_large").await;
    }
}

#[tokio::test]
async fn an_id_that_is_a_tree_is_not_built_to_be_repeated() {
    let before = r#"{"jsonrpc":"2.0","method":"ping","id":["#;
    check(before, r#"{"":0}"#, "]}", None, "too_large").await;
}

#[tokio::test]
async fn json_in_a_text_is_not_parsed_in_a_line() {
    let before = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"stat","arguments":{"x":{"$serde_json::private::RawValue":"["#;
    check(before, "[0]", r#"]"}}}}"#, Some(7), "bad_arguments").await;
    let small = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"stat","arguments":{"x":{"$serde_json::private::RawValue":"[0]"}}}}"#;
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    client.send_line(small.as_bytes()).await;
    let told = client.receive().await;
    assert_eq!(told["error"]["data"]["reason"], "bad_arguments", "{told}");
}
