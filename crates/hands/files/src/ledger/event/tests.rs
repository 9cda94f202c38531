//! What a line says, and that it never grows over its limit.

use std::sync::Arc;

use portcullis_proto::{
    Access, Counts, Digest, Entity, ErrorKind, Facts, Identity, QuestionId, Reason, RelPath,
    RequestId, RootId, RootKind, RunId,
};

use super::super::line::MAX_LINE;
use super::super::record::Record;
use super::*;

fn resource(path: &str, access: Access) -> Resource {
    Resource {
        root: RootId::parse("main").unwrap(),
        kind: RootKind::Workspace,
        path: RelPath::parse(path).unwrap(),
        access,
        identity: Some(Identity {
            dev: u64::MAX,
            ino: u64::MAX,
            entity: Entity::File,
            owner: 0,
            links: 1,
        }),
        above: None,
    }
}

/// Writes an event; the line as text.
fn written(event: &Event<'_>) -> String {
    let mut line = Line::new();
    write_event(&mut line, event);
    let raw = line.seal(u64::MAX, &[b'0'; 64]).to_vec();
    assert!(raw.len() <= MAX_LINE, "{} bytes", raw.len());
    assert_eq!(memchr::memchr(b'\n', &raw), Some(raw.len() - 1));
    serde_json::from_slice::<Record>(&raw).unwrap();
    String::from_utf8(raw).unwrap()
}

fn event<'a>(facts: &'a Facts, subject: &'a Subject, request: &'a RequestId) -> Event<'a> {
    Event {
        phase: Phase::Closing,
        at: 1_794_000_000_123,
        request_id: request,
        route: "mcp",
        called: None,
        trace: None,
        subject,
        facts,
        alleged: None,
        outcome: Outcome::Success,
        policy_source: "mode:filesystem-read",
        wrapper_ids: &[],
        kind: None,
        reason: None,
        question: None,
        answered_by: None,
        bytes: Some(4096),
        hash: None,
        counts: None,
        staged: None,
        duration_us: 1412,
    }
}

fn user(id: &str) -> Subject {
    Subject::of(Principal::User { id: id.into() })
}

#[test]
fn a_read_is_told_in_the_seeds_words() {
    let facts = Facts {
        verb: Verb::Read,
        resources: vec![resource("src/main.rs", Access::Read)],
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    };
    let line = written(&event(&facts, &user("ada"), &RequestId::new("r1")));
    let rest = line.split_once("\"timestamp\"").unwrap().1;
    assert_eq!(
        rest,
        concat!(
            r#":"2026-11-06T21:20:00.123Z","phase":"closing","requestId":"r1","route":"mcp","#,
            r#""subject":{"type":"user","id":"ada"},"operation":"read","intent":"read","#,
            r#""root":{"kind":"workspace","id":"main"},"relativePath":"src/main.rs","#,
            r#""identity":{"dev":18446744073709551615,"ino":18446744073709551615},"#,
            r#""outcome":"success","policySource":"mode:filesystem-read","bytes":4096,"#,
            r#""durationMs":1.412}"#,
            "\n"
        )
    );
}

