//! Peers that are slow, silent, greedy or wrong: they are cut off, and the
//! others are served.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_testkit::promised;
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::world::{PATIENCE, Running, World};

/// Until the head of a request has to be there, and a little.
const HEAD_PATIENCE: Duration = Duration::from_secs(15 + 4);
/// Until a peer has to take something, and a little.
const WRITE_PATIENCE: Duration = Duration::from_secs(30 + 20);
/// How much of a body that is too large is let go unread, and what is on its way.
const HEARD_OUT: usize = (64 << 20) + (32 << 20);
/// How fast everybody else is answered meanwhile.
const SERVED: Duration = Duration::from_secs(2);

/// That the others are served, and soon.
#[track_caller]
fn served(server: &Running, token: &str) {
    let began = Instant::now();
    server
        .ask(&Ask::get("/file?path=notes.txt").bearer(token))
        .expect(200);
    assert!(
        began.elapsed() < promised(SERVED),
        "served after {:?}",
        began.elapsed()
    );
}

/// Nothing the server said was an accident of its own.
#[track_caller]
fn no_accidents(server: &Running) {
    let answered = server.answered();
    let bad: Vec<_> = answered
        .iter()
        .filter(|(_, status)| *status >= 500)
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}

fn head(server: &Running, token: &str, rest: &str) -> String {
    format!(
        "Host: {}\r\nAuthorization: Bearer {token}\r\n{rest}\r\n",
        server.address
    )
}

#[test]
fn what_is_no_request_gets_a_refusal_or_nothing() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let server = world.start();
    let body = json!({"path": "made.txt", "content": "x", "mode": "create"}).to_string();
    let ours = head(&server, &token, "");
    let post = |rest: &str, body: &str| {
        let head = head(
            &server,
            &token,
            &format!("Content-Type: application/json\r\n{rest}"),
        );
        format!("POST /file/write HTTP/1.1\r\n{head}{body}").into_bytes()
    };
    let noise: Vec<u8> = (0..64 * 1024_u32)
        .map(|n| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap())
        .collect();
    let many: Vec<String> = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let many = many.concat();
    let huge = "y".repeat(100 * 1024);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("noise", noise),
        (
            "a TLS hello",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(50),
        ),
        (
            "another protocol",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        ),
        ("empty lines", b"\r\n".repeat(40_000)),
        ("no target", format!("GET\r\n{ours}").into()),
        (
            "no version",
            format!("GET /file?path=notes.txt\r\n{ours}").into(),
        ),
        (
            "a version to come",
            format!("GET /file?path=notes.txt HTTP/9.9\r\n{ours}").into(),
        ),
        ("no Host", b"GET /health HTTP/1.1\r\n\r\n".to_vec()),
        ("1.0 without Host", b"GET /health HTTP/1.0\r\n\r\n".to_vec()),
        (
            "two Hosts",
            format!("GET /health HTTP/1.1\r\nHost: evil.example\r\n{ours}").into(),
        ),
        (
            "the same Host twice",
            format!("GET /health HTTP/1.1\r\nHost: {}\r\n{ours}", server.address).into(),
        ),
        (
            "another's absolute target",
            format!("GET http://evil.example/health HTTP/1.1\r\n{ours}").into(),
        ),
        (
            "an authority as target",
            format!("CONNECT evil.example:443 HTTP/1.1\r\n{ours}").into(),
        ),
        (
            "a NUL in a header",
            format!("GET /health HTTP/1.1\r\nX: a\0b\r\n{ours}").into(),
        ),
        (
            "a blank before the colon",
            format!("GET /health HTTP/1.1\r\nX : a\r\n{ours}").into(),
        ),
        (
            "a folded header",
            format!("GET /health HTTP/1.1\r\nX: a\r\n b\r\n{ours}").into(),
        ),
        (
            "100 KiB in one header",
            format!("GET /health HTTP/1.1\r\nX: {huge}\r\n{ours}").into(),
        ),
        (
            "100 KiB of target",
            format!("GET /health?{huge} HTTP/1.1\r\n{ours}").into(),
        ),
        (
            "200 headers",
            format!("GET /health HTTP/1.1\r\n{many}{ours}").into(),
        ),
        (
            "two lengths",
            post(
                &format!("Content-Length: {}\r\nContent-Length: 5\r\n", body.len()),
                &body,
            ),
        ),
        ("a negative length", post("Content-Length: -1\r\n", &body)),
        ("a length in words", post("Content-Length: many\r\n", &body)),
        (
            "a length beyond all",
            post("Content-Length: 99999999999999999999\r\n", &body),
        ),
        (
            "more than may come",
            post("Content-Length: 20000000\r\n", &body),
        ),
        ("another coding", post("Transfer-Encoding: gzip\r\n", &body)),
        (
            "chunks of no size",
            post("Transfer-Encoding: chunked\r\n", "x\r\nabc\r\n0\r\n\r\n"),
        ),
        (
            "a chunk beyond all",
            post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff1\r\nabc"),
        ),
        (
            "a body that breaks off",
            post(&format!("Content-Length: {}\r\n", body.len() + 9), &body),
        ),
        ("no body", post("", "")),
    ];
    let tried = cases.len();
    for (name, bytes) in cases {
        let mut connection = server.connect();
        // It may be cut off before it has said all.
        connection.try_send(&bytes).ok();
        connection.raw().shutdown(Shutdown::Write).ok();
        if let Ok(answer) = connection.answer() {
            assert!((400..500).contains(&answer.status), "{name}: {answer:?}");
        }
        assert!(!world.scratch.at("made.txt").exists(), "{name}");
        served(&server, &token);
    }
    println!("{tried} kinds of nonsense");
    no_accidents(&server);
}

