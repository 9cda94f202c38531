//! Requests to the server, each bounded in time and in what is read of its
//! answer. Connections are used again while they last.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use portcullis_link::{INIT_KEY_HEADER, INSTANCE_HEADER};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::address::{BELOW, SEED_BELOW};
use crate::route::Route;
use crate::seed;

/// How long an exchange may take, from the connection to the end of the answer.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(20);
/// The most that is read of an answer: but for a look for events, none has more
/// than a few hundred bytes.
const MAX_ANSWER: usize = 256 * 1024;
/// The largest head of an answer.
const MAX_HEAD: usize = 64 * 1024;
/// How many connections are kept for the next request.
const MAX_KEPT: usize = 8;

const AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"));
const KEY: HeaderName = HeaderName::from_static(INIT_KEY_HEADER);
const INSTANCE: HeaderName = HeaderName::from_static(INSTANCE_HEADER);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody is there, or who is there speaks no HTTP.
    Unreachable(String),
    /// Who is there is not who it should be: its certificate says so.
    Untrusted(String),
    /// Nobody answered in time.
    Silent,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Untrusted(why) => f.write_str(why),
            Self::Silent => f.write_str("the server does not answer"),
        }
    }
}

/// A connection, and who moves bytes over it.
struct Kept {
    sender: SendRequest<Full<Bytes>>,
    moving: AbortOnDropHandle<()>,
}

/// One request.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    /// Below the prefix of the server's address.
    pub(crate) path: &'a str,
    pub(crate) body: Option<Bytes>,
    /// `Last-Event-ID`, where a stream goes on.
    pub(crate) after: Option<u64>,
    /// The most that is read of its answer.
    pub(crate) most: usize,
}

impl<'a> Ask<'a> {
    pub(crate) fn post(path: &'a str, body: Bytes) -> Self {
        Self {
            method: Method::POST,
            path,
            body: Some(body),
            after: None,
            most: MAX_ANSWER,
        }
    }

    pub(crate) fn get(path: &'a str) -> Self {
        Self {
            method: Method::GET,
            path,
            body: None,
            after: None,
            most: MAX_ANSWER,
        }
    }
}

/// An answer that goes on.
pub(crate) struct Streaming {
    body: Incoming,
    _moving: AbortOnDropHandle<()>,
}

impl Streaming {
    /// The next bytes; `None` at the end, however it came about.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(bytes) => return Some(bytes),
                    Err(_trailers) => {}
                },
                Err(_) => return None,
            }
        }
    }
}

/// Speaks to one server, under one key.
pub(crate) struct Http {
    route: Route,
    key: Mutex<HeaderValue>,
    /// Said to a server of ours with every request.
    instance: Mutex<Option<HeaderValue>>,
    /// Whether the seed's paths are meant.
    is_seed: AtomicBool,
    kept: Mutex<Vec<Kept>>,
}

