//! A server that takes a daemon in, sends it calls and remembers what it says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "gw_0123456789abcdef0123456789abcdef";

/// How long something may take before a test has failed.
const PATIENCE: Duration = portcullis_testkit::PATIENCE;

#[derive(Default)]
struct Heard {
    /// `POST /gateway/init` and its body.
    seen: Vec<(String, Value)>,
    streams: Vec<TcpStream>,
    /// What each request gave in `X-Gateway-Key`.
    keys: Vec<String>,
}

pub(crate) struct Fake {
    heard: Arc<Mutex<Heard>>,
    port: u16,
}

/// What init replies: as n8n does, or as a server of ours does.
#[derive(Clone, Copy)]
enum Says {
    N8n,
    Ours,
}

impl Says {
    fn accepted(self) -> Value {
        let mut data = json!({"ok": true, "sessionKey": "sess_one"});
        if matches!(self, Self::Ours) {
            data["portcullis"] = json!({"protocol": 1, "machine": "m", "machineId": "m_1",
                "pingSeconds": 15});
        }
        json!({ "data": data })
    }
}

impl Fake {
    pub(crate) fn start() -> Self {
        Self::saying(Says::N8n)
    }

    /// One that can say how long it waits for a call.
    pub(crate) fn ours() -> Self {
        Self::saying(Says::Ours)
    }

    fn saying(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hearing = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, heard) = (stream.unwrap(), Arc::clone(&hearing));
                std::thread::spawn(move || converse(stream, &heard, says));
            }
        });
        Self { heard, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends an event over the newest stream.
    pub(crate) fn send(&self, event: &Value) {
        let mut heard = self.heard.lock().unwrap();
        let stream = heard.streams.last_mut().expect("a stream");
        chunk(stream, &format!("data: {event}\n\n"));
    }

    /// Has a tool called.
    pub(crate) fn call(&self, id: &str, name: &str, arguments: Value) {
        self.send(&json!({"type": "filesystem-request", "payload": {
            "requestId": id, "toolCall": {"name": name, "arguments": arguments}}}));
    }

    pub(crate) fn write(&self, id: &str, path: &str, content: &str) {
        self.call(
            id,
            "write_file",
            json!({"filePath": path, "content": content}),
        );
    }

    pub(crate) fn seen(&self, what: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        let seen = heard.seen.iter().filter(|(seen, _)| seen == what);
        seen.map(|(_, body)| body.clone()).collect()
    }

    /// The key of the first request that brought one.
    pub(crate) fn first_key(&self) -> String {
        self.heard.lock().unwrap().keys.first().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.heard.lock().unwrap().seen.len()
    }

    /// Waits for a request; its body.
    #[track_caller]
    pub(crate) fn until(&self, what: &str) -> Value {
        let began = Instant::now();
        loop {
            if let Some(body) = self.seen(what).into_iter().next() {
                return body;
            }
            let heard = self.heard.lock().unwrap().seen.clone();
            assert!(began.elapsed() < PATIENCE, "no {what} in {heard:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the link is up; what is lent.
    #[track_caller]
    pub(crate) fn linked(&self) -> Value {
        let init = self.until("POST /gateway/init");
        self.until("GET /gateway/events");
        init
    }

    /// Waits for the reply to a call: its reason where it failed.
    #[track_caller]
    pub(crate) fn reply(&self, id: &str) -> Option<String> {
        let body = self.until(&format!("POST /gateway/response/{id}"));
        let result = &body["result"];
        assert!(result.is_object(), "{body}");
        let reason = result["structuredContent"]["reason"].as_str();
        (result["isError"] == true).then(|| reason.unwrap().to_owned())
    }
}

fn converse(mut stream: TcpStream, heard: &Mutex<Heard>, says: Says) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(said) = line.strip_prefix("content-length:") {
                length = said.trim().parse().unwrap();
            }
            if let Some(key) = line.strip_prefix("x-gateway-key:") {
                heard.lock().unwrap().keys.push(key.trim().to_owned());
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let words: Vec<&str> = first.split(' ').collect();
        // Through a proxy a request names its server as well.
        let path = words[1].split_once("/rest/instance-ai");
        let path = path.map_or(words[1], |(_, path)| path);
        let what = format!("{} {path}", words[0]);
        let is_stream = what == "GET /gateway/events";
        if is_stream {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            chunk(&mut stream, ": ping\n\n");
            let kept = stream.try_clone().unwrap();
            heard.lock().unwrap().streams.push(kept);
        } else {
            let data = if what.ends_with("init") {
                says.accepted()
            } else {
                json!({"data": {"ok": true}})
            };
            let data = data.to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{data}",
                data.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        heard.lock().unwrap().seen.push((what, body));
    }
}

fn chunk(stream: &mut TcpStream, text: &str) {
    // Who is gone shows in what does not come.
    write!(stream, "{:x}\r\n{text}\r\n", text.len()).ok();
    stream.flush().ok();
}
