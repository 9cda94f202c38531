//! Takes connections, each bounded in time and all of them in number, and ends
//! them in order.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limits::{
    DRAIN_PATIENCE, HANDSHAKE_PATIENCE, HEAD_PATIENCE, LEFT_TO_OTHERS, MAX_CONNECTIONS, MAX_HEAD,
    MAX_HEADERS,
};
use super::patient::Patient;
use super::server::Server;
use super::shares::Places;

/// How long to wait before taking connections again when the system has no
/// room for one more.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Where to listen, and how.
#[derive(Debug)]
pub struct Listening {
    /// The socket, bound already: by us, or by who started us.
    pub listener: std::net::TcpListener,
    /// How to encrypt; nothing is encrypted without.
    pub tls: Option<Tls>,
    /// How many handles this process may have, connections and files together.
    pub handles: u64,
}

/// A certificate and its key, ready for connections.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

/// What is wrong with a certificate or its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProblem(pub String);

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsProblem {}

impl Tls {
    /// Reads a chain of certificates and a private key, both as PEM.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsProblem> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| TlsProblem(format!("the certificate is no PEM: {error}")))?;
        if chain.is_empty() {
            return Err(TlsProblem("the file holds no certificate".to_owned()));
        }
        // What the parser says of a key is not repeated: it may quote it.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| TlsProblem("the file holds no private key in PEM".to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsProblem(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| TlsProblem(format!("certificate and key do not fit: {error}")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Serves connections until `end` comes, then lets those under way finish.
pub async fn listen(
    listening: Listening,
    server: Arc<Server>,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    listening.listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listening.listener)?;
    // The rest is for the files they ask for.
    let room = usize::try_from(listening.handles / 4 * 3).unwrap_or(MAX_CONNECTIONS);
    let room = room.clamp(1, MAX_CONNECTIONS);
    let addresses = Places::new("connections", usize::MAX, room - room / LEFT_TO_OTHERS);
    let room = Arc::new(Semaphore::new(room));
    let (draining, tasks) = (CancellationToken::new(), TaskTracker::new());
    tokio::pin!(end);
    loop {
        let place = tokio::select! {
            biased;
            () = &mut end => break,
            place = Arc::clone(&room).acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let (stream, from) = tokio::select! {
            biased;
            () = &mut end => break,
            taken = listener.accept() => {
                let Ok(taken) = taken else {
                    // The peer has gone again, or there is no room for a handle:
                    // neither is a reason to stop serving the others.
                    tokio::time::sleep(NO_ROOM).await;
                    continue;
                };
                taken
            }
        };
        let Ok(share) = addresses.take(&network(from.ip())) else {
            over_its_share(&stream, listening.tls.is_some());
            continue;
        };
        let (server, tls) = (Arc::clone(&server), listening.tls.clone());
        let draining = draining.clone();
        tasks.spawn(async move {
            serve(stream, from, tls, server, draining).await;
            drop((place, share));
        });
    }
    drop(listener);
    server.end_streams();
    draining.cancel();
    tasks.close();
    // Who does not finish in time is cut off: what it had begun writes its
    // line all the same.
    drop(tokio::time::timeout(DRAIN_PATIENCE, tasks.wait()).await);
    Ok(())
}

/// Whose connections are counted together: an address, or the network that a
/// household or a machine of the newer kind is given.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Says so, where that can be said without waiting, and lets it go.
fn over_its_share(stream: &TcpStream, is_encrypted: bool) {
    const BODY: &str = r#"{"error":"This address has as many connections as it may. Close one, or wait.","code":"too_many_connections"}"#;
    if !is_encrypted {
        let length = BODY.len();
        let said = format!(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{BODY}"
        );
        // Whoever does not take it at once does not hear it.
        let _said = stream.try_write(said.as_bytes());
    }
}

async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    tls: Option<Tls>,
    server: Arc<Server>,
    draining: CancellationToken,
) {
    // Replies are written whole; waiting for more would only delay them.
    stream.set_nodelay(true).ok();
    match tls {
        None => converse(Patient::new(stream), from, server, draining).await,
        Some(Tls(acceptor)) => {
            let shaken = tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await;
            if let Ok(Ok(stream)) = shaken {
                converse(Patient::new(stream), from, server, draining).await;
            }
        }
    }
}

async fn converse<S>(stream: S, from: SocketAddr, server: Arc<Server>, draining: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        // Boxed: hyper has room for the whole of it for as long as the connection
        // lasts, and the stream of a linked machine lasts for days.
        Box::pin(
            async move { Ok::<_, Infallible>(server.answer(request, network(from.ip())).await) },
        )
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // A peer that breaks off, or says what is no HTTP, has been told so already
    // or is gone.
    tokio::select! {
        ended = connection.as_mut() => drop(ended),
        () = draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}
