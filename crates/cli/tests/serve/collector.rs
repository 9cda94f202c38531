//! A collector of telemetry that takes what it is sent, or misbehaves on purpose.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::served::PATIENCE;

/// How a collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As it should.
    Takes,
    /// As it should, but for this many spans of each message.
    Rejects(u64),
    /// With a status, and perhaps seconds to wait.
    Says(u16, Option<u64>),
    /// Never.
    Hangs,
    /// A byte every now and then.
    Drips,
    /// What is no HTTP.
    Babbles,
    /// With a body that has no end.
    Streams,
    /// It hangs up.
    Cuts,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Message {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:#?}"))
    }
}

#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    /// How the next are answered; the last for ever.
    manners: Vec<Manner>,
    messages: Vec<Message>,
    connections: usize,
}

impl Collector {
    /// Answers in these manners, one after the other and then as in the last.
    pub(crate) fn start(manners: &[Manner]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::new(Mutex::new(State {
                manners: manners.to_vec(),
                messages: Vec::new(),
                connections: 0,
            })),
        };
        let serving = collector.clone();
        // Ends with the process, as those it starts do.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = serving.clone();
                serving.state.lock().unwrap().connections += 1;
                std::thread::spawn(move || serving.converse(stream.unwrap()));
            }
        });
        collector
    }

    /// Every message so far.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.state.lock().unwrap().messages.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// Every message to `path` so far.
    pub(crate) fn to(&self, path: &str) -> Vec<Message> {
        let mut messages = self.messages();
        messages.retain(|message| message.path == path);
        messages
    }

    /// Every span so far.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for message in self.to("/v1/traces") {
            let scopes = &message.json()["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.extend(scopes.as_array().unwrap().iter().cloned());
        }
        spans
    }

    /// Waits until what it was told is `enough`.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, enough: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !enough(self) {
            assert!(Instant::now() < until, "{what}: {:#?}", self.messages());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn converse(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(message) = read(&mut reader) {
            let manner = {
                let mut state = self.state.lock().unwrap();
                state.messages.push(message);
                if state.manners.len() > 1 {
                    state.manners.remove(0)
                } else {
                    state.manners[0]
                }
            };
            if !answer(manner, &mut stream) {
                return;
            }
        }
    }
}

/// Whether the connection goes on.
fn answer(manner: Manner, stream: &mut TcpStream) -> bool {
    let mut say = |status: u16, more: &str, body: &str| {
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n{body}"
        )
        .is_ok()
    };
    match manner {
        Manner::Takes => say(200, "", r#"{"partialSuccess":{}}"#),
        Manner::Rejects(spans) => say(
            200,
            "",
            &format!(r#"{{"partialSuccess":{{"rejectedSpans":"{spans}"}}}}"#),
        ),
        Manner::Says(status, wait) => {
            let wait = wait.map_or_else(String::new, |s| format!("retry-after: {s}\r\n"));
            say(status, &wait, "no")
        }
        Manner::Hangs => {
            std::thread::sleep(PATIENCE);
            false
        }
        Manner::Drips => {
            let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
            for byte in reply.iter().chain(std::iter::repeat(&b'x')) {
                std::thread::sleep(Duration::from_millis(100));
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
            }
            false
        }
        Manner::Babbles => {
            stream.write_all(&vec![0xfe; 100_000]).ok();
            false
        }
        Manner::Streams => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
            stream.write_all(head).ok();
            while stream.write_all(&[b'x'; 16_384]).is_ok() {}
            false
        }
        Manner::Cuts => false,
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Message> {
    let (mut head, mut line) = (String::new(), String::new());
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        head.push_str(&line);
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse().unwrap())
    })?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Message {
        path: head.split(' ').nth(1)?.to_owned(),
        head,
        body: String::from_utf8(body).unwrap(),
    })
}
