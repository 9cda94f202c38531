//! One request, from its head to its reply.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{ALLOW, ORIGIN, RETRY_AFTER, VARY, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use portcullis_gate::{Caller, Clock, Gate};
use portcullis_proto::Verb;
use portcullis_store::{Store, Switch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::called::{Called, call_name};
use super::desk::{self, AuditSource, Feeds, FilesOff, Metrics};
use super::door::{COOKIE_NAME, Door, Doorman, Met, Standing, TLS_COOKIE_NAME, presented};
use super::guard::{Allowed, Turned};
use super::guests::{Guests, NotIn};
use super::held::{holding, is_stream};
use super::identity::Identity;
use super::links;
use super::machines::Machines;
use super::reply::{self, Reply};
use super::rest;
use super::routes::{Desk, Files, Found, Mcp, Op, Open, Route, find};
use super::shares::{Holder, Shares, over};
use super::speaking;
use crate::gateway::Gateway;
use crate::mcp::{McpHttp, OAuthResource, Wrong};
use crate::telemetry::Telemetry;

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
    /// The machines that are linked.
    pub gateway: Arc<Gateway>,
    /// MCP at `/mcp`.
    pub mcp: McpHttp,
    /// Who else issues tokens, as clients are told.
    pub oauth: Option<OAuthResource>,
    /// Takes note of requests for a collector; nothing where there is none.
    pub telemetry: Option<Arc<Telemetry>>,
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
    /// What it is called, in the reply too.
    pub request_id: &'a str,
    /// The attempt the reply tells of, as the audit names it.
    pub attempt: Option<&'a str>,
    /// How it was asked: a method of HTTP's own, or `_OTHER`.
    pub method: &'static str,
    /// The route, as the table names it; nothing where there is none.
    pub route: Option<&'static str>,
    /// The status of the reply.
    pub status: u16,
    /// How long it took until the reply began.
    pub duration_us: u64,
    /// Bytes of the reply's body; nothing for a stream.
    pub bytes: Option<u64>,
    /// Who asked, if a credential said so.
    pub identity: Option<&'a Identity>,
}