#[test]
fn what_is_a_request_is_answered_however_it_is_sent() {
    let world = World::new(Mode::Allow);
    for n in 0..50 {
        world
            .scratch
            .file(&format!("p{n}.txt"), format!("content {n}"));
    }
    let token = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let server = world.start();
    let ours = head(&server, &token, "");
    // An absolute target of ours, and HTTP/1.0.
    for line in [
        format!("GET http://{}/file?path=p7.txt HTTP/1.1", server.address),
        "GET /file?path=p7.txt HTTP/1.0".to_owned(),
    ] {
        let mut connection = server.connect();
        connection.send(format!("{line}\r\n{ours}").as_bytes());
        let answer = connection.answer().unwrap().expect(200);
        assert!(answer.text().contains("content 7"), "{line}");
    }
    // Fifty at once on one connection, answered in order.
    let all: Vec<String> = (0..50)
        .map(|n| format!("GET /file?path=p{n}.txt HTTP/1.1\r\n{ours}"))
        .collect();
    let mut connection = server.connect();
    connection.send(all.concat().as_bytes());
    for n in 0..50 {
        let answer = connection.answer().unwrap().expect(200);
        assert_eq!(answer.json()["content"], format!("content {n}"));
    }
    // A body with more behind it than it promised: the rest is no part of it.
    let body = json!({"path": "made.txt", "content": "x", "mode": "create"}).to_string();
    let rest = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let head = head(&server, &token, &rest);
    connection
        .send(format!("POST /file/write HTTP/1.1\r\n{head}{body}and more\r\n\r\n").as_bytes());
    connection.answer().unwrap().expect(201);
    assert_eq!(
        std::fs::read_to_string(world.scratch.at("made.txt")).unwrap(),
        "x"
    );
    if let Ok(answer) = connection.answer() {
        assert_eq!(answer.status, 400);
    }
    assert!(connection.is_ended());
    no_accidents(&server);
}

#[test]
fn a_body_over_the_limit_is_not_taken() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsWrite, Scope::Approve]);
    let server = world.start();
    let chunk = format!("10000\r\n{}\r\n", "y".repeat(0x10000));
    for (target, most) in [
        ("/file/write", 10 << 20),
        ("/file/upload?path=up.bin", 50 << 20),
        ("/approvals/q_1", 64 << 10),
        ("/sign-in", 64 << 10),
    ] {
        let mut connection = server.connect();
        let kind = if target.contains("upload") {
            "octet-stream"
        } else {
            "json"
        };
        let rest = format!("Content-Type: application/{kind}\r\nTransfer-Encoding: chunked\r\n");
        let head = head(&server, &token, &rest);
        connection.send(format!("POST {target} HTTP/1.1\r\n{head}").as_bytes());
        let mut sent = 0;
        while sent < most + HEARD_OUT && connection.try_send(chunk.as_bytes()).is_ok() {
            sent += 0x10000;
        }
        assert!(sent < most + HEARD_OUT, "{target} took {sent} bytes");
        if let Ok(answer) = connection.answer() {
            assert_eq!(answer.status, 413, "{target}: {}", answer.text());
        }
        served_health(&server);
    }
    no_accidents(&server);
}

