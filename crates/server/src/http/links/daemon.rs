//! What a daemon asks: to be let in, to hear, to answer, and to go.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use portcullis_gate::Headway;
use portcullis_link::{
    Accepted, Dialect, INSTANCE_HEADER, Init, Ours, OursAccepted, Progress, Received, SeedInit,
    bounds,
};
use portcullis_proto::{Extent, Failure, Principal, Reason, Verb, misfit};
use portcullis_store::{LinkKey, LinkKeyKind};
use serde::Deserialize;
use serde_json::json;

use super::super::bodies::Room;
use super::super::held::holding;
use super::super::limits::SMALL_BODY;
use super::super::reply::{self, Reply};
use super::super::rest::{NoBody, lost, read_body};
use super::super::server::too_many;
use super::spoken::{Spoken, failed, problem};
use super::{Called, stranger};
use crate::answers::off_the_reactor;
use crate::gateway::{
    Admitted, BadOffer, Calls, Gateway, KeptReply, Lends, Link, Listening, NotAdmitted, Offer,
    Returned, Taken, Tree, Unlinked, Welcome, clipped, early_events, events, polled, said,
    seed_offer, seed_returned,
};

/// The host of a daemon that says nothing of it.
const UNSAID: &str = "unknown";

/// `POST /gateway/init`.
pub(super) async fn init(mut called: Called) -> Reply {
    let spoken = called.spoken;
    let _room = match room(&called, bounds::MAX_INIT).await {
        Ok(room) => room,
        Err(why) => return failed(&why),
    };
    let welcome = match read(&mut called, bounds::MAX_INIT).await {
        Ok(bytes) => welcomed(spoken, &bytes),
        Err(reply) => return reply,
    };
    let welcome = match welcome {
        Ok(welcome) => welcome,
        Err(BadOffer(why)) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let ours = welcome.dialect.is_ours();
    let gateway = Arc::clone(&called.server.parts.gateway);
    let (presented, key) = (called.presented.clone(), called.key.clone());
    let admitted = off_the_reactor(&called.server.parts.store, move |_| {
        Ok(gateway.admit(&presented, &key, welcome))
    });
    let gate = &called.server.parts.gate;
    match admitted.await {
        Ok(Ok(Admitted {
            machine,
            session,
            replaced,
            put_out,
        })) => {
            if let Some(machine) = put_out {
                if let Err(why) = gate.note(&called.caller(), &format!("link put out: {machine}")) {
                    return failed(&why);
                }
                let gone = json!({"linked": false});
                let server = &called.server;
                server.tell_owner(&called.key.user, "machine", &machine, &gone);
            }
            let how = if session.is_some() { "paired" } else { "back" };
            let what = format!(
                "link {how}: {} {} {}",
                machine.name, machine.id, machine.host
            );
            if let Err(why) = gate.note(&called.caller(), &what) {
                return failed(&why);
            }
            called.server.tell_owner(
                &machine.user,
                "machine",
                &machine.id,
                &json!({"name": machine.name, "linked": true}),
            );
            spoken.done(&Accepted {
                ok: true,
                session_key: session,
                portcullis: ours.then(|| OursAccepted {
                    protocol: Ours::PROTOCOL,
                    machine: machine.name,
                    machine_id: machine.id,
                    ping_seconds: bounds::PING.as_secs(),
                    replaced,
                }),
            })
        }
        // It was somebody's a moment ago, which is no reason to be told more.
        Ok(Err(NotAdmitted::Key)) => {
            stranger(&called.server, called.route, &called.head, called.from)
        }
        Ok(Err(NotAdmitted::Wider(how))) => {
            let why = Failure::new(
                Reason::NoGrant,
                format!("The machine offers more than when it was paired: {how}."),
            );
            if called.server.is_too_many(called.from) {
                return too_many();
            }
            drop(gate.refuse(&called.caller(), Verb::Relay, "link wider", why));
            let body = json!({
                "code": 409,
                "message": format!(
                    "This machine offers more than its owner was shown: {how}. Nothing was changed. Its owner looks with `portcullis link list` and approves with `portcullis link approve`, or pairs it anew."
                ),
                "reason": "surface_widened",
            });
            reply::value(StatusCode::CONFLICT, &body)
        }
        Ok(Err(NotAdmitted::TooOften(wait))) => {
            let mut reply = problem(
                StatusCode::TOO_MANY_REQUESTS,
                "This machine introduces itself too often. Nothing was changed.",
            );
            let seconds = HeaderValue::from(wait.as_secs() + 1);
            reply.headers_mut().insert(RETRY_AFTER, seconds);
            reply
        }
        Ok(Err(NotAdmitted::Failed(why))) | Err(why) => failed(&why),
    }
}

/// What an init says, checked.
fn welcomed(spoken: Spoken, bytes: &[u8]) -> Result<Welcome, BadOffer> {
    match spoken {
        Spoken::Shipped => shipped(bytes),
        Spoken::Seed => seed(bytes),
    }
}

/// An init of the seed's: a tree, and no word of who it is.
fn seed(bytes: &[u8]) -> Result<Welcome, BadOffer> {
    let init: SeedInit = parsed(bytes).map_err(BadOffer)?;
    if !is_plain(&init.root_path, bounds::MAX_ROOT) {
        return Err(BadOffer("rootPath is no path.".to_owned()));
    }
    Ok(Welcome {
        dialect: Dialect::Seed,
        named: None,
        host: UNSAID.to_owned(),
        tree: Tree::of(&init)?,
        files: None,
        root: init.root_path,
        offer: seed_offer()?,
        instance: String::new(),
    })
}

/// Whether a text can stand in a head: letters, digits, `-` and `_`.
fn is_word(text: &str, most: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=most).contains(&text.len()) && text.bytes().all(plain)
}

