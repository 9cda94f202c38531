//! Tokens of an issuer elsewhere: whose they are, what is refused, and when they end.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope, ScopeSet};
use portcullis_server::{Issuer, IssuerKeys, IssuerTerms, Refused, Telling};
use serde_json::{Value, json};

use crate::client::{Answer, Ask, Connection};
use crate::signer::{Signer, encoded, key_set, to_sign};
use crate::surfaces::{message_in, over_http, request};
use crate::world::{AUDIENCE, ISSUER, Running, World, now_ms};

/// Longer than a loaded machine keeps a thread waiting.
const PATIENCE: Duration = portcullis_testkit::PATIENCE;
const METADATA: &str =
    "resource_metadata=\"https://files.example/.well-known/oauth-protected-resource/mcp\"";

/// What the log was told.
type Told = Arc<Mutex<Vec<Refused>>>;

fn issuer(signers: &[&Signer]) -> (Arc<Issuer>, Told) {
    let told = Told::default();
    let telling = told.clone();
    let terms = IssuerTerms {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        user_claim: "sub".to_owned(),
    };
    let keys = IssuerKeys::from_jwks(&key_set(signers)).unwrap();
    let tell = move |telling_of: Telling<'_>| match telling_of {
        Telling::One(why, _) => telling.lock().unwrap().push(why),
        // Told when a minute is over.
        Telling::More(..) => {}
    };
    (Arc::new(Issuer::new(terms, keys, Box::new(tell))), told)
}

fn claims(user: &str, scope: &str) -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": user, "scope": scope,
        "exp": now_ms() / 1_000 + 600, "iat": now_ms() / 1_000,
    })
}