#[track_caller]
fn served_health(server: &Running) {
    server.ask(&Ask::get("/health")).expect(200);
}

/// Takes as long as the patience of the server with a head.
#[test]
fn who_is_slow_to_ask_is_cut_off_and_holds_up_nobody() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let mut silent: Vec<Connection> = (0..50).map(|_| server.connect()).collect();
    let mut slow: Vec<Connection> = (0..50).map(|_| server.connect()).collect();
    let mut idle = server.connect();
    idle.send(&Ask::get("/health").wire(server.address));
    idle.answer().unwrap().expect(200);
    let began = Instant::now();
    let drip = format!("GET /health HTTP/1.1\r\nHost: {}\r\nX: ", server.address);
    for byte in drip.bytes().chain(std::iter::repeat(b'y')) {
        for connection in &mut slow {
            connection.raw().write_all(&[byte]).ok();
        }
        served(&server, &token);
        if began.elapsed() > HEAD_PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    for connection in slow.iter_mut().chain(&mut silent).chain([&mut idle]) {
        connection.patient_for(PATIENCE);
        // Told that it took too long, or nothing; then the end.
        if let Ok(answer) = connection.answer() {
            assert_eq!(answer.status, 408, "{}", answer.text());
        }
        assert!(connection.is_ended(), "a slow peer is still there");
    }
    no_accidents(&server);
}

/// Takes as long as the patience of the server with a reader.
#[test]
fn who_takes_no_reply_is_cut_off_and_holds_up_nobody() {
    let world = World::new(Mode::Allow);
    let size = 64 * 1024 * 1024;
    world.scratch.file("large.bin", vec![7; size]);
    let token = world.token("ada", &[Scope::FsRead]);
    let server = world.start();
    let ask = Ask::get("/file/raw?path=large.bin").bearer(&token);
    let mut greedy: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut greedy {
        connection.send(&ask.wire(server.address));
    }
    let began = Instant::now();
    while began.elapsed() < WRITE_PATIENCE {
        served(&server, &token);
        std::thread::sleep(Duration::from_millis(500));
    }
    for connection in &mut greedy {
        connection.head().unwrap();
        let got = connection.rest();
        assert!(got < size, "all of it came after {WRITE_PATIENCE:?}");
    }
    no_accidents(&server);
}

#[test]
fn what_is_under_way_is_finished_and_streams_are_told() {
    let world = World::new(Mode::Allow);
    let token = world.token(
        "ada",
        &[Scope::FsRead, Scope::FsWrite, Scope::Approve, Scope::Audit],
    );
    let mut server = world.start();
    let streams: Vec<_> = ["/approvals/events", "/audit/events", "/watch"]
        .map(|target| {
            let ask = Ask::get(target).bearer(&token);
            server.connect().listen(&ask, server.address)
        })
        .into();
    let idle = server.connect();
    let body = json!({"path": "made.txt", "content": "x", "mode": "create"});
    let wire = Ask::post("/file/write", &body)
        .bearer(&token)
        .header("Expect", "100-continue")
        .wire(server.address);
    let (first, second) = wire.split_at(wire.len() - 10);
    let mut under_way = server.connect();
    under_way.send(first);
    // The server has its head, and reads on.
    under_way.head().unwrap().expect(100);
    let began = Instant::now();
    server.ask_to_end();
    for mut stream in streams {
        stream.wait_for("ended");
        assert!(stream.next().is_none());
    }
    assert!(
        TcpStream::connect(server.address).is_err(),
        "it takes new ones"
    );
    under_way.send(second);
    under_way.answer().expect("an answer").expect(201);
    server.join();
    println!("drained in {:?}", began.elapsed());
    assert!(
        began.elapsed() < promised(Duration::from_secs(5)),
        "{:?}",
        began.elapsed()
    );
    assert!(world.scratch.at("made.txt").exists());
    drop(idle);
}
