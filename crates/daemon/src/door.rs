//! The door on loopback where a server's page may ask to be lent this machine.
//!
//! Only a page asks, so only a browser's words count: the origin it vouches for
//! has to be the server's own. Whoever else knocks, by another name of this
//! machine, from another page, as another user of it or without saying from where, gets the same
//! refusal whatever goes on inside: also where the person is then asked whether
//! that page may ask. A person confirms.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, VARY,
};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use portcullis_proto::{Secret, read_json};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::address::Address;

/// The largest thing a page may say.
const MAX_BODY: usize = 16 * 1024;
/// How many connections are open at once.
const MAX_CONNECTIONS: usize = 16;
/// How many of them others of this machine hold: they are told one thing, and are not
/// to be in the way of who may ask.
const MAX_STRANGERS: usize = 2;
/// How long a page may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a page waits for the person.
const PERSON: Duration = Duration::from_mins(5);
/// How a pairing token begins; nothing else is taken from a page.
const PAIRING: &str = "gw_";

const PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// What a page wants: this machine lent to its server.
#[derive(Debug)]
pub struct Wanted {
    /// Where the server is; of the page's own origin.
    pub url: String,
    /// The pairing token.
    pub token: Secret,
    /// Hears what the person decided. Dropped, that is a no.
    pub decided: oneshot::Sender<bool>,
}

/// What goes on behind the door.
pub trait Porter: Send + Sync {
    /// Whether who connected from there to here is of the user it all runs as:
    /// another one of this machine can say all that a browser says. It may take its
    /// time: it is asked on a thread of its own.
    fn is_own(&self, from: SocketAddr, to: SocketAddr) -> bool;
    /// Whether pages of this origin may ask at all, and know that somebody waits.
    fn may_ask(&self, origin: &str) -> bool;
    /// A page of this origin, which may not, was refused. Never waits.
    fn knocked(&self, origin: &str);
    /// The origin this machine is lent to.
    fn lent_to(&self) -> Option<String>;
    /// How it is lent, for its server's page.
    fn status(&self) -> Value;
    /// Puts it before the person; gives it back where they are busy.
    fn ask(&self, wanted: Wanted) -> Result<(), Wanted>;
    /// Ends it.
    fn disconnect(&self);
}

/// Answers the door for as long as it is polled.
pub async fn answer_door(listener: TcpListener, porter: Arc<dyn Porter>) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
    loop {
        let Ok(room) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PATIENCE).await;
            continue;
        };
        let (porter, strangers) = (Arc::clone(&porter), Arc::clone(&strangers));
        tokio::spawn(async move {
            let is_own = is_own(&stream, &porter).await;
            let room = if is_own {
                room
            } else {
                drop(room);
                // Who finds no place is let go without a word.
                let Ok(place) = strangers.try_acquire_owned() else {
                    return;
                };
                place
            };
            converse(stream, port, porter, is_own).await;
            drop(room);
        });
    }
}

/// Whether it is of the user we run as. Looking that up takes time that is not the
/// link's: it is done on a thread of its own.
async fn is_own(stream: &TcpStream, porter: &Arc<dyn Porter>) -> bool {
    let (Ok(from), Ok(to)) = (stream.peer_addr(), stream.local_addr()) else {
        return false;
    };
    let porter = Arc::clone(porter);
    let looked = tokio::task::spawn_blocking(move || porter.is_own(from, to)).await;
    looked.unwrap_or(false)
}

async fn converse(stream: TcpStream, port: u16, porter: Arc<dyn Porter>, is_own: bool) {
    let service = service_fn(move |request| {
        let porter = Arc::clone(&porter);
        async move {
            Ok::<_, Infallible>(if is_own {
                answer(request, port, &*porter).await
            } else {
                refusal()
            })
        }
    });
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Who speaks no HTTP is not answered.
    drop(serving.await);
}

