//! Machines over links: what n8n's daemon is served, and what a hostile one is not.

use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_testkit::promised;
use serde_json::{Value, json};

use crate::client::Ask;
use crate::daemon::{
    Daemon, REST, call, call_with, id, init, next_call, pairing, result, text, tool, tools,
};
use crate::isolation::cookie;
use crate::world::{Running, World};

const AGENT: [Scope; 4] = [Scope::FsRead, Scope::FsWrite, Scope::Shell, Scope::Approve];

fn file(path: &str) -> Value {
    json!({"filePath": path})
}

fn status(server: &Running, token: &str) -> Value {
    let ask = Ask::get(&format!("{REST}/status")).bearer(token);
    server.ask(&ask).expect(200).json()["data"].clone()
}

#[test]
fn a_machine_is_paired_called_seen_and_left() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let create = Ask::new("POST", &format!("{REST}/create-link")).bearer(&token);
    let made = server.ask(&create).expect(200).json()["data"].clone();
    let again = server.ask(&create).expect(200).json()["data"].clone();
    assert_eq!(made["token"], again["token"], "the same while it counts");
    assert_eq!(made["ttlSeconds"], 300);
    let pairing = made["token"].as_str().unwrap();
    let command = format!("portcullis connect http://{} {pairing}", server.address);
    assert_eq!(made["command"], command);
    assert_eq!(status(&server, &token)["connected"], false);

    let daemon = Daemon::with(&server, pairing);
    server.ask(&daemon.get("/events")).expect(403);
    let paired = daemon.init(&init()).expect(200).json();
    assert_eq!(paired["data"]["ok"], true);
    assert!(paired["data"]["portcullis"].is_null(), "{paired}");
    let key = paired["data"]["sessionKey"].as_str().unwrap();
    daemon.init(&init()).expect(403);
    let daemon = Daemon::with(&server, key);
    let mut events = daemon.listen();
    let now = status(&server, &token);
    assert_eq!(now["connected"], true);
    assert_eq!(now["directory"], "/home/ada/work");
    assert_eq!(now["hostIdentifier"], "ada@laptop");
    assert_eq!(now["toolCategories"][0]["name"], "filesystem");
    let told = server.ask(&Ask::get("/status").bearer(&token)).json();
    assert_eq!(told["provider"], "gateway");
    assert_eq!(told["machines"], json!(["laptop"]));

    let replied = std::thread::scope(|scope| {
        let called = scope.spawn(|| {
            let arguments = json!({"filePath": "a.txt", "content": "secret words", "_confirmation": "alwaysAllow"});
            call(&server, &token, "write_file", &arguments)
        });
        let event = daemon.serve(&mut events, "written");
        assert_eq!(event.id, "", "n8n's dialect has no ids");
        let asked = &event.data["payload"]["toolCall"];
        assert_eq!(asked["name"], "write_file");
        assert_eq!(
            asked["arguments"],
            json!({"filePath": "a.txt", "content": "secret words"})
        );
        assert!(event.data["payload"]["portcullis"].is_null());
        daemon.respond(id(&event), &result("again")).expect(404);
        called.join().unwrap()
    });
    assert_eq!(text(&replied), "written");
    assert_eq!(replied["isError"], false);
    let lines = world.closings();
    let line = lines
        .iter()
        .rfind(|line| line.operation.as_deref() == Some("relay"));
    let line = line.unwrap();
    assert_eq!(line.alleged.as_deref(), Some("laptop write_file a.txt"));
    assert_eq!(line.outcome.as_deref(), Some("success"));
    assert!(!format!("{lines:?}").contains("secret words"));

    // Leaving ends what waits, at once and typed.
    let began = Instant::now();
    let replied = std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        next_call(&mut events);
        server
            .ask(&daemon.post("/disconnect", &json!({})))
            .expect(200);
        called.join().unwrap()
    });
    assert!(began.elapsed() < promised(Duration::from_secs(20)));
    assert_eq!(replied["structuredContent"]["reason"], "link_lost");
    assert!(events.next_unnamed().is_none());
    assert_eq!(status(&server, &token)["connected"], false);
    server.ask(&daemon.get("/events")).expect(403);
    let told = server.ask(&Ask::get("/status").bearer(&token)).json();
    assert_eq!(told["provider"], "local");
}

