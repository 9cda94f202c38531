//! Takes connections, each bounded in time and all of them in number, and ends
//! them in order.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lasting::{Handed, Taken};
use super::limits::{
    DRAIN_PATIENCE, HANDSHAKE_PATIENCE, HEAD_PATIENCE, LEFT_TO_OTHERS, MAX_CONNECTIONS, MAX_HEAD,
    MAX_HEADERS, WRITE_PATIENCE,
};
use super::patient::Patient;
use super::server::Server;
use super::shares::{Place, Places};

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
        let connection = Connection {
            from: network(from.ip()),
            server,
            draining: draining.clone(),
            tasks: tasks.clone(),
            room: (place, share),
        };
        tasks.spawn(connection.serve(stream, tls));
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

/// Has the system send at once, and give up a peer that vanished without a word:
/// what is sent to it would wait in the socket, as if it were taken, for a
/// quarter of an hour.
fn heed(socket: &SockRef<'_>) {
    // Replies are written whole; waiting for more would only delay them.
    socket.set_tcp_nodelay(true).ok();
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(WRITE_PATIENCE)).ok();
}

/// One connection, and what it holds for as long as it lasts.
struct Connection {
    /// Whose it is.
    from: IpAddr,
    server: Arc<Server>,
    draining: CancellationToken,
    tasks: TaskTracker,
    /// Its places among all connections, and among those of its network.
    room: (OwnedSemaphorePermit, Place<IpAddr>),
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Tls>) {
        heed(&SockRef::from(&stream));
        match tls {
            None => self.converse(Patient::new(stream)).await,
            Some(Tls(acceptor)) => {
                let shaken =
                    tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await;
                if let Ok(Ok(stream)) = shaken {
                    self.converse(Patient::new(stream)).await;
                }
            }
        }
    }

    async fn converse<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self {
            from,
            server,
            draining,
            tasks,
            room,
        } = self;
        let handed = Arc::new(Handed::default());
        let (serving, passing) = (Arc::clone(&server), Arc::clone(&handed));
        let service = service_fn(move |request: Request<Incoming>| {
            let (server, handed) = (Arc::clone(&serving), Arc::clone(&passing));
            // Boxed: hyper has room for the whole of it for as long as the
            // connection lasts.
            Box::pin(async move {
                let version = request.version();
                let reply = server.answer(request, from).await;
                Ok::<_, Infallible>(handed.pass(reply, version).await)
            })
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let lasting = tokio::select! {
            lasting = handed.served(&mut connection) => lasting,
            () = draining.cancelled() => {
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                handed.served(&mut connection).await
            }
        };
        if let Some(reply) = lasting {
            let stream = connection.into_parts().io.into_inner();
            let taken = Taken::new(stream, reply, server.now_ms());
            // A task of its own: this one is as large as all that went before.
            tasks.spawn(async move {
                taken.tell().await;
                drop(room);
            });
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_vanishes_is_given_up_when_it_takes_nothing_for_long() {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        heed(&SockRef::from(&socket));
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(WRITE_PATIENCE));
        assert!(socket.tcp_nodelay().unwrap());
    }
}