/// Whether a text is one, of at most so many bytes, with nothing unseen in it.
fn is_plain(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn shipped(bytes: &[u8]) -> Result<Welcome, BadOffer> {
    let init: Init = parsed(bytes).map_err(BadOffer)?;
    let named = init.portcullis.as_ref().map(|ours| ours.machine.clone());
    let host = init.host_identifier.unwrap_or_else(|| UNSAID.to_owned());
    if !is_plain(&init.root_path, bounds::MAX_ROOT) {
        return Err(BadOffer("rootPath is no path.".to_owned()));
    }
    let names = [Some(host.as_str()), named.as_deref()];
    if !names
        .iter()
        .flatten()
        .all(|text| is_plain(text, bounds::MAX_NAME))
    {
        return Err(BadOffer(
            "The host's or the machine's name is none.".to_owned(),
        ));
    }
    let instance = init
        .portcullis
        .as_ref()
        .and_then(|ours| ours.instance.clone());
    let instance = instance.unwrap_or_default();
    if !instance.is_empty() && !is_word(&instance, bounds::MAX_INSTANCE) {
        return Err(BadOffer("The instance's name is none.".to_owned()));
    }
    let speaks_ours = init
        .portcullis
        .as_ref()
        .is_some_and(|ours| ours.protocol >= Ours::PROTOCOL);
    Ok(Welcome {
        dialect: if speaks_ours {
            Dialect::Ours
        } else {
            Dialect::Shipped
        },
        named: named.filter(|_| speaks_ours),
        host,
        root: init.root_path,
        offer: Offer::of(&init.tools, init.tool_categories)?,
        tree: Tree::default(),
        instance,
        files: init
            .portcullis
            .and_then(|ours| ours.files)
            .filter(|_| speaks_ours)
            .and_then(|files| Lends::of(&files)),
    })
}

/// The link of a daemon that has introduced itself.
fn linked(called: &Called) -> Option<Arc<Link>> {
    let machine = called.key.machine.as_deref()?;
    let link = called.server.parts.gateway.link(&called.key.user, machine);
    // What was paired since is its own daemon's, whoever had the fixed key before.
    link.filter(|link| called.key.kind != LinkKeyKind::Fixed || !link.about().keyed)
}

/// The same, for who wants to hear. A daemon that another one has taken the
/// place of introduces itself anew, and ends what that one was sent.
fn hearing(called: &Called, link: &Link) -> Option<Listening> {
    let says = called.head.headers.get(INSTANCE_HEADER);
    link.listen(says.map(HeaderValue::as_bytes))
}

/// The same answer as to a key that is nobody's: introduce yourself.
fn not_yet() -> Reply {
    problem(StatusCode::FORBIDDEN, "Gateway not initialized")
}

/// `GET /gateway/events`.
pub(super) async fn listen(called: Called) -> Reply {
    let is_early = match called.key.kind {
        LinkKeyKind::Pairing => true,
        // The seed's daemon listens first, whatever lets it in.
        LinkKeyKind::Fixed => linked(&called).is_none_or(|link| !link.is_live()),
        // Who comes back is told to introduce itself by a 403, as n8n's daemon is.
        LinkKeyKind::Session => false,
    };
    if called.spoken == Spoken::Seed && is_early {
        let early = early_events(&called.server.parts.gateway, &called.presented);
        return early.unwrap_or_else(not_yet);
    }
    let link = linked(&called);
    let listening = link.and_then(|link| Some((hearing(&called, &link)?, link)));
    let Some((listening, link)) = listening else {
        return not_yet();
    };
    let gateway = &called.server.parts.gateway;
    match events(gateway, link, listening).await {
        Ok(events) => events,
        Err(why) => failed(&why),
    }
}

/// `GET /gateway/poll`.
pub(super) async fn poll(called: Called) -> Reply {
    let query = called.head.uri.query().unwrap_or_default();
    let after = form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == "after")
        .and_then(|(_, after)| after.parse::<u64>().ok())
        .unwrap_or(0);
    let link = linked(&called).filter(|link| link.about().dialect.is_ours());
    let listening = link.and_then(|link| Some((hearing(&called, &link)?, link)));
    let Some((listening, link)) = listening else {
        return not_yet();
    };
    let gateway = &called.server.parts.gateway;
    let (bodies, of) = (&called.server.shares.bodies, owner(&called));
    match polled(gateway, link, listening, after, (bodies, &of)).await {
        Ok(mut looked) => {
            let reply = called.spoken.done(&looked.told());
            holding(reply, std::mem::take(&mut looked.room))
        }
        Err(why) => failed(&why),
    }
}