#[test]
fn what_is_one_persons_is_nobody_elses() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = world.start();
    let of_ada = Daemon::pair(&world, &server, "ada", &init());
    let mut heard = of_ada.listen();
    assert!(tools(&server, &ada).contains(&"shell_execute".to_owned()));
    assert!(!tools(&server, &bob).contains(&"shell_execute".to_owned()));
    assert_eq!(status(&server, &bob)["connected"], false);
    let refused = call(&server, &bob, "shell_execute", &json!({"command": "id"}));
    assert_eq!(refused["structuredContent"]["reason"], "unknown_tool");
    let named = json!({"filePath": "a", "machine": "laptop"});
    let refused = call(&server, &bob, "read_file", &named);
    assert_eq!(refused["isError"], true);

    let of_bob = Daemon::pair(&world, &server, "bob", &init());
    let _listens = of_bob.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &ada, "read_file", &file("a")));
        let event = next_call(&mut heard);
        of_bob.respond(id(&event), &result("forged")).expect(404);
        of_ada.respond("gw_unknown", &result("x")).expect(404);
        of_ada.respond(id(&event), &result("true")).expect(200);
        assert_eq!(text(&called.join().unwrap()), "true");
    });
    // What bob ends is bob's.
    let end = Ask::new("POST", &format!("{REST}/disconnect-session")).bearer(&bob);
    server.ask(&end).expect(200);
    assert_eq!(status(&server, &ada)["connected"], true);
    assert_eq!(status(&server, &bob)["connected"], false);
    // A credential for reading reaches no more on a linked machine either.
    let reader = world.token("ada", &[Scope::FsRead]);
    assert_eq!(
        tools(&server, &reader)
            .iter()
            .filter(|name| *name == "write_file")
            .count(),
        0
    );
    let refused = call(&server, &reader, "write_file", &file("a"));
    assert_eq!(refused["structuredContent"]["reason"], "unknown_tool");
}

#[test]
fn what_is_no_result_is_refused_and_the_call_waits_on() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut events = daemon.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        let event = next_call(&mut events);
        for bad in [
            json!({}),
            json!([]),
            json!({"result": null}),
            json!({"result": {"content": [{"type": "audio", "data": "", "mimeType": "x"}]}}),
            json!({"result": {"content": "x"}}),
            json!({"result": {"content": []}, "error": "both"}),
            json!({"chunk": {"index": 0, "last": true, "text": "{}"}}),
        ] {
            let answer = daemon.respond(id(&event), &bad);
            assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
        }
        let huge = json!({"result": {"content": [{"type": "text", "text": "x".repeat(17 << 20)}]}});
        daemon.respond(id(&event), &huge).expect(413);
        let many = json!({"result": {"content": [], "structuredContent": {"a": vec![0; 300_000]}}});
        daemon.respond(id(&event), &many).expect(400);
        daemon
            .respond(id(&event), &json!({"error": "no such file"}))
            .expect(200);
        let replied = called.join().unwrap();
        assert_eq!(replied["isError"], true);
        assert!(text(&replied).contains("no such file"), "{replied}");
    });
    // A large one that is not too large gets through, whole.
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        daemon.serve(&mut events, &"y".repeat(7 << 20));
        assert_eq!(text(&called.join().unwrap()).len(), 7 << 20);
    });
}

#[test]
fn an_init_that_is_none_leaves_its_token_unused() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let token = pairing(&world, "ada");
    let daemon = Daemon::with(&server, &token);
    let change = |name: &str, value: Value| {
        let mut init = init();
        init[name] = value;
        init
    };
    let no_schema = json!([{"name": "x", "inputSchema": {}}]);
    for bad in [
        json!({"tools": []}),
        json!([]),
        change("rootPath", json!("")),
        change("rootPath", json!("/a\nb")),
        change("hostIdentifier", json!("h".repeat(200))),
        change("tools", no_schema),
        change("tools", Value::from(vec![tool("x", "shell", true); 257])),
    ] {
        let answer = daemon.init(&bad);
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    let huge = change("rootPath", json!("x".repeat(3 << 20)));
    daemon.init(&huge).expect(413);
    daemon.init(&init()).expect(200);
}

