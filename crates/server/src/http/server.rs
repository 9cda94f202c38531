//! One request, from its head to its reply.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{ALLOW, ORIGIN, RETRY_AFTER, VARY, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use portcullis_gate::{Clock, Gate};
use portcullis_store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::desk::{self, AuditSource, Feeds, Metrics};
use super::door::{Door, Doorman, Met, Standing};
use super::guard::{Allowed, Turned};
use super::guests::Guests;
use super::identity::Identity;
use super::limits::MAX_UPLOADS;
use super::machines::Machines;
use super::reply::{self, Reply};
use super::rest;
use super::routes::{Found, Op, Open, Route, find};
use crate::mcp::{McpHttp, OAuthResource};

/// What a server is made of.
pub struct ServerParts {
    /// Which names it goes by, and which pages may talk to it.
    pub allowed: Allowed,
    /// Who knows credentials.
    pub doorman: Arc<dyn Doorman>,
    /// Who turns scopes into grants.
    pub guests: Arc<Guests>,
    /// Which machines there are for whom.
    pub machines: Arc<dyn Machines>,
    /// Our own state.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Told of every request.
    pub observer: Arc<dyn Observer>,
    /// The gate every deed goes through.
    pub gate: Arc<Gate>,
    /// Where the record is read.
    pub audit: Arc<dyn AuditSource>,
    /// Where people reach this server: scheme, host and port.
    pub url: String,
    /// How long a question waits for a person.
    pub patience: Duration,
    /// MCP at `/mcp`.
    pub mcp: McpHttp,
    /// Who else issues tokens, as clients are told.
    pub oauth: Option<OAuthResource>,
}

impl std::fmt::Debug for ServerParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerParts")
            .field("allowed", &self.allowed)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Told of every request when it has been answered.
pub trait Observer: Send + Sync {
    /// One request. What it brought and got is not told: no path, no content.
    fn seen(&self, seen: &Seen<'_>);
}

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its number in this process.
    pub number: u64,
    /// The route, as the table names it; nothing where there is none.
    pub route: Option<&'static str>,
    /// The status of the reply.
    pub status: u16,
    /// How long it took until the reply began.
    pub duration_us: u64,
    /// Who asked, if a credential said so.
    pub identity: Option<&'a Identity>,
}

/// Serves requests.
pub struct Server {
    pub(crate) parts: ServerParts,
    pub(crate) uploads: Semaphore,
    pub(crate) feeds: Feeds,
    pub(crate) metrics: Metrics,
    door: Door,
    requests: AtomicU64,
    ending: CancellationToken,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// A request that may be answered: who asks, for what.
pub(crate) struct Asked {
    pub(crate) route: &'static Route,
    /// What stood for `{id}` in the path.
    pub(crate) id: Option<String>,
    pub(crate) identity: Identity,
    pub(crate) head: Parts,
    /// Gone once it is read.
    pub(crate) body: Option<Incoming>,
    /// The workspace a qualified path names.
    pub(crate) workspace: Option<String>,
}

impl Asked {
    /// Its credential, for a stream that goes on after the request was let in.
    pub(crate) fn standing(&self, server: &Server) -> Standing {
        Standing::of(&server.parts.doorman, &self.head.headers, self.route.scope)
    }
}

/// What a request turned out to be, for who observes.
#[derive(Default)]
struct Noted {
    /// It came from where nobody may come from.
    turned_away: bool,
    route: Option<&'static str>,
    identity: Option<Identity>,
}

impl Server {
    /// Makes it; [`listen`](super::listen) starts it.
    pub fn new(parts: ServerParts) -> Arc<Self> {
        Arc::new(Self {
            parts,
            uploads: Semaphore::new(MAX_UPLOADS),
            feeds: Feeds::default(),
            metrics: Metrics::default(),
            door: Door::new(),
            requests: AtomicU64::new(0),
            ending: CancellationToken::new(),
        })
    }

    /// Ends what would go on for ever: streams of events.
    pub(super) fn end_streams(&self) {
        self.ending.cancel();
        self.parts.mcp.end_streams();
    }

    /// Raised when streams have to end.
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Answers one request.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Reply {
        let began_us = self.parts.clock.monotonic_us();
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let origin = request.headers().get(ORIGIN).cloned();
        let mut noted = Noted::default();
        let mut reply = self.admitted(request, from, &mut noted).await;
        if let Some(origin) = origin
            && !noted.turned_away
        {
            share(&mut reply, origin);
        }
        let seen = Seen {
            number,
            route: noted.route,
            status: reply.status().as_u16(),
            duration_us: self.parts.clock.monotonic_us().saturating_sub(began_us),
            identity: noted.identity.as_ref(),
        };
        self.metrics.count(&seen);
        self.parts.observer.seen(&seen);
        reply
    }

