//! What a daemon asks: to be let in, to hear, to answer, and to go.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_LENGTH;
use portcullis_gate::Headway;
use portcullis_link::{
    Accepted, Dialect, Init, Ours, OursAccepted, Progress, Reply as Answered, SeedInit, bounds,
};
use portcullis_proto::{Failure, Principal, Reason, Verb};
use portcullis_store::LinkKeyKind;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::bodies::Room;
use super::super::reply::{self, Reply};
use super::super::rest::{NoBody, lost, read_body};
use super::Called;
use super::spoken::{Spoken, failed, problem};
use crate::answers::off_the_reactor;
use crate::gateway::{
    Admitted, BadOffer, Calls, Link, NotAdmitted, Offer, Returned, Taken, Tree, Welcome,
    early_events, events, polled, said, seed_offer, seed_returned,
};

/// How many values a body of JSON may hold: as values each takes many times its
/// own length.
const MAX_VALUES: usize = 200_000;
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
        Ok(Ok(Admitted { machine, session })) => {
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
                }),
            })
        }
        Ok(Err(NotAdmitted::Key)) => problem(StatusCode::FORBIDDEN, "Invalid gateway key"),
        Ok(Err(NotAdmitted::Wider(how))) => {
            let why = Failure::new(
                Reason::NoGrant,
                format!("The machine offers more than when it was paired: {how}."),
            );
            drop(gate.refuse(&called.caller(), Verb::Relay, "link wider", why));
            let body = json!({
                "code": 409,
                "message": format!(
                    "This machine offers more than its owner was shown: {how}. Nothing was changed. Its owner approves it with a new link: portcullis link create."
                ),
                "reason": "surface_widened",
            });
            reply::value(StatusCode::CONFLICT, &body)
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
        root: init.root_path,
        offer: seed_offer()?,
    })
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
    })
}

/// The link of a daemon that has introduced itself.
fn linked(called: &Called) -> Option<Arc<Link>> {
    let machine = called.key.machine.as_deref()?;
    called.server.parts.gateway.link(&called.key.user, machine)
}

/// The same answer as to a key that is nobody's: introduce yourself.
fn not_yet() -> Reply {
    problem(StatusCode::FORBIDDEN, "Gateway not initialized")
}

/// `GET /gateway/events`.
pub(super) async fn listen(called: Called) -> Reply {
    if called.spoken == Spoken::Seed && called.key.kind == LinkKeyKind::Pairing {
        let early = early_events(&called.server.parts.gateway, &called.presented);
        return early.unwrap_or_else(not_yet);
    }
    let listening = linked(&called).and_then(|link| Some((link.listen()?, link)));
    let Some((listening, link)) = listening else {
        return not_yet();
    };
    let gateway = &called.server.parts.gateway;
    // Asked for after it listens: what is sent meanwhile comes twice, not never.
    let first = if listening.dialect.is_ours() {
        Calls(gateway).again(&link.id).await
    } else {
        Ok(Vec::new())
    };
    match first {
        Ok(first) => events(gateway, link, listening, first),
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
    let Some(link) = link else {
        return not_yet();
    };
    match polled(&called.server.parts.gateway, link, after).await {
        Ok(Some(events)) => called.spoken.done(&json!({ "events": events })),
        Ok(None) => not_yet(),
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
    match taken(&called, &link, &request, &bytes).await {
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
    let who = Principal::User {
        id: called.key.user.as_str().into(),
    };
    let length = called.head.headers.get(CONTENT_LENGTH);
    let said = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let bytes = said.map_or(most, |said| said.min(most));
    called.server.shares.bodies.room(&who, bytes).await
}

fn nobody_waits() -> Reply {
    problem(
        StatusCode::NOT_FOUND,
        "No call waits for that: it was answered, its time is over, or it was never made.",
    )
}

/// What becomes of a reply, whole or in pieces.
async fn taken(
    called: &Called,
    link: &Link,
    request: &str,
    bytes: &[u8],
) -> Result<Taken, Failure> {
    if link.about().dialect == Dialect::Seed {
        return Ok(match parsed(bytes).and_then(seed_returned) {
            Ok(returned) => link.take(request, Ok(returned)),
            Err(why) => Taken::Bad(why),
        });
    }
    let mut answered: Answered = match parsed(bytes) {
        Ok(answered) => answered,
        Err(why) => return Ok(Taken::Bad(why)),
    };
    if let Some(chunk) = answered.chunk.take() {
        match link.gather(request, &chunk) {
            Ok(None) => return Ok(Taken::More),
            Err(taken) => return Ok(taken),
            Ok(Some(whole)) => match parsed(whole.as_bytes()) {
                Ok(whole) => answered = whole,
                // The pieces are let go: a call that has none of its answer
                // must not wait for more of it.
                Err(why) => return Ok(link.take(request, Err(said(&why)))),
            },
        }
    }
    let reply = match (answered.result, answered.error) {
        (Some(result), None) => match Returned::parse(result.clone()) {
            Ok(returned) => (result, Ok(returned)),
            Err(why) => return Ok(Taken::Bad(why)),
        },
        (None, Some(error)) => (json!({ "error": error }), Err(said(&error))),
        (Some(_), Some(_)) | (None, None) => {
            return Ok(Taken::Bad("One of result and error.".to_owned()));
        }
    };
    let (kept, reply) = reply;
    let calls = Calls(&called.server.parts.gateway);
    let dialect = link.about().dialect;
    match link.take(request, reply) {
        Taken::Nobody if dialect.is_ours() => settle_kept(&calls, link, request, &kept).await,
        Taken::Given => {
            calls.settled(dialect, request);
            Ok(Taken::Given)
        }
        other @ (Taken::Nobody | Taken::More | Taken::Bad(_)) => Ok(other),
    }
}

/// A reply to a call that was sent before this server started.
async fn settle_kept(
    calls: &Calls<'_>,
    link: &Link,
    request: &str,
    reply: &Value,
) -> Result<Taken, Failure> {
    let settled = calls.settle_kept(&link.id, request, reply).await?;
    Ok(if settled { Taken::Given } else { Taken::Nobody })
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
    let user = called.key.user.clone();
    let gone = machine.clone();
    let ended = off_the_reactor(&called.server.parts.store, move |_| {
        gateway.disconnect(&user, &gone, None)
    });
    let noted = ended.await.and_then(|_| {
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
fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if values_in(bytes) > MAX_VALUES {
        return Err("The body holds too many values.".to_owned());
    }
    // An object and nothing else: a list would be taken for its fields in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err("The body is no JSON object.".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| format!("The body does not fit: {error}."))
}

/// How many values stand in some JSON, about: what separates and opens them,
/// outside of strings.
fn values_in(bytes: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (0, false, false);
    for byte in bytes {
        match (in_string, *byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b',' | b'[' | b'{') => values += 1,
            (true | false, _) => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_where_they_are_some() {
        for (text, want) in [
            ("{}", 1),
            ("[1,2,3]", 3),
            (r#"{"a":",,,[[["}"#, 1),
            (r#"{"a":"\",[","b":[]}"#, 3),
        ] {
            assert_eq!(values_in(text.as_bytes()), want, "{text}");
        }
        let many = format!("{{\"a\":[{}0]}}", "0,".repeat(MAX_VALUES));
        assert!(parsed::<Value>(many.as_bytes()).is_err());
    }
}
