//! The file routes over a link to our own daemon: the same bodies and the same
//! failures as from the machine itself.

use portcullis_files::sha256;
use portcullis_proto::{Group, Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::daemon::{Daemon, id, init_of_ours, next_call, result};
use crate::lent::{How, Lent};
use crate::surfaces::{Deed, Manner, Surface, message_in, over_http, request};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What both machines have.
fn plant(world: &World) {
    world.scratch.add(
        "
        src/lib.rs = // lib
        .env = KEY=1 [600]
        ../outside/secret.txt = outsideCanary
        out.txt -> ../outside/secret.txt
        ",
    );
    let lines: Vec<String> = (1..=500).map(|n| format!("line {n}")).collect();
    world.scratch.file("lines.txt", lines.join("\n"));
    world.scratch.file("raw.bin", [0, 159, 146, 150]);
    // More than three windows of a link.
    world.scratch.file("big.bin", big());
}

fn big() -> Vec<u8> {
    (0_u32..400_000).flat_map(u32::to_le_bytes).collect()
}

fn hash(content: &str) -> String {
    format!("sha256:{}", sha256(content.as_bytes()).hex())
}

/// An answer without what no two machines, or moments, have in common.
fn shown(answer: &Answer) -> String {
    let Ok(mut body) = serde_json::from_slice::<Value>(&answer.body) else {
        return format!("{} {} bytes", answer.status, answer.body.len());
    };
    plain(&mut body);
    format!("{} {body}", answer.status)
}

/// Takes out times, and what is made of inodes and times.
fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (name, value) in object.iter_mut() {
                let differs = [
                    "version",
                    "modifiedMs",
                    "nextCursor",
                    "undo",
                    "redo",
                    "id",
                    "at",
                    "by",
                    "durationMs",
                    "keptIn",
                    "run",
                    "questionId",
                    "approvalUrl",
                ];
                if differs.contains(&name.as_str()) && !value.is_null() {
                    *value = json!("-");
                }
                plain(value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(plain),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names of an object's members in the order they came.
fn order(answer: &Answer) -> Vec<String> {
    let text = answer.text();
    let mut names: Vec<(usize, String)> = Vec::new();
    if let Ok(Value::Object(object)) = serde_json::from_str(&text) {
        for name in object.keys() {
            names.push((text.find(&format!("\"{name}\":")).unwrap(), name.clone()));
        }
    }
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}

fn upload(path: &str, bytes: &[u8]) -> Ask {
    Ask::new("POST", &format!("/file/upload?path={path}"))
        .header("Content-Type", "application/octet-stream")
        .body(bytes)
}

/// Whether a route calls a tool: what that replies comes in the order of names.
fn is_of_a_tool(ask: &Ask) -> bool {
    let of_tools = [
        "/tree",
        "/search",
        "/file/edits",
        "/file/append",
        "/file/delete",
        "/file/move",
        "/file/copy",
        "/directory",
    ];
    of_tools.iter().any(|route| ask.target().starts_with(route))
}

/// What is asked, in this order, of both.
fn asks() -> Vec<Ask> {
    let post = |target: &str, body: Value| Ask::post(target, &body);
    vec![
        Ask::get("/file?path=notes.txt"),
        Ask::get("/file?path=lines.txt&line=10&limit=3"),
        Ask::get("/file?path=lines.txt&maxBytes=20"),
        Ask::get("/file/bytes?path=raw.bin"),
        Ask::get("/file/bytes?path=lines.txt&offset=5&maxBytes=9"),
        Ask::get("/file/raw?path=raw.bin"),
        Ask::get("/file/raw?path=big.bin").header("Range", "bytes=700000-1300000"),
        Ask::get("/file/raw?path=raw.bin").header("Range", "bytes=9-"),
        Ask::get("/stat?path=src"),
        Ask::get("/list?path=."),
        Ask::get("/list?path=.&limit=2"),
        Ask::get("/list?path=.&limit=2&cursor=nonsense"),
        Ask::get("/glob?pattern=**/*.rs"),
        Ask::get("/glob?pattern=["),
        Ask::get("/tree"),
        Ask::get("/search?query=lib"),
        // What goes wrong.
        Ask::get("/file?path=nothing.txt"),
        Ask::get("/file?path=..%2Foutside%2Fsecret.txt"),
        Ask::get("/file?path=%2Fetc%2Fpasswd"),
        Ask::get("/file?path=out.txt"),
        Ask::get("/file?path=raw.bin"),
        Ask::get("/file?path=src"),
        Ask::get("/file"),
        Ask::get("/file?path=lines.txt&cursor=nonsense"),
        Ask::get("/file?path=lines.txt&cursor=x&line=1"),
        Ask::get("/file?path=a%00b"),
        // What changes.
        post(
            "/file/write",
            json!({"path": "made.txt", "content": "one\n", "mode": "create"}),
        ),
        post(
            "/file/write",
            json!({"path": "made.txt", "content": "two\n", "mode": "create"}),
        ),
        post(
            "/file/write",
            json!({"path": "made.txt", "content": "two\n", "mode": "replace", "expectedHash": hash("other")}),
        ),
        post(
            "/file/write",
            json!({"path": "made.txt", "content": "two\n", "mode": "replace", "expectedHash": hash("one\n")}),
        ),
        post(
            "/file/write",
            json!({"path": "no/where.txt", "content": "x", "mode": "create"}),
        ),
        post(
            "/file/write",
            json!({"path": "../out.txt", "content": "x", "mode": "create"}),
        ),
        post(
            "/file/edit",
            json!({"path": "made.txt", "oldText": "two", "newText": "$& three", "expectedHash": hash("two\n")}),
        ),
        post(
            "/file/edit",
            json!({"path": "made.txt", "oldText": "none", "newText": "x", "expectedHash": hash("$& three\n")}),
        ),
        post(
            "/file/edit",
            json!({"path": "made.txt", "oldText": "e", "newText": "x", "expectedHash": hash("$& three\n")}),
        ),
        Ask::get("/file?path=made.txt"),
        post(
            "/file/edits",
            json!({"path": "made.txt", "edits": [{"oldText": "three", "newText": "3"}]}),
        ),
        post(
            "/file/append",
            json!({"path": "made.txt", "content": "more\n"}),
        ),
        post("/directory", json!({"path": "new/dir"})),
        post(
            "/file/copy",
            json!({"from": "made.txt", "to": "new/copy.txt"}),
        ),
        post(
            "/file/move",
            json!({"from": "made.txt", "to": "new/moved.txt"}),
        ),
        post("/file/move", json!({"from": "made.txt", "to": "x.txt"})),
        upload("new/up.bin", &[0, 1, 2, 255]),
        upload("new/up.bin", b"again"),
        post("/file/delete", json!({"path": "new/copy.txt"})),
        post("/file/delete", json!({"path": "."})),
        Ask::get("/list?path=new&limit=10"),
        Ask::get("/undo"),
        post("/undo", json!({"id": "r_nobody"})),
    ]
}

#[test]
fn the_file_routes_answer_over_a_link_as_the_machine_itself_does() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    plant(&near);
    plant(&far);
    let token = near.token("ada", &AGENT);
    let server = near.start();
    let _lent = Lent::to(&near, &server, &far, How::named("laptop"));
    let ask = |ask: &Ask, machine: &str| {
        server.ask(
            &ask.clone()
                .bearer(&token)
                .header("Portcullis-Machine", machine),
        )
    };
    let mut wrong = Vec::new();
    for one in asks() {
        let (here, there) = (ask(&one, "here"), ask(&one, "laptop"));
        if shown(&here) != shown(&there)
            || here.header("content-type") != there.header("content-type")
        {
            wrong.push(format!(
                "{one:?}\n  here  {}\n  there {}",
                shown(&here),
                shown(&there)
            ));
        }
        // Word for word where the reply is passed on as it is.
        if !is_of_a_tool(&one) && order(&here) != order(&there) {
            wrong.push(format!("{one:?}: {:?}, {:?}", order(&here), order(&there)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let text = |world: &World, path: &str| std::fs::read_to_string(world.scratch.at(path)).unwrap();
    for world in [&near, &far] {
        assert_eq!(text(world, "new/moved.txt"), "$& 3\nmore\n");
    }
}

/// What is asked of one machine by its token.
struct Asking<'a> {
    server: &'a Running,
    token: String,
}

impl Asking<'_> {
    #[track_caller]
    fn get(&self, target: &str, status: u16) -> Value {
        self.ask(Ask::get(target), status)
    }

    #[track_caller]
    fn post(&self, target: &str, body: &Value, status: u16) -> Value {
        self.ask(Ask::post(target, body), status)
    }

    #[track_caller]
    fn ask(&self, ask: Ask, status: u16) -> Value {
        self.server
            .ask(&ask.bearer(&self.token))
            .expect(status)
            .json()
    }
}

#[test]
fn cursors_versions_bytes_and_undo_come_from_the_machine_and_go_back_to_it() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    plant(&far);
    let server = near.start();
    let _lent = Lent::to(&near, &server, &far, How::named("laptop"));
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    let first = asking.get("/file?path=lines.txt&limit=2", 200);
    assert_eq!(first["content"], "line 1\nline 2");
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = asking.get(
        &format!("/file?path=lines.txt&limit=2&cursor={cursor}"),
        200,
    );
    assert_eq!(second["content"], "line 3\nline 4");
    let page = asking.get("/list?path=.&limit=3", 200);
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = asking.get(&format!("/list?path=.&limit=3&cursor={cursor}"), 200);
    assert_ne!(page["entries"][0], next["entries"][0]);
    let whole = server.ask(&Ask::get("/file/raw?path=big.bin").bearer(&asking.token));
    assert_eq!((whole.status, whole.body == big()), (200, true));
    assert!(whole.header("etag").is_some());
    // A change, and back.
    let write = json!({"path": "notes.txt", "content": "other", "mode": "replace", "expectedHash": hash("some notes")});
    let written = asking.post("/file/write", &write, 200);
    let id = written["undo"].as_str().unwrap();
    let listed = asking.get("/undo", 200);
    assert_eq!(listed["operations"][0]["id"], id);
    let text = || std::fs::read_to_string(far.scratch.at("notes.txt")).unwrap();
    assert_eq!(text(), "other");
    let undone = asking.post("/undo", &json!({"id": id}), 200);
    assert_eq!(text(), "some notes");
    asking.post("/undo", &json!({"id": undone["redo"]}), 200);
    assert_eq!(text(), "other");
    // The workspace is the machine's, by its id too.
    let told = asking.get("/capabilities", 200);
    assert_eq!(
        told["workspaceCwd"],
        far.scratch.root().display().to_string()
    );
    let id = told["workspaces"][0]["id"].as_str().unwrap();
    let read = asking.get(&format!("/workspaces/{id}/file?path=notes.txt"), 200);
    assert_eq!(read["content"], "other");
    asking.get(&format!("/workspaces/{id}/tree"), 200);
    asking.get("/workspaces/nothing/tree", 400);
    // Told of both ends, and never what was written.
    let ours = near.closings();
    let relayed = |what: &str| {
        ours.iter()
            .any(|line| line.alleged.as_deref() == Some(what))
    };
    assert!(relayed("laptop write notes.txt") && relayed("laptop read lines.txt"));
}

#[test]
fn what_its_owner_did_otherwise_is_neither_told_nor_undone_over_a_link() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    // Who lends the machine, at the machine itself.
    let own = far.start();
    let write = Deed {
        rest: Ask::get("/"),
        tool: "write_file",
        arguments: json!({"filePath": "notes.txt", "content": "theirs"}),
    };
    let told = Surface::Stdio.ask(&own, "", &write, &Manner::default());
    assert_eq!(told.verdict, "ok");
    own.join();
    let made = far.closings().pop().unwrap().request_id.unwrap();
    let server = near.start();
    let _lent = Lent::to(&near, &server, &far, How::named("laptop"));
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    assert_eq!(asking.get("/undo", 200)["operations"], json!([]));
    let refused = asking.post("/undo", &json!({"id": made}), 404);
    assert_eq!(refused["reason"], "not_found");
    let text = std::fs::read_to_string(far.scratch.at("notes.txt")).unwrap();
    assert_eq!(text, "theirs");
}

#[test]
fn a_group_that_is_not_lent_is_off_by_every_route() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    plant(&far);
    let server = near.start();
    let how = How {
        only: Some(Group::FilesystemRead),
        ..How::named("laptop")
    };
    // The rules there would allow it: what was confirmed does not.
    let _lent = Lent::to(&near, &server, &far, how);
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    asking.get("/file?path=notes.txt", 200);
    for (target, body) in [
        (
            "/file/write",
            json!({"path": "made.txt", "content": "x", "mode": "create"}),
        ),
        (
            "/file/edit",
            json!({"path": "notes.txt", "oldText": "some", "newText": "x", "expectedHash": hash("some notes")}),
        ),
        ("/file/append", json!({"path": "notes.txt", "content": "x"})),
        ("/file/delete", json!({"path": "notes.txt"})),
        ("/directory", json!({"path": "made"})),
        ("/undo", json!({"id": "x"})),
    ] {
        let refused = asking.post(target, &body, 403);
        assert_eq!(refused["reason"], "denied_by_mode", "{target}");
    }
    let refused = asking.ask(upload("made.bin", b"x"), 403);
    assert_eq!(refused["reason"], "denied_by_mode");
    assert!(!far.scratch.at("made.txt").exists() && !far.scratch.at("made.bin").exists());
}

#[test]
fn a_secret_is_asked_about_where_the_machine_says_and_nowhere_else() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    plant(&far);
    let server = near.start();
    let how = How {
        asking: portcullis_daemon::Asking::Nobody,
        ..How::named("laptop")
    };
    let _lent = Lent::to(&near, &server, &far, how);
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    for target in [
        "/file?path=.env",
        "/file/bytes?path=.env",
        "/file/raw?path=.env",
    ] {
        let refused = asking.get(target, 403);
        assert_eq!(refused["reason"], "approval_unavailable", "{target}");
    }
    assert_eq!(
        near.store.pending(9, crate::world::now_ms()).unwrap().len(),
        0
    );
}