#[test]
fn calls_are_bounded_per_machine_and_fail_at_their_deadline() {
    let world = World::new(Mode::Allow).answered_within(IN_TIME);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut events = daemon.listen();
    let ask = || {
        let replied = call(&server, &token, "read_file", &file("a"));
        let reason = replied["structuredContent"]["reason"].as_str();
        reason.unwrap().to_owned()
    };
    let began = Instant::now();
    let late = std::thread::scope(|scope| {
        let wait: Vec<_> = (0..64).map(|_| scope.spawn(ask)).collect();
        let heard: Vec<_> = (0..64).map(|_| next_call(&mut events)).collect();
        // All of them wait now: what is asked beyond that is refused at once.
        let over: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        for one in over {
            assert_eq!(one.join().unwrap(), "overload");
        }
        assert!(began.elapsed() < IN_TIME, "too late to tell");
        for one in wait {
            assert_eq!(one.join().unwrap(), "deadline");
        }
        heard
    });
    // What comes late is nobody's.
    daemon.respond(id(&late[0]), &result("late")).expect(404);
}

/// How long a call has where it is to come to its deadline: more than 80 need to be
/// asked on a busy machine, and less than a client waits.
const IN_TIME: Duration = Duration::from_secs(30);

#[test]
fn a_new_pairing_replaces_a_daemon_and_its_key() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let first = Daemon::pair(&world, &server, "ada", &init());
    let mut heard = first.listen();
    let waiting = std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        next_call(&mut heard);
        let second = Daemon::pair(&world, &server, "ada", &init());
        let last = heard.next_unnamed().unwrap();
        assert_eq!(last.data["type"], "gateway-disconnect");
        assert!(heard.next_unnamed().is_none());
        let mut events = second.listen();
        first.init(&init()).expect(403);
        let again = scope.spawn(|| call(&server, &token, "read_file", &file("b")));
        second.serve(&mut events, "of the second");
        assert_eq!(text(&again.join().unwrap()), "of the second");
        called.join().unwrap()
    });
    assert_eq!(waiting["structuredContent"]["reason"], "link_lost");
    assert_eq!(world.store.machines(Some("ada")).unwrap().len(), 1);
}

#[test]
fn a_second_stream_takes_the_place_of_the_first() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut old = daemon.listen();
    let mut new = daemon.listen();
    assert!(old.next_unnamed().is_none());
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        daemon.serve(&mut new, "heard");
        assert_eq!(text(&called.join().unwrap()), "heard");
    });
    // Broken, it is waited for: a call made meanwhile is sent to the next. What
    // is sent before the server sees that it broke is lost in n8n's dialect.
    drop(new);
    std::thread::sleep(Duration::from_secs(1));
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        std::thread::sleep(Duration::from_millis(300));
        let mut next = daemon.listen();
        daemon.serve(&mut next, "a little later");
        assert_eq!(text(&called.join().unwrap()), "a little later");
    });
}