/// `POST /gateway/response/{id}`.
pub(super) async fn respond(mut called: Called) -> Reply {
    let spoken = called.spoken;
    let Some(link) = linked(&called) else {
        return nobody_waits();
    };
    let request = called.id.clone().unwrap_or_default();
    // Before a byte is read: who answers what nobody asked gets no room for it.
    match is_awaited(&called, &link, &request).await {
        Ok(true) => {}
        Ok(false) => return nobody_waits(),
        Err(why) => return failed(&why),
    }
    let mut room = match room(&called, bounds::MAX_MESSAGE).await {
        Ok(room) => room,
        Err(why) => return failed(&why),
    };
    let bytes = match read(&mut called, bounds::MAX_MESSAGE).await {
        Ok(bytes) => bytes,
        Err(reply) => return reply,
    };
    room.shrink(bytes.len());
    match taken(&called, &link, &request, bytes).await {
        Ok(Taken::Given | Taken::More) => spoken.done(&json!({"ok": true})),
        Ok(Taken::Nobody) => nobody_waits(),
        Ok(Taken::Bad(why)) => problem(StatusCode::BAD_REQUEST, &why),
        Err(why) => failed(&why),
    }
}

/// Whether a call waits under `request`, in this process or since before it.
async fn is_awaited(called: &Called, link: &Link, request: &str) -> Result<bool, Failure> {
    if link.awaits(request) {
        return Ok(true);
    }
    if !link.about().dialect.is_ours() {
        return Ok(false);
    }
    let (machine, request) = (Arc::clone(&link.id), request.to_owned());
    let now = called.server.parts.clock.now_ms();
    off_the_reactor(&called.server.parts.store, move |store| {
        store.link_call_waits(&machine, &request, now)
    })
    .await
}