#[test]
fn a_machine_is_named_in_a_header_or_in_the_query() {
    let near = World::new(Mode::Allow);
    let (one, other) = (World::new(Mode::Allow), World::new(Mode::Allow));
    for (world, text) in [(&near, "near"), (&one, "one"), (&other, "other")] {
        world.scratch.file("who.txt", text);
    }
    let server = near.start();
    let _first = Lent::to(&near, &server, &one, How::named("one"));
    let _second = Lent::to(&near, &server, &other, How::named("other"));
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    let read = |target: &str, named: Option<&str>| {
        let ask = Ask::get(target);
        let ask = match named {
            Some(name) => ask.header("Portcullis-Machine", name),
            None => ask,
        };
        asking.ask(ask, 200)["content"].clone()
    };
    assert_eq!(read("/file?path=who.txt", None), "other", "the newest");
    assert_eq!(read("/file?path=who.txt", Some("one")), "one");
    assert_eq!(read("/file?path=who.txt&machine=one", None), "one");
    assert_eq!(read("/file?path=who.txt&machine=one", Some("one")), "one");
    assert_eq!(read("/file?path=who.txt", Some("here")), "near");
    for (target, name) in [
        ("/file?path=who.txt", "nobody"),
        ("/file?path=who.txt&machine=other", "one"),
        ("/tree", ""),
    ] {
        let ask = Ask::get(target).header("Portcullis-Machine", name);
        let refused = asking.ask(ask, 400);
        assert_eq!(refused["reason"], "bad_arguments", "{target} {name}");
    }
    // One name for what is asked of two machines is two calls, and each is made
    // once: for the routes and for the tools behind them.
    for (target, body) in [
        (
            "/file/write",
            json!({"path": "new.txt", "content": "x", "mode": "create"}),
        ),
        ("/directory", json!({"path": "made"})),
    ] {
        for name in ["one", "other", "one"] {
            let ask = Ask::post(target, &body)
                .header("Idempotency-Key", target)
                .header("Portcullis-Machine", name)
                .bearer(&asking.token);
            let answer = server.ask(&ask);
            assert!(answer.status < 300, "{target} {name}: {}", answer.text());
        }
    }
    for world in [&one, &other] {
        assert_eq!(std::fs::read(world.scratch.at("new.txt")).unwrap(), b"x");
        assert!(world.scratch.at("made").is_dir());
    }
    // Tools behind routes go where the routes go.
    let found = asking.get("/search?query=near&machine=here", 200);
    assert_eq!(found["totalMatches"], 1);
    // Another person's machine is nobody's name.
    let bob = near.token("bob", &AGENT);
    let ask = Ask::get("/file?path=who.txt&machine=one").bearer(&bob);
    assert_eq!(
        server.ask(&ask).expect(400).json()["reason"],
        "bad_arguments"
    );
}

