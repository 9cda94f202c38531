//! Bodies that hold something while they are sent, and end when they have to.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::desk::{HOLDS_NO_MORE, LOOK_AGAIN};
use super::door::Standing;
use super::reply::{Body, Reply};

/// Whether a reply is a stream of events.
pub(super) fn is_stream(reply: &Reply) -> bool {
    let kind = reply.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// How much of a body is handed over at once: a connection takes what it is given
/// whole, read or not, and lets go of the body that gave it.
const SLICE: usize = 64 * 1024;

/// A body that holds something until it was sent, or nobody reads it any more.
struct Holding<T> {
    body: Body,
    /// What the body gave and was not handed over yet.
    rest: Bytes,
    _held: T,
}

/// The reply, holding `held`: a place, or room.
pub(super) fn holding<T: Unpin + Send + Sync + 'static>(reply: Reply, held: T) -> Reply {
    reply.map(|body| {
        Holding {
            body,
            rest: Bytes::new(),
            _held: held,
        }
        .boxed()
    })
}

impl<T: Unpin> http_body::Body for Holding<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                None => return Poll::Ready(None),
            }
        }
        let end = self.rest.len().min(SLICE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(end)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut hint) = (self.rest.len() as u64, self.body.size_hint());
        let most = hint.upper().map(|upper| upper.saturating_add(rest));
        hint.set_lower(hint.lower().saturating_add(rest));
        if let Some(most) = most {
            hint.set_upper(most);
        }
        hint
    }
}

/// A stream that ends with the credential it was opened with.
struct WhileStanding {
    body: Body,
    standing: Standing,
    look: Interval,
}

/// The reply, ended when `standing` holds no more.
pub(super) fn while_standing(reply: Reply, standing: Standing) -> Reply {
    let mut look = interval(LOOK_AGAIN);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    reply.map(|body| {
        WhileStanding {
            body,
            standing,
            look,
        }
        .boxed()
    })
}

impl http_body::Body for WhileStanding {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while self.look.poll_tick(cx).is_ready() {
            if !self.standing.holds() && !self.body.is_end_stream() {
                // What tells it ends with it.
                self.body = Empty::new().boxed();
                let why = format!(": {HOLDS_NO_MORE}\n\n");
                return Poll::Ready(Some(Ok(Frame::data(why.into()))));
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}
