//! `portcullis connect` without a server: the door on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::fake::{Fake, TOKEN};
use crate::sandbox::Sandbox;
use crate::tmux::Tmux;

/// A port nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// What a page says, in every detail.
struct Knock<'a> {
    line: &'a str,
    host: String,
    origin: Option<&'a str>,
    kind: &'a str,
    body: String,
}

/// Knocks; the whole answer.
fn knock(port: u16, knock: &Knock<'_>) -> String {
    let mut answer = String::new();
    say(port, knock).read_to_string(&mut answer).unwrap();
    answer
}

/// Says it, and waits for nothing.
fn say(port: u16, knock: &Knock<'_>) -> TcpStream {
    let began = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(began.elapsed() < portcullis_testkit::PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let origin = knock
        .origin
        .map_or(String::new(), |origin| format!("origin: {origin}\r\n"));
    let request = format!(
        "{} HTTP/1.1\r\nhost: {}\r\n{origin}content-type: {}\r\ncontent-length: {}\r\n\r\n{}",
        knock.line,
        knock.host,
        knock.kind,
        knock.body.len(),
        knock.body
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn wants(port: u16, url: &str) -> Knock<'_> {
    Knock {
        line: "POST /connect",
        host: format!("127.0.0.1:{port}"),
        origin: Some(url),
        kind: "application/json",
        body: format!("{{\"url\":\"{url}\",\"token\":\"{TOKEN}\"}}"),
    }
}

#[test]
fn a_page_of_the_server_asks_and_the_person_decides() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let (port, url) = (free_port(), fake.url());
    let unwanted = Fake::start();
    let refused = unwanted.url();
    let tmux = Tmux::run(&sandbox, &["connect", "--port", &port.to_string()]);
    tmux.until("Waiting at", 1);
    // What is typed before anything is asked is no answer.
    tmux.keys(&["Up", "Up", "Enter"]);
    let get = |line, origin| {
        let knocked = Knock {
            line,
            origin: Some(origin),
            body: String::new(),
            ..wants(port, &url)
        };
        knock(port, &knocked)
    };
    // Nobody learns that somebody waits before the person lets them ask.
    let stranger = "https://evil.example";
    let nothing = get("GET /health", stranger);
    assert!(nothing.starts_with("HTTP/1.1 403"), "{nothing}");
    assert!(!nothing.contains("access-control"), "{nothing}");
    tmux.until("May it ask?", 1);
    assert!(tmux.screen().contains(stranger));
    tmux.keys(&["Enter"]);
    tmux.until("May it ask? No", 1);
    assert!(get("GET /health", stranger).starts_with("HTTP/1.1 403"));
    for (n, origin) in [(1, &refused), (2, &url)] {
        // A page looks again and again.
        let began = Instant::now();
        while tmux.count("May it ask?") == n {
            let knocked = get("GET /health", origin);
            assert!(knocked.starts_with("HTTP/1.1 403"), "{knocked}");
            assert!(began.elapsed() < portcullis_testkit::PATIENCE);
        }
        tmux.keys(&["Up", "Enter"]);
        while !get("GET /health", origin).starts_with("HTTP/1.1 200") {
            assert!(began.elapsed() < portcullis_testkit::PATIENCE);
        }
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(|| knock(port, &wants(port, &refused)));
        tmux.until("Lend this machine?", 1);
        assert!(tmux.screen().contains(&refused));
        // While the person decides, nobody else is heard.
        let busy = knock(port, &wants(port, &url));
        assert!(busy.starts_with("HTTP/1.1 409"), "{busy}");
        tmux.keys(&["Enter"]);
        let answer = first.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    });
    assert_eq!((fake.count(), unwanted.count()), (0, 0));
    let before = tmux.count("Lend this machine?");
    // A no is for as long as it runs.
    let again = knock(port, &wants(port, &refused));
    assert!(again.starts_with("HTTP/1.1 403"), "{again}");
    assert!(!again.contains("access-control"), "{again}");
    assert_eq!(tmux.count("Lend this machine?"), before);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| knock(port, &wants(port, &url)));
        tmux.until("Lend this machine?", before + 1);
        tmux.keys(&["Up", "Up", "Enter"]);
        let answer = second.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let allowed = format!("access-control-allow-origin: {url}\r\n");
        assert!(answer.contains(&allowed), "{answer}");
    });
    fake.linked();
    assert!(get("GET /status", &url).contains("\"directory\""));
    // Another origin learns nothing of it.
    let told = get("GET /status", stranger);
    assert!(told.starts_with("HTTP/1.1 403"), "{told}");
    assert!(!told.contains("access-control") && !told.contains("directory"));
    let again = knock(port, &wants(port, &url));
    assert!(again.starts_with("HTTP/1.1 409"), "{again}");
    assert!(get("POST /disconnect", &url).starts_with("HTTP/1.1 200"));
    fake.until("POST /gateway/disconnect");
    tmux.until("ended with 0.", 1);
}

