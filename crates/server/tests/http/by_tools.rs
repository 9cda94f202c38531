//! The file routes over a daemon that offers tools alone, as n8n's does: what its
//! tools can say is said, and what they cannot is told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use portcullis_files::sha256;
use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Ask, Events};
use crate::daemon::{Daemon, call, id, init, next_call, text, tool};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What a daemon of n8n's offers, as far as it matters here.
fn offered() -> Value {
    let mut search = tool("search_files", "filesystem", true);
    search["inputSchema"] = json!({"type": "object", "required": ["name"],
        "properties": {"name": {}, "query": {}, "ignoreCase": {}, "maxResults": {}}});
    let mut init = init();
    init["tools"] = json!([
        tool("read_file", "filesystem", true),
        tool("list_files", "filesystem", true),
        tool("get_file_tree", "filesystem", true),
        search,
        tool("write_file", "filesystem", false),
        tool("edit_file", "filesystem", false),
        tool("move", "filesystem", false),
    ]);
    init
}

/// Files by path, and the calls that came.
#[derive(Default)]
struct Files {
    files: BTreeMap<String, String>,
    called: Vec<Value>,
}

impl Files {
    fn structured(structured: Value) -> Value {
        json!({"content": [{"type": "text", "text": structured.to_string()}],
            "structuredContent": structured})
    }

    fn failed(words: &str) -> Value {
        let mut failed = Self::structured(json!({"error": words}));
        failed["isError"] = true.into();
        failed
    }

    /// What n8n's daemon replies, in its shapes.
    fn reply(&mut self, call: &Value) -> Value {
        self.called.push(call.clone());
        let arguments = &call["arguments"];
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        let number = |name: &str| {
            arguments[name]
                .as_u64()
                .map(|n| usize::try_from(n).unwrap())
        };
        match call["name"].as_str().unwrap() {
            "read_file" => match self.files.get(text("filePath")) {
                None => Self::failed("ENOENT: no such file or directory, stat '/home/ada/work/x'"),
                Some(content) => {
                    let lines: Vec<&str> = content.split('\n').collect();
                    let from = number("startLine").unwrap_or(1) - 1;
                    let most = number("maxLines").unwrap_or(200);
                    let shown: Vec<&str> = lines
                        .iter()
                        .skip(from)
                        .take(most.min(300))
                        .copied()
                        .collect();
                    Self::structured(json!({
                        "path": text("filePath"), "content": shown.join("\n"),
                        "truncated": lines.len() > from + most.min(300), "totalLines": lines.len(),
                    }))
                }
            },
            "list_files" => {
                let dir = text("dirPath");
                if dir != "."
                    && !self
                        .files
                        .keys()
                        .any(|path| path.starts_with(&format!("{dir}/")))
                {
                    return Self::failed(
                        "ENOENT: no such file or directory, scandir '/home/ada/work/x'",
                    );
                }
                let below = |path: &String| match dir {
                    "." => !path.contains('/'),
                    dir => path
                        .strip_prefix(dir)
                        .and_then(|rest| rest.strip_prefix('/'))
                        .is_some_and(|rest| !rest.contains('/')),
                };
                let most = number("maxResults").unwrap();
                let entries: Vec<Value> = self.files.iter().filter(|(path, _)| below(path)).take(most)
                    .map(|(path, content)| json!({"path": path, "type": "file", "sizeBytes": content.len()}))
                    .collect();
                Self::structured(json!({"entries": entries}))
            }
            "write_file" => {
                self.files
                    .insert(text("filePath").to_owned(), text("content").to_owned());
                Self::structured(json!({"path": text("filePath")}))
            }
            "search_files" => {
                Self::structured(json!({"matches": [], "truncated": false, "totalMatches": 0}))
            }
            other => Self::structured(json!({"did": other})),
        }
    }
}

fn hash(content: &str) -> String {
    format!("sha256:{}", sha256(content.as_bytes()).hex())
}

struct Linked<'a> {
    server: &'a Running,
    token: String,
    daemon: Daemon<'a>,
    events: Events,
    files: Files,
}

impl Linked<'_> {
    /// Asks, while the daemon answers what it is asked; how many calls those were.
    #[track_caller]
    fn ask(&mut self, ask: Ask, status: u16, calls: usize) -> Value {
        let (server, ask) = (self.server, ask.bearer(&self.token));
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| server.ask(&ask));
            for _ in 0..calls {
                let event = next_call(&mut self.events);
                let result = self.files.reply(&event.data["payload"]["toolCall"]);
                self.daemon
                    .respond(id(&event), &json!({"result": result}))
                    .expect(200);
            }
            asked.join().unwrap().expect(status).json()
        })
    }

    #[track_caller]
    fn get(&mut self, target: &str, status: u16, calls: usize) -> Value {
        self.ask(Ask::get(target), status, calls)
    }

    #[track_caller]
    fn post(&mut self, target: &str, body: &Value, status: u16, calls: usize) -> Value {
        self.ask(Ask::post(target, body), status, calls)
    }
}