fn with(mut claims: Value, name: &str, value: impl Into<Value>) -> Value {
    claims[name] = value.into();
    claims
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn read() -> Ask {
    Ask::get("/file?path=notes.txt")
}

fn write(path: &str) -> Ask {
    let body = json!({"path": path, "content": "x", "mode": "create"});
    Ask::post("/file/write", &body)
}

fn tools(server: &Running, token: &str) -> Answer {
    let ask = over_http("tools/list", None, &request("tools/list", json!({})));
    server.ask(&ask.bearer(token))
}

/// Who the record says did something last.
fn last_subject(world: &World) -> (String, String) {
    let lines = world.closings();
    let subject = lines.last().unwrap().subject.clone().unwrap();
    (subject.user.unwrap(), subject.id)
}

#[test]
fn a_token_of_the_issuer_is_its_users_over_rest_and_mcp() {
    let (rsa, ec, ed) = (Signer::rsa("r"), Signer::ec("e"), Signer::ed("d"));
    let (issuer, told) = issuer(&[&rsa, &ec, &ed]);
    let world = World::new(Mode::Allow).issued_by(&issuer);
    let server = world.start();
    for (signer, alg, kid) in [
        (&rsa, "RS256", Some("r")),
        (&rsa, "PS256", Some("r")),
        (&ec, "ES256", Some("e")),
        (&ed, "EdDSA", Some("d")),
        // The only key that fits needs no name.
        (&ed, "EdDSA", None),
    ] {
        let mut header = json!({"alg": alg, "typ": "JWT"});
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        let claims = with(
            claims("ada", "openid fs:read"),
            "jti",
            format!("{alg}{kid:?}"),
        );
        let token = signer.written(&header, &claims.to_string());
        let got = server.ask(&read().bearer(&token)).expect(200);
        assert_eq!(got.json()["content"], "some notes", "{alg}");
        let (user, id) = last_subject(&world);
        assert_eq!(user, "ada");
        assert!(id.starts_with("jwt_") && id.len() == 20, "{id}");
        // Only the groups it was issued for are there.
        let listed = message_in(&tools(&server, &token).expect(200)).to_string();
        assert!(
            listed.contains("read_file") && !listed.contains("write_file"),
            "{listed}"
        );
        let refused = server.ask(&write("a.txt").bearer(&token)).expect(403);
        let want = format!("Bearer error=\"insufficient_scope\", scope=\"fs:write\", {METADATA}");
        assert_eq!(refused.header("www-authenticate"), Some(want.as_str()));
        assert_eq!(refused.json()["reason"], "no_grant");
    }
    // As a list of audiences, and scopes as `scp`; it never has more than its user.
    let listed = with(
        claims("bob", ""),
        "aud",
        json!(["https://other.example", AUDIENCE]),
    );
    let listed = with(
        without(listed, "scope"),
        "scp",
        json!(["fs:write", "audit", "admin"]),
    );
    let token = ed.token(&listed);
    server.ask(&write("b.txt").bearer(&token)).expect(201);
    server.ask(&Ask::get("/audit").bearer(&token)).expect(200);
    server
        .ask(&Ask::get("/audit?all=1").bearer(&token))
        .expect(403);
    assert_eq!(*told.lock().unwrap(), []);
    // It is a bearer, and no cookie.
    server.ask(&read().cookie(&token)).expect(401);
}

/// One token that must not count, and why.
struct Bad {
    name: &'static str,
    token: String,
    why: Refused,
}

fn bad(name: &'static str, token: impl Into<String>, why: Refused) -> Bad {
    let token = token.into();
    Bad { name, token, why }
}

/// An HMAC as who takes a public key for a secret would check it.
fn hmac(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message = to_sign(&header.to_string(), &claims.to_string());
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let tag = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", encoded(tag))
}

/// Tokens with something wrong outside their claims.
fn wrong_outside(rsa: &Signer, ec: &Signer, ed: &Signer) -> Vec<Bad> {
    let good = claims("ada", "fs:read");
    let text = good.to_string();
    let head = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid});
    let unsigned = |alg: &str| format!("{}.", to_sign(&head(alg, "d").to_string(), &text));
    let whole = ed.token(&good);
    let (message, signature) = whole.rsplit_once('.').unwrap();
    let other = to_sign(
        &head("EdDSA", "d").to_string(),
        &claims("bob", "admin").to_string(),
    );
    // Sixty-four bytes leave four bits of the last letter unused.
    let respelled = match whole.split_at(whole.len() - 1) {
        (rest, "A") => format!("{rest}B"),
        (rest, "Q") => format!("{rest}R"),
        (rest, "g") => format!("{rest}h"),
        (rest, _) => format!("{rest}x"),
    };
    let modulus = rsa.jwk()["n"].as_str().unwrap().to_owned();
    let published = key_set(&[rsa]);
    let stranger = Signer::ed("d");
    let mut embedded = head("EdDSA", "d");
    embedded["jwk"] = stranger.jwk();
    embedded["jku"] = "https://evil.example/keys".into();
    let crit = |name: &str| with(with(head("EdDSA", "d"), "crit", json!([name])), name, true);
    let twice = r#"{"alg":"EdDSA","alg":"EdDSA","kid":"d"}"#;
    let twice = to_sign(twice, &text);
    let twice = format!("{twice}.{}", encoded(ed.signature("EdDSA", &twice)));
    let long = with(good.clone(), "pad", "x".repeat(8 * 1024));
    vec![
        bad("unsigned", unsigned("none"), Refused::Algorithm),
        bad(
            "unsigned, in another case",
            unsigned("nOnE"),
            Refused::Algorithm,
        ),
        bad(
            "unsigned, as if signed",
            unsigned("EdDSA"),
            Refused::Signature,
        ),
        bad(
            "hmac with the modulus",
            hmac(modulus.as_bytes(), &head("HS256", "r"), &good),
            Refused::Algorithm,
        ),
        bad(
            "hmac with the key file",
            hmac(published.as_bytes(), &head("HS256", "r"), &good),
            Refused::Algorithm,
        ),
        bad(
            "hmac that says RS256",
            hmac(modulus.as_bytes(), &head("RS256", "r"), &good),
            Refused::Signature,
        ),
        bad(
            "RS256 that says PS256",
            {
                let message = to_sign(&head("PS256", "r").to_string(), &text);
                format!("{message}.{}", encoded(rsa.signature("RS256", &message)))
            },
            Refused::Signature,
        ),
        bad(
            "an algorithm of another length",
            rsa.written(&head("RS512", "r"), &text),
            Refused::Algorithm,
        ),
        bad(
            "an algorithm in another case",
            ed.written(&head("eddsa", "d"), &text),
            Refused::Algorithm,
        ),
        bad(
            "the key of another type",
            ec.written(&head("ES256", "r"), &text),
            Refused::UnknownKey,
        ),
        bad(
            "an algorithm of another type",
            ec.written(&head("RS256", "e"), &text),
            Refused::UnknownKey,
        ),
        bad(
            "a key nobody knows",
            ed.written(&head("EdDSA", "x"), &text),
            Refused::UnknownKey,
        ),
        bad(
            "a key of an endless name",
            ed.written(&head("EdDSA", &"d".repeat(1_000)), &text),
            Refused::UnknownKey,
        ),
        bad(
            "no key named, and two that fit",
            ec.written(&json!({"alg": "ES256"}), &text),
            Refused::UnknownKey,
        ),
        bad(
            "a stranger's key of the same name",
            stranger.token(&good),
            Refused::Signature,
        ),
        bad(
            "a key that it brings itself",
            stranger.written(&embedded, &text),
            Refused::Signature,
        ),
        bad(
            "other claims under a signature",
            format!("{other}.{signature}"),
            Refused::Signature,
        ),
        bad(
            "a cut signature",
            format!("{message}.{}", signature.split_at(40).0),
            Refused::Signature,
        ),
        bad(
            "a longer signature",
            format!("{whole}AA"),
            Refused::Signature,
        ),
        bad(
            "a signature in another spelling",
            respelled,
            Refused::Malformed,
        ),
        bad(
            "critical fields",
            ed.written(&crit("b64"), &text),
            Refused::Critical,
        ),
        bad(
            "critical fields, none of them",
            ed.written(&with(head("EdDSA", "d"), "crit", json!([])), &text),
            Refused::Critical,
        ),
        bad(
            "a token for something else",
            ed.written(&with(head("EdDSA", "d"), "typ", "logout+jwt"), &text),
            Refused::Kind,
        ),
        bad(
            "no algorithm",
            ed.written(&json!({"kid": "d"}), &text),
            Refused::Malformed,
        ),
        bad(
            "an algorithm that is no word",
            ed.written(&json!({"alg": ["EdDSA"]}), &text),
            Refused::Malformed,
        ),
        bad("a field of the header twice", twice, Refused::Malformed),
        bad(
            "a header that is none",
            ed.written(&json!([1]), &text),
            Refused::Malformed,
        ),
        bad("too long", ed.token(&long), Refused::TooLong),
    ]
}

