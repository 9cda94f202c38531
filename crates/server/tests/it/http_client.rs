//! A client that speaks HTTP, without the sockets.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use portcullis_proto::{Principal, ScopeSet};
use portcullis_server::{Identity, Via};
use serde_json::{Value, json};

use crate::client::Site;
use crate::schemas;

/// Somebody with a credential, and what they say of themselves.
#[derive(Clone)]
pub(crate) struct Visitor {
    site: Site,
    identity: Identity,
    /// What the client can do, in either era.
    capabilities: Value,
    /// The session, in the era that has them.
    pub(crate) session: Option<String>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// What came back, its body still to come.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>,
    text: String,
}

impl Answer {
    /// The first event of a stream, as it was sent.
    pub(crate) async fn first_event(&mut self) -> String {
        loop {
            if let Some((event, _)) = self.text.split_once("\n\n") {
                return event.to_owned();
            }
            let frame = self.body.frame().await.expect("an event").unwrap();
            if let Ok(data) = frame.into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }

    /// The next message: the body, or the next event that carries one.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        tokio::time::timeout(portcullis_testkit::PATIENCE, self.next_message())
            .await
            .expect("a message in time")
    }

    async fn next_message(&mut self) -> Option<Value> {
        let events = self
            .headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream");
        loop {
            if events && let Some(end) = self.text.find("\n\n") {
                let rest = self.text.split_off(end + 2);
                let event = std::mem::replace(&mut self.text, rest);
                let data: String = event
                    .lines()
                    .filter_map(|line| line.strip_prefix("data:"))
                    .map(str::trim_start)
                    .collect();
                match serde_json::from_str(&data) {
                    Ok(message) => return Some(message),
                    Err(_) => continue,
                }
            }
            let Some(frame) = self.body.frame().await else {
                return serde_json::from_str(&std::mem::take(&mut self.text)).ok();
            };
            if let Ok(data) = frame.unwrap().into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }
}

impl Visitor {
    pub(crate) fn new(site: &Site, token: &str, scopes: &str) -> Self {
        Self {
            site: site.clone(),
            identity: Identity {
                principal: Principal::Token {
                    user: "me".into(),
                    id: token.into(),
                },
                user: Arc::from("me"),
                scopes: ScopeSet::parse(scopes).unwrap(),
                via: Via::Bearer,
            },
            capabilities: json!({}),
            session: None,
            headers: Vec::new(),
        }
    }

    /// The person the world belongs to.
    pub(crate) fn owner(site: &Site) -> Self {
        let mut me = Self::new(site, "", "fs:read,fs:write");
        me.identity.principal = Principal::User { id: "me".into() };
        me
    }

    pub(crate) fn able(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    pub(crate) fn with(mut self, header: &'static str, value: &str) -> Self {
        self.headers.push((header, value.to_owned()));
        self
    }

    /// At another server.
    pub(crate) fn at(&self, site: &Site) -> Self {
        Self {
            site: site.clone(),
            ..self.clone()
        }
    }

    pub(crate) async fn ask(&self, method: Method, body: Option<Value>) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "127.0.0.1:7654")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let body = body.map_or_else(String::new, |body| body.to_string());
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        self.site.guests.welcome(&self.identity);
        let answer = self.site.mcp.answer(self.identity.clone(), request).await;
        let (head, body) = answer.into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            text: String::new(),
        }
    }

    /// Begins a session, as clients up to 2025-11-25 do.
    pub(crate) async fn initialize(&mut self) -> Answer {
        self.initialize_at("2025-11-25").await
    }

    pub(crate) async fn initialize_at(&mut self, version: &str) -> Answer {
        self.session = None;
        let answer = self
            .post(
                1,
                "initialize",
                json!({
                    "protocolVersion": version,
                    "capabilities": self.capabilities,
                    "clientInfo": {"name": "t", "version": "1"},
                }),
            )
            .await;
        self.session = answer
            .headers
            .get("mcp-session-id")
            .map(|id| id.to_str().unwrap().to_owned());
        answer
    }

    pub(crate) async fn handshake(mut self) -> Self {
        let mut answer = self.initialize().await;
        assert_eq!(answer.status, StatusCode::OK);
        let told = answer.message().await.unwrap();
        assert_eq!(told["result"]["serverInfo"]["name"], "portcullis", "{told}");
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = self.ask(Method::POST, Some(begun)).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        self
    }

    pub(crate) async fn post(&self, id: u64, method: &str, params: Value) -> Answer {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.ask(Method::POST, Some(message)).await
    }

    /// One request, in the era this visitor is of.
    pub(crate) async fn start(&self, method: &str, mut params: Value) -> Answer {
        if self.session.is_some() {
            return self.post(7, method, params).await;
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({"name": "t", "version": "1"});
        let mut speaking = self
            .clone()
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", method);
        let name = ["name", "uri", "taskId"]
            .iter()
            .find_map(|key| params.get(key));
        if let Some(name) = name.and_then(Value::as_str) {
            speaking = speaking.with("mcp-name", name);
        }
        speaking.post(7, method, params).await
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let mut answer = self.start(method, params).await;
        loop {
            let message = answer.message().await.expect("an answer");
            if message.get("id").is_some() && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = self.request("tools/call", params).await["result"].take();
        schemas::hold(tool, &reply);
        reply
    }
}
