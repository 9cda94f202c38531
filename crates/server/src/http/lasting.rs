//! Replies that last for days, told over the bare connection.
//!
//! hyper keeps buffers and the whole of its machinery for as long as a
//! connection lasts. A linked machine listens for days and hears a few bytes a
//! minute, and there are ten thousand of them: once such a reply begins, its
//! connection is taken out of hyper's hands, and what is left is a socket, a
//! body and nothing else. Nobody asks anything over it again.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Buf as _, Bytes};
use http::header::{CONNECTION, DATE, TRANSFER_ENCODING};
use http::{HeaderValue, Response, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1::Connection;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::reply::{Body, Reply};

/// How much a peer may say while it listens; it has nothing to say.
const MAX_SAID: usize = 4_096;

/// Ends a reply that lasts, with whatever of it is on its way: a peer that reads
/// byte by byte would hold that for as long as it likes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutOff(Arc<Falling>);

#[derive(Debug, Default)]
struct Falling {
    at: OnceLock<Instant>,
    said: Notify,
}

impl CutOff {
    /// Does so after so long. What was said first holds.
    pub(crate) fn cut_in(&self, left: Duration) {
        if self.0.at.set(Instant::now() + left).is_ok() {
            self.0.said.notify_one();
        }
    }

    /// After how long it is to, where that was said.
    #[cfg(test)]
    pub(crate) fn left(&self) -> Option<Duration> {
        let at = self.0.at.get()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// When it is to end.
    async fn fallen(&self) {
        loop {
            if let Some(at) = self.0.at.get() {
                // Boxed: ten thousand wait here, and few of them for this.
                return Box::pin(sleep_until(*at)).await;
            }
            self.0.said.notified().await;
        }
    }
}

/// Marks a reply that lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasting;

/// The reply, marked so.
pub(crate) fn lasting(mut reply: Reply) -> Reply {
    reply.extensions_mut().insert(Lasting);
    reply
}

/// Where a reply that lasts waits to be taken out of hyper's hands.
#[derive(Debug, Default)]
pub(super) struct Handed(Mutex<Option<Reply>>);

/// A connection and the reply that is told over it.
pub(super) struct Taken<S> {
    stream: S,
    reply: Reply,
}

impl Handed {
    /// The reply, where hyper is to send it itself. One that lasts is handed on
    /// instead, and there is never anything to send.
    pub(super) async fn pass(&self, mut reply: Reply, version: Version) -> Reply {
        if reply.extensions().get::<Lasting>().is_none() {
            return reply;
        }
        *reply.version_mut() = version;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        std::future::pending().await
    }

    fn take(&self) -> Option<Reply> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs a connection to its end, or until a reply is handed on. What hyper
    /// has still to write by then it has tried to: replies before this one are
    /// held back only by a peer that asks on and does not read.
    pub(super) async fn served<S, H>(
        &self,
        connection: &mut Connection<TokioIo<S>, H>,
    ) -> Option<Reply>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        H: HttpService<Incoming, ResBody = Body, Error = Infallible>,
        Connection<TokioIo<S>, H>: Future<Output = hyper::Result<()>> + Unpin,
    {
        poll_fn(|cx| match pin!(&mut *connection).poll(cx) {
            // A peer that breaks off, or says what is no HTTP, has been told so
            // already or is gone.
            Poll::Ready(_ended) => Poll::Ready(None),
            Poll::Pending => self
                .take()
                .map_or(Poll::Pending, |reply| Poll::Ready(Some(reply))),
        })
        .await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Taken<S> {
    pub(super) fn new(stream: S, mut reply: Reply, now_ms: u64) -> Self {
        let in_pieces = knows_pieces(reply.version());
        let headers = reply.headers_mut();
        if in_pieces {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let now = UNIX_EPOCH + Duration::from_millis(now_ms);
        if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(now)) {
            headers.insert(DATE, date);
        }
        Self { stream, reply }
    }

    /// Tells it, until it has ended or nobody listens any more.
    pub(super) async fn tell(self) {
        // Whoever is gone hears nothing more.
        drop(told(self.stream, self.reply).await);
    }
}

/// Whether a peer of this HTTP knows pieces. To one of the older a reply is what
/// comes until the connection ends.
fn knows_pieces(version: Version) -> bool {
    version != Version::HTTP_10
}

async fn told<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, reply: Reply) -> io::Result<()> {
    let (head, mut body) = reply.into_parts();
    let cut_off = head.extensions.get::<CutOff>().cloned().unwrap_or_default();
    let in_pieces = knows_pieces(head.version);
    write(
        &mut stream,
        &mut Bytes::from(written(&Response::from_parts(head, ()))),
    )
    .await?;
    let mut said = 0;
    loop {
        let mut scrap = [0; 64];
        tokio::select! {
            biased;
            frame = body.frame() => {
                let Some(Ok(frame)) = frame else { break };
                if let Ok(data) = frame.into_data()
                    && !data.is_empty()
                {
                    let (size, end) = if in_pieces {
                        (format!("{:x}\r\n", data.len()), &b"\r\n"[..])
                    } else {
                        (String::new(), &b""[..])
                    };
                    let mut piece = Bytes::from(size).chain(data).chain(end);
                    tokio::select! {
                        biased;
                        // What the peer takes at once it is told, whenever it is cut off.
                        written = write(&mut stream, &mut piece) => written?,
                        () = cut_off.fallen() => return Ok(()),
                    }
                }
            }
            heard = stream.read(&mut scrap) => {
                let heard = heard?;
                said += heard;
                if heard == 0 || said > MAX_SAID {
                    return Ok(());
                }
            }
        }
    }
    // What it held is let go, however long its peer takes to hear of the end.
    drop(body);
    let mut end = if in_pieces { &b"0\r\n\r\n"[..] } else { b"" };
    let ending = async {
        write(&mut stream, &mut end).await?;
        stream.shutdown().await
    };
    tokio::select! {
        biased;
        ended = ending => ended,
        () = cut_off.fallen() => Ok(()),
    }
}

async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &mut impl bytes::Buf,
) -> io::Result<()> {
    stream.write_all_buf(bytes).await?;
    stream.flush().await
}

/// A head as HTTP/1 writes it.
fn written(head: &Response<()>) -> Vec<u8> {
    let mut text = format!("{:?} {}\r\n", head.version(), head.status()).into_bytes();
    for (name, value) in head.headers() {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_ends_when_it_is_cut_off_and_no_sooner() {
        for version in [Version::HTTP_10, Version::HTTP_11] {
            let (near, mut far) = tokio::io::duplex(1_024);
            let cut_off = CutOff::default();
            let mut reply = Response::new(Full::from(vec![b'x'; 1 << 20]).boxed());
            reply.extensions_mut().insert(cut_off.clone());
            *reply.version_mut() = version;
            let telling = tokio::spawn(Taken::new(near, reply, 0).tell());
            sleep(Duration::from_mins(1)).await;
            assert!(!telling.is_finished(), "{version:?}");
            cut_off.cut_in(Duration::from_secs(1));
            // Said again, it is no later.
            cut_off.cut_in(Duration::from_mins(1));
            sleep(Duration::from_millis(900)).await;
            assert!(!telling.is_finished(), "{version:?}");
            sleep(Duration::from_millis(200)).await;
            assert!(telling.is_finished(), "{version:?}");
            let mut heard = Vec::new();
            far.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard.len(), 1_024, "what was on its way is let go");
            assert!(heard.starts_with(format!("{version:?} 200 OK").as_bytes()));
        }
    }

    #[tokio::test]
    async fn what_is_cut_off_is_told_as_far_as_it_is_taken_at_once() {
        let (near, mut far) = tokio::io::duplex(1_024);
        let cut_off = CutOff::default();
        let mut reply = Response::new(Full::from("a last word").boxed());
        reply.extensions_mut().insert(cut_off.clone());
        cut_off.cut_in(Duration::ZERO);
        Taken::new(near, reply, 0).tell().await;
        let mut heard = String::new();
        far.read_to_string(&mut heard).await.unwrap();
        assert!(heard.ends_with("b\r\na last word\r\n0\r\n\r\n"), "{heard}");
    }
}
