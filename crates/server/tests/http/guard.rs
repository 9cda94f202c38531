//! Host, Origin, content type and method, in every combination.

use portcullis_proto::{Mode, Scope};
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::world::{Running, World};

type Host = (Option<&'static str>, bool);
type Origins = (&'static [&'static str], bool);

/// Host, and whether it is ours. `{port}` is the port of the listener.
const HOSTS: [Host; 15] = [
    (Some("127.0.0.1:{port}"), true),
    (Some("localhost:{port}"), true),
    (Some("LocalHost:{port}"), true),
    (Some("[::1]:{port}"), true),
    (Some("host.docker.internal:{port}"), true),
    (None, false),
    (Some(""), false),
    (Some("127.0.0.1"), false),
    (Some("localhost"), false),
    (Some("localhost:1"), false),
    (Some("127.0.0.2:{port}"), false),
    (Some("0.0.0.0:{port}"), false),
    (Some("evil.example:{port}"), false),
    (Some("localhost.evil.example:{port}"), false),
    (Some("localhost:{port}@evil.example"), false),
];

/// Origins, and whether pages of theirs may send requests. `{scheme}` is what the
/// listener speaks, `{other}` what it does not.
const ORIGINS: [Origins; 12] = [
    (&[], true),
    (&["{scheme}://127.0.0.1:{port}"], true),
    (&["{scheme}://localhost:{port}"], true),
    (&["https://console.example"], true),
    (&["null"], false),
    (&[""], false),
    (&["{scheme}://localhost"], false),
    (&["{other}://localhost:{port}"], false),
    (&["http://evil.example"], false),
    (&["https://console.example.evil.example"], false),
    (&["https://console.example", "http://evil.example"], false),
    (&["{scheme}://localhost:{port}, http://evil.example"], false),
];

/// Content types, and whether they say JSON and nothing else.
const TYPES: [(&[&str], bool); 11] = [
    (&["application/json"], true),
    (&["application/json; charset=utf-8"], true),
    (&["Application/JSON"], true),
    (&[], false),
    (&[""], false),
    (&["text/plain"], false),
    (&["application/x-www-form-urlencoded"], false),
    (&["multipart/form-data; boundary=x"], false),
    (&["text/plain; application/json"], false),
    (&["application/jsonp"], false),
    (&["application/json", "text/plain"], false),
];

const OTHER_METHODS: [&str; 6] = ["GET", "PUT", "PATCH", "DELETE", "TRACE", "FORM"];

struct Combination {
    ask: Ask,
    ours: bool,
    shared: bool,
}

/// A request with that Host and Origin.
fn combined(
    ask: Ask,
    server: &Running,
    (name, ours): Host,
    (origins, shared): Origins,
) -> Combination {
    let other = if server.scheme == "http" {
        "https"
    } else {
        "http"
    };
    let fill = |text: &str| {
        text.replace("{port}", &server.address.port().to_string())
            .replace("{scheme}", server.scheme)
            .replace("{other}", other)
    };
    let mut ask = ask.host(name.map(fill).as_deref());
    for one in origins {
        ask = ask.header("Origin", fill(one));
    }
    Combination { ask, ours, shared }
}

#[test]
fn nothing_is_accepted_under_a_wrong_host_origin_type_or_method() {
    changes_are_guarded(&World::new(Mode::Allow));
}

#[test]
fn nothing_is_accepted_under_a_wrong_host_origin_type_or_method_over_tls() {
    changes_are_guarded(&World::new(Mode::Allow).encrypted());
}