#[test]
fn resources_of_the_machine_are_listed_and_read() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    plant(&far);
    far.scratch.file("of-the-laptop.txt", "far away");
    let server = near.start();
    let _lent = Lent::to(&near, &server, &far, How::named("laptop"));
    let mcp = |scope: Scope, method: &str, params: Value| {
        let token = near.token("ada", &[scope]);
        let message = request(method, params.clone());
        let name = params["uri"].as_str();
        message_in(&server.ask(&over_http(method, name, &message).bearer(&token)))
    };
    let listed = mcp(Scope::FsRead, "resources/list", json!({}));
    let uris: Vec<&Value> = listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["uri"])
        .collect();
    let uri = json!("portcullis://workspace/of-the-laptop.txt");
    assert!(uris.contains(&&uri), "{uris:?}");
    assert!(!listed.to_string().contains(".env"), "{listed}");
    let read = |scope, uri: &str| mcp(scope, "resources/read", json!({"uri": uri}));
    let text = read(Scope::FsRead, uri.as_str().unwrap());
    assert_eq!(text["result"]["contents"][0]["text"], "far away", "{text}");
    let bytes = read(Scope::FsRead, "portcullis://workspace/raw.bin");
    assert_eq!(
        bytes["result"]["contents"][0]["blob"], "AJ+Slg==",
        "{bytes}"
    );
    let out = read(
        Scope::FsRead,
        "portcullis://workspace/..%2Foutside%2Fsecret.txt",
    );
    assert_eq!(out["error"]["data"]["reason"], "escape", "{out}");
    let refused = read(Scope::FsWrite, uri.as_str().unwrap());
    assert!(refused["error"].is_object(), "{refused}");
}

