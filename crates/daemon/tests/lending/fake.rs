//! A server that lends itself to tests: speaks n8n's dialect, ours or the seed's,
//! remembers what it was told, and misbehaves on demand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use portcullis_link::{Dialect, event_frame};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// `POST /gateway/init`.
    pub(crate) what: String,
    pub(crate) key: String,
    /// What stood behind the path.
    pub(crate) query: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) body: Value,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    streams: Vec<mpsc::UnboundedSender<Bytes>>,
    /// What the next requests of a kind are answered with.
    statuses: VecDeque<(&'static str, u16)>,
    session: Option<String>,
    next_id: u64,
    pairings: u32,
    /// Events that wait for a look.
    looked_for: Vec<Value>,
    /// Streams open and bring nothing.
    mute: bool,
    /// Events want their key in the query.
    wants_query: bool,
    /// No reply is taken.
    takes_none: bool,
}

#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    pub(crate) port: u16,
    dialect: Dialect,
    came: Arc<tokio::sync::Notify>,
}

const TOKEN: &str = "gw_0123456789abcdef0123456789abcdef";

impl Fake {
    pub(crate) async fn n8n() -> Self {
        Self::start(Dialect::Shipped, None).await
    }

    pub(crate) async fn ours() -> Self {
        Self::start(Dialect::Ours, None).await
    }

    pub(crate) async fn seed() -> Self {
        Self::start(Dialect::Seed, None).await
    }

    pub(crate) async fn encrypted(tls: TlsAcceptor) -> Self {
        Self::start(Dialect::Shipped, Some(tls)).await
    }