/// Tokens the issuer signed, that do not count here or now.
fn wrong_inside(ed: &Signer) -> Vec<Bad> {
    let good = || claims("ada", "fs:read");
    let now = now_ms() / 1_000;
    let head = json!({"alg": "EdDSA", "kid": "d"});
    let spelled = |claims: &str| ed.written(&head, claims);
    let text = good().to_string();
    let inside = text.strip_prefix('{').unwrap();
    let deep = format!("{{\"x\":{}{},{inside}", "[".repeat(9), "]".repeat(9));
    let said = |name: &str, value: Value| ed.token(&with(good(), name, value));
    let left_out = |name: &str| ed.token(&without(good(), name));
    vec![
        bad("claims that are no object", spelled("[]"), Refused::Claims),
        bad("claims that are no JSON", spelled("{"), Refused::Claims),
        bad(
            "a claim twice",
            spelled(&format!("{{\"sub\":\"bob\",{inside}")),
            Refused::Claims,
        ),
        bad("claims nested deep", spelled(&deep), Refused::Claims),
        bad(
            "another issuer",
            said("iss", json!("https://login.example.evil")),
            Refused::Issuer,
        ),
        bad(
            "an issuer with a slash",
            said("iss", json!(format!("{ISSUER}/"))),
            Refused::Issuer,
        ),
        bad("no issuer", left_out("iss"), Refused::Issuer),
        bad(
            "another audience",
            said("aud", json!("https://other.example/mcp")),
            Refused::Audience,
        ),
        bad(
            "other audiences",
            said("aud", json!(["a", "b"])),
            Refused::Audience,
        ),
        bad("no audience", left_out("aud"), Refused::Audience),
        bad(
            "an audience that is none",
            said("aud", json!([1, AUDIENCE])),
            Refused::Claims,
        ),
        bad(
            "ended a second ago",
            said("exp", json!(now - 1)),
            Refused::Expired,
        ),
        bad("no end", left_out("exp"), Refused::Endless),
        bad(
            "an end that is none",
            said("exp", json!("tomorrow")),
            Refused::Claims,
        ),
        bad("not yet", said("nbf", json!(now + 120)), Refused::NotYet),
        bad(
            "issued tomorrow",
            said("iat", json!(now + 120)),
            Refused::NotYet,
        ),
        bad(
            "bound to a key",
            said("cnf", json!({"jkt": "x"})),
            Refused::Bound,
        ),
        bad(
            "scopes that are none",
            said("scope", json!(1)),
            Refused::Claims,
        ),
        bad("no user", left_out("sub"), Refused::NoUser),
        bad(
            "a user that is no name",
            said("sub", json!(["ada"])),
            Refused::NoUser,
        ),
        bad(
            "a user there is not",
            said("sub", json!("eve")),
            Refused::UnknownUser,
        ),
        bad(
            "a user in another case",
            said("sub", json!("Ada")),
            Refused::UnknownUser,
        ),
        bad(
            "a user who was removed",
            said("sub", json!("old")),
            Refused::UnknownUser,
        ),
    ]
}