#[test]
fn what_is_no_body_is_passed_on_to_nobody() {
    let near = World::new(Mode::Allow);
    let server = near.start();
    let mut init = init_of_ours("laptop");
    init["portcullis"]["files"] =
        json!({"operations": 1, "root": "main", "kind": "workspace", "trusted": true});
    let daemon = Daemon::pair(&near, &server, "ada", &init);
    let mut events = daemon.listen();
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    let failed = |reason: &str| {
        json!({"result": {"content": [], "isError": true, "structuredContent":
            {"errorKind": "x", "reason": reason, "error": "no", "hint": "look", "status": 200}}})
    };
    let bytes = json!({"bytes": "AAECAwQF", "size": 6, "version": "v", "isFresh": false});
    let too_many = json!({"bytes": "AAAA".repeat(400_000), "size": 1_200_000, "version": "v", "isFresh": false});
    let file = "/file?path=a";
    for (target, reply, status, reason) in [
        (file, result("no JSON"), 503, "io"),
        (file, result("[1]"), 503, "io"),
        (file, result("{\"a\":\n1}"), 503, "io"),
        (file, result("{} {}"), 503, "io"),
        (file, failed("made_up"), 503, "io"),
        (file, failed("not_found"), 404, "not_found"),
        (file, json!({"error": "broken"}), 503, "io"),
        ("/file/raw?path=a", result("{}"), 503, "io"),
        ("/file/raw?path=a", result(&too_many.to_string()), 503, "io"),
        (
            "/file/raw?path=a",
            result(&json!({"bytes": "?"}).to_string()),
            503,
            "io",
        ),
    ] {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| asking.get(target, status));
            let event = next_call(&mut events);
            assert!(event.data["payload"]["toolCall"].is_null());
            daemon.respond(id(&event), &reply).expect(200);
            assert_eq!(asked.join().unwrap()["reason"], reason, "{reply}");
        });
    }
    // What is one is passed on as it is.
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.ask(&Ask::get(file).bearer(&asking.token)));
        daemon.serve(&mut events, "{\"z\":1,\"a\":2}");
        assert_eq!(asked.join().unwrap().text(), "{\"z\":1,\"a\":2}");
        let asked = scope.spawn(|| server.ask(&Ask::get("/file/raw?path=a").bearer(&asking.token)));
        daemon.serve(&mut events, &bytes.to_string());
        assert_eq!(asked.join().unwrap().body, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn what_is_watched_over_a_link_is_told_to_be_looked_at() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let server = near.start();
    let _lent = Lent::to(&near, &server, &far, How::named("laptop"));
    let asking = Asking {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    let refused = asking.get("/watch?path=.", 400);
    assert_eq!(refused["reason"], "not_offered");
    assert!(
        refused["hint"].as_str().unwrap().contains("/stat"),
        "{refused}"
    );
}
