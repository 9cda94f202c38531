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
use std::sync::{Arc, Mutex, PoisonError};
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

use super::reply::{Body, Reply};

/// How much a peer may say while it listens; it has nothing to say.
const MAX_SAID: usize = 4_096;

/// Ends a reply that lasts at once, with whatever of it is on its way: a peer
/// that reads byte by byte would hold that for as long as it likes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutOff(Arc<Notify>);

impl CutOff {
    /// Does so, now or when it begins.
    pub(crate) fn cut(&self) {
        self.0.notify_one();
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
    /// instead, and there is never anything to send: a peer of the older HTTP,
    /// which knows no pieces, is the exception.
    pub(super) async fn pass(&self, reply: Reply, version: Version) -> Reply {
        let lasts = reply.extensions().get::<Lasting>().is_some();
        if !lasts || version != Version::HTTP_11 {
            return reply;
        }
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
        let headers = reply.headers_mut();
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
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

async fn told<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, reply: Reply) -> io::Result<()> {
    let (head, mut body) = reply.into_parts();
    let cut_off = head.extensions.get::<CutOff>().cloned().unwrap_or_default();
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
                    let size = Bytes::from(format!("{:x}\r\n", data.len()));
                    let mut piece = size.chain(data).chain(&b"\r\n"[..]);
                    tokio::select! {
                        written = write(&mut stream, &mut piece) => written?,
                        () = cut_off.0.notified() => return Ok(()),
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
    write(&mut stream, &mut &b"0\r\n\r\n"[..]).await?;
    stream.shutdown().await
}

async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &mut impl bytes::Buf,
) -> io::Result<()> {
    stream.write_all_buf(bytes).await?;
    stream.flush().await
}

/// A head as HTTP/1.1 writes it.
fn written(head: &Response<()>) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {}\r\n", head.status()).into_bytes();
    for (name, value) in head.headers() {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}
