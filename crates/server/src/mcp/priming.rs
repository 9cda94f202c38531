//! The event without a message that opens a stream, for clients that know it.
//!
//! From 2025-11-25 on a stream begins with an empty event whose id a client
//! resumes from. Older clients parse each event as a message and disconnect at
//! an empty one, so that none reaches them.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::SessionConfig;

/// The id of the empty event on a stream that belongs to no request.
const FIRST: &str = "0";

/// A stream of a session, with empty events or without.
pub(super) struct Primed<S> {
    first: Option<ServerSseMessage>,
    knows_priming: bool,
    stream: S,
}

impl<S> Primed<S> {
    /// A stream that the session layer opens with an empty event.
    pub(super) fn through(stream: S, knows_priming: bool) -> Self {
        Self {
            first: None,
            knows_priming,
            stream,
        }
    }

    /// A stream that nothing opens yet.
    pub(super) fn first(stream: S, knows_priming: bool) -> Self {
        let first = ServerSseMessage::priming(FIRST, SessionConfig::DEFAULT_SSE_RETRY);
        Self {
            first: knows_priming.then_some(first),
            knows_priming,
            stream,
        }
    }
}

impl<S: Stream<Item = ServerSseMessage> + Unpin> Stream for Primed<S> {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        loop {
            match Pin::new(&mut self.stream).poll_next(cx) {
                Poll::Ready(Some(event)) if event.message.is_none() && !self.knows_priming => {}
                event @ (Poll::Ready(_) | Poll::Pending) => return event,
            }
        }
    }
}
