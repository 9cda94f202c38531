//! One message to a collector, and what came of it. Bounded in time, and in
//! what is read of the answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use portcullis_proto::read_json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::endpoint::Endpoint;
use super::export::Outside;

/// How long a message may take, from the connection to the end of the answer.
/// What OpenTelemetry's own exporters allow.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(10);
/// The most that is read of an answer's head, and of its body.
const MAX_ANSWER: usize = 64 * 1024;
/// The longest a collector may have us wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

const AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"));

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nobody took it: another try may do.
    Unreachable(String),
    /// Nobody answered in time.
    Silent,
    /// The collector has no room now, and may say when it will.
    Busy(StatusCode, Option<Duration>),
    /// The collector does not want it, and will not want it later.
    Refused(StatusCode),
}

impl Trouble {
    /// Whether the same message may be taken later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Silent | Self::Busy(..) => true,
            Self::Refused(_) => false,
        }
    }

    /// How long the collector asked us to wait.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Self::Busy(_, wait) => *wait,
            Self::Unreachable(_) | Self::Silent | Self::Refused(_) => None,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => f.write_str(why),
            Self::Silent => {
                let seconds = EXCHANGE_PATIENCE.as_secs();
                write!(f, "it did not answer within {seconds} s")
            }
            // The number alone: what stands beside it is the collector's to say.
            Self::Busy(status, _) | Self::Refused(status) => {
                write!(f, "it answered {}", status.as_u16())
            }
        }
    }
}

/// Sends messages of one kind, over one connection as long as that lasts.
pub(super) struct Poster {
    endpoint: Endpoint,
    path: Uri,
    outside: Arc<dyn Outside>,
    kept: Option<Kept>,
}

/// A connection, and who moves bytes over it.
struct Kept {
    sender: SendRequest<Full<Bytes>>,
    _moving: AbortOnDropHandle<()>,
}

impl Poster {
    pub(super) fn new(endpoint: Endpoint, path: Uri, outside: Arc<dyn Outside>) -> Self {
        Self {
            endpoint,
            path,
            outside,
            kept: None,
        }
    }

    /// Sends one message; how many of its parts the collector left out.
    pub(super) async fn post(&mut self, message: Bytes) -> Result<u64, Trouble> {
        // Taken out, so that whatever goes wrong begins with a new one.
        let kept = self.kept.take();
        let (status, headers, answer) =
            match timeout(EXCHANGE_PATIENCE, self.exchange(kept, message)).await {
                Ok(answered) => answered?,
                Err(_) => return Err(Trouble::Silent),
            };
        if status.is_success() {
            return Ok(left_out(&answer));
        }
        Err(match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Trouble::Busy(status, retry_after(&headers)),
            status => Trouble::Refused(status),
        })
    }

    async fn exchange(
        &mut self,
        kept: Option<Kept>,
        message: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Trouble> {
        if let Some(mut kept) = kept
            && !kept.sender.is_closed()
        {
            let sent = kept
                .sender
                .send_request(self.request(message.clone()))
                .await;
            // One that the collector has closed meanwhile says nothing about it.
            if let Ok(reply) = sent {
                return self.answer(kept, reply).await;
            }
        }
        let mut fresh = self.connect().await?;
        let sent = fresh.sender.send_request(self.request(message)).await;
        let reply = sent.map_err(|error| no_http(&error))?;
        self.answer(fresh, reply).await
    }

    async fn answer(
        &mut self,
        kept: Kept,
        reply: http::Response<Incoming>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Trouble> {
        let (head, body) = reply.into_parts();
        // The status has said what became of the message. An answer that is too
        // long, or breaks off, costs its connection.
        let answer = Limited::new(body, MAX_ANSWER).collect().await;
        let answer = answer.map(http_body_util::Collected::to_bytes);
        if answer.is_ok() {
            self.kept = Some(kept);
        }
        Ok((head.status, head.headers, answer.unwrap_or_default()))
    }

    fn request(&self, message: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.endpoint.headers);
        headers.insert(HOST, self.endpoint.authority.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(AGENT));
        request
    }

    async fn connect(&self) -> Result<Kept, Trouble> {
        let unreachable = |error: std::io::Error| Trouble::Unreachable(error.to_string());
        let endpoint = &self.endpoint;
        let stream = self
            .outside
            .dial(&endpoint.host, endpoint.port)
            .await
            .map_err(unreachable)?;
        match &endpoint.tls {
            None => converse(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                converse(stream.map_err(unreachable)?).await
            }
        }
    }
}

async fn converse<S>(stream: S) -> Result<Kept, Trouble>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new()
        .max_buf_size(MAX_ANSWER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| no_http(&error))?;
    let moving = tokio::spawn(async move {
        // Whoever sends hears of it.
        drop(connection.await);
    });
    Ok(Kept {
        sender,
        _moving: AbortOnDropHandle::new(moving),
    })
}

/// What hyper says of it: words of its own, never bytes of the peer's.
fn no_http(error: &hyper::Error) -> Trouble {
    Trouble::Unreachable(error.to_string())
}