#[test]
fn what_tools_can_say_is_said_in_the_shapes_of_the_routes() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &offered());
    let events = daemon.listen();
    let mut linked = Linked {
        token: world.token("ada", &AGENT),
        server: &server,
        daemon,
        events,
        files: Files::default(),
    };
    let many: Vec<String> = (1..=700).map(|n| format!("line {n}")).collect();
    for (path, content) in [
        ("notes.txt", "one\r\ntwo\n"),
        ("src/a.rs", "a $& a"),
        ("many.txt", &many.join("\n")),
        ("lossy.txt", "\u{fffd}"),
        ("marked.txt", "\u{feff}x"),
    ] {
        linked
            .files
            .files
            .insert(path.to_owned(), content.to_owned());
    }
    let read = linked.get("/file?path=notes.txt", 200, 1);
    let mut want = json!({
        "kind": "file", "path": "notes.txt", "content": "one\r\ntwo\n", "encoding": "utf-8",
        "bom": false, "lineEnding": "crlf", "sizeBytes": 9, "returnedBytes": 9,
        "truncated": false, "hash": hash("one\r\ntwo\n"), "matchedIgnore": null,
        "originalLineCount": 3, "nextCursor": null, "hasMore": false,
    });
    want["version"] = want["hash"].clone();
    assert_eq!(read, want);
    // A file that does not come at once is put together.
    let read = linked.get("/file?path=many.txt&line=301&limit=2", 200, 3);
    assert_eq!(
        (&read["content"], &read["hasMore"]),
        (&json!("line 301\nline 302"), &json!(true))
    );
    assert_eq!(read["hash"], hash(&many.join("\n")));
    assert_eq!(linked.get("/file?path=marked.txt", 200, 1)["bom"], true);
    let failed = linked.get("/file?path=lossy.txt", 400, 1);
    assert_eq!(failed["reason"], "not_offered");
    let failed = linked.get("/file?path=nothing.txt", 404, 1);
    assert_eq!(failed["reason"], "not_found");
    assert!(!failed.to_string().contains("/home"), "{failed}");
    let listed = linked.get("/list?path=.&limit=2", 200, 1);
    let entry = json!({"name": "lossy.txt", "kind": "file", "ignored": false, "sizeBytes": 3});
    assert_eq!(
        (&listed["entries"][0], &listed["truncated"]),
        (&entry, &json!(true))
    );
    // What is written is looked at before.
    let create = |path: &str| json!({"path": path, "content": "x", "mode": "create"});
    let made = linked.post("/file/write", &create("made.txt"), 201, 2);
    assert_eq!(
        (&made["created"], &made["hash"]),
        (&json!(true), &json!(hash("x")))
    );
    let refused = linked.post("/file/write", &create("made.txt"), 409, 1);
    assert_eq!(refused["reason"], "already_exists");
    linked.post("/file/write", &create("no/where.txt"), 404, 1);
    let replace = |expected: &str| json!({"path": "made.txt", "content": "y", "mode": "replace", "expectedHash": hash(expected)});
    let refused = linked.post("/file/write", &replace("other"), 409, 1);
    assert_eq!(refused["reason"], "version_mismatch");
    linked.post("/file/write", &replace("x"), 200, 2);
    let edit = |old: &str| json!({"path": "src/a.rs", "oldText": old, "newText": "$&$1", "expectedHash": hash("a $& a")});
    assert_eq!(
        linked.post("/file/edit", &edit("b"), 422, 1)["reason"],
        "text_not_found"
    );
    assert_eq!(
        linked.post("/file/edit", &edit("a"), 422, 1)["reason"],
        "ambiguous_text"
    );
    assert_eq!(
        linked.post("/file/edit", &edit("$&"), 200, 2)["replacements"],
        1
    );
    assert_eq!(linked.files.files["src/a.rs"], "a $&$1 a");
    // The routes that call tools.
    linked.get("/search?query=a.b&literal=true&path=src&glob=*.rs", 200, 1);
    let called = linked.files.called.last().unwrap();
    assert_eq!(
        called["arguments"],
        json!({"name": "src/**/*.rs", "query": "a.b"})
    );
    let moved = json!({"from": "made.txt", "to": "b.txt"});
    linked.post("/file/move", &moved, 200, 1);
    // What cannot be said is not said otherwise.
    let never = json!({"from": "made.txt", "to": "b.txt", "overwrite": false});
    for (ask, reason) in [
        (Ask::get("/search?query=a.b"), "not_offered"),
        (Ask::get("/list?path=.&includeIgnored=1"), "not_offered"),
        (Ask::post("/file/move", &never), "not_offered"),
        (
            Ask::post(
                "/file/edits",
                &json!({"path": "a", "edits": [{"oldText": "a", "newText": "b"}]}),
            ),
            "not_offered",
        ),
        (
            Ask::post(
                "/file/write",
                &json!({"path": "a", "content": "b", "mode": "create", "bom": true}),
            ),
            "not_offered",
        ),
        (
            Ask::post("/file/delete", &json!({"path": "a"})),
            "not_offered",
        ),
    ] {
        let refused = linked.ask(ask, 400, 0);
        assert_eq!(refused["reason"], reason, "{refused}");
    }
}