#[test]
fn who_is_no_page_of_that_server_is_refused_and_learns_nothing() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let (port, url) = (free_port(), fake.url());
    let listed = [
        "connect",
        "--port",
        &port.to_string(),
        "--allowed-origins",
        &url,
    ];
    let tmux = Tmux::run(&sandbox, &listed);
    tmux.until("Waiting at", 1);
    let good = || wants(port, &url);
    let refused = [
        Knock {
            origin: None,
            ..good()
        },
        Knock {
            origin: Some("null"),
            ..good()
        },
        Knock {
            origin: Some("https://evil.example"),
            ..good()
        },
        Knock {
            host: format!("evil.example:{port}"),
            ..good()
        },
        Knock {
            host: "127.0.0.1".into(),
            ..good()
        },
        Knock {
            line: "GET /health",
            origin: None,
            ..good()
        },
        Knock {
            line: "OPTIONS /connect",
            origin: Some("https://evil.example"),
            ..good()
        },
        Knock {
            body: format!("{{\"url\":\"https://evil.example\",\"token\":\"{TOKEN}\"}}"),
            ..good()
        },
    ];
    for knocked in &refused {
        let answer = knock(port, knocked);
        assert!(
            answer.starts_with("HTTP/1.1 403"),
            "{}: {answer}",
            knocked.line
        );
    }
    for (knocked, status) in [
        (
            Knock {
                kind: "text/plain",
                ..good()
            },
            "415",
        ),
        (
            Knock {
                body: "{".into(),
                ..good()
            },
            "400",
        ),
        (
            Knock {
                body: format!("{{\"url\":\"{url}\",\"token\":\"sess_x\"}}"),
                ..good()
            },
            "400",
        ),
        (
            Knock {
                body: "x".repeat(20_000),
                ..good()
            },
            "400",
        ),
        (
            Knock {
                line: "GET /health",
                ..good()
            },
            "200",
        ),
        (
            Knock {
                line: "GET /other",
                ..good()
            },
            "404",
        ),
    ] {
        let answer = knock(port, &knocked);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    let preflight = knock(
        port,
        &Knock {
            line: "OPTIONS /connect",
            body: String::new(),
            ..good()
        },
    );
    assert!(preflight.starts_with("HTTP/1.1 204"), "{preflight}");
    assert!(
        preflight.contains("access-control-allow-private-network: true"),
        "{preflight}"
    );
    assert_eq!(tmux.count("Lend this machine?"), 0);
    assert_eq!(fake.count(), 0);
    // A port that is taken is said.
    let second = Tmux::run(&sandbox, &listed);
    second.until("cannot be listened on", 1);
    second.until("ended with 1.", 1);
}

#[test]
fn another_user_of_this_machine_is_refused_whatever_it_says() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if !status.contains("\nUid:\t0\t0") {
        // Only root can be somebody else.
        return;
    }
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let (port, url) = (free_port(), fake.url());
    let at = port.to_string();
    let tmux = Tmux::run(
        &sandbox,
        &["connect", "--port", &at, "--allowed-origins", &url],
    );
    tmux.until("Waiting at", 1);
    let asked = Knock {
        line: "GET /health",
        body: String::new(),
        ..wants(port, &url)
    };
    let ours = knock(port, &asked);
    assert!(ours.starts_with("HTTP/1.1 200"), "{ours}");
    let said = format!(
        "GET /health HTTP/1.1\\r\\nhost: {}\\r\\norigin: {url}\\r\\n\\r\\n",
        asked.host
    );
    let script = "exec 3<>/dev/tcp/127.0.0.1/$0 && printf %b \"$1\" >&3 && cat <&3";
    let theirs = Command::new("/bin/bash")
        .args(["-c", script, &at, &said])
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
    assert!(theirs.starts_with("HTTP/1.1 403"), "{theirs:?}");
    assert!(!theirs.contains("access-control"), "{theirs}");
}