/// Serves requests.
pub struct Server {
    pub(crate) parts: ServerParts,
    pub(crate) shares: Arc<Shares>,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) metrics: Metrics,
    /// What the cookie of a sign-in is called here.
    pub(crate) cookie: &'static str,
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
        let presented = presented(&self.head.headers, server.cookie);
        Standing::of(&server.parts.doorman, presented, self.route.scope)
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
        let feeds = Arc::new(Feeds::default());
        let telling = Arc::clone(&feeds);
        parts.gateway.tell_losses(move |link| {
            let told = json!({"name": link.about().name, "linked": false});
            telling.tell(&link.user, "machine", &link.id, &told);
        });
        Arc::new(Self {
            shares: parts.mcp.shares(),
            cookie: if parts.url.starts_with("https://") {
                TLS_COOKIE_NAME
            } else {
                COOKIE_NAME
            },
            parts,
            feeds,
            metrics: Metrics::default(),
            door: Door::new(),
            requests: AtomicU64::new(0),
            ending: CancellationToken::new(),
        })
    }

    /// Ends what would go on for ever: streams of events.
    pub(super) fn end_streams(&self) {
        self.ending.cancel();
        self.parts.gateway.hang_up();
        self.parts.mcp.end_streams();
    }

    /// Counts one more key that is nobody's from there; whether that is too many.
    pub(super) fn is_too_many(&self, from: IpAddr) -> bool {
        self.door.is_too_many(from, self.parts.clock.monotonic_us())
    }

    /// Tells a person who listens to their questions something else of theirs.
    pub(super) fn tell_owner(&self, user: &str, event: &'static str, id: &str, value: &Value) {
        self.feeds.tell(user, event, id, value);
    }

    /// The time, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.parts.clock.now_ms()
    }

    /// Raised when streams have to end.
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Lets somebody in, as it is now where that changed meanwhile.
    fn let_in(
        &self,
        identity: &mut Identity,
        now_us: u64,
        now: impl Fn() -> Option<Identity>,
    ) -> Result<(), NotIn> {
        let guests = &self.parts.guests;
        match guests.let_in(identity, now_us, &now) {
            Err(NotIn::Changed(changed)) => {
                *identity = changed;
                guests.let_in(identity, now_us, now)
            }
            other => other,
        }
    }

    /// Answers one request.
    pub(super) async fn answer(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        from: IpAddr,
    ) -> Reply {
        let began_us = self.parts.clock.monotonic_us();
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let called = Called::of(request.headers(), self.parts.gate.tag(), number);
        let telemetry = self.parts.telemetry.as_ref();
        let traced = telemetry.and_then(|telemetry| telemetry.begin(request.headers()));
        let trace = traced.map(|traced| traced.trace);
        called.go_along(trace, request.extensions_mut());
        let method = known(request.method());
        let origin = request.headers().get(ORIGIN).cloned();
        let mut noted = Noted::default();
        let mut reply = self.admitted(request, from, &mut noted).await;
        if let Some(origin) = origin
            && !noted.turned_away
        {
            share(&mut reply, origin);
        }
        called.mark(reply.headers_mut());
        let attempt = reply.headers().get(reply::REQUEST_ID);
        let seen = Seen {
            request_id: called.name(),
            attempt: attempt.and_then(|id| id.to_str().ok()),
            method,
            route: noted.route,
            status: reply.status().as_u16(),
            duration_us: self.parts.clock.monotonic_us().saturating_sub(began_us),
            bytes: reply.body().size_hint().exact(),
            identity: noted.identity.as_ref(),
        };
        self.metrics.count(&seen);
        self.parts.observer.seen(&seen);
        if let (Some(telemetry), Some(traced)) = (telemetry, &traced) {
            telemetry.answered(traced, &seen, self.scheme());
        }
        reply
    }

    async fn admitted(
        self: &Arc<Self>,
        request: Request<Incoming>,
        from: IpAddr,
        noted: &mut Noted,
    ) -> Reply {
        let (mut head, body) = request.into_parts();
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
            if let Op::Daemon(daemon) = route.op {
                let id = match found {
                    Found::Route(_, id) => id.map(str::to_owned),
                    Found::OtherMethods(_) | Found::Nothing => None,
                };
                return links::answer(self, (route, daemon, id), head, body, from).await;
            }
        }
        let now_us = self.parts.clock.monotonic_us();
        let presented = presented(&head.headers, self.cookie);
        let met = self
            .door
            .meet(&*self.parts.doorman, presented, from, now_us);
        let unauthorized = || {
            let reply = reply::refused(StatusCode::UNAUTHORIZED, "Unauthorized", None);
            self.challenged(reply, presented.map_or(Wrong::Nothing, |_| Wrong::Token))
        };
        let mut identity = match met {
            Met::Known(identity) => identity,
            Met::Unknown => return unauthorized(),
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
        // Before it is let in: what is taken from it meanwhile counts.
        if matches!(route.op, Op::Mcp(_) | Op::Files(_)) {
            self.parts.gateway.settle_in(&identity.user).await;
        }
        let now = || presented.and_then(|(via, text)| self.parts.doorman.known(via, text));
        match self.let_in(&mut identity, now_us, now) {
            Ok(()) => {}
            Err(NotIn::TooFast(wait)) => return too_fast(wait),
            Err(NotIn::Gone | NotIn::Changed(_)) => return unauthorized(),
        }
        if let Err(none) = call_name(&head.headers) {
            let caller = Caller::new(identity.subject(), route.name).by_grant_alone();
            let gate = &self.parts.gate;
            let why = gate.refuse(&caller, Verb::Administer, "call name", none.into());
            return reply::failure(&why);
        }
        let mut lacking = route.scope.filter(|scope| !identity.may(*scope));
        if self.parts.doorman.files(&identity.user) == Switch::Off {
            head.extensions.insert(FilesOff(Arc::clone(&identity.user)));
            // Another credential has it no more than this one.
            lacking = None;
        }
        // Taken before anything is begun. What `POST /mcp` streams is the answer to
        // a call, and counts among the sessions.
        let place = if may_stream(route.op, &head.headers) {
            match self.shares.streams.take(&Holder::of(&identity.principal)) {
                Ok(place) => Some(place),
                Err(why) => {
                    let caller = Caller::new(identity.subject(), route.name).by_grant_alone();
                    let why = self.parts.gate.refuse(&caller, Verb::Watch, "stream", why);
                    return over(&why);
                }
            }
        } else {
            None
        };
        let asked = Asked {
            route,
            id,
            identity,
            head,
            body: Some(body),
            workspace,
        };
        let reply = match route.op {
            Op::Files(files) => rest::answer(self, asked, files).await,
            Op::Desk(desk) => desk::at(self, asked, desk).await,
            Op::Mcp(_) => speaking::answer(self, asked).await,
            Op::Open(open) => self.open(open, &asked.head, asked.body).await,
            // Answered above, by another door.
            Op::Daemon(_) => no_route(),
        };
        match (place, lacking) {
            (Some(place), _) if is_stream(&reply) => holding(reply, place),
            (_, Some(scope)) if reply.status() == StatusCode::FORBIDDEN => {
                self.challenged(reply, Wrong::Scope(scope))
            }
            (_, Some(_) | None) => reply,
        }
    }

    /// How clients reach this server.
    fn scheme(&self) -> &'static str {
        if self.parts.url.starts_with("https://") {
            "https"
        } else {
            "http"
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

    /// The reply, saying what is wrong with the credential and where to get one,
    /// if an issuer elsewhere gives them out.
    fn challenged(&self, mut reply: Reply, wrong: Wrong) -> Reply {
        let challenge = self.parts.oauth.as_ref().map(|one| one.challenge(wrong));
        if let Some(Ok(challenge)) = challenge.as_deref().map(HeaderValue::from_str) {
            reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        reply
    }
}

/// A method by its name, as OpenTelemetry knows them: what a client made up is
/// none of them.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        "TRACE" => "TRACE",
        "CONNECT" => "CONNECT",
        _ => "_OTHER",
    }
}

