//! The three ways an agent comes in, behind one call: REST, MCP over HTTP and
//! MCP over a pipe, all to the same machine.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use portcullis_files::Record;
use portcullis_server::serve_pipe;
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::world::{PATIENCE, Running};

const VERSION: &str = "2026-07-28";

/// The same deed as each wire spells it.
#[derive(Clone)]
pub(crate) struct Deed {
    pub(crate) rest: Ask,
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    Rest,
    McpHttp,
    Stdio,
}

impl Surface {
    pub(crate) const ALL: [Self; 3] = [Self::Rest, Self::McpHttp, Self::Stdio];
}

/// What an agent is told: that it was done, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// `ok`, or kind and reason.
    pub(crate) verdict: String,
    /// The question it waits for.
    pub(crate) question: Option<String>,
}

impl Told {
    pub(crate) fn of(body: &Value, refused: bool, status: impl fmt::Display) -> Self {
        let word = |name: &str| body[name].as_str().map(str::to_owned);
        let verdict = match (refused, word("errorKind"), word("reason")) {
            (false, _, _) => "ok".to_owned(),
            (true, Some(kind), Some(reason)) => format!("{kind}/{reason}"),
            (true, _, _) => format!("{status}: {}", body["error"].as_str().unwrap_or("?")),
        };
        Self {
            verdict,
            question: word("questionId"),
        }
    }

    fn of_mcp(message: &Value) -> Self {
        let result = &message["result"];
        if result.is_null() {
            return Self::of(&message["error"]["data"], true, &message["error"]["code"]);
        }
        Self::of(&result["structuredContent"], result["isError"] == true, "?")
    }
}

/// How long a call says it waits for a person, and the answer it brings.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    pub(crate) waits: bool,
    pub(crate) brings: Option<String>,
}

impl Surface {
    /// Asks for `deed`, with a token where the surface takes one.
    pub(crate) fn ask(self, server: &Running, token: &str, deed: &Deed, manner: &Manner) -> Told {
        match self {
            Self::Rest => {
                let mut ask = deed.rest.clone().bearer(token);
                if manner.waits {
                    ask = ask.header("Prefer", "wait=30");
                }
                if let Some(id) = &manner.brings {
                    ask = ask.header("Portcullis-Question", id);
                }
                let answer = server.ask(&ask);
                let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
                Told::of(&body, answer.status >= 400, answer.status)
            }
            Self::McpHttp => {
                let call = call(deed, manner);
                let mut ask = over_http("tools/call", Some(deed.tool), &call).bearer(token);
                if manner.waits {
                    ask = ask.header("Prefer", "wait=30");
                }
                Told::of_mcp(&message_in(&server.ask(&ask)))
            }
            Self::Stdio => Told::of_mcp(&over_a_pipe(server, &call(deed, manner))),
        }
    }
}

/// Puts a credential on a request.
pub(crate) type Credential<'a> = &'a dyn Fn(Ask) -> Ask;

/// How many tools somebody sees that look, and that change; over a pipe where no
/// credential is named. The status where they are not let in.
pub(crate) fn tools_seen(
    server: &Running,
    credential: Option<Credential<'_>>,
) -> Result<(usize, usize), u16> {
    let list = request("tools/list", json!({}));
    let told = match credential {
        None => over_a_pipe(server, &list),
        Some(credential) => {
            let answer = server.ask(&credential(over_http("tools/list", None, &list)));
            if answer.status != 200 {
                return Err(answer.status);
            }
            message_in(&answer)
        }
    };
    let tools = told["result"]["tools"].as_array().expect("a list of tools");
    let looks = |tool: &&Value| tool["annotations"]["readOnlyHint"] == true;
    let looking = tools.iter().filter(looks).count();
    Ok((looking, tools.len() - looking))
}

/// A message as it goes to `/mcp`.
pub(crate) fn over_http(method: &str, name: Option<&str>, message: &Value) -> Ask {
    let ask = Ask::post("/mcp", message)
        .header("Accept", "application/json, text/event-stream")
        .header("Mcp-Protocol-Version", VERSION)
        .header("Mcp-Method", method);
    match name {
        Some(name) => ask.header("Mcp-Name", name),
        None => ask,
    }
}

/// A request that stands alone, as both MCP wires take it.
pub(crate) fn request(method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "t", "version": "1"});
    if meta["io.modelcontextprotocol/clientCapabilities"].is_null() {
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// A call, with what it brings.
fn call(deed: &Deed, manner: &Manner) -> Value {
    let mut params = json!({"name": deed.tool, "arguments": deed.arguments});
    if let Some(id) = &manner.brings {
        params["_meta"]["portcullis/question"] = json!(id);
    }
    request("tools/call", params)
}

/// The message in an answer: its body, or its last event.
pub(crate) fn message_in(answer: &Answer) -> Value {
    let text = answer.text();
    let last = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .next_back();
    serde_json::from_str(last.unwrap_or(&text))
        .unwrap_or_else(|error| panic!("{error}: {} {text}", answer.status))
}

/// One call over a pipe of its own, as `portcullis mcp` would be asked.
fn over_a_pipe(server: &Running, call: &Value) -> Value {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let parts = server.pipe.clone();
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let stream = tokio::net::UnixStream::from_std(theirs).unwrap();
            let (read, write) = tokio::io::split(stream);
            serve_pipe(parts, read, write).await.ok();
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
    });
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    ours.write_all(format!("{call}\n").as_bytes()).unwrap();
    let mut line = String::new();
    let mut reading = BufReader::new(ours);
    reading.read_line(&mut line).expect("an answer in time");
    drop(reading);
    serving.join().unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// What a line of the record says of the deed, whoever did it through whatever.
pub(crate) fn line(record: &Record) -> String {
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
    let root = record.root.as_ref().map_or("", |root| &root.id);
    // The longest name of the scenarios says no more than its beginning.
    let alleged = record
        .alleged
        .as_ref()
        .map(|alleged| alleged.chars().take(40).collect::<String>());
    let target = match (&record.relative_path, &alleged) {
        (Some(path), None) => format!("{root}:{path}"),
        (Some(path), Some(alleged)) => format!("{root}:{path} ({alleged:?})"),
        (None, Some(alleged)) => format!("{alleged:?}"),
        (None, None) => "-".to_owned(),
    };
    let to = record
        .destination_path
        .as_ref()
        .map_or_else(String::new, |to| format!(" to {to}"));
    format!(
        "{} {target}{to}: {} {} by {}",
        word(&record.operation),
        word(&record.outcome),
        word(&record.reason),
        word(&record.policy_source),
    )
}
