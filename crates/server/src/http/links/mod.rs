//! The routes of daemons: they come with a gateway key, and by no other door.
//!
//! A wrong key, a used one, one whose time is over and one that was revoked are
//! the same to this page: one digest, one look, one answer, one line.

mod daemon;
mod described;
mod spoken;

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use portcullis_gate::Caller;
use portcullis_link::{INIT_KEY_HEADER, bounds};
use portcullis_proto::{Failure, Principal, Reason, Subject, Verb};
use portcullis_store::LinkKey;

use super::called::Names;
use super::reply::Reply;
use super::routes::{Daemon, Route};
use super::server::{Server, too_many};

pub(super) use self::described::described;
pub(super) use self::spoken::{Spoken, instant};
use self::spoken::{failed, problem};

/// What a daemon asks, let in by its key.
struct Called {
    server: Arc<Server>,
    route: &'static Route,
    spoken: Spoken,
    key: LinkKey,
    /// The key itself, which init may use up.
    presented: String,
    head: Parts,
    body: Option<Incoming>,
    /// Where it came from.
    from: IpAddr,
    /// What stood for `{id}` in the path.
    id: Option<String>,
}

impl Called {
    /// The person it is for, as the gate knows callers.
    fn caller(&self) -> Caller {
        let who = Principal::User {
            id: self.key.user.as_str().into(),
        };
        let caller = Caller::new(Subject::of(who), self.route.name).by_grant_alone();
        Names::of(&self.head.extensions).onto(caller)
    }
}

/// Answers a daemon.
pub(super) async fn answer(
    server: &Arc<Server>,
    (route, daemon, id): (&'static Route, Daemon, Option<String>),
    head: Parts,
    body: Incoming,
    from: IpAddr,
) -> Reply {
    let spoken = Spoken::at(route.path);
    if head.method == Method::HEAD {
        return problem(
            StatusCode::METHOD_NOT_ALLOWED,
            "The route is there for GET.",
        );
    }
    let presented = presented(&head, spoken).unwrap_or_default();
    let key = match server.parts.gateway.key(&presented) {
        Ok(key) => key,
        Err(error) => return failed(&error.into()),
    };
    let Some(key) = key else {
        return stranger(server, route, &head, from);
    };
    let called = Called {
        server: Arc::clone(server),
        route,
        spoken,
        key,
        presented,
        head,
        body: Some(body),
        from,
        id,
    };
    match daemon {
        Daemon::Init => daemon::init(called).await,
        Daemon::Events => daemon::listen(called).await,
        Daemon::Poll => daemon::poll(called).await,
        Daemon::Response => daemon::respond(called).await,
        Daemon::Progress => daemon::progress(called).await,
        Daemon::Disconnect => daemon::disconnect(called).await,
    }
}

/// The key in a head: one header, or in the seed's dialect the query.
fn presented(head: &Parts, spoken: Spoken) -> Option<String> {
    let mut keys = head.headers.get_all(INIT_KEY_HEADER).iter();
    if let Some(key) = keys.next() {
        // Two would let a proxy and us mean different ones.
        let alone = keys.next().is_none();
        return alone
            .then(|| key.to_str().ok().map(str::to_owned))
            .flatten();
    }
    if !spoken.takes_query_key() {
        return None;
    }
    let query = head.uri.query()?.as_bytes();
    let mut pairs = form_urlencoded::parse(query);
    let key = pairs.find(|(name, _)| name == "apiKey")?.1;
    (key.len() <= bounds::MAX_KEY).then(|| key.into_owned())
}

/// Who comes with a key that is nobody's: counted, on the record, and told one thing.
fn stranger(server: &Arc<Server>, route: &'static Route, head: &Parts, from: IpAddr) -> Reply {
    if server.is_too_many(from) {
        return too_many();
    }
    let nobody = Subject::of(Principal::Core { id: "link".into() });
    let caller = Caller::new(nobody, route.name).by_grant_alone();
    let caller = Names::of(&head.extensions).onto(caller);
    let why = Failure::new(Reason::NoGrant, "The gateway key is nobody's.");
    drop(
        server
            .parts
            .gate
            .refuse(&caller, Verb::Relay, "gateway key", why),
    );
    problem(StatusCode::FORBIDDEN, "Invalid gateway key")
}
