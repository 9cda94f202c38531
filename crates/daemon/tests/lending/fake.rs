//! A server that lends itself to tests: speaks n8n's dialect or ours, remembers
//! what it was told, and misbehaves on demand.

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
use portcullis_link::event_frame;
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
}

#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    pub(crate) port: u16,
    ours: bool,
    came: Arc<tokio::sync::Notify>,
}

const TOKEN: &str = "gw_0123456789abcdef0123456789abcdef";

impl Fake {
    pub(crate) async fn n8n() -> Self {
        Self::start(false, None).await
    }

    pub(crate) async fn ours() -> Self {
        Self::start(true, None).await
    }

    pub(crate) async fn encrypted(tls: TlsAcceptor) -> Self {
        Self::start(false, Some(tls)).await
    }

    async fn start(ours: bool, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            state: Arc::default(),
            port: listener.local_addr().unwrap().port(),
            ours,
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
        let path = request.uri().path().to_owned();
        let path = path.strip_prefix("/rest/instance-ai").unwrap_or(&path);
        let what = format!("{} {path}", request.method());
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let answer = self.decide(&what, &key);
        let seen = Seen {
            what,
            key,
            after,
            body,
        };
        self.state.lock().unwrap().seen.push(seen);
        self.came.notify_waiters();
        answer
    }

    fn decide(&self, what: &str, key: &str) -> Response<Either<Full<Bytes>, Stream>> {
        let mut state = self.state.lock().unwrap();
        let planned = state.statuses.iter().position(|(of, _)| what.contains(of));
        if let Some((_, status)) = planned.and_then(|at| state.statuses.remove(at)) {
            return plain(status, &json!({"code": status, "message": "as planned"}));
        }
        let is_paired = state.session.as_deref() == Some(key);
        match what {
            "POST /gateway/init" => {
                let mut data = json!({"ok": true});
                if key == TOKEN && state.pairings == 0 {
                    state.pairings += 1;
                    state.session = Some("sess_one".to_owned());
                    data["sessionKey"] = "sess_one".into();
                } else if !is_paired {
                    return plain(403, &json!({"code": 403, "message": "Invalid gateway key"}));
                }
                if self.ours {
                    data["portcullis"] = json!({"protocol": 1, "machine": "m", "machineId": "m_1",
                        "pingSeconds": 15});
                }
                plain(200, &json!({"data": data}))
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
            _ => plain(200, &json!({"data": {"ok": true}})),
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

    pub(crate) fn fall_mute(&self) {
        self.state.lock().unwrap().mute = true;
    }

    pub(crate) fn leave(&self, id: u64, event: Value) {
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
        let id = self.ours.then(|| {
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

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub(crate) fn seen_of(&self, what: &str) -> Vec<Seen> {
        let all = self.seen();
        all.into_iter().filter(|seen| seen.what == what).collect()
    }

    /// Waits until so many requests of a kind have come; the last of them.
    pub(crate) async fn until(&self, what: &str, count: usize) -> Seen {
        self.until_within(what, count, Duration::from_secs(20))
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