type Answer = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, port: u16, porter: &dyn Porter) -> Answer {
    let Some(origin) = vouched(&request, port, porter) else {
        return refusal();
    };
    let path = request.uri().path().to_owned();
    let mut answer = match (request.method().clone(), path.as_str()) {
        (Method::OPTIONS, _) => {
            let mut answer = plain(StatusCode::NO_CONTENT, &Value::Null);
            let headers = answer.headers_mut();
            let methods = HeaderValue::from_static("GET, POST");
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
            let allowed = HeaderValue::from_static("content-type");
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            headers.insert(PRIVATE_NETWORK, HeaderValue::from_static("true"));
            answer
        }
        (Method::GET, "/health") => {
            let connected = porter.lent_to().is_some();
            plain(
                StatusCode::OK,
                &json!({"status": "ok", "connected": connected}),
            )
        }
        (Method::GET, "/status") => match porter.lent_to() {
            Some(_) => plain(StatusCode::OK, &porter.status()),
            None => plain(StatusCode::OK, &json!({"state": "not lent"})),
        },
        (Method::POST, "/connect") => connect(request, &origin, porter).await,
        (Method::POST, "/disconnect") if is_json(&request) => {
            porter.disconnect();
            plain(StatusCode::OK, &json!({"ok": true}))
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            &json!({"error": "there is nothing here"}),
        ),
    };
    if let Ok(origin) = HeaderValue::from_str(&origin) {
        answer
            .headers_mut()
            .insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    answer
}

/// The origin a browser vouches for, if it may know of us: this machine was
/// called by its own name, and it is the origin it is lent to, or one that may
/// ask while it is lent to nobody.
fn vouched(request: &Request<Incoming>, port: u16, porter: &dyn Porter) -> Option<String> {
    let only = |name: HeaderName| {
        let mut values = request.headers().get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then(|| value.to_owned())
    };
    let host = only(HOST)?;
    if host != format!("127.0.0.1:{port}") && host != format!("localhost:{port}") {
        return None;
    }
    let origin = only(ORIGIN)?;
    // As we would write it ourselves: `null`, and whatever is odd, is nobody.
    if Address::parse(&origin).ok()?.origin() != origin {
        return None;
    }
    match porter.lent_to() {
        Some(to) => (to == origin).then_some(origin),
        None if porter.may_ask(&origin) => Some(origin),
        None => {
            porter.knocked(&origin);
            None
        }
    }
}

/// A page of another origin can send a form unasked, but no JSON.
fn is_json(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

async fn connect(request: Request<Incoming>, origin: &str, porter: &dyn Porter) -> Answer {
    #[derive(Deserialize)]
    struct Said {
        url: String,
        token: String,
    }
    let refused = |status, why: &str| plain(status, &json!({ "error": why }));
    if !is_json(&request) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "say it as JSON");
    }
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    let body = match timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) | Err(_) => return refused(StatusCode::BAD_REQUEST, "too long, or too slow"),
    };
    let Ok(Said { url, token }) = read_json(&body) else {
        return refused(StatusCode::BAD_REQUEST, "url and token are needed");
    };
    let is_own = Address::parse(&url).is_ok_and(|address| address.origin() == origin);
    if !is_own {
        return refused(StatusCode::FORBIDDEN, "a page may ask for its own server");
    }
    if !token.starts_with(PAIRING) {
        return refused(StatusCode::BAD_REQUEST, "that is no pairing token");
    }
    if porter.lent_to().is_some() {
        return refused(StatusCode::CONFLICT, "it is lent already");
    }
    let (decided, hears) = oneshot::channel();
    let wanted = Wanted {
        url,
        token: Secret::new(token.into_bytes()),
        decided,
    };
    if porter.ask(wanted).is_err() {
        return refused(StatusCode::CONFLICT, "somebody else is asking");
    }
    match timeout(PERSON, hears).await {
        Ok(Ok(true)) => plain(StatusCode::OK, &json!({"status": "connected"})),
        Ok(Ok(false) | Err(_)) | Err(_) => refused(StatusCode::FORBIDDEN, "the person said no"),
    }
}

/// What everybody is told who may know nothing.
fn refusal() -> Answer {
    plain(StatusCode::FORBIDDEN, &json!({}))
}

fn plain(status: StatusCode, body: &Value) -> Answer {
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("origin"));
    answer
}