    async fn admitted(
        self: &Arc<Self>,
        request: Request<Incoming>,
        from: IpAddr,
        noted: &mut Noted,
    ) -> Reply {
        let (head, body) = request.into_parts();
        if let Err(turned) = self.parts.allowed.admit(&head.headers, &head.uri) {
            noted.turned_away = true;
            return turn_away(turned);
        }
        if head.method == Method::OPTIONS && head.headers.contains_key(ORIGIN) {
            return preflight();
        }
        let (workspace, path) = rest::qualified(head.uri.path());
        let found = match find(&head.method, &path) {
            // A workspace has files, and nothing else of its own.
            Found::Route(route, _) if workspace.is_some() && !route.is_of_files() => Found::Nothing,
            found @ (Found::Route(..) | Found::OtherMethods(_) | Found::Nothing) => found,
        };
        if let Found::Route(route, _) = found {
            noted.route = Some(route.name);
            if let Op::Open(open) = route.op {
                let reply = self.open(open, &head, Some(body)).await;
                let now_us = self.parts.clock.monotonic_us();
                // A link that signs nobody in is a guess like any other.
                let guessed = reply.status() == StatusCode::UNAUTHORIZED;
                if guessed && self.door.is_too_many(from, now_us) {
                    return too_many();
                }
                return reply;
            }
        }
        let met = self.door.meet(
            &*self.parts.doorman,
            &head.headers,
            from,
            self.parts.clock.monotonic_us(),
        );
        let identity = match met {
            Met::Known(identity) => identity,
            Met::Unknown => return self.unauthorised(),
            Met::TooMany => return too_many(),
        };
        noted.identity = Some(identity.clone());
        let (route, id) = match found {
            Found::Route(route, id) => (route, id.map(str::to_owned)),
            Found::OtherMethods(methods) => return other_methods(&methods),
            Found::Nothing => {
                return no_route();
            }
        };
        self.parts.guests.welcome(&identity);
        let asked = Asked {
            route,
            id,
            identity,
            head,
            body: Some(body),
            workspace,
        };
        match route.op {
            Op::Files(files) => rest::answer(self, asked, files).await,
            Op::Desk(desk) => desk::at(self, asked, desk).await,
            Op::Mcp(_) => match asked.body {
                Some(body) => {
                    let request = Request::from_parts(asked.head, body);
                    let mut answer = self.parts.mcp.answer(asked.identity, request).await;
                    reply::guarded(answer.headers_mut());
                    answer
                }
                None => no_route(),
            },
            Op::Open(open) => self.open(open, &asked.head, asked.body).await,
        }
    }

    /// What needs no credential.
    async fn open(self: &Arc<Self>, open: Open, head: &Parts, body: Option<Incoming>) -> Reply {
        match open {
            Open::Health => rest::health(),
            Open::SignInPage => desk::sign_in_page(),
            Open::SignIn => desk::sign_in(self, head, body).await,
            Open::ApprovePage => desk::approve_page(),
            Open::OAuthMetadata => match &self.parts.oauth {
                Some(oauth) => reply::value(StatusCode::OK, &oauth.metadata()),
                None => no_route(),
            },
        }
    }

    fn unauthorised(&self) -> Reply {
        let mut reply = reply::refused(StatusCode::UNAUTHORIZED, "Unauthorized", None);
        let challenge = self.parts.oauth.as_ref().map(OAuthResource::challenge);
        if let Some(Ok(challenge)) = challenge.as_deref().map(HeaderValue::from_str) {
            reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        reply
    }
}

fn turn_away(turned: Turned) -> Reply {
    let error = match turned {
        Turned::Host => "Invalid Host header",
        Turned::Origin => "Request denied by CORS policy",
    };
    let mut reply = reply::refused(StatusCode::FORBIDDEN, error, None);
    if turned == Turned::Origin {
        reply
            .headers_mut()
            .insert(VARY, HeaderValue::from_static("Origin"));
    }
    reply
}

fn no_route() -> Reply {
    reply::refused(
        StatusCode::NOT_FOUND,
        "There is no such route.",
        Some("not_found"),
    )
}

fn too_many() -> Reply {
    let mut reply = reply::refused(
        StatusCode::TOO_MANY_REQUESTS,
        "Too many credentials that stand for nobody came from this address.",
        Some("rate_limit_exceeded"),
    );
    reply
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("60"));
    reply
}

fn other_methods(methods: &[&'static Method]) -> Reply {
    let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    let mut reply = reply::refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "The route is there for another method.",
        Some("method_not_allowed"),
    );
    if let Ok(allow) = HeaderValue::from_str(&names.join(", ")) {
        reply.headers_mut().insert(ALLOW, allow);
    }
    reply
}

/// A browser asks first whether a page of an allowed origin may send this.
fn preflight() -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(
        http::header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, POST, DELETE"),
    );
    headers.insert(
        http::header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, portcullis-conversation, portcullis-question, portcullis-run, prefer, range, x-qwen-client-id",
        ),
    );
    headers.insert(
        http::header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    reply
}

/// Lets a page of an origin that was allowed read the reply.
fn share(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(http::header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
