//! The stream a daemon listens to: events as they come, and a ping where none do.
//!
//! It is a body and no task: ten thousand of them wait without one each.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use portcullis_link::{Dialect, bounds, event_frame, ping_frame};
use portcullis_proto::{Failure, Principal};
use portcullis_store::WaitingCall;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::calls::{Calls, resent};
use super::link::{Link, Listening};
use super::queue::{Hearing, Outgoing};
use super::registry::{Claimed, Gateway};
use crate::http::{Bodies, Reply, Room, lasting};

struct Stream {
    gateway: Arc<Gateway>,
    claimed: Claimed,
    hearing: Hearing,
    dialect: Dialect,
    /// What is told first; each is looked up when it is its turn.
    first: std::vec::IntoIter<WaitingCall>,
    looking: Option<JoinHandle<Option<Outgoing>>>,
    ping: Interval,
}

/// The stream of `link`: what it has not heard the end of, and then what is asked of
/// its machine.
pub(crate) async fn events(
    gateway: &Arc<Gateway>,
    link: Arc<Link>,
    listening: Listening,
) -> Result<Reply, Failure> {
    let ear = Ear::of(gateway, &link, &listening);
    // Asked for after it listens: what is sent meanwhile comes twice, not never.
    let first = if listening.dialect.is_ours() {
        Calls(gateway).again(&link, &listening).await?
    } else {
        Vec::new()
    };
    ear.goes_on();
    let claimed = Claimed::default();
    // It was empty.
    let _first = claimed.set((Arc::clone(&link), listening.number));
    Ok(stream(Stream {
        gateway: Arc::clone(gateway),
        claimed,
        hearing: listening.hearing,
        dialect: listening.dialect,
        first: first.into_iter(),
        looking: None,
        ping: pinging(),
    }))
}

/// The stream of who comes with a pairing token or the fixed key and introduces
/// itself later: the seed's dialect. Nothing where too many do.
pub(crate) fn early_events(gateway: &Arc<Gateway>, token: &str) -> Option<Reply> {
    let (hearing, claimed) = gateway.listen_early(token)?;
    Some(stream(Stream {
        gateway: Arc::clone(gateway),
        claimed,
        hearing,
        dialect: Dialect::Seed,
        first: Vec::new().into_iter(),
        looking: None,
        ping: pinging(),
    }))
}

fn pinging() -> Interval {
    let mut ping = interval_at(Instant::now() + bounds::PING, bounds::PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping
}

fn stream(body: Stream) -> Reply {
    let cut_off = body.hearing.cut_off.clone();
    let mut reply = Response::new(body.boxed());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    // Proxies that gather replies would gather this one for ever.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    reply.extensions_mut().insert(cut_off);
    lasting(reply)
}

impl Stream {
    fn written(&mut self, event: &Outgoing) -> Frame<Bytes> {
        self.ping.reset();
        // Only our own dialect knows ids.
        let id = event.id.filter(|_| self.dialect.is_ours());
        Frame::data(event_frame(id, &event.data).into())
    }

    /// Whether an event that was taken out of the queue is to be sent still.
    fn may_send(&self, event: &Outgoing) -> bool {
        let claimed = self.claimed.get();
        claimed.is_none_or(|(link, number)| link.may_send(*number, event))
    }

    /// The next of what is told first; nothing when all of it was.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        loop {
            if let Some(looking) = &mut self.looking {
                let looked = ready!(Pin::new(looking).poll(cx));
                self.looking = None;
                // What cannot be read now is told by the next stream.
                if let Ok(Some(event)) = looked {
                    return Poll::Ready(Some(event));
                }
            }
            let (Some(call), Some((link, _))) = (self.first.next(), self.claimed.get()) else {
                return Poll::Ready(None);
            };
            let (gateway, link) = (Arc::clone(&self.gateway), Arc::clone(link));
            let look = move || resent(&gateway, &link, &call).ok().flatten();
            self.looking = Some(tokio::task::spawn_blocking(look));
        }
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.hearing.is_over() {
            // Another took its place, and is told the rest.
            let last = self.hearing.last_word();
            return Poll::Ready(last.map(|event| Ok(self.written(&event))));
        }
        if let Some(event) = ready!(self.poll_first(cx)) {
            let frame = self.written(&event);
            return Poll::Ready(Some(Ok(frame)));
        }
        while let Poll::Ready(heard) = self.hearing.poll(cx) {
            let Some(event) = heard else {
                return Poll::Ready(None);
            };
            if self.may_send(&event) {
                let frame = self.written(&event);
                return Poll::Ready(Some(Ok(frame)));
            }
        }
        match self.ping.poll_tick(cx) {
            Poll::Ready(_) => {
                let ping = Bytes::from_static(ping_frame().as_bytes());
                Poll::Ready(Some(Ok(Frame::data(ping))))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some((link, number)) = self.claimed.get() {
            self.gateway.unlistened(link, *number);
        }
    }
}

/// Somebody who listens until this is dropped.
struct Ear<'a> {
    gateway: &'a Arc<Gateway>,
    link: &'a Arc<Link>,
    /// As which stream; nothing where something else looks after that.
    number: Option<u64>,
}