    pub(crate) async fn start(dialect: Dialect, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            state: Arc::default(),
            port: listener.local_addr().unwrap().port(),
            dialect,
            came: Arc::default(),
        };
        let serving = fake.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (fake, tls) = (serving.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => fake.converse(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                fake.converse(stream).await;
                            }
                        }
                    }
                });
            }
        });
        fake
    }

    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(move |request| {
            let fake = self.clone();
            async move { Ok::<_, Infallible>(fake.answer(request).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        drop(connection.await);
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Either<Full<Bytes>, Stream>> {
        let header = |name: &str| {
            let value = request.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let (key, after) = (
            header("x-gateway-key").unwrap_or_default(),
            header("last-event-id"),
        );
        let query = request.uri().query().map(str::to_owned);
        let path = request.uri().path().to_owned();
        // As a path of another dialect's it is nowhere here.
        let below = match self.dialect {
            Dialect::Seed => "/instance-ai",
            Dialect::Shipped | Dialect::Ours => "/rest/instance-ai",
        };
        let path = path.strip_prefix(below).unwrap_or(&path);
        let what = format!("{} {path}", request.method());
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let answer = self.decide(&what, &key, query.as_deref());
        let seen = Seen {
            what,
            key,
            query,
            after,
            body,
        };
        self.state.lock().unwrap().seen.push(seen);
        self.came.notify_waiters();
        answer
    }

    fn decide(
        &self,
        what: &str,
        key: &str,
        query: Option<&str>,
    ) -> Response<Either<Full<Bytes>, Stream>> {
        let mut state = self.state.lock().unwrap();
        let planned = state.statuses.iter().position(|(of, _)| what.contains(of));
        if let Some((_, status)) = planned.and_then(|at| state.statuses.remove(at)) {
            return plain(status, &json!({"code": status, "message": "as planned"}));
        }
        if what.contains("/instance-ai/") {
            return plain(404, &json!({"code": 404, "message": "Not Found"}));
        }
        let is_paired = state.session.as_deref() == Some(key);
        let is_keyed = query
            == state
                .session
                .as_ref()
                .map(|key| format!("apiKey={key}"))
                .as_deref();
        let done = |data: Value| match self.dialect {
            Dialect::Seed => plain(200, &data),
            Dialect::Shipped | Dialect::Ours => plain(200, &json!({ "data": data })),
        };
        match what {
            _ if state.takes_none && what.contains("/response/") => {
                plain(503, &json!({"code": 503, "message": "not now"}))
            }
            "GET /gateway/events" if state.wants_query && !is_keyed => {
                plain(403, &json!({"code": 403, "message": "Invalid gateway key"}))
            }
            "POST /gateway/init" => {
                let mut data = json!({"ok": true});
                if key == TOKEN && state.pairings == 0 {
                    state.pairings += 1;
                    state.session = Some("sess_one".to_owned());
                    data["sessionKey"] = "sess_one".into();
                } else if !is_paired {
                    return plain(403, &json!({"code": 403, "message": "Invalid gateway key"}));
                }
                if self.dialect.is_ours() {
                    data["portcullis"] = json!({"protocol": 1, "machine": "m", "machineId": "m_1",
                        "pingSeconds": 15});
                }
                done(data)
            }
            _ if !is_paired => plain(403, &json!({"code": 403, "message": "Invalid gateway key"})),
            "GET /gateway/events" => {
                let (send, receive) = mpsc::unbounded_channel();
                if !state.mute {
                    send.send(Bytes::from_static(b": ping\n\n")).unwrap();
                }
                state.streams.push(send);
                Response::new(Either::Right(Stream(receive)))
            }
            "GET /gateway/poll" => {
                let events = std::mem::take(&mut state.looked_for);
                plain(200, &json!({"data": {"events": events}}))
            }
            _ => done(json!({"ok": true})),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) const fn token() -> &'static str {
        TOKEN
    }

    /// The next request whose words hold `part` is answered with `status`.
    pub(crate) fn plan(&self, part: &'static str, status: u16) {
        self.state
            .lock()
            .unwrap()
            .statuses
            .push_back((part, status));
    }

    /// Forgets the session, as n8n does when it restarts.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().session = None;
    }

    /// Knows a key that needs no pairing.
    pub(crate) fn know(&self, key: &str) {
        self.state.lock().unwrap().session = Some(key.to_owned());
    }

    /// From now on events want their key in the query.
    pub(crate) fn want_query(&self) {
        self.state.lock().unwrap().wants_query = true;
    }

    pub(crate) fn take_replies(&self, taken: bool) {
        self.state.lock().unwrap().takes_none = !taken;
    }

    pub(crate) fn fall_mute(&self) {
        self.state.lock().unwrap().mute = true;
    }

    pub(crate) fn leave(&self, id: impl Into<Option<u64>>, event: Value) {
        let id: Option<u64> = id.into();
        let mut state = self.state.lock().unwrap();
        state.looked_for.push(json!({"id": id, "event": event}));
    }

    /// Breaks every stream.
    pub(crate) fn break_streams(&self) {
        self.state.lock().unwrap().streams.clear();
    }

    /// Sends bytes over the newest stream.
    pub(crate) fn raw(&self, bytes: impl Into<Bytes>) {
        let state = self.state.lock().unwrap();
        let stream = state.streams.last().expect("a stream");
        // One that was given up shows in what comes next.
        drop(stream.send(bytes.into()));
    }

    /// Sends an event; in our dialect, with the next id.
    pub(crate) fn send(&self, event: &Value) {
        let id = self.dialect.is_ours().then(|| {
            let mut state = self.state.lock().unwrap();
            state.next_id += 1;
            state.next_id
        });
        self.raw(event_frame(id, &event.to_string()));
    }

    /// Has a tool called.
    pub(crate) fn call(&self, id: &str, name: &str, arguments: Value) {
        self.send(&json!({"type": "filesystem-request", "payload": {
            "requestId": id, "toolCall": {"name": name, "arguments": arguments}}}));
    }

    /// Has an operation of the seed's done.
    pub(crate) fn operate(&self, id: &str, operation: &str, args: Value) {
        self.send(&json!({"type": "filesystem-request", "payload": {
            "requestId": id, "operation": operation, "args": args}}));
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub(crate) fn seen_of(&self, what: &str) -> Vec<Seen> {
        let all = self.seen();
        all.into_iter().filter(|seen| seen.what == what).collect()
    }

    /// Waits until so many requests of a kind have come; the last of them.
    pub(crate) async fn until(&self, what: &str, count: usize) -> Seen {
        self.until_within(what, count, portcullis_testkit::PATIENCE)
            .await
    }

    pub(crate) async fn until_within(&self, what: &str, count: usize, wait: Duration) -> Seen {
        let looking = async {
            loop {
                let came = self.came.notified();
                let seen = self.seen_of(what);
                if let Some(last) = seen.get(count - 1) {
                    return last.clone();
                }
                tokio::select! {
                    () = came => {}
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
        };
        let found = tokio::time::timeout(wait, looking).await;
        found.unwrap_or_else(|_| panic!("no {count} of {what:?} in {:#?}", self.seen()))
    }

    /// The reply to a call.
    pub(crate) async fn reply(&self, id: &str) -> Value {
        let seen = self.until(&format!("POST /gateway/response/{id}"), 1).await;
        seen.body
    }
}

fn plain(status: u16, body: &Value) -> Response<Either<Full<Bytes>, Stream>> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(body.to_string()))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

/// A stream of events.
pub(crate) struct Stream(mpsc::UnboundedReceiver<Bytes>);

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
