//! A server of ours and a daemon of ours, each a process of its own.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::flags::{Daemon, auto};
use crate::sandbox::Sandbox;
use crate::served::{Served, token};

/// Calls a tool as an agent does; its result.
fn call(server: &Served, token: &str, tool: &str, arguments: &Value) -> Value {
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta}});
    let bearer = format!("Bearer {token}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let answer = server
        .ask("POST /mcp", &fields, &body.to_string())
        .with(200);
    answer.json()["result"].take()
}

/// A server, and what to type to lend a machine to it.
fn served(server: &Sandbox, port: &str) -> (Served, String) {
    let command = server.command(&["serve", "--dir", ".", "--port", port]);
    let served = Served::of(server, command);
    let url = format!("http://{}", served.address());
    (served, url)
}

fn pairing(server: &Sandbox, url: &str) -> String {
    let came = server.run(&["link", "create", "--url", url]).with(0);
    let mut words = came.out.split_whitespace();
    let token = words.find(|word| word.starts_with("gw_"));
    token.unwrap().to_owned()
}

#[test]
fn an_agent_of_the_server_works_with_the_lent_machine_through_a_restart() {
    let (there, here) = (Sandbox::new(), Sandbox::new());
    here.file("laptop.txt", "of the laptop");
    let (server, url) = served(&there, "0");
    let pairing = pairing(&there, &url);
    let mut args = auto(&url, &["--permission-filesystem-write", "allow"]);
    args[2] = &pairing;
    let daemon = Daemon::start(&here, &args, &[]);
    let agent = token(&there, "fs:read,fs:write");
    let read = json!({"filePath": "laptop.txt"});
    let until_linked = |server: &Served| {
        let began = Instant::now();
        loop {
            let result = call(server, &agent, "read_file", &read);
            if result["structuredContent"]["content"] == "of the laptop" {
                return;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "{result}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until_linked(&server);
    let append = json!({"filePath": "log.txt", "content": "x"});
    call(&server, &agent, "append_file", &append);
    // More than goes in one piece.
    here.file("big.txt", &"y".repeat(1 << 20));
    let big = json!({"filePath": "big.txt", "byteOffset": 0, "byteLength": 1 << 20});
    let result = call(&server, &agent, "read_file", &big);
    let bytes = result["structuredContent"]["base64"].as_str().unwrap();
    assert!(bytes.len() > 1 << 20);
    let port = url.rsplit(':').next().unwrap().to_owned();
    drop(server);
    let (server, _) = served(&there, &port);
    until_linked(&server);
    call(&server, &agent, "append_file", &append);
    assert_eq!(here.text("log.txt"), "xx");
    assert!(!there.dir().join("log.txt").exists());
    daemon.end().with(0);
}
