//! The OpenAPI document that is checked in is the one that is served, and what
//! routes answer has the members it tells.

use std::collections::BTreeSet;
use std::path::Path;

use portcullis_proto::{Mode, Scope, ScopeSet};
use portcullis_server::openapi;
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::world::World;

/// Where it is checked in.
const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
/// Set, the test writes the document there instead of comparing it.
const WRITE: &str = "PORTCULLIS_WRITE_OPENAPI";

#[test]
fn the_document_that_is_checked_in_is_the_one_that_is_served() {
    let path = Path::new(CHECKED_IN);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, openapi()).unwrap();
    }
    let ours: Value = serde_json::from_str(openapi()).unwrap();
    let theirs: Value =
        serde_json::from_slice(&std::fs::read(path).unwrap_or_default()).unwrap_or(Value::Null);
    assert!(
        ours == theirs,
        "docs/openapi.json is not what the types say, first at {}.\n\
         hint: {WRITE}=1 cargo nextest run --workspace --locked -E 'test(the_document_that_is_checked_in)'",
        difference(&theirs, &ours, "#").unwrap_or_default()
    );
}

/// Where two values differ first.
fn difference(left: &Value, right: &Value, at: &str) -> Option<String> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            names.into_iter().find_map(|name| {
                let at = format!("{at}/{}", name.replace('/', "~1"));
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => difference(left, right, &at),
                    (Some(_), None) | (None, Some(_)) => Some(at),
                    (None, None) => None,
                }
            })
        }
        (left, right) => (left != right).then(|| at.to_owned()),
    }
}

/// What a schema says that stands for itself, or for another.
fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(to) => document.pointer(to.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    }
}

/// Every member of `value` is told, every member that has to be there is there,
/// and so on below: what a validator would find, for the shapes we have.
fn check(value: &Value, schema: &Value, document: &Value, at: &str) {
    let schema = resolved(schema, document);
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = any.iter().find(|one| {
            let one = resolved(one, document);
            let is_null = one["type"] == "null";
            is_null == value.is_null()
        });
        return check(value, fits.expect(at), document, at);
    }
    match value {
        Value::Object(members) if schema["additionalProperties"] != json!(true) => {
            let told = schema["properties"].as_object();
            let none = serde_json::Map::new();
            let told = told.unwrap_or(&none);
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                assert!(members.contains_key(name), "{at}: no {name}");
            }
            for (name, member) in members {
                let schema = told.get(name);
                assert!(schema.is_some(), "{at}: nobody told of {name}");
                check(member, schema.unwrap(), document, &format!("{at}.{name}"));
            }
        }
        Value::Array(list) => {
            for one in list {
                check(one, &schema["items"], document, at);
            }
        }
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Holds an answer to what the document tells of it.
fn as_told(document: &Value, method: &str, path: &str, answer: &Answer) {
    let name = format!("{method} {path} {}", answer.status);
    let operation = &document["paths"][path][method.to_ascii_lowercase()];
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{name}: {}", answer.text());
    let schema = &resolved(response, document)["content"]["application/json"]["schema"];
    check(&answer.json(), schema, document, &name);
}

#[test]
fn what_routes_answer_has_the_members_the_document_tells() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &ScopeSet::ALL.iter().collect::<Vec<Scope>>());
    let server = world.start();
    let document: Value = serde_json::from_str(openapi()).unwrap();
    let served = server.ask(&Ask::get("/openapi.json").bearer(&token));
    assert_eq!(served.expect(200).json(), document);

    let mut statuses = Vec::new();
    let mut asked = |method: &str, path: &str, query: &str, body: Option<Value>| {
        let target = format!("{path}{query}");
        let ask = match body {
            Some(body) => Ask::post(&target, &body),
            None => Ask::new(method, &target),
        };
        let answer = server.ask(&ask.bearer(&token));
        as_told(&document, method, path, &answer);
        statuses.push(answer.status);
        answer.json()
    };
    for (path, query) in [
        ("/capabilities", ""),
        ("/status", ""),
        ("/file", "?path=notes.txt"),
        ("/file", "?path=notes.txt&limit=1"),
        ("/file", "?path=none"),
        ("/file", "?path=notes.txt&line=0"),
        ("/file/bytes", "?path=notes.txt"),
        ("/file/bytes", "?path=notes.txt&offset=2"),
        ("/stat", "?path=src"),
        ("/list", "?path=."),
        ("/list", "?path=.&limit=1"),
        ("/glob", "?pattern=**"),
        ("/tree", ""),
        ("/search", "?query=notes"),
        ("/approvals", ""),
        ("/audit", "?limit=3"),
        ("/audit", "?outcome=none"),
        ("/health", ""),
    ] {
        asked("GET", path, query, None);
    }
    let made = json!({"path": "a.txt", "content": "one", "mode": "create"});
    let made = asked("POST", "/file/write", "", Some(made));
    let hash = &made["hash"];
    let edit = json!({"path": "a.txt", "oldText": "one", "newText": "two", "expectedHash": hash});
    let edited = asked("POST", "/file/edit", "", Some(edit.clone()));
    asked("POST", "/file/edit", "", Some(edit));
    for (path, body) in [
        (
            "/file/edits",
            json!({"path": "a.txt", "edits": [{"oldText": "two", "newText": "three"}]}),
        ),
        ("/file/append", json!({"path": "a.txt", "content": "!"})),
        ("/directory", json!({"path": "d"})),
        ("/file/copy", json!({"from": "a.txt", "to": "d/b.txt"})),
        ("/file/move", json!({"from": "d/b.txt", "to": "d/c.txt"})),
        ("/archive/create", json!({"from": "d", "to": "d.zip"})),
        ("/archive/extract", json!({"from": "d.zip", "to": "e"})),
        ("/file/delete", json!({"path": "d"})),
        ("/undo", json!({"id": edited["undo"]})),
        ("/undo", json!({"id": "none"})),
        ("/file/write", json!({"path": "a.txt"})),
        (
            "/file/write",
            json!({"path": ".git/hooks/x", "content": "", "mode": "create"}),
        ),
    ] {
        asked("POST", path, "", Some(body));
    }
    asked("GET", "/undo", "", None);
    asked("GET", "/archive", "?path=d.zip", None);
    let upload = Ask::new("POST", "/file/upload?path=u.bin")
        .header("Content-Type", "application/octet-stream")
        .body([1, 2, 3]);
    as_told(
        &document,
        "POST",
        "/file/upload",
        &server.ask(&upload.clone().bearer(&token)),
    );
    let no_bytes = Ask::post("/file/upload?path=u.bin", &json!({})).bearer(&token);
    as_told(&document, "POST", "/file/upload", &server.ask(&no_bytes));
    as_told(&document, "POST", "/file/upload", &server.ask(&upload));

    let done = statuses.iter().filter(|status| **status < 300).count();
    println!(
        "{} answers, {done} of them good: {statuses:?}",
        statuses.len()
    );
    assert!(done >= 26, "{statuses:?}");
}
