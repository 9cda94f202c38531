//! The stream a daemon listens to: events as they come, and a ping where none do.
//!
//! It is a body and no task: ten thousand of them wait without one each.

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use portcullis_link::{bounds, event_frame, ping_frame};
use portcullis_proto::Failure;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::calls::Calls;
use super::link::{Link, Listening, Outgoing};
use super::registry::Gateway;
use crate::http::Reply;

struct Stream {
    gateway: Arc<Gateway>,
    link: Arc<Link>,
    listening: Listening,
    /// What is told first.
    first: std::vec::IntoIter<Outgoing>,
    ping: Interval,
}

/// The stream of `link`: `first`, and then what is asked of its machine.
pub(crate) fn events(
    gateway: &Arc<Gateway>,
    link: Arc<Link>,
    listening: Listening,
    first: Vec<Outgoing>,
) -> Reply {
    let mut ping = interval_at(Instant::now() + bounds::PING, bounds::PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = Stream {
        gateway: Arc::clone(gateway),
        link,
        listening,
        first: first.into_iter(),
        ping,
    };
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
    reply
}

impl Stream {
    fn written(&mut self, event: &Outgoing) -> Frame<Bytes> {
        self.ping.reset();
        // Only our own dialect knows ids.
        let id = event.id.filter(|_| self.listening.dialect.is_ours());
        Frame::data(event_frame(id, &event.data).into())
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(event) = self.first.next() {
            let frame = self.written(&event);
            return Poll::Ready(Some(Ok(frame)));
        }
        match self.listening.receive.poll_recv(cx) {
            Poll::Ready(Some(event)) => {
                let frame = self.written(&event);
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
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
        self.gateway.unlistened(&self.link, self.listening.number);
    }
}

/// Somebody who listens until this is dropped.
struct Ear<'a> {
    gateway: &'a Arc<Gateway>,
    link: &'a Arc<Link>,
    listening: Listening,
}

impl Drop for Ear<'_> {
    fn drop(&mut self) {
        self.gateway.unlistened(self.link, self.listening.number);
    }
}

/// The same for who cannot hold a stream: the events behind `after`, as soon as
/// there is one. Nothing where the link is over.
pub(crate) async fn polled(
    gateway: &Arc<Gateway>,
    link: Arc<Link>,
    after: u64,
) -> Result<Option<Vec<Value>>, Failure> {
    let Some(listening) = link.listen() else {
        return Ok(None);
    };
    let mut ear = Ear {
        gateway,
        link: &link,
        listening,
    };
    let mut events = Calls(gateway).again(&link.id).await?;
    events.retain(|event| event.id.is_none_or(|id| id > after));
    let receive = &mut ear.listening.receive;
    if events.is_empty()
        && let Ok(Some(event)) = tokio::time::timeout(bounds::POLL, receive.recv()).await
    {
        events.push(event);
    }
    while let Ok(event) = receive.try_recv() {
        events.push(event);
    }
    // What was kept and what was sent meanwhile may be the same.
    let mut told = HashSet::new();
    events.retain(|event| event.id.is_none_or(|id| told.insert(id)));
    let told = |event: &Outgoing| {
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        json!({"id": event.id, "event": value})
    };
    Ok(Some(events.iter().map(told).collect()))
}