impl Http {
    pub(crate) fn new(route: Route, key: HeaderValue) -> Self {
        Self {
            route,
            key: Mutex::new(key),
            instance: Mutex::default(),
            is_seed: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    /// From now on, this key stands for us.
    pub(crate) fn use_key(&self, mut key: HeaderValue) {
        key.set_sensitive(true);
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// From now on, says which daemon it is, or does not any more.
    pub(crate) fn use_instance(&self, instance: Option<HeaderValue>) {
        *self.instance.lock().unwrap_or_else(PoisonError::into_inner) = instance;
    }

    /// From now on, the seed's paths are meant.
    pub(crate) fn speak_seed(&self) {
        self.is_seed.store(true, Ordering::Release);
    }

    /// `path` with the key in its query: the seed's events alone.
    pub(crate) fn keyed(&self, path: &str) -> String {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        seed::with_key(path, key.as_bytes())
    }

    /// Sends a request and reads its answer whole.
    pub(crate) async fn send(&self, ask: &Ask<'_>) -> Result<(StatusCode, Bytes), Trouble> {
        self.send_within(ask, EXCHANGE_PATIENCE).await
    }

    pub(crate) async fn send_within(
        &self,
        ask: &Ask<'_>,
        patience: Duration,
    ) -> Result<(StatusCode, Bytes), Trouble> {
        let answered = timeout(patience, self.exchange(ask)).await;
        answered.unwrap_or_else(|_| {
            // What swallowed this one may swallow the next: a connection that
            // looks open and leads nowhere is not tried again.
            self.kept().clear();
            Err(Trouble::Silent)
        })
    }

    /// Opens a stream. One that is refused comes back with its status alone.
    pub(crate) async fn open(
        &self,
        ask: &Ask<'_>,
        patience: Duration,
    ) -> Result<Result<Streaming, StatusCode>, Trouble> {
        let opening = async {
            let mut fresh = self.connect().await?;
            let sent = fresh.sender.send_request(self.request(ask)?).await;
            let reply = sent.map_err(|error| no_http(&error))?;
            if reply.status() != StatusCode::OK {
                return Ok(Err(reply.status()));
            }
            Ok(Ok(Streaming {
                body: reply.into_body(),
                _moving: fresh.moving,
            }))
        };
        match timeout(patience, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Trouble::Silent),
        }
    }

    async fn exchange(&self, ask: &Ask<'_>) -> Result<(StatusCode, Bytes), Trouble> {
        let kept = self.kept().pop();
        if let Some(mut kept) = kept
            && !kept.sender.is_closed()
        {
            let sent = kept.sender.send_request(self.request(ask)?).await;
            // One that the server has closed meanwhile says nothing about it. What
            // is sent twice is done once: a call is replied to by its id.
            if let Ok(reply) = sent {
                return self.answer(kept, reply, ask.most).await;
            }
        }
        let mut fresh = self.connect().await?;
        let sent = fresh.sender.send_request(self.request(ask)?).await;
        let reply = sent.map_err(|error| no_http(&error))?;
        self.answer(fresh, reply, ask.most).await
    }

    async fn answer(
        &self,
        kept: Kept,
        reply: http::Response<Incoming>,
        most: usize,
    ) -> Result<(StatusCode, Bytes), Trouble> {
        let (head, body) = reply.into_parts();
        // The status has said what became of the request. An answer that is too
        // long, or breaks off, costs its connection.
        let answer = Limited::new(body, most).collect().await;
        let answer = answer.map(Collected::to_bytes);
        if answer.is_ok() {
            let mut idle = self.kept();
            if idle.len() < MAX_KEPT {
                idle.push(kept);
            }
        }
        Ok((head.status, answer.unwrap_or_default()))
    }

    fn request(&self, ask: &Ask<'_>) -> Result<Request<Full<Bytes>>, Trouble> {
        let below = if self.is_seed.load(Ordering::Acquire) {
            SEED_BELOW
        } else {
            BELOW
        };
        let target = self.route.target(below, ask.path);
        let target = target.map_err(|error| Trouble::Unreachable(error.to_string()))?;
        let mut request = Request::new(Full::new(ask.body.clone().unwrap_or_default()));
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = target;
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let headers = request.headers_mut();
        headers.insert(HOST, self.route.address.authority.clone());
        headers.insert(KEY, key.clone());
        let instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(instance) = &*instance {
            headers.insert(INSTANCE, instance.clone());
        }
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if ask.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, */*"));
        }
        if let Some(after) = ask.after {
            headers.insert("last-event-id", HeaderValue::from(after));
        }
        if let Some(said) = self.route.proxy_authorization() {
            headers.insert(PROXY_AUTHORIZATION, said);
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Kept, Trouble> {
        // What TLS says of a certificate is said so; no other read or write is.
        let unreachable = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::InvalidData {
                return Trouble::Untrusted(error.to_string());
            }
            Trouble::Unreachable(error.to_string())
        };
        let stream = self.route.connect().await.map_err(unreachable)?;
        let (sender, connection) = Builder::new()
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| no_http(&error))?;
        let moving = tokio::spawn(async move {
            // Whoever sends hears of it.
            drop(connection.await);
        });
        Ok(Kept {
            sender,
            moving: AbortOnDropHandle::new(moving),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What hyper says of it: words of its own, never bytes of the peer's.
fn no_http(error: &hyper::Error) -> Trouble {
    Trouble::Unreachable(error.to_string())
}