#[test]
fn a_deed_refused_before_it_had_a_path_tells_what_was_alleged() {
    let facts = Facts {
        verb: Verb::Read,
        resources: Vec::new(),
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    };
    let (subject, request) = (user("ada"), RequestId::new("r1"));
    let mut event = event(&facts, &subject, &request);
    event.alleged = Some("../\u{202e}etc\"\n\0");
    event.outcome = Outcome::Denied;
    event.kind = Some(ErrorKind::PathOutsideWorkspace);
    event.reason = Some(Reason::Escape);
    event.counts = Some(Counts {
        entries: 3,
        ..Counts::default()
    });
    let line = written(&event);
    for part in [
        r#""alleged":"../\u202eetc\"\u000a\u0000""#,
        r#""outcome":"denied""#,
        r#""kind":"path_outside_workspace","reason":"escape""#,
        r#""counts":{"entries":3}"#,
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn a_move_tells_where_to_and_long_lists_the_first_and_a_digest() {
    let two = [
        resource("a", Access::Move),
        resource("b", Access::Write),
        resource("c", Access::Write),
    ];
    let mut facts = Facts {
        verb: Verb::Move,
        resources: two[..2].to_vec(),
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    };
    let (subject, request) = (user("ada"), RequestId::new("r1"));
    let line = written(&event(&facts, &subject, &request));
    assert!(line.contains(r#""destinationPath":"b""#), "{line}");
    assert!(!line.contains("resources"), "{line}");

    facts.resources = two.to_vec();
    let line = written(&event(&facts, &subject, &request));
    let record: Record = serde_json::from_str(&line).unwrap();
    let all = record.resources.unwrap();
    assert_eq!((all.count, all.first.len()), (3, 3));

    facts.resources = vec![two[0].clone(); 5000];
    let line = written(&event(&facts, &subject, &request));
    let record: Record = serde_json::from_str(&line).unwrap();
    let all = record.resources.unwrap();
    assert_eq!(all.count, 5000);
    assert!(record.clipped && all.first.len() < 100);
    assert_eq!(all.digest, Digest(digest(&facts.resources)).hex());
}

#[test]
fn whatever_an_event_holds_its_line_is_short_and_valid() {
    let hostile = [
        "\u{1}".repeat(5000),
        "\u{202e}\"\\".repeat(3000),
        "🦀".repeat(3000),
        "x".repeat(70_000),
    ];
    let deep = vec!["ü".repeat(127); 16].join("/");
    for text in &hostile {
        let id: Arc<str> = text.as_str().into();
        let subject = Subject {
            on_behalf_of: None,
            principal: Principal::Token {
                user: id.clone(),
                id: id.clone(),
            },
            conversation_id: Some(portcullis_proto::ConversationId::new(id.clone())),
            run_id: Some(RunId::new(id.clone())),
        };
        let (request, question) = (RequestId::new(id.clone()), QuestionId::new(id));
        let mut other_root = resource(&deep, Access::Write);
        other_root.root = RootId::parse(&"r".repeat(64)).unwrap();
        other_root.kind = RootKind::ExtensionStorage;
        let mut resources = vec![other_root.clone(), resource(&deep, Access::Metadata)];
        resources.extend(vec![other_root; 200]);
        let facts = Facts {
            verb: Verb::Move,
            resources,
            shown: Some(Digest::ZERO),
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        };
        let hooks = vec![text.clone(); 200];
        let mut event = event(&facts, &subject, &request);
        event.route = text;
        event.alleged = Some(text);
        event.policy_source = text;
        event.wrapper_ids = &hooks;
        event.kind = Some(ErrorKind::PathOutsideWorkspace);
        event.reason = Some(Reason::ApprovalUnavailable);
        event.question = Some(&question);
        event.answered_by = Some(text);
        event.bytes = Some(u64::MAX);
        event.hash = Some(Digest::ZERO);
        event.counts = Some(Counts {
            entries: u64::MAX,
            denied: u64::MAX,
            secret: u64::MAX,
            ignored: u64::MAX,
            moved: u64::MAX,
            unread: u64::MAX,
            searched: u64::MAX,
            binary: u64::MAX,
        });
        event.duration_us = u64::MAX;
        let line = written(&event);
        assert!(line.contains("\"clipped\":true"), "{line}");
    }
}

#[test]
fn the_longest_path_keeps_its_beginning_and_its_name() {
    let path = format!("{}/secret.txt", vec!["d".repeat(250); 16].join("/"));
    assert!(path.len() > 4000);
    let facts = Facts {
        verb: Verb::Read,
        resources: vec![resource(&path, Access::Read)],
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    };
    let line = written(&event(&facts, &user("ada"), &RequestId::new("r1")));
    let record: Record = serde_json::from_str(&line).unwrap();
    let told = record.relative_path.unwrap();
    assert!(told.starts_with("ddd") && told.contains('…') && told.ends_with("/secret.txt"));
    assert_eq!(
        record.resources.unwrap().digest,
        Digest(digest(&facts.resources)).hex()
    );
}
