//! The log of a server: a line a request, and nothing in it that is secret.

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::served::{Served, token};

/// Which of `secrets` are in `log`.
fn found<'a>(log: &str, secrets: &'a [String]) -> Vec<&'a String> {
    secrets
        .iter()
        .filter(|secret| log.contains(secret.as_str()))
        .collect()
}

/// Sends everything that is secret in every place a request has for it; what
/// must not be logged.
pub(crate) fn say_secrets(sandbox: &Sandbox, server: &Served) -> Vec<String> {
    let link = server.banner.split_once("/sign-in#").unwrap().1;
    let link = link.split_whitespace().next().unwrap().to_owned();
    let signed = server
        .ask("POST /sign-in", &[], &format!("{{\"link\":\"{link}\"}}"))
        .with(200);
    let cookie = signed.field("set-cookie").unwrap();
    let cookie = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
    let token = token(sandbox, "fs:read,fs:write,audit");
    let wrong = format!("{}x", token.get(..token.len() - 1).unwrap());
    let (file, words, asked) = ("pathCanary.txt", "contentCanary", "queryCanary");
    sandbox.file(file, words);

    server.get(&token, &format!("/file?path={file}")).with(200);
    server
        .get(&token, &format!("/search?query={asked}&path=."))
        .with(200);
    server.get(&token, &format!("/file?path={asked}")).with(404);
    server.get(&wrong, &format!("/file?path={file}")).with(401);
    server
        .get(&token, &format!("/{token}/{file}?token={link}"))
        .with(404);
    let signed_in = format!("portcullis_signin={cookie}");
    server
        .ask(
            &format!("GET /stat?path={file}"),
            &[("cookie", &signed_in)],
            "",
        )
        .with(200);
    let body = format!("{{\"path\":\"new.txt\",\"content\":\"{words}\",\"mode\":\"create\"}}");
    server.post(&token, "/file/write", &body).with(201);
    let rpc = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"read_file","arguments":{{"filePath":"{file}"}}}}}}"#
    );
    server.post(&token, "/mcp", &rpc);
    // As the name of a request, or around one.
    for name in [&token, &link, &cookie] {
        let bearer = format!("Bearer {token}");
        let fields = [("authorization", bearer.as_str()), ("x-request-id", name)];
        let reply = server.ask("GET /status", &fields, "").with(200);
        assert_ne!(reply.field("x-request-id"), Some(name.as_str()));
    }
    let mut secrets: Vec<String> = [file, words, asked].map(str::to_owned).to_vec();
    for credential in [&token, &link, &cookie] {
        // Each ends in its secret; a part of that is too much.
        secrets.push(credential.get(credential.len() - 16..).unwrap().to_owned());
    }
    secrets
}

#[test]
fn nothing_secret_is_in_the_log_of_a_server() {
    for format in ["json", "text"] {
        let sandbox = Sandbox::new();
        let args = ["--write", "--log-level", "debug", "--log-format", format];
        let server = Served::start(&sandbox, &args);
        let secrets = say_secrets(&sandbox, &server);
        let log = server.end();
        assert_eq!(found(&log, &secrets), Vec::<&String>::new(), "{log}");
        // It is about these requests, and the search would find a secret.
        assert!(log.matches("GET /status").count() == 3, "{log}");
        for secret in &secrets {
            let leaky = format!("{log}{secret}x\n");
            assert_eq!(found(&leaky, &secrets), [secret]);
        }
    }
}

fn requests(log: &str) -> Vec<Value> {
    log.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")))
        .filter(|line| line["message"] == "request")
        .collect()
}

#[test]
fn a_request_is_one_line_under_the_name_its_reply_has() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "--dir", ".", "--port", "0"]);
    command
        .env("PORTCULLIS_LOG_FORMAT", "json")
        .env("PORTCULLIS_LOG_LEVEL", "info");
    let server = Served::of(&sandbox, command);
    let token = token(&sandbox, "fs:read");
    let bearer = format!("Bearer {token}");
    let named = [
        ("authorization", bearer.as_str()),
        ("x-request-id", "run-7:a"),
    ];
    let own = server.ask("GET /file?path=a.txt", &named, "").with(200);
    assert_eq!(own.field("x-request-id"), Some("run-7:a"));
    let made = server.ask("GET /nowhere", &[("x-request-id", "not a name")], "");
    let made = made.with(401).field("x-request-id").unwrap().to_owned();
    assert!(made.starts_with("h_"), "{made}");
    server.ask("GET /health", &[], "").with(200);
    let lines = requests(&server.end());
    assert_eq!(lines.len(), 2, "a probe is not worth a line: {lines:?}");
    let line = &lines[0];
    assert_eq!(line["requestId"], "run-7:a");
    assert_eq!(line["level"], "info");
    assert_eq!(line["route"], "GET /file");
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes"], own.body.len());
    let who = format!("token:admin/{}", token.split('_').nth(1).unwrap());
    assert_eq!(line["principal"], who);
    assert!(line["durationUs"].as_u64().unwrap() > 0);
    assert_eq!(line["attempt"], own.field("portcullis-request-id").unwrap());
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(lines[1]["requestId"], made);
    assert_eq!(lines[1]["principal"], Value::Null);
    assert_eq!(lines[1]["route"], Value::Null);
    // The record has the name the client chose, beside the attempt's own.
    let record = sandbox
        .run(&["audit", "export", "--format", "jsonl"])
        .with(0);
    assert!(
        record.out.contains(r#""clientRequestId":"run-7:a""#),
        "{}",
        record.out
    );
}

#[test]
fn a_format_that_is_none_is_said_to_be_none() {
    let sandbox = Sandbox::new();
    let came: crate::sandbox::Came = sandbox
        .command(&["serve", "--port", "0"])
        .env("PORTCULLIS_LOG_FORMAT", "xml")
        .output()
        .unwrap()
        .into();
    came.with(2)
        .err_has("PORTCULLIS_LOG_FORMAT")
        .err_has("text or json");
}

#[test]
fn the_user_a_first_start_makes_is_on_the_record() {
    let sandbox = Sandbox::new();
    let server = Served::start(&sandbox, &[]);
    let link = server.banner.split_once("/sign-in#").unwrap().1;
    let link = link.split_whitespace().next().unwrap().to_owned();
    server.end();
    let exported = sandbox.run(&["audit", "export"]).with(0).out;
    let made = |line: &&str| line.contains("\"alleged\":\"user add admin ");
    assert_eq!(exported.lines().filter(made).count(), 2, "{exported}");
    assert!(link.len() > 10 && !exported.contains(&link));
    // Only the first one makes somebody.
    Served::start(&sandbox, &[]).end();
    let exported = sandbox.run(&["audit", "export"]).with(0).out;
    assert_eq!(exported.lines().filter(made).count(), 2, "{exported}");
}
