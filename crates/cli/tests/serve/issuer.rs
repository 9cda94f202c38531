//! `portcullis serve` takes tokens of an OAuth issuer: started, rotated, refused.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::served::{PATIENCE, Served};
use crate::signer::{Signer, key_set};

const ISSUER: &str = "https://login.example";

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// The key file, holding those keys: put in place as `mv` does.
fn publish(sandbox: &Sandbox, text: &str) -> PathBuf {
    let file = sandbox.data().join("../keys.json");
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, &file).unwrap();
    file
}

fn start(sandbox: &Sandbox, keys: &str, more: &[&str]) -> Served {
    let file = publish(sandbox, keys);
    let mut args = vec!["--oauth-issuer", ISSUER, "--oauth-keys"];
    args.push(file.to_str().unwrap());
    args.extend(more);
    Served::start(sandbox, &args)
}

fn claims(server: &Served, user: &str) -> Value {
    json!({
        "iss": ISSUER, "aud": format!("http://{}/mcp", server.address()),
        "sub": user, "scope": "fs:read", "exp": now() + 600,
    })
}

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what} does not come to pass");
        // Who is refused thirty times in a minute brings nothing new in.
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_issuers_tokens_count_its_keys_rotate_and_the_log_says_why_one_is_refused() {
    let sandbox = Sandbox::new();
    for user in ["admin", "ada"] {
        sandbox.run(&["user", "add", user]).with(0);
    }
    let (old, new) = (Signer::rsa("old"), Signer::ec("new"));
    let server = start(&sandbox, &key_set(&[&old]), &[]);
    let told = server.ask("GET /.well-known/oauth-protected-resource", &[], "");
    assert_eq!(
        told.with(200).json()["authorization_servers"],
        json!([ISSUER])
    );

    let (first, next) = (claims(&server, "ada"), claims(&server, "ada"));
    let (first, next) = (old.token(&first), new.token(&next));
    // Who is refused too often is told to wait instead: it is let in, or not.
    let is_let_in = |token: &str| match server.get(token, "/list?path=.").status {
        200 => true,
        401 | 429 => false,
        other => panic!("{other}"),
    };
    assert!(is_let_in(&first));
    let refused = server.get(&next, "/list?path=.").with(401);
    let challenge = refused.field("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");

    publish(&sandbox, &key_set(&[&new]));
    until("the new key counts", || is_let_in(&next));
    assert!(!is_let_in(&first), "the old one is gone");
    // What cannot be used changes nothing, and is told once.
    publish(&sandbox, "{\"keys\": [");
    until("it is told", || {
        server.log().contains("the old ones stay in force")
    });
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(is_let_in(&next));
    assert_eq!(
        server.log().matches("the old ones stay in force").count(),
        1
    );

    // One that cannot be used keeps no other from coming and going.
    let mut short = Signer::rsa("short").jwk();
    short["n"] = "AQAB".into();
    let last = Signer::ed("last");
    publish(&sandbox, &json!({"keys": [short, last.jwk()]}).to_string());
    until("keys beside a damaged one count", || !is_let_in(&next));
    let next = last.token(&claims(&server, "ada"));
    assert!(is_let_in(&next));
    assert!(server.log().contains("do not count: 1"), "{}", server.log());
    // A list of none is the issuer's word, too.
    publish(&sandbox, "{\"keys\": []}");
    until("all keys are gone", || !is_let_in(&next));
    assert!(server.log().contains("lists no key"), "{}", server.log());
    publish(&sandbox, &key_set(&[&last]));
    until("they are back", || is_let_in(&next));

    sandbox.run(&["user", "remove", "ada"]).with(0);
    until("a removed user's token counts no more", || {
        !is_let_in(&next)
    });
    let log = server.end();
    for why in [
        "holds no key, or more than one, for its kid and alg (kid=new alg=ES256)",
        "holds no key, or more than one, for its kid and alg (kid=old alg=RS256)",
        "there is no user of the name it says",
    ] {
        assert!(log.contains(why), "{why}: {log}");
    }
    for token in [&first, &next] {
        for part in token.split('.') {
            assert!(!log.contains(part), "a part of a token is in the log");
        }
    }
    // In the record it has its name.
    let audit = sandbox.run(&["audit", "export"]).with(0);
    assert!(audit.out.contains("\"jwt_"), "{}", audit.out);
    sandbox.run(&["audit", "verify"]).with(0);
}

#[test]
fn the_audience_and_the_claim_of_the_user_can_be_named() {
    let sandbox = Sandbox::new();
    let ed = Signer::ed("d");
    let more = [
        "--oauth-audience",
        "portcullis",
        "--oauth-user-claim",
        "name",
    ];
    let server = start(&sandbox, &key_set(&[&ed]), &more);
    let mut named = claims(&server, "nobody");
    named["name"] = "admin".into();
    assert_eq!(server.get(&ed.token(&named), "/list?path=.").status, 401);
    named["aud"] = "portcullis".into();
    assert_eq!(server.get(&ed.token(&named), "/list?path=.").status, 200);
}

#[test]
fn without_keys_that_can_be_used_nothing_is_started() {
    let sandbox = Sandbox::new();
    let serve_for = |issuer: &str, keys: &str| {
        sandbox.run(&[
            "serve",
            "--dir",
            ".",
            "--port",
            "0",
            "--oauth-issuer",
            issuer,
            "--oauth-keys",
            keys,
        ])
    };
    let serve = |keys: &str| serve_for(ISSUER, keys);
    let missing = sandbox.data().join("../none.json");
    let came = serve(missing.to_str().unwrap()).with(1);
    assert!(came.err.contains("there is no file at"), "{}", came.err);
    let slashed = serve_for(&format!("{ISSUER}/"), missing.to_str().unwrap()).with(1);
    let hint = format!(" {ISSUER}/.well-known/openid-configuration");
    assert!(slashed.err.contains(&hint), "{}", slashed.err);
    let mut private = Signer::ed("d").jwk();
    private["d"] = "AAAA".into();
    for (text, why) in [
        ("not json", "it is not a JWK set"),
        ("{\"keys\":[]}", "no key in it is for signatures"),
        (&json!({ "keys": [private] }).to_string(), "a private key"),
    ] {
        let file = publish(&sandbox, text);
        let came = serve(file.to_str().unwrap()).with(1);
        assert!(came.err.contains(why), "{}", came.err);
        assert!(
            came.err.contains("hint: ") && came.err.contains("jwks_uri"),
            "{}",
            came.err
        );
    }
    let alone = ["serve", "--dir", ".", "--oauth-issuer", ISSUER];
    let came = sandbox.run(&alone).with(2);
    assert!(came.err.contains("--oauth-keys"), "{}", came.err);
}
