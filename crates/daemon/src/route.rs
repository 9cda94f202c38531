//! The way to a server: a socket somebody else opens, a proxy where one stands
//! in between, TLS where the address says so.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::proxy::{Proxies, Proxy};
use crate::trust::Trust;

/// The most that is read of a proxy's answer.
const MAX_PROXY_ANSWER: usize = 16 * 1024;

/// A connection on its way.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// Opens sockets, to where a person said.
pub trait Dial: Send + Sync {
    /// Connects.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialling<'a>;
}

/// What bytes go over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The way to one server.
#[derive(Clone)]
pub struct Route {
    pub(crate) address: Address,
    proxy: Option<Proxy>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    dial: Arc<dyn Dial>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("address", &self.address)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl Route {
    /// The way to `address`; in words, why there is none.
    pub fn new(
        address: Address,
        proxies: &Proxies,
        trust: Trust,
        dial: Arc<dyn Dial>,
    ) -> Result<Self, String> {
        let proxy = proxies
            .on_the_way_to(&address)
            .map_err(|bad| format!("the proxy cannot be used: {bad}"))?;
        let tls = if address.is_encrypted {
            if trust.is_empty() {
                return Err("no certificate authority is known to this system".to_owned());
            }
            let name = ServerName::try_from(address.host.clone())
                .map_err(|_| "its host is no name a certificate can have".to_owned())?;
            Some((trust.connector().map_err(|bad| bad.to_string())?, name))
        } else {
            None
        };
        Ok(Self {
            address,
            proxy,
            tls,
            dial,
        })
    }

    /// Where it leads.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What is written where a request names what it wants. A proxy that reads
    /// requests has to be told whose it is.
    pub(crate) fn target(&self, below: &str, path: &str) -> Result<Uri, http::uri::InvalidUri> {
        let Address { prefix, .. } = &self.address;
        match (&self.proxy, &self.tls) {
            (Some(_), None) => format!("{}{prefix}{below}{path}", self.address.origin()).parse(),
            (Some(_), Some(_)) | (None, _) => format!("{prefix}{below}{path}").parse(),
        }
    }

    /// What a proxy that reads requests wants to hear.
    pub(crate) fn proxy_authorization(&self) -> Option<HeaderValue> {
        let proxy = self.proxy.as_ref().filter(|_| self.tls.is_none())?;
        proxy.authorization.clone()
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let Address { host, port, .. } = &self.address;
        let stream = match (&self.proxy, &self.tls) {
            (None, _) => self.dial.dial(host, *port).await?,
            (Some(proxy), None) => self.dial.dial(&proxy.host, proxy.port).await?,
            (Some(proxy), Some(_)) => {
                let stream = self.dial.dial(&proxy.host, proxy.port).await?;
                tunnel(stream, proxy, host, *port).await?
            }
        };
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => Ok(Box::new(connector.connect(name.clone(), stream).await?)),
        }
    }
}

/// Has `proxy` connect us through, so that it sees who is spoken to and no more.
async fn tunnel(
    mut stream: TcpStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> io::Result<TcpStream> {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let mut ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n").into_bytes();
    if let Some(said) = &proxy.authorization {
        ask.extend_from_slice(b"proxy-authorization: ");
        ask.extend_from_slice(said.as_bytes());
        ask.extend_from_slice(b"\r\n");
    }
    ask.extend_from_slice(b"\r\n");
    stream.write_all(&ask).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_PROXY_ANSWER {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        // Byte by byte: what follows belongs to who is behind the proxy.
        answer.push(stream.read_u8().await?);
    }
    let status = answer.get(9..12).unwrap_or_default();
    if answer.starts_with(b"HTTP/1.") && status.first() == Some(&b'2') {
        return Ok(stream);
    }
    let status = String::from_utf8_lossy(status).into_owned();
    let plain = status.bytes().all(|byte| byte.is_ascii_digit());
    Err(io::Error::other(format!(
        "the proxy did not connect us through ({})",
        if plain { status } else { "no HTTP".to_owned() }
    )))
}