#[test]
fn a_change_by_tools_that_is_asked_for_again_is_told_as_it_was() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &offered());
    let events = daemon.listen();
    let mut linked = Linked {
        token: world.token("ada", &AGENT),
        server: &server,
        daemon,
        events,
        files: Files::default(),
    };
    let text = "one two".to_owned();
    linked.files.files.insert("a.txt".to_owned(), text);
    let named = |target: &str, body: &Value, name: &str| {
        Ask::post(target, body).header("Idempotency-Key", name)
    };
    let made = json!({"path": "b.txt", "content": "x", "mode": "create"});
    let write = named("/file/write", &made, "write");
    let edited = json!({"path": "a.txt", "oldText": "two", "newText": "three",
        "expectedHash": hash("one two")});
    let edit = named("/file/edit", &edited, "edit");
    let first = [
        linked.ask(write.clone(), 201, 2),
        linked.ask(edit.clone(), 200, 2),
    ];
    // The file is there by now, and is another: neither is looked at again.
    let again = |linked: &mut Linked<'_>| {
        [
            linked.ask(write.clone(), 201, 0),
            linked.ask(edit.clone(), 200, 0),
        ]
    };
    assert_eq!(again(&mut linked), first);
    let left = linked.daemon.post("/disconnect", &json!({}));
    server.ask(&left).expect(200);
    assert_eq!(again(&mut linked), first);
    assert!(!world.scratch.at("b.txt").exists());
}

#[test]
fn what_fails_there_is_typed_and_names_no_path_of_its_host() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &offered());
    let mut events = daemon.listen();
    for (words, reason, want) in [
        (
            "ENOENT: no such file, stat '/home/ada/work/x'",
            "not_found",
            None,
        ),
        (
            "EIO: i/o error, read '/home/ada/work/sub/x'",
            "io",
            Some("EIO: i/o error, read 'sub/x'"),
        ),
        ("nothing at /home/ada/work", "io", Some("nothing at .")),
    ] {
        let asked = json!({"filePath": "x"});
        let failed = std::thread::scope(|scope| {
            let called = scope.spawn(|| call(&server, &token, "read_file", &asked));
            let event = next_call(&mut events);
            let failed = json!({"result": Files::failed(words)});
            daemon.respond(id(&event), &failed).expect(200);
            called.join().unwrap()
        });
        assert_eq!(failed["isError"], true);
        assert!(!failed.to_string().contains("/home/ada"), "{failed}");
        let told = &failed["structuredContent"];
        assert_eq!(told["reason"], reason);
        if let Some(want) = want {
            assert_eq!((told["error"].as_str(), text(&failed)), (Some(want), want));
        }
    }
}

#[test]
fn a_file_that_comes_a_line_at_a_time_has_the_time_of_one_call() {
    let patience = Duration::from_secs(6);
    let world = World::new(Mode::Allow).answered_within(patience);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &offered());
    let mut events = daemon.listen();
    let ask = Ask::get("/file?path=a").bearer(&token);
    let mut caller = server.connect();
    caller.send(&ask.wire(server.address));
    let began = Instant::now();
    while began.elapsed() < patience {
        let event = next_call(&mut events);
        std::thread::sleep(patience / 4);
        let line = Files::structured(json!({"content": "a line", "truncated": true}));
        daemon
            .respond(id(&event), &json!({"result": line}))
            .expect(200);
    }
    let told = caller.answer().unwrap().expect(503).json();
    assert_eq!(told["reason"], "deadline");
}