#[test]
fn a_daemon_that_comes_back_offers_no_more_than_its_owner_was_shown() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let _events = daemon.listen();
    let change = |name: &str, value: Value| {
        let mut init = init();
        init[name] = value;
        init
    };
    let wider = json!([
        tool("read_file", "filesystem", true),
        tool("rm", "shell", false)
    ]);
    let files = json!({"operations": 1, "root": "workspace", "kind": "workspace", "trusted": true});
    let lends = json!({"protocol": 1, "machine": "desk", "version": "1", "files": files});
    // What wrote is now said to read, which other credentials reach.
    let disguised = json!([tool("write_file", "filesystem", true)]);
    for (what, more) in [
        ("a tool more", change("tools", wider)),
        ("another group", change("tools", disguised)),
        ("another root", change("rootPath", json!("/home/ada"))),
        ("a sibling", change("rootPath", json!("/home/ada/work2"))),
        (
            "another host",
            change("hostIdentifier", json!("eve@laptop")),
        ),
        ("files beside its tools", change("portcullis", lends)),
    ] {
        let answer = daemon.init(&more);
        assert_eq!(answer.status, 409, "{what}: {}", answer.text());
        assert_eq!(answer.json()["reason"], "surface_widened", "{what}");
    }
    assert!(!tools(&server, &token).contains(&"rm".to_owned()));
    assert_eq!(status(&server, &token)["directory"], "/home/ada/work");
    let fewer = change("tools", json!([tool("read_file", "filesystem", true)]));
    daemon.init(&fewer).expect(200);
    assert!(!tools(&server, &token).contains(&"shell_execute".to_owned()));
    daemon.init(&init()).expect(200);
    daemon
        .init(&change("rootPath", json!("/home/ada/work/src")))
        .expect(200);
    // With a new pairing its owner has seen it.
    let wider = json!([
        tool("read_file", "filesystem", true),
        tool("rm", "shell", false)
    ]);
    Daemon::pair(&world, &server, "ada", &change("tools", wider));
    assert!(tools(&server, &token).contains(&"rm".to_owned()));
}

#[test]
fn what_a_machine_was_refused_for_its_owner_can_approve() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let with = |name: &str| {
        let mut init = init();
        init["tools"] = json!([tool(name, "shell", false)]);
        init
    };
    let refused = || world.store.machines(Some("ada")).unwrap()[0].wider.clone();
    assert_eq!(refused(), None);
    let mut more = with("look");
    more["rootPath"] = json!("/home/ada/all");
    more["hostIdentifier"] = json!("ada@desk");
    daemon.init(&more).expect(409);
    let shown = refused().unwrap();
    for part in ["look", "/home/ada/all", "ada@desk"] {
        assert!(shown.contains(part), "{shown}");
    }
    // What its owner looked at is what they approve, whatever comes after it.
    daemon.init(&with("rm")).expect(409);
    assert_eq!(refused().as_ref(), Some(&shown));
    let id = world.store.machines(Some("ada")).unwrap()[0].id.clone();
    assert_eq!(world.store.approve_wider(&id, Some("bob")).unwrap(), None);
    let approved = world.store.approve_wider(&id, None).unwrap();
    assert_eq!(approved, Some(shown));
    assert_eq!(world.store.approve_wider(&id, None).unwrap(), None);
    daemon.init(&with("rm")).expect(409);
    daemon.init(&more).expect(200);
    assert!(tools(&server, &token).contains(&"look".to_owned()));
}

