//! MCP over HTTP: one address for both eras.
//!
//! Whoever comes has passed the door: a request is handed over together with
//! who sent it. Host, Origin and limits of the connection are the listener's.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use portcullis_gate::{Caller, Gate};
use portcullis_proto::{Extent, Failure, Principal, Reason, Subject, Verb};
use rmcp::ServerHandler;
use rmcp::model::{JsonObject, ProtocolVersion};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::envelope::{self, Opened, SMALL_MESSAGE};
use super::handler::Handler;
use super::sessions::{MAX_OF_ONE, Opening, Sessions};
use super::{HttpMcpParts, MAX_MESSAGE};
use crate::gateway::Conversation;
use crate::http::{BODY_PATIENCE, Identity, Machines, Room, SMALL_BODY, Shares};
use crate::parsing::off_the_reactor;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long calls under way have at the end, before streams are cut.
const STREAMS_LAST: Duration = Duration::from_secs(2);

/// When to come again, in seconds: for room, and for a session.
const SOON: &str = "5";
const IN_A_MINUTE: &str = "60";

/// How the audit names what is done with sessions.
const ROUTE: &str = "mcp/session";

type Problem = Box<dyn std::error::Error + Send + Sync>;
type Asked = Request<Full<Bytes>>;
type Answer = Response<BoxBody<Bytes, Infallible>>;
type Serve = dyn Fn(Asked) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync;

/// MCP at one address. Cheap to clone; clones share sessions.
#[derive(Clone)]
pub struct McpHttp {
    serve: Arc<Serve>,
    sessions: Arc<Sessions>,
    gate: Arc<Gate>,
    /// Whose sessions stay with machines; nothing where there are none.
    machines: Option<Arc<dyn Machines>>,
    shares: Arc<Shares>,
    /// Raised when calls that wait for a person are to be let go.
    ending: CancellationToken,
    /// Raised when what is still open is cut.
    cut: CancellationToken,
}

impl std::fmt::Debug for McpHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHttp").finish_non_exhaustive()
    }
}

impl McpHttp {
    /// The tools of whichever machine a caller works with.
    pub fn new(parts: HttpMcpParts) -> Self {
        let gate = Arc::clone(&parts.gate);
        let machines = Some(Arc::clone(&parts.machines));
        let ending = CancellationToken::new();
        let shares = Arc::new(Shares::default());
        let handler = Handler::for_everyone(parts, ending.clone(), Arc::clone(&shares));
        let mcp = Self::until(ending, move || handler.afresh(), gate, MAX_OF_ONE);
        Self {
            machines,
            shares,
            ..mcp
        }
    }

