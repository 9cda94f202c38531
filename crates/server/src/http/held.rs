//! Bodies that hold something while they are sent, and end when they have to.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::desk::{HOLDS_NO_MORE, LOOK_AGAIN};
use super::door::Standing;
use super::reply::{Body, Reply};
use super::shares::Place;

/// Whether a reply is a stream of events.
pub(super) fn is_stream(reply: &Reply) -> bool {
    let kind = reply.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A body that holds a place until it was sent, or nobody reads it any more.
struct Holding {
    body: Body,
    _place: Place,
}

/// The reply, holding `place`.
pub(super) fn holding(reply: Reply, place: Place) -> Reply {
    reply.map(|body| {
        Holding {
            body,
            _place: place,
        }
        .boxed()
    })
}

impl http_body::Body for Holding {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
