//! Nobody without a credential that holds gets anything but the one answer.

use std::collections::BTreeSet;

use portcullis_proto::{Mode, Scope, ScopeSet};
use portcullis_server::routes;
use serde_json::json;

use crate::client::{Answer, Ask};
use crate::world::{World, now_ms};

/// What answers without a credential. This list may only shrink.
const OPEN: [&str; 6] = [
    "GET /health",
    "GET /sign-in",
    "POST /sign-in",
    "GET /approve/{id}",
    // Where a stranger with an OAuth client learns whom to ask; RFC 9728.
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
];

/// Bad credentials of one address that are told so; after them it has to wait.
const TOLD: usize = 30;

/// A request to a route that would be answered, were it not for the credential.
pub(crate) fn to(method: &str, path: &str) -> Ask {
    let target = path.replace("{id}", "q_1");
    let query = if method == "GET" {
        "?path=notes.txt&pattern=*"
    } else {
        ""
    };
    let ask = Ask::new(method, &format!("{target}{query}"));
    if method == "GET" {
        return ask;
    }
    ask.json(&json!({
        "path": "made.txt", "content": "x", "mode": "create", "from": "notes.txt",
        "to": "made.txt", "id": "u_1", "decision": "allow_once",
    }))
}

#[track_caller]
fn check_same(name: &str, answer: &Answer) {
    assert_eq!(answer.status, 401, "{name}: {}", answer.text());
    assert_eq!(answer.json(), json!({"error": "Unauthorized"}), "{name}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{name}");
}

/// Presents something.
type With<'a> = Box<dyn Fn(Ask) -> Ask + 'a>;

#[test]
fn every_route_refuses_a_stranger() {
    let world = World::new(Mode::Allow);
    let all = ScopeSet::ALL.iter().collect::<Vec<Scope>>();
    let good = world.token("ada", &all);
    let revoked = world.new_token("ada", &all);
    assert!(world.store.revoke_token(&revoked.id, None).unwrap());
    let expired = world
        .store
        .create_token("ada", "t", ScopeSet::ALL, Some(now_ms() + 1), now_ms())
        .unwrap();
    let link = world.store.create_sign_in_link("ada", now_ms()).unwrap();
    let signed_in = world
        .store
        .use_sign_in_link(link.expose(), now_ms())
        .unwrap()
        .unwrap();
    let signed_out = signed_in.cookie.expose().to_owned();
    assert!(world.store.sign_out(&signed_out).unwrap());
    // The last character of a token carries bits of its secret.
    let mut wrong = good.clone();
    let last = wrong.pop().unwrap();
    wrong.push(if last == 'A' { 'Q' } else { 'A' });
    std::thread::sleep(std::time::Duration::from_millis(5));

    let bad: Vec<(&str, With<'_>)> = vec![
        ("wrong", Box::new(|ask: Ask| ask.bearer(&wrong))),
        (
            "expired",
            Box::new(|ask: Ask| ask.bearer(expired.secret.expose())),
        ),
        (
            "revoked",
            Box::new(|ask: Ask| ask.bearer(revoked.secret.expose())),
        ),
        ("signed out", Box::new(|ask: Ask| ask.cookie(&signed_out))),
        ("no token", Box::new(|ask: Ask| ask.bearer("secret"))),
    ];
    let mut open = BTreeSet::new();
    let mut checked = 0;
    // Daemons have a door of their own: `gateway_keys`.
    let mut routes = routes();
    routes.retain(|route| !route.of_daemons);
    for some in routes.chunks(TOLD / bad.len()) {
        let server = world.start();
        for route in some {
            let name = route.name;
            let bare = server.ask(&to(route.method, route.path));
            if OPEN.contains(&name) {
                open.insert(name);
                continue;
            }
            check_same(name, &bare);
            // A way around, the same route by its workspace.
            let twin = format!("/workspaces/workspace{}", route.path);
            check_same(name, &server.ask(&to(route.method, &twin)));
            let head = Ask::new("HEAD", &route.path.replace("{id}", "q_1"));
            if route.method == "GET" {
                let mut connection = server.connect();
                connection.send(&head.wire(server.address));
                assert_eq!(connection.head().unwrap().status, 401, "HEAD {name}");
            }
            for (what, with) in &bad {
                let answer = server.ask(&with(to(route.method, route.path)));
                check_same(&format!("{name}, {what}"), &answer);
                checked += 1;
            }
        }
        // The credential that holds does hold, after all of those.
        server.ask(&Ask::get("/status").bearer(&good)).expect(200);
    }
    assert_eq!(open, BTreeSet::from(OPEN), "the list may only shrink");
    assert_eq!(checked, (routes.len() - OPEN.len()) * bad.len());
    assert_eq!(
        std::fs::read_to_string(world.scratch.at("notes.txt")).unwrap(),
        "some notes"
    );
    assert!(!world.scratch.at("made.txt").exists());
}

#[test]
fn what_is_no_route_says_so_to_nobody_unknown() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    for ask in [
        Ask::get("/"),
        Ask::get("/nothing"),
        Ask::new("DELETE", "/file"),
        Ask::new("PUT", "/health"),
        Ask::new("OPTIONS", "/file"),
        Ask::get("/approve/a/b"),
        Ask::get("/sign-in/"),
        Ask::get("//health"),
        Ask::get("/%68ealth"),
    ] {
        check_same(&format!("{ask:?}"), &server.ask(&ask));
    }
}

#[test]
fn who_guesses_has_to_wait_and_locks_nobody_out() {
    let world = World::new(Mode::Allow);
    let good = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    for _ in 0..TOLD {
        check_same(
            "a guess",
            &server.ask(&Ask::get("/status").bearer("pcl_guess")),
        );
    }
    let waits = server.ask(&Ask::get("/status").bearer("pcl_guess"));
    assert_eq!(waits.status, 429, "{}", waits.text());
    assert_eq!(waits.header("retry-after"), Some("60"));
    server.ask(&Ask::get("/status").bearer(&good)).expect(200);
    // Who brings none is told what is missing all the same.
    check_same("none", &server.ask(&Ask::get("/status")));
}