    /// Another handler on the very same transport, with at most so many
    /// sessions for one principal: for the fixtures that conformance is tested
    /// with, where everybody is the same and nobody ends a session.
    #[doc(hidden)]
    pub fn serving<H: ServerHandler + Send + 'static>(
        handler: impl Fn() -> H + Send + Sync + 'static,
        gate: Arc<Gate>,
        sessions_of_one: usize,
    ) -> Self {
        Self::until(CancellationToken::new(), handler, gate, sessions_of_one)
    }

    fn until<H: ServerHandler + Send + 'static>(
        ending: CancellationToken,
        handler: impl Fn() -> H + Send + Sync + 'static,
        gate: Arc<Gate>,
        sessions_of_one: usize,
    ) -> Self {
        let sessions = Arc::new(Sessions::new(sessions_of_one));
        let cut = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            // Both are looked at before, for every route alike.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(cut.clone())
            .with_json_response(true)
            // Sessions know which of them get an empty event first.
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_MESSAGE);
        let service =
            StreamableHttpService::new(move || Ok(handler()), Arc::clone(&sessions), config);
        let serve = move |asked| -> Pin<Box<dyn Future<Output = Answer> + Send>> {
            let service = service.clone();
            Box::pin(async move { service.handle(asked).await })
        };
        Self {
            serve: Arc::new(serve),
            sessions,
            gate,
            machines: None,
            shares: Arc::default(),
            ending,
            cut,
        }
    }

    /// Who holds how much, whichever way it is asked for.
    pub(crate) fn shares(&self) -> Arc<Shares> {
        Arc::clone(&self.shares)
    }

    /// Lets go of calls that wait for a person, and a little later cuts what is
    /// still open: a call whose deed is done gets its answer first.
    pub fn end_streams(&self) {
        self.ending.cancel();
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(STREAMS_LAST).await;
            cut.cancel();
        });
    }

    /// Answers a request of `identity`: GET, POST or DELETE.
    pub async fn answer<B>(&self, identity: Identity, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Problem>,
    {
        let (mut head, body) = request.into_parts();
        if is_stateless(&head.headers) {
            // That era has no sessions: an id says nothing.
            head.headers.remove(SESSION);
        } else if let Some(id) = named(&head.headers) {
            match self.sessions.whose(id) {
                Some(owner) if owner == identity.principal => {}
                // On the record either way: what only another's session costs
                // would tell that it is there.
                Some(_) => {
                    let why = "The session is somebody else's.";
                    self.record(identity.subject(), Failure::new(Reason::NoGrant, why));
                    return no_session();
                }
                None => {
                    let why = "There is no such session.";
                    self.record(identity.subject(), Failure::new(Reason::NotFound, why));
                    return no_session();
                }
            }
        }
        let subject = identity.subject();
        let longest = body.size_hint().upper().map(usize::try_from);
        let longest = longest.and_then(Result::ok).unwrap_or(MAX_MESSAGE);
        let room = self
            .shares
            .bodies
            .room(&subject.principal, longest.min(MAX_MESSAGE));
        let mut room = match room.await {
            Ok(room) => room,
            Err(why) => return too_many(&self.record(subject, why), SOON),
        };
        let body = match whole(body).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        room.shrink(body.len());
        let (opened, values) = match self.opened(&subject.principal, body).await {
            Ok(opened) => opened,
            Err(why) if why.reason() == Reason::Overload => {
                return too_many(&self.record(subject, why), SOON);
            }
            Err(why) => return too_large(&self.record(subject, why)),
        };
        // The head goes with the call, also where that outlives its request.
        head.extensions.insert(Arc::new(room.and(values)));
        head.extensions.insert(Carried::new(opened.arguments));
        head.extensions.insert(identity);
        let session = named(&head.headers).map(str::to_owned);
        let is_last = head.method == Method::DELETE;
        let bytes = opened.rest.len();
        let answer = (self.serve)(Request::from_parts(head, Full::new(opened.rest)));
        let answer = Opening::during(subject.principal.clone(), answer);
        let answer = begun_off_the_reactor(bytes, Box::pin(answer)).await;
        match answer.and_then(|answer| answer) {
            Ok(answer) => {
                self.follow(&subject, (session.as_deref(), is_last), &answer)
                    .await;
                as_words(answer)
            }
            Err(failure) => too_many(&self.record(subject, failure), IN_A_MINUTE),
        }
    }

    /// Tells of a session that began or was ended, so that the next one goes on where
    /// a lost one was.
    async fn follow(
        &self,
        subject: &Subject,
        (session, is_last): (Option<&str>, bool),
        answer: &Answer,
    ) {
        let Some(machines) = self
            .machines
            .as_ref()
            .filter(|_| answer.status().is_success())
        else {
            return;
        };
        match (session, named(answer.headers())) {
            (None, Some(begun)) => {
                let is_open = |id: &str| self.sessions.whose(id).is_some();
                let who = Conversation::of(subject, Some(begun));
                machines.begin_session(&who, &is_open).await;
            }
            (Some(ended), _) if is_last => {
                machines
                    .end_session(&Conversation::of(subject, Some(ended)))
                    .await;
            }
            (Some(_) | None, _) => {}
        }
    }

    /// A message in its parts, with room for what was built of it. One that is large
    /// is counted and read off the reactor, where nobody else waits behind it.
    async fn opened(&self, who: &Principal, body: Bytes) -> Result<(Opened, Room), Failure> {
        if body.len() <= SMALL_MESSAGE {
            Extent::of(&body)?;
            return Ok((envelope::open(body)?, Room::default()));
        }
        let (bytes, counted) = (body.len(), body.clone());
        let extent = off_the_reactor(bytes, move || Extent::of(&counted)).await?;
        let room = self.shares.values.room(who, extent?.weight).await?;
        let opened = off_the_reactor(bytes, move || envelope::open(body)).await?;
        Ok((opened?, room))
    }

    fn record(&self, subject: Subject, why: Failure) -> Failure {
        let caller = Caller::new(subject, ROUTE);
        self.gate.refuse(&caller, Verb::Administer, "session", why)
    }
}