#[test]
fn with_the_servers_address_alone_its_pages_ask_and_no_others() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let (port, url) = (free_port(), fake.url());
    let at = port.to_string();
    let alone = ["connect", &url, "--port", &at];
    sandbox.run(&alone).with(2).err_has("no terminal");
    let tmux = Tmux::run(&sandbox, &alone);
    tmux.until("Waiting at", 1);
    assert!(tmux.screen().contains(&url), "{}", tmux.screen());
    let health = |origin| {
        let knocked = Knock {
            line: "GET /health",
            origin: Some(origin),
            body: String::new(),
            ..wants(port, &url)
        };
        knock(port, &knocked)
    };
    let nothing = health("https://evil.example");
    assert!(nothing.starts_with("HTTP/1.1 403"), "{nothing}");
    assert!(!nothing.contains("access-control"), "{nothing}");
    assert!(health(&url).starts_with("HTTP/1.1 200"));
    std::thread::scope(|scope| {
        let page = scope.spawn(|| knock(port, &wants(port, &url)));
        tmux.until("Lend this machine?", 1);
        assert_eq!(tmux.count("May it ask?"), 0, "{}", tmux.screen());
        tmux.keys(&["Up", "Up", "Enter"]);
        assert!(page.join().unwrap().starts_with("HTTP/1.1 200"));
    });
    fake.linked();
}

#[test]
fn at_the_door_auto_confirm_answers_nothing() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let (port, url) = (free_port(), fake.url());
    let at = port.to_string();
    let flagged = [
        "connect",
        "--port",
        &at,
        "--filesystem-write-access",
        "--auto-confirm",
        "--allowed-origins",
        &url,
    ];
    sandbox.run(&flagged).with(2).err_has("no terminal");
    let mut nobody = flagged.to_vec();
    nobody.push("--non-interactive");
    sandbox.run(&nobody).with(2).err_has("only a person");
    let tmux = Tmux::run(&sandbox, &flagged);
    tmux.until("Waiting at", 1);
    std::thread::scope(|scope| {
        let page = scope.spawn(|| knock(port, &wants(port, &url)));
        tmux.until("Lend this machine?", 1);
        tmux.until("you decide", 1);
        assert_eq!(fake.count(), 0);
        tmux.keys(&["Up", "Up", "Enter"]);
        assert!(page.join().unwrap().starts_with("HTTP/1.1 200"));
    });
    fake.linked();
    // Nor does it answer what comes after.
    fake.write("gw_1", "b.txt", "x");
    tmux.until("Esc denies once", 1);
    tmux.keys(&["Escape"]);
    assert_eq!(fake.reply("gw_1").as_deref(), Some("approval_denied"));
}

#[test]
fn a_yes_after_the_page_was_answered_is_a_no() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let (port, url) = (free_port(), fake.url());
    let at = port.to_string();
    let listed = ["connect", "--port", &at, "--allowed-origins", &url];
    let tmux = Tmux::run(&sandbox, &listed);
    tmux.until("Waiting at", 1);
    let page = say(port, &wants(port, &url));
    tmux.until("Lend this machine?", 1);
    drop(page);
    std::thread::sleep(Duration::from_millis(500));
    tmux.keys(&["Up", "Up", "Enter"]);
    tmux.until("does not wait any more", 1);
    let again = knock(port, &wants(port, &url));
    assert!(again.starts_with("HTTP/1.1 403"), "{again}");
    assert_eq!(fake.count(), 0);
}

#[test]
fn without_a_port_it_waits_at_7655() {
    let sandbox = Sandbox::new();
    let tmux = Tmux::run(&sandbox, &["connect"]);
    let (waiting, busy) = (
        "Waiting at http://127.0.0.1:7655 ",
        "127.0.0.1:7655 cannot be listened on",
    );
    let began = Instant::now();
    while tmux.count(waiting) + tmux.count(busy) == 0 {
        assert!(
            began.elapsed() < portcullis_testkit::PATIENCE,
            "{}",
            tmux.screen()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // Somebody listens: it, or whoever it says has the port.
    let knocked = TcpStream::connect(("127.0.0.1", 7655));
    assert!(knocked.is_ok() || tmux.count(waiting) == 0, "{knocked:?}");
    if tmux.count(busy) > 0 {
        tmux.until("ended with 1.", 1);
    }
}