/// Room for the body of a request: as much as it says it has, and at most `most`.
async fn room(called: &Called, most: usize) -> Result<Room, Failure> {
    let length = called.head.headers.get(CONTENT_LENGTH);
    let said = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let bytes = said.map_or(most, |said| said.min(most));
    let bodies = &called.server.shares.bodies;
    bodies.room(&owner(called), bytes).await
}

/// Whose share a daemon takes its room from.
fn owner(called: &Called) -> Principal {
    Principal::User {
        id: called.key.user.as_str().into(),
    }
}

fn nobody_waits() -> Reply {
    problem(
        StatusCode::NOT_FOUND,
        "No call waits for that: it was answered, its time is over, or it was never made.",
    )
}

/// A reply that is understood.
struct Understood {
    /// As it is kept, where it is to be.
    kept: Option<String>,
    /// For who waits.
    reply: Result<Returned, Failure>,
    /// Whether it wants its owner asked.
    asks: bool,
}

impl Understood {
    fn new(kept: Option<String>, reply: Result<Returned, Failure>) -> Self {
        let asks = matches!(&reply, Ok(returned) if returned.question().is_some());
        Self { kept, reply, asks }
    }
}

/// What a reply says, whole or in pieces; what becomes of it where it says nothing yet.
fn understood(
    gateway: &Gateway,
    link: &Link,
    request: &str,
    bytes: Vec<u8>,
) -> Result<Understood, Taken> {
    if link.about().dialect == Dialect::Seed {
        let returned = parsed(&bytes).and_then(seed_returned);
        return returned
            .map(|returned| Understood::new(None, Ok(returned)))
            .map_err(Taken::Bad);
    }
    let received: Received<'_> = parsed(&bytes).map_err(Taken::Bad)?;
    let Some(chunk) = received.chunk else {
        return whole(link, request, received);
    };
    drop(bytes);
    let Some(gathered) = gateway.gather(link, request, &chunk)? else {
        return Err(Taken::More);
    };
    drop(chunk);
    // The pieces are let go: a call that has none of its answer must not wait for
    // more of it.
    let received = parsed(gathered.as_bytes()).unwrap_or_else(|why| Received {
        error: Some(why),
        ..Received::default()
    });
    whole(link, request, received)
}

/// What a reply says of which all is there. It may be large: what is kept of it is
/// written only where nobody is there to be given it.
fn whole(link: &Link, request: &str, received: Received<'_>) -> Result<Understood, Taken> {
    let Received { result, error, .. } = received;
    let is_ours = link.about().dialect.is_ours();
    let reply = match (result, &error) {
        (Some(result), None) => Ok(Returned::parse(result.get()).map_err(Taken::Bad)?),
        (None, Some(error)) if is_ours => Err(said(error)),
        // All that such a daemon tells of a failure, typed as any it tells in words.
        (None, Some(error)) => Ok(Returned::of_error(clipped(error))),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Taken::Bad("One of result and error.".to_owned()));
        }
    };
    let kept = (!link.gives(request)).then(|| {
        let body = link.body_of(request);
        let error = error.as_deref().map(Cow::from);
        let (error, words) = if is_ours {
            (error, None)
        } else {
            (None, error)
        };
        let kept = KeptReply {
            result,
            error,
            words,
            body: body.as_deref().map(Cow::from),
        };
        kept.written()
    });
    Ok(Understood::new(kept, reply))
}

