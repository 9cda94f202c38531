//! A daemon that says what a test tells it to, over the real listener.

use serde_json::{Value, json};

use crate::client::{Answer, Ask, Event, Events};
use crate::surfaces::{message_in, over_http, request};
use crate::world::{Running, World, now_ms};

/// n8n's prefix, which ours shares.
pub(crate) const REST: &str = "/rest/instance-ai/gateway";

/// A daemon, and the key it comes with.
pub(crate) struct Daemon<'a> {
    pub(crate) server: &'a Running,
    pub(crate) key: String,
}

/// A tool of a daemon's.
pub(crate) fn tool(name: &str, category: &str, read_only: bool) -> Value {
    json!({
        "name": name,
        "description": format!("does {name}"),
        "inputSchema": {"type": "object", "properties": {"filePath": {"type": "string"}}},
        "annotations": {"category": category, "readOnlyHint": read_only},
    })
}

/// What n8n's daemon says first, of a machine with three tools.
pub(crate) fn init() -> Value {
    json!({
        "rootPath": "/home/ada/work",
        "hostIdentifier": "ada@laptop",
        "tools": [
            tool("read_file", "filesystem", true),
            tool("write_file", "filesystem", false),
            tool("shell_execute", "shell", false),
        ],
        "toolCategories": [{"name": "filesystem", "enabled": true, "writeAccess": true}],
    })
}

/// The same, as our own daemon says it.
pub(crate) fn init_of_ours(name: &str) -> Value {
    let mut init = init();
    init["portcullis"] = json!({"protocol": 1, "machine": name, "version": "1"});
    init
}

/// A pairing token, as `portcullis link create` makes it.
pub(crate) fn pairing(world: &World, user: &str) -> String {
    let made = world.store.create_pairing(user, now_ms()).unwrap();
    made.token.expose().to_owned()
}

impl<'a> Daemon<'a> {
    pub(crate) fn with(server: &'a Running, key: &str) -> Self {
        Self {
            server,
            key: key.to_owned(),
        }
    }

    /// Pairs a machine of `user` that says `init` of itself.
    #[track_caller]
    pub(crate) fn pair(world: &World, server: &'a Running, user: &str, init: &Value) -> Self {
        let token = pairing(world, user);
        let paired = Self::with(server, &token).init(init).expect(200).json();
        let key = paired["data"]["sessionKey"].as_str().unwrap();
        Self::with(server, key)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Ask {
        Ask::post(&format!("{REST}{path}"), body).header("X-Gateway-Key", &self.key)
    }

    pub(crate) fn init(&self, init: &Value) -> Answer {
        self.server.ask(&self.post("/init", init))
    }

    pub(crate) fn get(&self, path: &str) -> Ask {
        Ask::get(&format!("{REST}{path}")).header("X-Gateway-Key", &self.key)
    }

    #[track_caller]
    pub(crate) fn listen(&self) -> Events {
        let connection = self.server.connect();
        connection.listen(&self.get("/events"), self.server.address)
    }

    pub(crate) fn respond(&self, request: &str, body: &Value) -> Answer {
        let path = format!("/response/{request}");
        self.server.ask(&self.post(&path, body))
    }

    /// Answers the next call with a text.
    #[track_caller]
    pub(crate) fn serve(&self, events: &mut Events, text: &str) -> Event {
        let event = next_call(events);
        self.respond(id(&event), &result(text)).expect(200);
        event
    }
}

/// The next call that is asked for.
#[track_caller]
pub(crate) fn next_call(events: &mut Events) -> Event {
    let event = events.next_unnamed().expect("a call, and not the end");
    assert_eq!(event.data["type"], "filesystem-request", "{event:?}");
    event
}

pub(crate) fn id(event: &Event) -> &str {
    event.data["payload"]["requestId"].as_str().unwrap()
}

/// A result that is a text.
pub(crate) fn result(text: &str) -> Value {
    json!({"result": {"content": [{"type": "text", "text": text}]}})
}

/// Calls a tool over `/mcp`.
pub(crate) fn call(server: &Running, token: &str, tool: &str, arguments: &Value) -> Value {
    call_with(server, token, tool, arguments, None)
}

/// The same, bringing the answer to a question.
pub(crate) fn call_with(
    server: &Running,
    token: &str,
    tool: &str,
    arguments: &Value,
    question: Option<&str>,
) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments});
    if let Some(question) = question {
        params["_meta"]["portcullis/question"] = json!(question);
    }
    let message = request("tools/call", params);
    let ask = over_http("tools/call", Some(tool), &message).bearer(token);
    message_in(&server.ask(&ask))["result"].clone()
}

/// The names of the tools somebody sees.
pub(crate) fn tools(server: &Running, token: &str) -> Vec<String> {
    let list = request("tools/list", json!({}));
    let told = message_in(&server.ask(&over_http("tools/list", None, &list).bearer(token)));
    let tools = told["result"]["tools"].as_array().expect("tools");
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}
