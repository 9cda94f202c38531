//! One running server and the JSON-RPC conversation with it.
//!
//! Invariants:
//! - the server's questions are answered at once, and always with a no;
//! - a session that met trouble is not used again; dropping it kills the server.

use std::fmt::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use portcullis_process::Piped;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::lines::{Incoming, read_lines, write_lines};
use crate::{Error, Plan, TroubleKind};

const PROTOCOL: &str = "2025-11-25";

/// A server that completed the handshake.
#[derive(Debug)]
pub(crate) struct Session {
    server: Piped,
    requests: Sender<Vec<u8>>,
    replies: Receiver<Incoming>,
    next_id: u64,
    reply_timeout: Duration,
    capabilities: Value,
}

/// A line from the server.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A reply to a request.
    Reply(Reply),
    /// Anything else: a notification, or a question, which is answered by now.
    Aside(Vec<u8>),
}

/// A reply to one of our requests.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) refused: bool,
    pub(crate) line: Vec<u8>,
}

impl Session {
    pub(crate) fn open(plan: &Plan, argv: &[String]) -> Result<Self, Error> {
        let mut server = Piped::start(argv, &[]).map_err(Error::Start)?;
        let (Some(stdin), Some(stdout)) = (server.take_stdin(), server.take_stdout()) else {
            return Err(Error::Start(std::io::Error::other("the pipes are missing")));
        };
        let mut session = Self {
            requests: write_lines(stdin),
            replies: read_lines(stdout, plan.max_reply_bytes),
            server,
            next_id: 0,
            reply_timeout: plan.reply_timeout,
            capabilities: Value::Null,
        };
        let hello = json!({
            "protocolVersion": PROTOCOL,
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "portcullis-hammer", "version": env!("CARGO_PKG_VERSION") },
        });
        let welcome = session.ask("initialize", &hello)?;
        session.capabilities = welcome
            .pointer("/result/capabilities")
            .cloned()
            .unwrap_or_default();
        session.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Ok(session)
    }

    /// Whether the server announced a capability, by its key.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some()
    }

    /// Asks and waits, for everything outside of the race. The answer may be a JSON-RPC error.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        let reply = self.ask_raw(&format!(r#","method":"{method}","params":{params}}}"#))?;
        serde_json::from_slice(&reply.line)
            .map_err(|error| self.handshake_failed(error.to_string()))
    }

    /// As [`ask`](Self::ask), with the request's tail as the race sends it.
    pub(crate) fn ask_raw(&mut self, tail: &str) -> Result<Reply, Error> {
        let mut batch = Batch::default();
        let id = self.add(&mut batch, tail);
        self.send(batch);
        loop {
            match self.receive(Instant::now() + self.reply_timeout) {
                Ok(Heard::Reply(reply)) if reply.id == id => return Ok(reply),
                Ok(Heard::Reply(_) | Heard::Aside(_)) => {}
                Err(trouble) => return Err(self.handshake_failed(trouble.to_string())),
            }
        }
    }

    /// Adds a request to a batch. `tail` begins after the id, and closes the object.
    pub(crate) fn add(&mut self, batch: &mut Batch, tail: &str) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        // Writing to a String cannot fail.
        let _infallible = writeln!(batch.0, r#"{{"jsonrpc":"2.0","id":{id}{tail}"#);
        id
    }

    /// Sends a batch. A server that is gone is noticed when nothing comes back.
    pub(crate) fn send(&self, batch: Batch) {
        if !batch.0.is_empty() {
            let _gone = self.requests.send(batch.0.into_bytes());
        }
    }

    /// Waits for the next line, and answers it if it is a question.
    pub(crate) fn receive(&self, deadline: Instant) -> Result<Heard, TroubleKind> {
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.replies.recv_timeout(patience) {
            Ok(incoming) => self.understand(incoming),
            Err(RecvTimeoutError::Timeout) => Err(TroubleKind::Hung),
            Err(RecvTimeoutError::Disconnected) => Err(TroubleKind::Exited),
        }
    }

    /// What the server wrote to standard error.
    pub(crate) fn stderr_text(&self) -> String {
        self.server.stderr_text()
    }

    fn understand(&self, incoming: Incoming) -> Result<Heard, TroubleKind> {
        let line = match incoming {
            Incoming::Line(line) => line,
            Incoming::TooLong => return Err(TroubleKind::ReplyTooLong),
            Incoming::Closed => return Err(TroubleKind::Exited),
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Heard::Aside(line));
        }
        let envelope: Envelope<'_> =
            serde_json::from_slice(&line).map_err(|_| TroubleKind::NotJson)?;
        if let Some(method) = envelope.method {
            if let Some(id) = envelope.id {
                self.refuse(&method, id);
            }
            return Ok(Heard::Aside(line));
        }
        let Some(id) = envelope.id.and_then(|id| id.get().parse().ok()) else {
            return Ok(Heard::Aside(line));
        };
        let refused = match envelope.result {
            None => true,
            Some(result) => {
                serde_json::from_str::<Outcome>(result.get()).is_ok_and(|outcome| outcome.is_error)
            }
        };
        Ok(Heard::Reply(Reply { id, refused, line }))
    }

    fn refuse(&self, method: &str, id: &RawValue) {
        let answer = match method {
            "elicitation/create" => {
                json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "decline" } })
            }
            "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
            _other => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "not offered" } })
            }
        };
        self.say(&answer);
    }

    fn say(&self, message: &Value) {
        let _gone = self.requests.send(format!("{message}\n").into_bytes());
    }

    fn handshake_failed(&self, problem: String) -> Error {
        Error::Handshake {
            problem,
            stderr: self.stderr_text(),
        }
    }
}

/// Requests that are written in one go.
#[derive(Debug, Default)]
pub(crate) struct Batch(String);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "isError", default)]
    is_error: bool,
}
