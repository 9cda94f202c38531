//! JSON is counted before it is parsed, wherever it comes in.

use crate::none;
use crate::tree::sources;

/// Files that parse without the counter of `proto/src/extent.rs`, each with its reason.
const UNCOUNTED: &[(&str, &str)] = &[
    (
        "crates/cli/src/commands/demo.rs",
        "the replies of our own server, which the demo starts",
    ),
    (
        "crates/daemon/src/listen.rs",
        "a look's events stay raw text until each is counted by itself",
    ),
    (
        "crates/daemon/src/result.rs",
        "the replies of our own tools",
    ),
    ("crates/daemon/src/seed.rs", "the replies of our own tools"),
    ("crates/daemon/src/wanted.rs", "the list of our own tools"),
    (
        "crates/hammer/src/marks.rs",
        "lines of a server that a person races, of bounded length",
    ),
    (
        "crates/hammer/src/session.rs",
        "lines of a server that a person races, of bounded length",
    ),
    (
        "crates/hands/files/src/ledger/log.rs",
        "lines of the audit, 4 KiB each",
    ),
    (
        "crates/hands/files/src/ledger/recover.rs",
        "lines of the audit, 4 KiB each; nothing is built",
    ),
    (
        "crates/hands/files/src/ledger/unfinished.rs",
        "lines of the audit, 4 KiB each",
    ),
    (
        "crates/hands/files/src/ledger/walk.rs",
        "lines of the audit, 4 KiB each",
    ),
    (
        "crates/hands/files/src/undo/store.rs",
        "entries we wrote, of bounded length, read as their type",
    ),
    (
        "crates/link/src/reply.rs",
        "a question of at most 64 KiB, read as its type",
    ),
    (
        "crates/policy/src/file.rs",
        "parts of a settings file, which was counted whole",
    ),
    (
        "crates/policy/src/place.rs",
        "parts of a settings file, which was counted whole",
    ),
    ("crates/proto/src/call.rs", "nothing is built"),
    (
        "crates/server/src/gateway/staying.rs",
        "replies of our own tools, and of machines, counted when they came",
    ),
    (
        "crates/server/src/gateway/about.rs",
        "what we stored ourselves",
    ),
    (
        "crates/server/src/gateway/again.rs",
        "a reply that was counted when it came",
    ),
    (
        "crates/server/src/gateway/calls.rs",
        "a call that was counted when it came",
    ),
    (
        "crates/server/src/gateway/result.rs",
        "a reply that was counted when it came, and texts of at most 64 KiB",
    ),
    (
        "crates/server/src/gateway/stream.rs",
        "an event we wrote ourselves",
    ),
    (
        "crates/server/src/gateway/surface.rs",
        "what we stored ourselves",
    ),
    (
        "crates/server/src/http/reply.rs",
        "the replies of our own tools, read as their type",
    ),
    (
        "crates/server/src/http/rest/searching.rs",
        "the replies of our own routes",
    ),
    (
        "crates/server/src/http/rest/tools.rs",
        "the replies of our own tools, read as their type",
    ),
    (
        "crates/server/src/mcp/envelope.rs",
        "who opens a message has counted it",
    ),
    (
        "crates/server/src/mcp/shape.rs",
        "a failure we wrote ourselves",
    ),
    (
        "crates/server/src/mcp/written.rs",
        "replies of our own tools, and of machines, counted when they came",
    ),
    ("crates/store/src/questions.rs", "what we stored ourselves"),
    (
        "crates/tools/src/workspace/cursor.rs",
        "a cursor of bounded length, read as its type",
    ),
];

/// How a text of JSON is parsed. What is a value already was counted as a text.
const PARSES: &[&str] = &[
    "serde_json::from_slice",
    "serde_json::from_str",
    "serde_json::from_reader",
    "serde_json::Deserializer",
    "use serde_json::from_slice",
];

#[test]
fn json_is_counted_before_it_is_parsed_at_every_entrance() {
    let mut wrong = Vec::new();
    let mut used = Vec::new();
    for file in sources().iter().filter(|file| file.is_rust()) {
        if !file.path.starts_with("crates/") || file.is_test() {
            continue;
        }
        let code = file.production();
        if !PARSES.iter().any(|parse| code.contains(parse)) {
            continue;
        }
        used.push(file.path.as_str());
        let is_known = UNCOUNTED.iter().any(|(path, _)| *path == file.path);
        if !is_known && !code.contains("Extent::of(") {
            wrong.push(file.path.clone());
        }
    }
    let gone = UNCOUNTED.iter().filter(|(path, _)| !used.contains(path));
    wrong.extend(gone.map(|(path, _)| format!("{path} parses no more: strike it off the list")));
    none(
        wrong,
        "files that parse JSON nobody counted",
        "parse it with portcullis_proto::read_json, or say in UNCOUNTED why it is bounded",
    );
}