#[test]
fn what_does_not_count_is_refused_alike_and_the_log_alone_says_why() {
    let (rsa, ec, ed) = (Signer::rsa("r"), Signer::ec("e"), Signer::ed("d"));
    let second = Signer::ec("e2");
    let mut table = wrong_outside(&rsa, &ec, &ed);
    table.extend(wrong_inside(&ed));
    let world = World::new(Mode::Allow);
    world
        .store
        .add_user("old", ScopeSet::ALL, now_ms())
        .unwrap();
    assert!(world.store.remove_user("old").unwrap());
    let mut world = world;
    let mut from = 1;
    // The log is told a reason so many times and no more: an issuer for each few.
    for rows in table.chunks(5) {
        let (issuer, told) = issuer(&[&rsa, &ec, &second, &ed]);
        world = world.issued_by(&issuer);
        let server = world.start();
        for row in rows {
            // The door counts who guesses, by address.
            from += 1;
            let from = IpAddr::V4(Ipv4Addr::new(127, 0, 9, from));
            let mcp = over_http("tools/list", None, &request("tools/list", json!({})));
            for ask in [read(), mcp] {
                let mut connection = Connection::open_from(from, server.address);
                connection.send(&ask.bearer(&row.token).wire(server.address));
                let answer = connection.answer().unwrap();
                assert_eq!(answer.status, 401, "{}", row.name);
                assert_eq!(
                    answer.json(),
                    json!({"error": "Unauthorized"}),
                    "{}",
                    row.name
                );
                let want = format!("Bearer error=\"invalid_token\", {METADATA}");
                assert_eq!(answer.header("www-authenticate"), Some(want.as_str()));
            }
            let why = told.lock().unwrap().last().copied();
            assert_eq!(why, Some(row.why), "{}", row.name);
        }
        // Nothing of it kept the good ones out.
        let good = ed.token(&claims("ada", "fs:read"));
        server.ask(&read().bearer(&good)).expect(200);
        let nobody = server.ask(&read()).expect(401);
        let want = format!("Bearer {METADATA}");
        assert_eq!(nobody.header("www-authenticate"), Some(want.as_str()));
    }
    println!(
        "{} tokens that do not count, over REST and MCP",
        table.len()
    );
}