#[test]
fn a_daemon_that_introduces_itself_without_end_has_to_wait() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let began = Instant::now();
    let mut waits = 0;
    for _ in 0..200 {
        let answer = daemon.init(&init());
        match answer.status {
            200 => {}
            429 => {
                assert_eq!(answer.header("retry-after"), Some("1"));
                waits += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
    let most = 10 * (began.elapsed().as_secs() + 2);
    assert!(200 - waits <= most, "{waits} had to wait");
    let mut other = init();
    other["hostIdentifier"] = json!("eve@elsewhere");
    let refused = (0..200).map(|_| daemon.init(&other).status);
    assert!(refused.filter(|status| *status == 409).count() <= 30);
}

#[test]
fn the_owner_is_asked_what_a_machine_wants_a_yes_for() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let person = cookie(&world, "ada");
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut events = daemon.listen();
    let asks = format!(
        "GATEWAY_CONFIRMATION_REQUIRED::{}",
        json!({"toolGroup": "shell", "resource": "rm -r build", "description": "Run: rm -r build",
            "options": ["denyOnce", "allowOnce", "allowForSession"]})
    );
    let wants = json!({"result": {
        "content": [{"type": "text", "text": json!({"error": asks}).to_string()}],
        "structuredContent": {"error": asks}, "isError": true,
    }});
    let arguments = json!({"command": "rm -r build"});
    let run =
        |question: Option<&str>| call_with(&server, &token, "shell_execute", &arguments, question);
    for (decision, want) in [
        ("allow_once", "allowOnce"),
        ("allow_session", "allowForSession"),
    ] {
        let question = std::thread::scope(|scope| {
            let called = scope.spawn(|| run(None));
            let event = next_call(&mut events);
            daemon.respond(id(&event), &wants).expect(200);
            let pending = called.join().unwrap();
            assert_eq!(
                pending["structuredContent"]["reason"], "approval_pending",
                "{pending}"
            );
            assert!(text(&pending).contains("rm -r build"), "{pending}");
            pending["structuredContent"]["questionId"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        let answer = json!({"decision": decision});
        let answer = Ask::post(&format!("/approvals/{question}"), &answer).cookie(&person);
        server.ask(&answer).expect(200);
        std::thread::scope(|scope| {
            let called = scope.spawn(|| run(Some(&question)));
            let event = next_call(&mut events);
            assert!(event.data["payload"]["toolCall"]["arguments"]["_confirmation"].is_null());
            daemon.respond(id(&event), &wants).expect(200);
            let event = next_call(&mut events);
            assert_eq!(
                event.data["payload"]["toolCall"]["arguments"]["_confirmation"],
                want
            );
            daemon.respond(id(&event), &result("gone")).expect(200);
            assert_eq!(text(&called.join().unwrap()), "gone");
        });
    }
    // A no is one: nothing is sent again.
    let question = std::thread::scope(|scope| {
        let called = scope.spawn(|| run(None));
        let event = next_call(&mut events);
        daemon.respond(id(&event), &wants).expect(200);
        let pending = called.join().unwrap();
        pending["structuredContent"]["questionId"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    let answer = Ask::post(
        &format!("/approvals/{question}"),
        &json!({"decision": "deny_once"}),
    );
    server.ask(&answer.cookie(&person)).expect(200);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| run(Some(&question)));
        let event = next_call(&mut events);
        daemon.respond(id(&event), &wants).expect(200);
        let refused = called.join().unwrap();
        assert_eq!(refused["structuredContent"]["reason"], "approval_denied");
    });
}

#[test]
fn files_switched_off_hide_the_machines_files_and_leave_its_link() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let person = cookie(&world, "ada");
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &init());
    let mut events = daemon.listen();
    let prefer = |off: bool| {
        let body = json!({"localGatewayDisabled": off});
        Ask::new("PUT", "/rest/instance-ai/preferences").json(&body)
    };
    server.ask(&prefer(true).bearer(&token)).expect(403);
    let told = server.ask(&prefer(true).cookie(&person)).expect(200).json();
    assert_eq!(told, json!({"data": {"localGatewayDisabled": true}}));
    assert_eq!(tools(&server, &token), ["shell_execute"]);
    let refused = call(&server, &token, "read_file", &file("a"));
    assert_eq!(refused["structuredContent"]["reason"], "switched_off");
    server.ask(&prefer(false).cookie(&person)).expect(200);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &token, "read_file", &file("a")));
        daemon.serve(&mut events, "there again");
        assert_eq!(text(&called.join().unwrap()), "there again");
    });
}

#[test]
fn what_a_link_does_not_carry_says_so() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let _daemon = Daemon::pair(&world, &server, "ada", &init());
    for ask in [
        Ask::get("/file/bytes?path=notes.txt"),
        Ask::get("/file/raw?path=notes.txt"),
        Ask::get("/stat?path=notes.txt"),
        Ask::get("/glob?pattern=*"),
        Ask::get("/list?path=."),
        Ask::get("/list?path=.&cursor=x"),
        Ask::get("/file?path=notes.txt&cursor=x"),
        Ask::get("/watch?path=."),
        Ask::get("/undo"),
        Ask::post("/undo", &json!({"id": "x"})),
        Ask::post("/file/append", &json!({"path": "a", "content": "b"})),
    ] {
        let answer = server.ask(&ask.bearer(&token)).expect(400).json();
        assert_eq!(answer["reason"], "not_offered", "{answer}");
    }
    let here = json!({"filePath": "notes.txt", "machine": "here"});
    let read = call(&server, &token, "read_file", &here);
    assert!(text(&read).contains("some notes"), "{read}");
}
