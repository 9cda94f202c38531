//! Which names a request may call us by, and which pages may send one.
//!
//! A web page can make a browser send requests to loopback under a name of its
//! own (DNS rebinding), and without reading the reply (cross-site requests). So
//! the Host has to be one of ours, an Origin has to be allowed, and a change
//! comes as JSON, which no form can send.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Uri};

/// The hosts and origins that may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    hosts: BTreeSet<String>,
    origins: BTreeSet<String>,
}

/// Text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOrigin(pub String);

impl fmt::Display for BadOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an origin: write scheme, host and port alone, such as https://console.example:8443",
            self.0
        )
    }
}

impl std::error::Error for BadOrigin {}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// The Host is none of ours, or there is none, or two.
    Host,
    /// The Origin may not send requests here.
    Origin,
}

/// The names loopback goes by.
const LOOPBACK: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"];

impl Allowed {
    /// What is allowed by itself for a listener at `address`: its own address,
    /// and on loopback the names of that.
    pub fn at(address: SocketAddr, scheme: &str) -> Self {
        let mut allowed = Self::default();
        let own = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        let any = address.ip().is_unspecified();
        let names = LOOPBACK
            .iter()
            .copied()
            .filter(|_| any || address.ip().is_loopback())
            .map(str::to_owned)
            .chain((!any).then_some(own));
        for name in names {
            allowed.add_host(&name, address.port(), scheme);
        }
        allowed
    }

    /// Allows a host by name: `files.example` or `files.example:8443`.
    pub fn host(&mut self, name: &str, port: u16, scheme: &str) {
        if has_port(name) {
            self.hosts.insert(name.to_ascii_lowercase());
            self.origins
                .insert(format!("{scheme}://{}", name.to_ascii_lowercase()));
        } else {
            self.add_host(name, port, scheme);
        }
    }

    fn add_host(&mut self, name: &str, port: u16, scheme: &str) {
        let name = name.to_ascii_lowercase();
        // A page of ours may talk to us: its origin is our own.
        let default = if scheme == "https" { 443 } else { 80 };
        if port == default {
            self.hosts.insert(name.clone());
            self.origins.insert(format!("{scheme}://{name}"));
        }
        self.origins.insert(format!("{scheme}://{name}:{port}"));
        self.hosts.insert(format!("{name}:{port}"));
    }

    /// Allows the pages of an origin to send requests. There is no `*`.
    pub fn origin(&mut self, origin: &str) -> Result<(), BadOrigin> {
        let bad = || BadOrigin(origin.to_owned());
        let uri: Uri = origin.parse().map_err(|_| bad())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(bad());
        };
        let plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !plain || authority.as_str().contains('@') || !matches!(scheme, "http" | "https") {
            return Err(bad());
        }
        self.origins
            .insert(format!("{scheme}://{authority}").to_ascii_lowercase());
        Ok(())
    }

    /// Looks at the head of a request.
    pub(super) fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Turned> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if hosts.next().is_some() {
            return Err(Turned::Host);
        }
        let host = host.ok_or(Turned::Host)?.to_ascii_lowercase();
        // A request in absolute form names its host twice: both have to be ours.
        let named = uri.authority().map(Authority::as_str);
        let ours = |name: &str| self.hosts.contains(name);
        if !ours(&host) || named.is_some_and(|named| !ours(&named.to_ascii_lowercase())) {
            return Err(Turned::Host);
        }
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().map_err(|_| Turned::Origin)?;
            if !self.origins.contains(&origin.to_ascii_lowercase()) {
                return Err(Turned::Origin);
            }
        }
        Ok(())
    }
}

fn has_port(name: &str) -> bool {
    name.rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a method may change something.
pub(super) fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The media type a request says its body has, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let value = types.next()?.to_str().ok()?;
    if types.next().is_some() {
        return None;
    }
    let essence = value.split(';').next().unwrap_or_default().trim();
    Some(essence.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn allowed() -> Allowed {
        let mut allowed = Allowed::at("127.0.0.1:7654".parse().unwrap(), "http");
        allowed.host("files.example", 7654, "http");
        allowed.origin("https://console.example").unwrap();
        allowed
    }

    #[track_caller]
    fn check(host: Option<&str>, origin: Option<&str>, want: Result<(), Turned>) {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        let got = allowed().admit(&headers, &Uri::from_static("/file"));
        assert_eq!(got, want, "{host:?} {origin:?}");
    }

    #[test]
    fn a_host_is_one_of_ours_with_its_port() {
        for host in [
            "127.0.0.1:7654",
            "LOCALHOST:7654",
            "[::1]:7654",
            "files.example:7654",
        ] {
            check(Some(host), None, Ok(()));
        }
        for host in [
            "127.0.0.1",
            "localhost",
            "localhost:7655",
            "evil.example:7654",
            "127.0.0.1:7654.evil.example",
            "localhost:7654@evil.example",
            "0.0.0.0:7654",
            "",
        ] {
            check(Some(host), None, Err(Turned::Host));
        }
        check(None, None, Err(Turned::Host));
    }

    #[test]
    fn an_origin_is_our_own_or_was_named() {
        let host = Some("localhost:7654");
        for origin in [
            "http://localhost:7654",
            "http://127.0.0.1:7654",
            "https://console.example",
            "HTTPS://CONSOLE.EXAMPLE",
        ] {
            check(host, Some(origin), Ok(()));
        }
        for origin in [
            "null",
            "http://localhost",
            "https://localhost:7654",
            "http://evil.example",
            "https://console.example.evil.example",
            "https://console.example:444",
            "file://",
        ] {
            check(host, Some(origin), Err(Turned::Origin));
        }
    }

    #[test]
    fn an_origin_to_allow_is_spelled_exactly() {
        let mut allowed = Allowed::default();
        for bad in [
            "*",
            "null",
            "console.example",
            "https://a/b",
            "ftp://a",
            "https://u@a",
        ] {
            assert!(allowed.origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_absolute_target_has_to_be_ours_too() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost:7654"));
        let target = Uri::from_static("http://evil.example/file");
        assert_eq!(allowed().admit(&headers, &target), Err(Turned::Host));
    }
}