#[test]
fn without_an_issuer_its_tokens_are_nothing() {
    let ed = Signer::ed("d");
    let world = World::new(Mode::Allow);
    let server = world.start();
    let answer = server.ask(&read().bearer(&ed.token(&claims("ada", "fs:read"))));
    assert_eq!(answer.expect(401).header("www-authenticate"), None);
}

/// Asks until `done`, and tells how long that took.
#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what} does not come to pass");
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("{what}: {} ms", began.elapsed().as_millis());
}

/// Makes a file that is larger than what buffers hold, and tells how large.
fn large(world: &World) -> usize {
    let size = 64 * 1024 * 1024;
    world.scratch.file("large.bin", vec![7; size]);
    size
}

/// Begins to take it.
fn begin_taking(server: &Running, token: &str) -> Connection {
    let mut connection = server.connect();
    let ask = Ask::get("/file/raw?path=large.bin").bearer(token);
    connection.send(&ask.wire(server.address));
    assert_eq!(connection.head().unwrap().status, 200);
    connection
}

#[test]
fn what_a_token_had_begun_ends_when_it_does() {
    let ed = Signer::ed("d");
    let (issuer, _) = issuer(&[&ed]);
    let world = World::new(Mode::Allow).issued_by(&issuer);
    let server = world.start();
    // Before the token: a disk may take longer than that lasts.
    let size = large(&world);
    let ends_at = now_ms() + 5_000;
    let seconds = Duration::from_millis(ends_at).as_secs_f64();
    let token = ed.token(&with(claims("ada", "fs:read"), "exp", seconds));
    let mut connection = begin_taking(&server, &token);
    server.ask(&read().bearer(&token)).expect(200);
    std::thread::sleep(Duration::from_millis(ends_at.saturating_sub(now_ms())));
    server.ask(&read().bearer(&token)).expect(401);
    std::thread::sleep(Duration::from_millis(300));
    let got = connection.rest();
    println!("{got} of {size} bytes came");
    assert!(got < size, "the transfer went on");
}