/// What becomes of a reply, whole or in pieces.
async fn taken(
    called: &Called,
    link: &Arc<Link>,
    request: &str,
    bytes: Vec<u8>,
) -> Result<Taken, Failure> {
    let is_large = bytes.len() > SMALL_BODY;
    let (of, id) = (Arc::clone(link), request.to_owned());
    let gateway = Arc::clone(&called.server.parts.gateway);
    let understand = move || understood(&gateway, &of, &id, bytes);
    let understood = if is_large {
        // It takes long: nobody else waits behind it.
        let understanding = tokio::task::spawn_blocking(understand).await;
        understanding.map_err(|error| Failure::from(Reason::Bug).detail(error))?
    } else {
        understand()
    };
    let Understood { kept, reply, asks } = match understood {
        Ok(understood) => understood,
        Err(taken) => return Ok(taken),
    };
    let calls = Calls(&called.server.parts.gateway);
    let dialect = link.about().dialect;
    match (link.take(request, reply), kept) {
        // Of another dialect, only what has a name is kept.
        (Taken::Nobody, Some(kept)) if dialect.is_ours() || link.awaits(request) => {
            let settled = calls.settle_kept(link, request, kept, asks).await?;
            Ok(if settled { Taken::Given } else { Taken::Nobody })
        }
        (Taken::Given, _) => {
            calls.settled(dialect, request);
            Ok(Taken::Given)
        }
        (other @ (Taken::Nobody | Taken::More | Taken::Bad(_)), _) => Ok(other),
    }
}

/// `POST /gateway/progress/{id}`.
pub(super) async fn progress(mut called: Called) -> Reply {
    let spoken = called.spoken;
    let bytes = match read(&mut called, MAX_PROGRESS).await {
        Ok(bytes) => bytes,
        Err(reply) => return reply,
    };
    let told: Progress = match parsed(&bytes) {
        Ok(told) => told,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let headway = Headway {
        entries: told.entries,
        searched: told.searched,
        matches: told.matches,
    };
    let request = called.id.as_deref().unwrap_or_default();
    match linked(&called) {
        Some(link) if link.further(request, headway) => spoken.done(&json!({"ok": true})),
        Some(_) | None => nobody_waits(),
    }
}

/// The largest body that tells how far a call is.
const MAX_PROGRESS: usize = 4 * 1024;

/// `POST /gateway/disconnect`.
pub(super) async fn disconnect(called: Called) -> Reply {
    let spoken = called.spoken;
    let Some(machine) = called.key.machine.clone() else {
        return not_yet();
    };
    let gateway = Arc::clone(&called.server.parts.gateway);
    let LinkKey { user, kind, .. } = called.key.clone();
    let (gone, presented) = (machine.clone(), called.presented.clone());
    let ended = off_the_reactor(&called.server.parts.store, move |_| match kind {
        LinkKeyKind::Fixed => {
            let ended = gateway.disconnect_unpaired(&user, &gone, None)?;
            Ok(ended != Unlinked::Not)
        }
        LinkKeyKind::Session | LinkKeyKind::Pairing => gateway.leave(&user, &gone, &presented),
    });
    let ended = match ended.await {
        Ok(true) => Ok(()),
        Ok(false) => return not_yet(),
        Err(why) => Err(why),
    };
    let noted = ended.and_then(|()| {
        let what = format!("link left: {machine}");
        called.server.parts.gate.note(&called.caller(), &what)
    });
    match noted {
        Ok(()) => {
            called.server.tell_owner(
                &called.key.user,
                "machine",
                &machine,
                &json!({"linked": false}),
            );
            spoken.done(&json!({"ok": true}))
        }
        Err(why) => failed(&why),
    }
}

/// The body of a request, of at most so many bytes.
async fn read(called: &mut Called, most: usize) -> Result<Vec<u8>, Reply> {
    read_body(called.body.take(), most)
        .await
        .map_err(|why| match why {
            NoBody::TooLarge => problem(
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is larger than it may be. Nothing was done.",
            ),
            NoBody::Lost => lost(),
        })
}

/// A body as `T`, from JSON that is not too much.
fn parsed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    Extent::of(bytes).map_err(|why| why.to_string())?;
    // An object and nothing else: a list would be taken for its fields in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err("The body is no JSON object.".to_owned());
    }
    serde_json::from_slice(bytes)
        .map_err(|error| format!("The body does not fit: {}.", misfit(&error)))
}