/// Whole seconds, at most as many as it is waited for. A date is not read: our
/// own pace does as well.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// How many spans or points the collector took the message without. What is no
/// such answer says none.
fn left_out(answer: &[u8]) -> u64 {
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Answer {
        partial_success: Option<Partial>,
    }
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Partial {
        rejected_spans: Option<Count>,
    }
    /// A string, as 64-bit integers are; some write a number.
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Count {
        Written(String),
        Number(u64),
    }
    let answer: Answer = read_json(answer).unwrap_or_default();
    let rejected = answer.partial_success.and_then(|part| part.rejected_spans);
    match rejected {
        Some(Count::Written(count)) => count.parse().unwrap_or(0),
        Some(Count::Number(count)) => count,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use hyper::server::conn::http1 as serving;
    use hyper::service::service_fn;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::endpoint::{Headers, Trusted};
    use super::super::export::Dialling;
    use super::*;

    const CERTIFICATE: &[u8] = include_bytes!("../../tests/http/tls/certificate.pem");
    const KEY: &[u8] = include_bytes!("../../tests/http/tls/key-for-tests-only.pem");

    /// Connects to one port, whatever it is called.
    struct To(u16);

    impl Outside for To {
        fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> Dialling<'a> {
            #[allow(clippy::disallowed_methods, reason = "the collector of a test")]
            Box::pin(tokio::net::TcpStream::connect(("127.0.0.1", self.0)))
        }

        fn warn(&self, what: &str) {
            panic!("{what}");
        }

        fn info(&self, what: &str) {
            panic!("{what}");
        }
    }

    type Heard = Arc<Mutex<Vec<(usize, Bytes)>>>;

    /// Takes everything, `each` messages a connection; what it heard, and over
    /// which.
    async fn collector(tls: bool, each: usize) -> (u16, Heard) {
        let heard = Heard::default();
        #[allow(clippy::disallowed_methods, reason = "the collector of a test")]
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let hearing = Arc::clone(&heard);
        let acceptor = {
            let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap();
            TlsAcceptor::from(Arc::new(config))
        };
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                if tls {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        hear(stream, connection, each, Arc::clone(&hearing)).await;
                    }
                } else {
                    hear(stream, connection, each, Arc::clone(&hearing)).await;
                }
            }
        });
        (port, heard)
    }

    async fn hear<S>(stream: S, connection: usize, each: usize, heard: Heard)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let left = Arc::new(tokio::sync::Semaphore::new(0));
        let done = Arc::clone(&left);
        let service = service_fn(move |request: Request<Incoming>| {
            let (heard, done) = (Arc::clone(&heard), Arc::clone(&done));
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                heard.lock().unwrap().push((connection, body));
                done.add_permits(1);
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"{}"))))
            }
        });
        let serving = serving::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            ended = serving.as_mut() => drop(ended),
            _ = left.acquire_many(u32::try_from(each).unwrap()) => {
                serving.as_mut().graceful_shutdown();
                drop(serving.await);
            }
        }
    }

    fn poster(url: &str, port: u16) -> Poster {
        let trusted = Trusted::from_pem(CERTIFICATE).unwrap();
        let endpoint = Endpoint::parse(url, Headers::default(), Some(&trusted)).unwrap();
        let path = endpoint.traces.clone();
        Poster::new(endpoint, path, Arc::new(To(port)))
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_one_that_was_closed_costs_nothing() {
        let (port, heard) = collector(false, 2).await;
        let mut poster = poster("http://collector", port);
        for n in 0..5 {
            let sent = poster.post(Bytes::from(n.to_string())).await;
            assert_eq!(sent, Ok(0), "{n}");
        }
        let heard = heard.lock().unwrap().clone();
        let connections: Vec<_> = heard.iter().map(|(connection, _)| *connection).collect();
        assert_eq!(connections, [0, 0, 1, 1, 2]);
        let bodies: Vec<_> = heard.iter().map(|(_, body)| body.as_ref()).collect();
        assert_eq!(bodies, [b"0", b"1", b"2", b"3", b"4"]);
    }

    #[tokio::test]
    async fn under_https_only_who_has_a_trusted_certificate_of_that_name_is_told() {
        let (port, heard) = collector(true, 9).await;
        for host in ["localhost", "127.0.0.1"] {
            let mut poster = poster(&format!("https://{host}"), port);
            assert_eq!(poster.post(Bytes::from_static(b"a")).await, Ok(0), "{host}");
        }
        let told = heard.lock().unwrap().len();
        let refused = poster("https://collector.example", port)
            .post(Bytes::from_static(b"b"))
            .await;
        assert!(
            matches!(refused, Err(Trouble::Unreachable(_))),
            "{refused:?}"
        );
        // Nobody answers in the clear what is asked for under TLS.
        let (port, plain) = collector(false, 9).await;
        let refused = poster("https://localhost", port)
            .post(Bytes::from_static(b"c"))
            .await;
        assert!(
            matches!(refused, Err(Trouble::Unreachable(_))),
            "{refused:?}"
        );
        assert_eq!((told, heard.lock().unwrap().len()), (2, 2));
        assert_eq!(plain.lock().unwrap().len(), 0);
    }

    #[test]
    fn what_a_collector_leaves_out_is_read_and_nonsense_is_not() {
        for (answer, want) in [
            (
                r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#,
                3,
            ),
            (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":null}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"-1"}}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":[]}}"#, 0),
            ("{}", 0),
            ("", 0),
            ("<html>", 0),
        ] {
            assert_eq!(left_out(answer.as_bytes()), want, "{answer}");
        }
    }

    #[test]
    fn a_collector_is_waited_for_as_long_as_it_says_and_not_for_ever() {
        for (said, want) in [
            (Some("2"), Some(2)),
            (Some("99999"), Some(MAX_RETRY_AFTER.as_secs())),
            (Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
            (Some("-1"), None),
            (Some(""), None),
            (None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(said) = said {
                headers.insert(RETRY_AFTER, HeaderValue::from_str(said).unwrap());
            }
            let want = want.map(Duration::from_secs);
            assert_eq!(retry_after(&headers), want, "{said:?}");
        }
    }
}
