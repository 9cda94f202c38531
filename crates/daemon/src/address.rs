//! Where a server is.

use std::fmt;

use http::{HeaderValue, Uri};

/// What stands between a server's own address and its gateway, in n8n's dialect
/// and in ours.
pub(crate) const BELOW: &str = "/rest/instance-ai";
/// The same, in the seed's dialect.
pub(crate) const SEED_BELOW: &str = "/instance-ai";

/// The longest address, in bytes.
const MAX_URL: usize = 2048;

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(&'static str);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadAddress {}

/// Where a server is: a scheme, a host, a port and perhaps a path, nothing that
/// would have to be kept secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) is_encrypted: bool,
    /// As a host is named to be connected to.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As it is named in a request.
    pub(crate) authority: HeaderValue,
    /// What every path begins with, in every dialect.
    pub(crate) prefix: String,
    origin: String,
    shown: String,
}

impl Address {
    /// `https://host`, `http://host:5678`, or below a path.
    pub fn parse(url: &str) -> Result<Self, BadAddress> {
        if url.len() > MAX_URL {
            return Err(BadAddress("it has more than 2,048 bytes"));
        }
        // It is shown to who decides: what moves a cursor or looks like another
        // letter has no place in it.
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadAddress(
                "it holds more than printable ASCII without spaces",
            ));
        }
        let uri: Uri = url.parse().map_err(|_| BadAddress("it is no URL"))?;
        let (scheme, is_encrypted) = match uri.scheme_str() {
            Some("http") => ("http", false),
            Some("https") => ("https", true),
            Some(_) | None => {
                return Err(BadAddress("it begins with neither https:// nor http://"));
            }
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return Err(BadAddress("it names no host"));
        };
        // It can be seen in the list of processes, and is shown in prompts.
        if authority.as_str().contains('@') || uri.query().is_some() || url.contains('#') {
            return Err(BadAddress("it holds more than a host, a port and a path"));
        }
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        if host.is_empty() {
            return Err(BadAddress("it names no host"));
        }
        let usual = if is_encrypted { 443 } else { 80 };
        let port = named_port(&uri).map_err(BadAddress)?.unwrap_or(usual);
        let named = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        let named = if port == usual {
            named
        } else {
            format!("{named}:{port}")
        };
        let path = uri.path().trim_end_matches('/');
        let mut below = [BELOW, SEED_BELOW].into_iter();
        let path = below
            .find_map(|below| path.strip_suffix(below))
            .unwrap_or(path);
        Ok(Self {
            is_encrypted,
            host,
            port,
            authority: HeaderValue::from_str(&named)
                .map_err(|_| BadAddress("its host cannot be written in a request"))?,
            prefix: path.to_owned(),
            origin: format!("{scheme}://{named}"),
            shown: format!("{scheme}://{named}{path}"),
        })
    }

    /// Scheme, host and port: what a person decides about.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether what is said can be read on the way: no TLS, and not to this
    /// very machine.
    pub fn can_be_overheard(&self) -> bool {
        !self.is_encrypted && !is_loopback(&self.host)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The port a URL names, if it names one. What is none does not mean the usual one:
/// who mistyped it would speak to somebody else.
pub(crate) fn named_port(uri: &Uri) -> Result<Option<u16>, &'static str> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let named = authority
        .rsplit_once('@')
        .map_or(authority, |(_, named)| named);
    let after = named.strip_prefix(uri.host().unwrap_or_default());
    if after == Some("") {
        return Ok(None);
    }
    after
        .and_then(|after| after.strip_prefix(':'))
        .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|port| port.parse().ok())
        .filter(|port| *port != 0)
        .map(Some)
        .ok_or("its port is not a number from 1 to 65535")
}

/// Whether a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, origin: &str, prefix: &str) {
        let address = Address::parse(url).unwrap();
        assert_eq!((address.origin(), &*address.prefix), (origin, prefix));
    }

    #[test]
    fn an_address_is_a_host_a_port_and_a_path() {
        check("http://H:5678", "http://h:5678", "");
        check("https://h:443/", "https://h", "");
        check("https://h/n8n/", "https://h", "/n8n");
        check("https://h/rest/instance-ai", "https://h", "");
        check("https://h/n8n/instance-ai/", "https://h", "/n8n");
        check("http://[::1]:1", "http://[::1]:1", "");
    }

    #[test]
    fn a_secret_has_no_place_in_it() {
        for bad in [
            "",
            "h",
            "h:5678",
            "ftp://h",
            "http://ada:hunter2@h",
            "http://h/?apiKey=hunter2",
            "http://h/#hunter2",
            "http://",
        ] {
            let why = Address::parse(bad).unwrap_err().to_string();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn a_port_that_is_none_does_not_mean_the_usual_one() {
        for bad in [
            "https://h:70000",
            "https://h:",
            "https://h:54x3",
            "https://h:+443",
            "https://h:0",
            "https://h:/n8n",
            "http://[::1]:",
            "http://[::1]:65536",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
        check("https://h:65535", "https://h:65535", "");
    }

    #[test]
    fn what_cannot_be_shown_or_is_too_long_is_no_address() {
        for bad in [
            "http://h/\u{1b}[2K",
            "http://h/\u{202e}moc",
            "http://h/\u{fc}",
            "http://h/a b",
            "http://h/\u{7f}",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad:?}");
        }
        let start = "http://h/";
        let longest = format!("{start}{}", "a".repeat(MAX_URL - start.len()));
        assert!(Address::parse(&longest).is_ok());
        assert!(Address::parse(&format!("{longest}a")).is_err());
    }

    #[test]
    fn what_leaves_the_machine_in_the_clear_can_be_overheard() {
        for (url, heard) in [
            ("http://h", true),
            ("https://h", false),
            ("http://127.0.0.1:1", false),
            ("http://localhost", false),
            ("http://[::1]", false),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.can_be_overheard(), heard, "{url}");
        }
    }
}