/// The arguments of a call, on their way past rmcp to who makes it.
#[derive(Clone, Default)]
pub(super) struct Carried(Arc<Mutex<Option<JsonObject>>>);

impl Carried {
    fn new(arguments: Option<JsonObject>) -> Self {
        Self(Arc::new(Mutex::new(arguments)))
    }

    /// The arguments, where they were cut out of the message.
    pub(super) fn take(&self) -> Option<JsonObject> {
        let mut arguments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arguments.take()
    }
}

/// Runs `task`, which reads so many bytes, off the reactor up to where it first
/// waits: until then rmcp reads the message.
async fn begun_off_the_reactor<T: Send + 'static>(
    bytes: usize,
    mut task: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Result<T, Failure> {
    if bytes <= SMALL_BODY {
        return Ok(task.await);
    }
    let begin = move || {
        // Whoever it waits for is told anew by the poll that follows here.
        let mut unheard = Context::from_waker(Waker::noop());
        match task.as_mut().poll(&mut unheard) {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => Err(task),
        }
    };
    match off_the_reactor(bytes, begin).await? {
        Ok(done) => Ok(done),
        Err(task) => Ok(task.await),
    }
}

/// What rmcp refuses in words, it does not say to be words.
fn as_words(mut answer: Answer) -> Answer {
    if answer.status().is_client_error() || answer.status().is_server_error() {
        let words = HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().entry(CONTENT_TYPE).or_insert(words);
    }
    answer
}

/// Whether a head says that its request stands alone.
fn is_stateless(headers: &HeaderMap) -> bool {
    headers
        .get(VERSION)
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// All of a body, bounded in size and in time: rmcp would wait for ever, and
/// call it an accident of ours when a client breaks off.
async fn whole<B>(body: B) -> Result<Bytes, Answer>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Problem>,
{
    let reading = Limited::new(body, MAX_MESSAGE).collect();
    let said = |status, code: i32, message: &str| {
        refused(status, &json!({"code": code, "message": message}))
    };
    match tokio::time::timeout(BODY_PATIENCE, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(why)) if why.is::<LengthLimitError>() => Err(said(
            StatusCode::PAYLOAD_TOO_LARGE,
            -32600,
            "The message is larger than 16 MiB. Nothing was done.",
        )),
        Ok(Err(_)) | Err(_) => Err(said(
            StatusCode::REQUEST_TIMEOUT,
            -32600,
            "The message did not come whole, or not in time. Nothing was done.",
        )),
    }
}

/// The session a head names, as rmcp reads it.
fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}

/// The same for a session that is not there and for one of somebody else.
fn no_session() -> Answer {
    let error = json!({
        "code": -32001,
        "message": "There is no such session. Begin anew with initialize.",
    });
    refused(StatusCode::NOT_FOUND, &error)
}

fn too_large(failure: &Failure) -> Answer {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    refused(status, &typed(failure, -32600, status))
}

fn typed(failure: &Failure, code: i32, status: StatusCode) -> Value {
    json!({
        "code": code,
        "message": failure.message(),
        "data": {
            "errorKind": failure.kind().as_str(),
            "reason": failure.reason().as_str(),
            "hint": failure.next_step(),
            "status": status.as_u16(),
        },
    })
}

fn too_many(failure: &Failure, later: &'static str) -> Answer {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut answer = refused(status, &typed(failure, -32000, status));
    let headers = answer.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static(later));
    answer
}

fn refused(status: StatusCode, error: &Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