#[test]
fn a_removed_user_and_a_scope_that_was_lost_end_what_was_issued() {
    let ed = Signer::ed("d");
    let (issuer, told) = issuer(&[&ed]);
    let world = World::new(Mode::Allow).issued_by(&issuer);
    let server = world.start();
    let token = ed.token(&claims("bob", "fs:read fs:write"));
    server.ask(&write("a.txt").bearer(&token)).expect(201);
    let size = large(&world);
    let mut connection = begin_taking(&server, &token);

    let left = ScopeSet::of(&[Scope::FsRead]);
    assert!(world.store.set_user_scopes("bob", left).unwrap());
    let mut number = 0;
    until("a scope is lost", || {
        number += 1;
        server
            .ask(&write(&format!("b{number}.txt")).bearer(&token))
            .status
            == 403
    });
    server.ask(&read().bearer(&token)).expect(200);

    assert!(world.store.remove_user("bob").unwrap());
    until("a user is removed", || {
        server.ask(&read().bearer(&token)).status == 401
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(connection.rest() < size, "the transfer went on");
    assert_eq!(told.lock().unwrap().last(), Some(&Refused::UnknownUser));
}

#[test]
fn keys_rotate_while_it_serves() {
    let (old, new) = (Signer::ed("old"), Signer::ec("new"));
    let (issuer, told) = issuer(&[&old]);
    let world = World::new(Mode::Allow).issued_by(&issuer);
    let server = world.start();
    let first = old.token(&claims("ada", "fs:read"));
    let next = new.token(&claims("ada", "fs:read"));
    server.ask(&read().bearer(&first)).expect(200);
    server.ask(&read().bearer(&next)).expect(401);
    let watch = Ask::get("/watch?path=.").bearer(&first);
    let mut events = server.connect().listen(&watch, server.address);
    events.wait_for("begun");

    let both = key_set(&[&old, &new]);
    issuer.replace_keys(IssuerKeys::from_jwks(&both).unwrap());
    server.ask(&read().bearer(&next)).expect(200);
    server.ask(&read().bearer(&first)).expect(200);
    // What its key signed still counts goes on.
    std::thread::sleep(Duration::from_millis(300));
    world.scratch.file("changed.txt", "x");
    events.wait_for("changes");

    issuer.replace_keys(IssuerKeys::from_jwks(&key_set(&[&new])).unwrap());
    server.ask(&read().bearer(&first)).expect(401);
    assert_eq!(told.lock().unwrap().last(), Some(&Refused::UnknownKey));
    server.ask(&read().bearer(&next)).expect(200);
    let last = std::iter::from_fn(|| events.next()).last();
    assert_eq!(last.map(|event| event.name).as_deref(), Some("ended"));
}

#[test]
fn a_session_is_the_one_tokens_that_opened_it() {
    let ed = Signer::ed("d");
    let (issuer, _) = issuer(&[&ed]);
    let world = World::new(Mode::Allow).issued_by(&issuer);
    let server = world.start();
    let issued = |jti: &str| ed.token(&with(claims("ada", "fs:read"), "jti", jti));
    let (mine, next) = (issued("1"), issued("2"));
    let plain = |method: &str| {
        Ask::new(method, "/mcp").header("Accept", "application/json, text/event-stream")
    };
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let begun = server
        .ask(&plain("POST").json(&begin).bearer(&mine))
        .expect(200);
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    for ask in [plain("GET"), plain("POST").json(&list), plain("DELETE")] {
        let before = world.denials("ada");
        let theirs = ask.header("Mcp-Session-Id", &session).bearer(&next);
        server.ask(&theirs).expect(404);
        assert_eq!(world.denials("ada"), before + 1, "it is on the record");
    }
    let own = plain("POST").json(&list).header("Mcp-Session-Id", &session);
    server.ask(&own.bearer(&mine)).expect(200);
}

#[test]
fn a_refreshed_token_does_not_answer_what_the_one_before_asked() {
    let (ed, ec) = (Signer::ed("d"), Signer::ec("e"));
    let (issuer, _) = issuer(&[&ed, &ec]);
    let world = World::new(Mode::Ask).issued_by(&issuer);
    let own = world.token("ada", &[Scope::Approve]);
    let server = world.start();
    let issued = |jti: &str| ed.token(&with(claims("ada", "fs:write approve"), "jti", jti));
    let (mine, next) = (issued("1"), issued("2"));
    let raised = server.ask(&write("a.txt").bearer(&mine)).expect(403).json();
    let id = raised["questionId"].as_str().unwrap();
    let say = Ask::post(
        &format!("/approvals/{id}"),
        &json!({"decision": "allow_once"}),
    );
    for token in [&mine, &next] {
        let refused = server.ask(&say.clone().bearer(token)).expect(403).json();
        assert_eq!(refused["reason"], "no_grant", "{refused}");
    }
    // Brought by another token of the same person it is nobody's.
    server.ask(&say.bearer(&own)).expect(200);
    let brought = write("a.txt").header("Portcullis-Question", id);
    server.ask(&brought.clone().bearer(&next)).expect(400);
    server.ask(&brought.bearer(&mine)).expect(201);
}