fn changes_are_guarded(world: &World) {
    let token = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let server = world.start();
    let (mut tried, mut accepted) = (0, 0);
    let mut try_one = |name: &str, ask: &Ask, good: bool, refusals: &[u16], path: &str| {
        let mut connection = server.connect();
        connection.send(&ask.wire(server.address));
        let answer = connection.answer().expect(name);
        let made = world.scratch.at(path).exists();
        assert_eq!(made, good, "{name}: {} {}", answer.status, answer.text());
        let expected: &[u16] = if good { &[201] } else { refusals };
        assert!(
            expected.contains(&answer.status),
            "{name}: {} {}",
            answer.status,
            answer.text()
        );
        tried += 1;
        accepted += usize::from(good);
        answer
    };
    for (host, named) in HOSTS.into_iter().enumerate() {
        for (origin, from) in ORIGINS.into_iter().enumerate() {
            for (which, (types, is_json)) in TYPES.iter().enumerate() {
                let path = format!("t{host}-{origin}-{which}.txt");
                let body = json!({"path": path, "content": "x", "mode": "create"});
                let ask = Ask::new("POST", "/file/write").bearer(&token);
                let one = combined(ask, &server, named, from);
                let ask = types
                    .iter()
                    .fold(one.ask, |ask, one| ask.header("Content-Type", *one))
                    .body(body.to_string());
                let name = format!("POST {:?} {:?} {types:?}", named.0, from.0);
                let refusal = if one.ours && one.shared { 400 } else { 403 };
                let good = one.ours && one.shared && *is_json;
                let answer = try_one(&name, &ask, good, &[refusal, 400], &path);
                let shares = answer.header("access-control-allow-origin").is_some();
                let may_share = one.ours && one.shared && !from.0.is_empty();
                assert_eq!(shares, may_share, "{name}");
                assert_eq!(answer.header("access-control-allow-credentials"), None);
            }
            for method in OTHER_METHODS {
                let path = format!("m{host}-{origin}-{method}.txt");
                let body = json!({"path": path, "content": "x", "mode": "create"});
                let ask = Ask::new(method, "/file/write").bearer(&token).json(&body);
                let one = combined(ask, &server, named, from);
                let refusal = if one.ours && one.shared { 405 } else { 403 };
                let name = format!("{method} {:?} {:?}", named.0, from.0);
                try_one(&name, &one.ask, false, &[refusal, 400], &path);
            }
        }
    }
    println!("{tried} combinations tried, {accepted} accepted");
    assert_eq!(tried, 15 * 12 * (11 + 6));
    assert_eq!(accepted, 5 * 4 * 3);
}

#[test]
fn nothing_is_read_or_promised_under_a_wrong_host_or_origin() {
    reads_are_guarded(&World::new(Mode::Allow));
}

#[test]
fn nothing_is_read_or_promised_under_a_wrong_host_or_origin_over_tls() {
    reads_are_guarded(&World::new(Mode::Allow).encrypted());
}

/// What listens for TLS hears nothing else, and what does not hears no TLS.
#[test]
fn a_listener_speaks_what_it_is_told_to_and_nothing_else() {
    let world = World::new(Mode::Allow).encrypted();
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let ask = Ask::get("/file?path=notes.txt").bearer(&token);
    assert!(server.ask(&ask).expect(200).text().contains("some notes"));
    let mut plain = Connection::open(server.address);
    plain.send(&ask.wire(server.address));
    assert!(plain.answer().is_err(), "it was answered unencrypted");
    assert_eq!(server.answered().len(), 1, "{:?}", server.answered());
}

fn reads_are_guarded(world: &World) {
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let (mut tried, mut accepted) = (0, 0);
    for named in HOSTS {
        for from in ORIGINS {
            let name = format!("{:?} {:?}", named.0, from.0);
            for target in ["/file?path=notes.txt", "/health", "/sign-in"] {
                let ask = Ask::get(target).bearer(&token);
                let one = combined(ask, &server, named, from);
                let good = one.ours && one.shared;
                let answer = server.ask(&one.ask);
                assert_eq!(
                    answer.status == 200,
                    good,
                    "{name} {target} {}",
                    answer.status
                );
                assert!([200, 403, 400].contains(&answer.status), "{name}");
                assert!(good || !answer.text().contains("notes"), "{name}");
                tried += 1;
                accepted += usize::from(good);
            }
            // What a browser asks before it lets a page send something.
            let ask =
                Ask::new("OPTIONS", "/file/write").header("Access-Control-Request-Method", "POST");
            let one = combined(ask, &server, named, from);
            let answer = server.ask(&one.ask);
            let promised = one.ours && one.shared && !from.0.is_empty();
            assert_eq!(answer.status == 204, promised, "{name} {}", answer.status);
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(allowed.is_some(), promised, "{name}");
            assert_ne!(allowed, Some("*"));
            tried += 1;
            accepted += usize::from(promised);
        }
    }
    println!("{tried} combinations tried, {accepted} accepted");
    assert_eq!(tried, 15 * 12 * 4);
    assert_eq!(accepted, 5 * 4 * 3 + 5 * 3);
}