impl<'a> Ear<'a> {
    fn of(gateway: &'a Arc<Gateway>, link: &'a Arc<Link>, listening: &Listening) -> Self {
        Self {
            gateway,
            link,
            number: Some(listening.number),
        }
    }

    /// Who listens does so for longer than this.
    fn goes_on(mut self) {
        self.number = None;
    }
}

impl Drop for Ear<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.gateway.unlistened(self.link, number);
        }
    }
}

/// The same for who cannot hold a stream: the events behind `after`, as soon as
/// there is one. Who looks again and again, and reads nothing of it, takes as much
/// memory as `of` has room in `bodies`.
pub(crate) async fn polled(
    gateway: &Arc<Gateway>,
    link: Arc<Link>,
    mut listening: Listening,
    after: u64,
    (bodies, of): (&Bodies, &Principal),
) -> Result<Looked, Failure> {
    let _ear = Ear::of(gateway, &link, &listening);
    let calls = Calls(gateway);
    let mut waiting = calls.again(&link, &listening).await?;
    link.unheard(after, &mut waiting);
    let mut looked = Looked::default();
    let hearing = &mut listening.hearing;
    if !waiting.is_empty() {
        // How large they are is seen when they are there.
        looked.room = bodies.room(of, bounds::MAX_MESSAGE).await?;
    }
    for call in waiting {
        if hearing.is_over() {
            break;
        }
        if let Some(event) = calls.resend(&link, call).await?
            && !looked.takes(event)
        {
            break;
        }
    }
    if looked.events.is_empty()
        && let Ok(Some(event)) = tokio::time::timeout(bounds::POLL, hearing.next()).await
    {
        looked.takes(event);
    }
    if hearing.is_over() {
        // Another took its place, and is told the rest.
        let said = std::mem::take(&mut looked).events.pop();
        let last = said.filter(Outgoing::is_last);
        looked.events.extend(last.or_else(|| hearing.last_word()));
        return Ok(looked);
    }
    while let Some(event) = hearing.next_now()
        && looked.takes(event)
    {}
    if looked.room.is_none() {
        looked.room = bodies.room(of, looked.bytes).await?;
    }
    looked.room.shrink(looked.bytes);
    link.brought(&looked.events);
    Ok(looked)
}

/// What one look brings.
#[derive(Default)]
pub(crate) struct Looked {
    events: Vec<Outgoing>,
    bytes: usize,
    /// Room for it, until it was read.
    pub(crate) room: Room,
}

/// The body of a look.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    events: Vec<ToldEvent<'a>>,
}

#[derive(Serialize)]
struct ToldEvent<'a> {
    id: Option<u64>,
    event: &'a RawValue,
}

impl Looked {
    /// As it is replied: no event is taken apart for it.
    pub(crate) fn told(&self) -> Told<'_> {
        let events = self.events.iter().filter_map(|one| {
            Some(ToldEvent {
                id: one.id,
                // It was written here, as JSON.
                event: serde_json::from_str(&one.data).ok()?,
            })
        });
        Told {
            events: events.collect(),
        }
    }

    /// Takes an event in; whether more may come: as much as one event may have.
    /// The calls behind that are kept for the next look.
    fn takes(&mut self, event: Outgoing) -> bool {
        let bytes = self.bytes.saturating_add(event.data.len());
        if !self.events.is_empty() && bytes > bounds::MAX_MESSAGE {
            return false;
        }
        // What was kept and what was sent meanwhile may be the same.
        let is_known = |id| self.events.iter().any(|one| one.id == Some(id));
        if !event.id.is_some_and(is_known) {
            self.events.push(event);
            self.bytes = bytes;
        }
        true
    }
}
