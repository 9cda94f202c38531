//! What is read here is what rmcp would have read.

use serde_json::json;

use super::*;

fn by_rmcp(line: &[u8]) -> Received {
    serde_json::from_slice(line).unwrap()
}

/// Metadata stands beside a request, and so is looked at by itself.
fn meta(message: &Received) -> Option<rmcp::model::RequestMetaObject> {
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &request.request
    {
        return call.extensions.get().cloned();
    }
    panic!("no call: {message:?}")
}

#[test]
fn a_call_is_read_as_rmcp_reads_it() {
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stat", "arguments": {"path": "a\n\"ü"}}}),
        json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "stat"}}),
        json!({"jsonrpc": "2.0", "id": 1.0, "method": "tools/call", "params": {"name": "stat", "arguments": null, "_meta": null}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "stat", "arguments": {}, "unknown": 1,
            "_meta": {"progressToken": 7, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "stat", "requestState": "s",
            "inputResponses": {"approval": {"action": "accept", "content": {"decision": "allow_once"}}}}}),
    ] {
        let line = serde_json::to_vec(&line).unwrap();
        let shown = String::from_utf8_lossy(&line);
        let ours = call(&line).unwrap_or_else(|| panic!("not read: {shown}"));
        let written = |message| serde_json::to_value(message).unwrap();
        assert_eq!(written(&ours), written(&by_rmcp(&line)), "{shown}");
        assert_eq!(meta(&ours), meta(&by_rmcp(&line)), "{shown}");
    }
}

#[test]
fn whatever_is_not_plainly_a_call_is_left_to_rmcp() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"stat"}}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"stat"}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"stat"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"stat"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"stat"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat","arguments":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat"},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"stat"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat"}}]"#,
        "\u{feff}{}",
        "",
    ] {
        assert!(call(line.as_bytes()).is_none(), "{line}");
    }
}

#[test]
fn noise_is_passed_over_and_what_is_no_message_is_told() {
    for noise in ["", "\r", "hello", "{"] {
        assert!(matches!(message(noise.as_bytes()), Ok(None)), "{noise}");
    }
    assert!(message(br#"{"jsonrpc":"2.0","id":1}"#).is_err());
    let framed = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r";
    assert!(matches!(message(framed.as_bytes()), Ok(Some(_))));
}

#[test]
fn lines_come_whole_however_they_arrive_and_too_long_ones_not_at_all() {
    let mut text = b"one\n\ntwo\r\n".to_vec();
    text.extend(vec![b'x'; MAX_LINE]);
    text.extend(b"\nthree\n");
    text.extend(vec![b'y'; MAX_LINE - 1]);
    text.extend(b"\nfour");
    for step in [997, READ, text.len()] {
        let mut incoming = Incoming::default();
        let mut lines = Vec::new();
        for part in text.chunks(step) {
            incoming.room().extend_from_slice(part);
            while let Some(line) = incoming.next_line() {
                let end = line.len().min(5);
                lines.push((line.len(), line[..end].to_vec()));
            }
        }
        let want: Vec<(usize, Vec<u8>)> = vec![
            (3, b"one".to_vec()),
            (0, Vec::new()),
            (4, b"two\r".to_vec()),
            (5, b"three".to_vec()),
            (MAX_LINE - 1, b"yyyyy".to_vec()),
        ];
        assert_eq!(lines, want, "{step} bytes at a time");
    }
}
