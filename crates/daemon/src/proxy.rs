//! Which proxy stands on the way, as `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`
//! say. Who reads the environment passes them in.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::address::{Address, is_loopback, named_port};

/// What is wrong with where a proxy is said to be. Holds nothing of its value:
/// that may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProxy(&'static str);

impl fmt::Display for BadProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadProxy {}

/// The proxies there are, each as it was written, and who is reached without.
#[derive(Clone, Default)]
pub struct Proxies {
    /// For `https://`.
    pub https: Option<String>,
    /// For `http://`.
    pub http: Option<String>,
    /// For whom none is used: names, `.suffixes`, addresses, networks, `*`.
    pub none_for: Option<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("https", &self.https.is_some())
            .field("http", &self.http.is_some())
            .field("none_for", &self.none_for)
            .finish()
    }
}

/// A proxy, taken apart.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What it wants to hear to let us through.
    pub(crate) authorization: Option<HeaderValue>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxies {
    /// The one on the way to `address`. This very machine is reached without.
    pub(crate) fn on_the_way_to(&self, address: &Address) -> Result<Option<Proxy>, BadProxy> {
        let written = if address.is_encrypted {
            &self.https
        } else {
            &self.http
        };
        let Some(written) = written.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let is_exempt = |list: &str| {
            list.split([',', ' '])
                .any(|entry| exempts(entry.trim(), &address.host, address.port))
        };
        if is_loopback(&address.host) || self.none_for.as_deref().is_some_and(is_exempt) {
            return Ok(None);
        }
        Proxy::parse(written).map(Some)
    }
}

impl Proxy {
    fn parse(written: &str) -> Result<Self, BadProxy> {
        let url = match written.split_once("://") {
            None => format!("http://{written}"),
            Some(("http", _)) => written.to_owned(),
            Some(_) => {
                return Err(BadProxy(
                    "a proxy is spoken to by http://, whatever goes through it",
                ));
            }
        };
        let uri: Uri = url.parse().map_err(|_| BadProxy("it is no URL"))?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(BadProxy("it names no host"));
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let authorization = match authority.rsplit_once('@') {
            None => None,
            Some((said, _)) => {
                let said: Vec<u8> = percent_decode_str(said).collect();
                let basic = format!("Basic {}", STANDARD.encode(said));
                let mut value = HeaderValue::from_str(&basic)
                    .map_err(|_| BadProxy("its password cannot be sent"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self {
            host: host.to_owned(),
            port: named_port(&uri).map_err(BadProxy)?.unwrap_or(80),
            authorization,
        })
    }
}

/// Whether an entry of `NO_PROXY` names this host.
fn exempts(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let (Some((network, bits)), Ok(address)) = (entry.split_once('/'), host.parse()) {
        return is_within(address, network, bits);
    }
    let bare = entry.trim_start_matches('[').trim_end_matches(']');
    if let Ok(named) = bare.parse::<IpAddr>() {
        return host.parse() == Ok(named);
    }
    let (name, only) = match entry.rsplit_once(':') {
        Some((name, only)) => (name, Some(only)),
        None => (entry, None),
    };
    if only.is_some_and(|only| only.parse() != Ok(port)) {
        return false;
    }
    let name = name
        .trim_start_matches('*')
        .trim_start_matches('.')
        .to_ascii_lowercase();
    !name.is_empty()
        && host
            .strip_suffix(name.as_str())
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn is_within(address: IpAddr, network: &str, bits: &str) -> bool {
    let Ok(bits) = bits.parse::<u32>() else {
        return false;
    };
    match (address, network.parse()) {
        (IpAddr::V4(address), Ok(IpAddr::V4(network))) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(address), Ok(IpAddr::V6(network))) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V4(_) | IpAddr::V6(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_is_reached_without_a_proxy() {
        for (entry, host, want) in [
            ("*", "a.example", true),
            ("example", "example", true),
            ("example", "a.example", true),
            (".example", "a.example", true),
            ("*.example", "a.example", true),
            ("example", "notexample", false),
            ("example:443", "example", true),
            ("example:80", "example", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("10.0.0.0/x", "10.1.2.3", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("", "a.example", false),
        ] {
            assert_eq!(exempts(entry, host, 443), want, "{entry} {host}");
        }
    }

    #[test]
    fn a_proxy_is_chosen_by_scheme_and_its_password_is_shown_nowhere() {
        let proxies = Proxies {
            https: Some("http://ada:hunter2@proxy:3128".into()),
            http: Some("plain:8080".into()),
            none_for: Some("inside.example, 10.0.0.0/8".into()),
        };
        let on_the_way = |url: &str| {
            let address = Address::parse(url).unwrap();
            proxies.on_the_way_to(&address).unwrap()
        };
        let secure = on_the_way("https://a.example").unwrap();
        assert_eq!((secure.host.as_str(), secure.port), ("proxy", 3128));
        let said = secure.authorization.clone().unwrap();
        assert_eq!(said, "Basic YWRhOmh1bnRlcjI=");
        assert_eq!(on_the_way("http://a.example").unwrap().port, 8080);
        assert!(on_the_way("https://x.inside.example").is_none());
        assert!(on_the_way("https://10.9.9.9").is_none());
        assert!(on_the_way("https://127.0.0.1:5678").is_none());
        let shown = format!("{proxies:?}{secure:?}{said:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_proxy_that_cannot_be_spoken_to_is_refused() {
        for bad in [
            "https://proxy",
            "socks5://proxy",
            "http://",
            "a b",
            "proxy:70000",
            "http://proxy:",
            "http://ada:1@proxy:54x3",
        ] {
            assert!(Proxy::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Proxy::parse("ada:1@proxy").unwrap().port, 80);
    }
}
