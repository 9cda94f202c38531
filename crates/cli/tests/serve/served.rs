//! `portcullis serve` as a process of its own, and a plain client for it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Longer than anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = portcullis_testkit::PATIENCE;

/// A server that listens.
pub(crate) struct Served {
    child: Child,
    address: String,
    /// What it printed, until it could be asked.
    pub(crate) banner: String,
    log: PathBuf,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of one field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:#?}"))
    }

    #[track_caller]
    pub(crate) fn with(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }
}

impl Served {
    /// Serves the sandbox's directory, on a port that is free.
    pub(crate) fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let mut all = vec!["serve", "--dir", ".", "--port", "0"];
        all.extend(args);
        Self::of(sandbox, sandbox.command(&all))
    }

    /// Whatever `command` serves.
    pub(crate) fn of(sandbox: &Sandbox, mut command: Command) -> Self {
        let log = sandbox.data().join("../log");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (mut banner, mut line) = (String::new(), String::new());
        // The last line of the banner says how to make a token.
        while !line.contains(" token create --scope ") {
            line.clear();
            let read = lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "{banner}\n{}", fs::read_to_string(&log).unwrap());
            banner.push_str(&line);
        }
        let address = banner
            .split_once("://")
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .unwrap()
            .to_owned();
        Self {
            child,
            address,
            banner,
            log,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = vec![
            format!("{line} HTTP/1.1"),
            format!("host: {}", self.address),
            "connection: close".to_owned(),
        ];
        head.extend(
            fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
        if !body.is_empty() {
            head.push("content-type: application/json".to_owned());
            head.push(format!("content-length: {}", body.len()));
        }
        let head = head.join("\r\n");
        write!(stream, "{head}\r\n\r\n{body}").unwrap();
        let mut whole = Vec::new();
        stream.read_to_end(&mut whole).unwrap();
        let whole = String::from_utf8_lossy(&whole).into_owned();
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        Answer {
            status: head.get(9..12).unwrap().parse().unwrap(),
            head: head.replace('\r', ""),
            body: body.to_owned(),
        }
    }

    /// A `GET` by who holds `token`.
    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask(&format!("GET {path}"), &[("authorization", &bearer)], "")
    }

    /// A `POST` by who holds `token`.
    pub(crate) fn post(&self, token: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask(&format!("POST {path}"), &[("authorization", &bearer)], body)
    }

    /// Asks it to end, as a service manager does, and waits; what it logged.
    pub(crate) fn end(mut self) -> String {
        signal(self.pid(), "-TERM");
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.log()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// A token of the first user.
pub(crate) fn token(sandbox: &Sandbox, scopes: &str) -> String {
    let came = sandbox.run(&["token", "create", "--scope", scopes]).with(0);
    came.out.trim_end().to_owned()
}

/// A cookie of the first user, by the link of the banner.
pub(crate) fn sign_in(server: &Served) -> String {
    let link = server.banner.split_once("/sign-in#").unwrap().1;
    let link = link.split_whitespace().next().unwrap();
    let signed = server
        .ask("POST /sign-in", &[], &json!({ "link": link }).to_string())
        .with(200);
    let cookie = signed.field("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}
