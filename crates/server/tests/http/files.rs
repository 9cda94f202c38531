//! What people and programs do with it: downloads, pages, changes, signing in.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::Ask;
use crate::world::{World, now_ms};

#[test]
fn a_download_is_whole_or_the_range_that_was_asked_for() {
    let world = World::new(Mode::Allow);
    // More than two windows of the server, and every byte tells where it was.
    let size = 2_500_000_usize;
    let bytes: Vec<u8> = (0..2_500_000_u32)
        .map(|n| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap())
        .collect();
    world.scratch.file("large.bin", &bytes);
    world.scratch.file("empty.bin", "");
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let raw = |range: Option<&str>| {
        let ask = Ask::get("/file/raw?path=large.bin").bearer(&token);
        server.ask(&match range {
            Some(range) => ask.header("Range", range),
            None => ask,
        })
    };
    let whole = raw(None).expect(200);
    assert_eq!(whole.body, bytes);
    // A file that has changed this very moment, again and again: its version
    // must not seem to change between two windows.
    for _ in 0..20 {
        world.scratch.file("large.bin", &bytes);
        assert!(raw(None).expect(200).body == bytes);
    }
    let version = raw(None).header("etag").unwrap().to_owned();
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=1048570-1048580", 1_048_570, 1_048_581),
        ("bytes=1000000-", 1_000_000, size),
        ("bytes=-7", size - 7, size),
        ("bytes=-99999999", 0, size),
        ("bytes=2499999-99999999", size - 1, size),
    ] {
        let part = raw(Some(range)).expect(206);
        assert!(part.body == bytes[from..to], "{range}");
        let said = format!("bytes {from}-{}/{size}", to - 1);
        assert_eq!(part.header("content-range"), Some(said.as_str()));
        assert_eq!(part.header("etag"), Some(version.as_str()));
    }
    for range in ["bytes=2500000-", "bytes=-0", "bytes=9999999-99999999"] {
        let answer = raw(Some(range)).expect(416);
        assert_eq!(answer.header("content-range"), Some("bytes */2500000"));
    }
    // What says nothing known is no range.
    for range in ["lines=0-1", "bytes=5-1", "bytes=0-1,5-6", "bytes"] {
        assert!(raw(Some(range)).expect(200).body == bytes, "{range}");
    }
    let empty = Ask::get("/file/raw?path=empty.bin").bearer(&token);
    assert_eq!(server.ask(&empty).expect(200).body, b"");
    let gone = Ask::get("/file/raw?path=nothing.bin").bearer(&token);
    server.ask(&gone).expect(404);
    let mut connection = server.connect();
    let head = Ask::new("HEAD", "/file/raw?path=large.bin").bearer(&token);
    connection.send(&head.wire(server.address));
    let head = connection.head().unwrap();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("2500000"))
    );
}

#[test]
fn a_paged_list_tells_every_name_once() {
    let world = World::new(Mode::Allow);
    for n in 0..237 {
        world.scratch.file(&format!("many/f{n:03}.txt"), "x");
    }
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    for limit in [1, 10, 100, 237, 2_000] {
        let (mut names, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let after = cursor.map(|c| format!("&cursor={c}")).unwrap_or_default();
            let target = format!("/list?path=many&limit={limit}{after}");
            let page = server
                .ask(&Ask::get(&target).bearer(&token))
                .expect(200)
                .json();
            let entries = page["entries"].as_array().unwrap();
            assert!(entries.len() <= limit, "{page}");
            names.extend(
                entries
                    .iter()
                    .map(|one| one["name"].as_str().unwrap().to_owned()),
            );
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
            assert!(names.len() <= 237, "pages without end");
        }
        let want: Vec<String> = (0..237).map(|n| format!("f{n:03}.txt")).collect();
        assert_eq!(names, want, "by {limit}");
    }
    let forged = Ask::get("/list?path=many&limit=5&cursor=forged").bearer(&token);
    server.ask(&forged).expect(400);
}

#[test]
fn a_watcher_is_told_of_every_kind_of_change() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let server = world.start();
    let watch = Ask::get("/watch").bearer(&token);
    let mut events = server.connect().listen(&watch, server.address);
    assert_eq!(events.wait_for("begun").data["complete"], json!(true));
    for (target, body, path) in [
        (
            "/file/write",
            json!({"path": "w.txt", "content": "x", "mode": "create"}),
            "w.txt",
        ),
        (
            "/file/append",
            json!({"path": "w.txt", "content": "y"}),
            "w.txt",
        ),
        ("/directory", json!({"path": "made"}), "made"),
        (
            "/file/copy",
            json!({"from": "w.txt", "to": "c.txt"}),
            "c.txt",
        ),
        (
            "/file/move",
            json!({"from": "c.txt", "to": "m.txt"}),
            "m.txt",
        ),
        ("/file/delete", json!({"path": "m.txt"}), "m.txt"),
    ] {
        let answer = server.ask(&Ask::post(target, &body).bearer(&token));
        assert!(
            [200, 201].contains(&answer.status),
            "{target}: {}",
            answer.text()
        );
        loop {
            let told = events.wait_for("changes").data;
            let names = |one: &Value| one["path"].as_str() == Some(path);
            if told["changes"].as_array().unwrap().iter().any(names) {
                break;
            }
        }
    }
}

#[test]
fn a_link_becomes_a_cookie_that_works_until_it_is_signed_out() {
    let world = World::new(Mode::Allow);
    let server = world.start();
    let link = world.store.create_sign_in_link("bob", now_ms()).unwrap();
    let page = server.ask(&Ask::get("/sign-in")).expect(200);
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("default-src 'none'")
    );
    let use_it = |link: &str| server.ask(&Ask::post("/sign-in", &json!({"link": link})));
    use_it("pcs_wrong").expect(401);
    let signed_in = use_it(link.expose()).expect(200);
    assert_eq!(signed_in.json(), json!({"user": "bob"}));
    let set = signed_in.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains(link.expose()));
    let cookie = set
        .strip_prefix("portcullis_signin=")
        .and_then(|rest| rest.split(';').next())
        .unwrap();
    // At once, and the link once.
    let status = Ask::get("/status").cookie(cookie);
    assert_eq!(server.ask(&status).expect(200).json()["user"], "bob");
    use_it(link.expose()).expect(401);
    let body = json!({"path": "bob.txt", "content": "x", "mode": "create"});
    server
        .ask(&Ask::post("/file/write", &body).cookie(cookie))
        .expect(201);
    // Another browser of the same person stays signed in.
    let other = world.store.create_sign_in_link("bob", now_ms()).unwrap();
    let other = use_it(other.expose()).expect(200);
    let other = other.header("set-cookie").unwrap().to_owned();
    let other = other.split([';', '=']).nth(1).unwrap();
    let gone = server
        .ask(&Ask::new("POST", "/sign-out").cookie(cookie))
        .expect(204);
    assert!(gone.header("set-cookie").unwrap().contains("Max-Age=0"));
    server.ask(&status).expect(401);
    server.ask(&Ask::get("/status").cookie(other)).expect(200);
}