/// Whether what is asked for may be told as events for as long as one listens.
fn may_stream(op: Op, headers: &http::HeaderMap) -> bool {
    match op {
        Op::Files(Files::Watch)
        | Op::Desk(Desk::WatchApprovals | Desk::WatchAudit)
        | Op::Mcp(Mcp::Get) => true,
        Op::Files(Files::Search) => rest::is_to_be_told(headers),
        Op::Files(_)
        | Op::Desk(_)
        | Op::Mcp(Mcp::Post | Mcp::Delete)
        | Op::Open(_)
        | Op::Daemon(_) => false,
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

pub(super) fn too_many() -> Reply {
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

/// A good credential, used faster than it may be.
fn too_fast(wait: Duration) -> Reply {
    let mut reply = reply::refused(
        StatusCode::TOO_MANY_REQUESTS,
        "This credential asks faster than it may. Nothing was done; wait, and ask again.",
        Some("rate_limit_exceeded"),
    );
    // Whole seconds, and never none.
    let seconds = HeaderValue::from(wait.as_secs() + 1);
    reply.headers_mut().insert(RETRY_AFTER, seconds);
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
        HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE"),
    );
    headers.insert(
        http::header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "authorization, content-type, idempotency-key, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, portcullis-conversation, portcullis-machine, portcullis-question, portcullis-run, prefer, range, traceparent, tracestate, x-qwen-client-id, x-request-id",
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
    headers.insert(
        http::header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "accept-ranges, allow, content-range, etag, mcp-session-id, portcullis-hooks, portcullis-policy, portcullis-request-id, retry-after, www-authenticate",
        ),
    );
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
