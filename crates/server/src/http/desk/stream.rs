//! Server-sent events: bounded, kept alive, ended with the server.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;

use super::super::door::Standing;
use super::super::reply::{Reply, guarded};
use super::super::server::Server;
use super::feed::{Item, Listener};

/// How often something is sent where nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream looks whether it may go on.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many events wait for a reader.
const QUEUE: usize = 64;
/// How long a reader may take none of them.
const READER_PATIENCE: Duration = Duration::from_secs(10);

/// Why a stream ends.
pub(crate) const SERVER_ENDS: &str = "the server ends";
pub(crate) const HOLDS_NO_MORE: &str = "the credential holds no more";
const TOO_SLOW: &str = "what waited was not read in time";

/// One event: its kind, its id, and what it says.
pub(crate) type Told = (&'static str, String, Value);

/// What is told to a reader that was let go, once it has read what waits.
type LastWords = Arc<OnceLock<Bytes>>;

/// A body that is written as it comes.
struct Stream {
    receive: mpsc::Receiver<Bytes>,
    last_words: Option<LastWords>,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receive.poll_recv(cx).map(|bytes| {
            let last = || self.last_words.take()?.get().cloned();
            bytes.or_else(last).map(|bytes| Ok(Frame::data(bytes)))
        })
    }
}

/// Where events are put. Dropped, the stream ends.
pub(crate) struct Sender {
    send: mpsc::Sender<Bytes>,
    last_words: LastWords,
    /// When something was put last.
    last: Mutex<Instant>,
}

impl Sender {
    /// Puts one event; false once nobody reads, or not fast enough.
    pub(crate) async fn tell(&self, (event, id, value): Told) -> bool {
        let id = id.replace(['\n', '\r', '\0'], " ");
        self.put(format!("event: {event}\nid: {id}\ndata: {value}\n\n"))
            .await
    }

    /// Puts one event that nobody resumes from.
    pub(crate) async fn say(&self, event: &str, value: &Value) -> bool {
        self.put(format!("event: {event}\ndata: {value}\n\n")).await
    }

    /// Shows that it is still there, where nothing was put for a while.
    pub(crate) async fn keep_alive(&self) -> bool {
        if self.last().elapsed() < KEEP_ALIVE {
            return true;
        }
        self.put(": keep-alive\n\n".to_owned()).await
    }

    /// Tells why nothing more comes.
    pub(crate) async fn end(&self, why: &str) {
        self.say("ended", &json!({"reason": why})).await;
    }

    fn last(&self) -> MutexGuard<'_, Instant> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn put(&self, text: String) -> bool {
        *self.last() = Instant::now();
        let put = self.send.send_timeout(text.into(), READER_PATIENCE).await;
        match put {
            Ok(()) => true,
            Err(SendTimeoutError::Closed(_)) => false,
            Err(SendTimeoutError::Timeout(_)) => {
                let told = json!({"reason": TOO_SLOW});
                let told = format!("event: dropped\ndata: {told}\n\n");
                // Told once: nothing is put behind it.
                let _first = self.last_words.set(told.into());
                false
            }
        }
    }

    /// Puts one event that says what a later one says again; where the reader
    /// has no room, the later one is enough.
    pub(crate) fn mention(&self, event: &str, value: &Value) {
        let text = format!("event: {event}\ndata: {value}\n\n");
        if self.send.try_send(text.into()).is_ok() {
            *self.last() = Instant::now();
        }
    }

    /// Resolves when nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.send.closed().await;
    }
}

/// An open stream, and where its events are put.
pub(crate) fn open() -> (Sender, Reply) {
    let (send, receive) = mpsc::channel(QUEUE);
    let last_words = LastWords::default();
    let body = Stream {
        receive,
        last_words: Some(Arc::clone(&last_words)),
    };
    let mut reply = Response::new(body.boxed());
    let headers = reply.headers_mut();
    guarded(headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that gather replies would gather this one for ever.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    let last = Mutex::new(Instant::now());
    let sender = Sender {
        send,
        last_words,
        last,
    };
    (sender, reply)
}

/// Tells `first`, and then what of the feed `pick` picks, until the reader or
/// the server ends, or its credential does. A reader that falls behind is told so and let go.
pub(super) fn events(
    server: &Arc<Server>,
    standing: Standing,
    first: Vec<Told>,
    mut feed: Listener,
    pick: impl Fn(&Item) -> Option<Told> + Send + 'static,
) -> Reply {
    let (send, reply) = open();
    let ending = server.ending().clone();
    tokio::spawn(async move {
        for told in first {
            if !send.tell(told).await {
                return;
            }
        }
        loop {
            let heard = tokio::select! {
                () = ending.cancelled() => {
                    send.end(SERVER_ENDS).await;
                    return;
                }
                () = send.closed() => return,
                heard = tokio::time::timeout(LOOK_AGAIN, feed.recv()) => heard,
            };
            if !standing.holds() {
                send.end(HOLDS_NO_MORE).await;
                return;
            }
            let stays = match heard {
                Err(_) => send.keep_alive().await,
                Ok(Ok(item)) => match pick(&item) {
                    Some(told) => send.tell(told).await,
                    None => send.keep_alive().await,
                },
                Ok(Err(RecvError::Lagged(missed))) => {
                    send.say("dropped", &json!({"missed": missed})).await;
                    false
                }
                Ok(Err(RecvError::Closed)) => false,
            };
            if !stays {
                return;
            }
        }
    });
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_reads_too_slowly_is_let_go_and_told_so() {
        let (send, reply) = open();
        let value = json!({"n": 1});
        for _ in 0..QUEUE {
            assert!(send.say("event", &value).await);
        }
        // What may be left out is left out, and waits for nobody.
        send.mention("left out", &value);
        assert!(!send.say("one too many", &value).await);
        drop(send);
        let read = reply.into_body().collect().await.unwrap().to_bytes();
        let read = String::from_utf8(read.to_vec()).unwrap();
        let events: Vec<&str> = read.split_terminator("\n\n").collect();
        assert_eq!(events.len(), QUEUE + 1, "{read}");
        let last = events.last().unwrap();
        assert!(last.starts_with("event: dropped\n"), "{last}");
        assert!(last.contains(TOO_SLOW), "{last}");
    }

    #[tokio::test]
    async fn who_reads_in_time_is_told_nothing_of_the_kind() {
        let (send, reply) = open();
        send.mention("kept", &json!({}));
        send.end("it is over").await;
        drop(send);
        let read = reply.into_body().collect().await.unwrap().to_bytes();
        let read = String::from_utf8(read.to_vec()).unwrap();
        assert!(!read.contains("dropped") && read.contains("kept"), "{read}");
    }
}
