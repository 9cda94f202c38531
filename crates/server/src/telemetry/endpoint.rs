//! Where a collector is, and what has to be said to be let in there.

use std::fmt;
use std::sync::Arc;

use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;

/// The most fields that are sent along.
const MAX_FIELDS: usize = 16;

/// What is wrong with where a collector is said to be. Holds no value of a
/// header: those are secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEndpoint(String);

impl BadEndpoint {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for BadEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadEndpoint {}

/// Where a collector is. Proves that it can be spoken to as the address says:
/// who is reached by https has to show a certificate that is trusted.
#[derive(Clone)]
pub struct Endpoint {
    /// As a host is named to be connected to.
    pub(super) host: String,
    pub(super) port: u16,
    /// As it is named in a request.
    pub(super) authority: HeaderValue,
    /// What is asked for there.
    pub(super) traces: Uri,
    pub(super) metrics: Uri,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(super) headers: HeaderMap,
    /// To be shown.
    shown: Arc<str>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.shown)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Endpoint {
    /// `http://host:4318`, or below a path, or under https where somebody is
    /// trusted.
    pub fn parse(
        url: &str,
        headers: Headers,
        trusted: Option<&Trusted>,
    ) -> Result<Self, BadEndpoint> {
        let uri: Uri = url.parse().map_err(|_| BadEndpoint::new("it is no URL"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => {
                return Err(BadEndpoint::new(
                    "it begins with neither http:// nor https://",
                ));
            }
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return Err(BadEndpoint::new("it names no host"));
        };
        // It can be seen in the list of processes, and is shown in logs.
        if authority.as_str().contains('@') || uri.query().is_some() || url.contains('#') {
            return Err(BadEndpoint::new(
                "it holds more than a host, a port and a path: what has to be kept secret goes into OTEL_EXPORTER_OTLP_HEADERS",
            ));
        }
        let path = uri.path().trim_end_matches('/');
        let path_of = |signal| {
            format!("{path}/v1/{signal}")
                .parse()
                .map_err(|_| BadEndpoint::new("its path cannot be asked for"))
        };
        let shown = format!(
            "{}://{authority}{path}",
            uri.scheme_str().unwrap_or_default()
        );
        let port = uri
            .port_u16()
            .unwrap_or(if is_encrypted { 443 } else { 80 });
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if host.is_empty() {
            return Err(BadEndpoint::new("it names no host"));
        }
        let tls = match (is_encrypted, trusted) {
            (false, _) => None,
            (true, None) => {
                return Err(BadEndpoint::new(
                    "https needs to know whom to trust, and no certificate was named",
                ));
            }
            (true, Some(trusted)) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| BadEndpoint::new("its host is no name a certificate can have"))?;
                Some((trusted.0.clone(), name))
            }
        };
        Ok(Self {
            host,
            port,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| BadEndpoint::new("its host cannot be written in a request"))?,
            traces: path_of("traces")?,
            metrics: path_of("metrics")?,
            tls,
            headers: headers.0,
            shown: shown.into(),
        })
    }
}

/// What is sent along with every message: `OTEL_EXPORTER_OTLP_HEADERS`.
#[derive(Clone, Debug, Default)]
pub struct Headers(HeaderMap);

impl Headers {
    /// `name=value,name=value`, with `%` before what a list could not hold.
    pub fn parse(text: &str) -> Result<Self, BadEndpoint> {
        let mut headers = HeaderMap::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| BadEndpoint::new("a header is written as name=value"))?;
            let name = HeaderName::from_bytes(name.trim().as_bytes())
                .map_err(|_| BadEndpoint::new("a name is none that a header can have"))?;
            if OURS.contains(&name) {
                return Err(BadEndpoint::new(format!("{name} is not for you to say")));
            }
            let value: Vec<u8> = percent_decode_str(value.trim()).collect();
            let mut value = HeaderValue::from_bytes(&value).map_err(|_| {
                BadEndpoint::new(format!("the value of {name} is none a header can have"))
            })?;
            value.set_sensitive(true);
            headers.append(name, value);
            if headers.len() > MAX_FIELDS {
                return Err(BadEndpoint::new(format!("at most {MAX_FIELDS} are sent")));
            }
        }
        Ok(Self(headers))
    }
}

/// What makes a message one; another value would break it.
const OURS: [HeaderName; 6] = [
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    TRANSFER_ENCODING,
];

/// Who is trusted to say who a collector is.
#[derive(Clone)]
pub struct Trusted(TlsConnector);

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trusted(…)")
    }
}

impl Trusted {
    /// Reads certificates, as PEM.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadEndpoint> {
        let unusable = |error: &dyn fmt::Display| {
            BadEndpoint::new(format!("the certificate cannot be used: {error}"))
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        if roots.is_empty() {
            return Err(BadEndpoint::new("the file holds no certificate"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = include_bytes!("../../tests/http/tls/certificate.pem");

    #[track_caller]
    fn check(url: &str, want: Result<(&str, u16, &str), &str>) {
        let trusted = Trusted::from_pem(CERTIFICATE).unwrap();
        let parsed = Endpoint::parse(url, Headers::default(), Some(&trusted));
        match (parsed, want) {
            (Ok(endpoint), Ok((host, port, path))) => {
                assert_eq!(
                    (endpoint.host.as_str(), endpoint.port),
                    (host, port),
                    "{url}"
                );
                assert_eq!(endpoint.traces, path, "{url}");
                assert_eq!(endpoint.tls.is_some(), url.starts_with("https"), "{url}");
            }
            (Err(bad), Err(part)) => assert!(bad.to_string().contains(part), "{url}: {bad}"),
            (got, want) => panic!("{url}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn an_endpoint_is_a_host_a_port_and_a_path() {
        check(
            "http://127.0.0.1:4318",
            Ok(("127.0.0.1", 4318, "/v1/traces")),
        );
        check("http://collector", Ok(("collector", 80, "/v1/traces")));
        check("http://[::1]:4318/", Ok(("::1", 4318, "/v1/traces")));
        check(
            "https://a.example/otlp/",
            Ok(("a.example", 443, "/otlp/v1/traces")),
        );
        check(
            "http://ada:secret@host:1",
            Err("OTEL_EXPORTER_OTLP_HEADERS"),
        );
        check("http://host/?key=secret", Err("OTEL_EXPORTER_OTLP_HEADERS"));
        check("http://host/#secret", Err("OTEL_EXPORTER_OTLP_HEADERS"));
        check("grpc://host:4317", Err("neither http:// nor https://"));
        check("host:4318", Err("neither http:// nor https://"));
        check("http://", Err("no URL"));
        check("", Err("no URL"));
        check("http://a b", Err("no URL"));
    }

    #[test]
    fn https_is_spoken_to_who_is_trusted_alone() {
        let bad = Endpoint::parse("https://host", Headers::default(), None).unwrap_err();
        assert!(bad.to_string().contains("whom to trust"), "{bad}");
        let none = Trusted::from_pem(b"nothing").unwrap_err();
        assert!(none.to_string().contains("no certificate"), "{none}");
    }

    #[test]
    fn headers_are_pairs_and_their_values_are_shown_nowhere() {
        let headers = Headers::parse("api-key=se%2Ccret, Authorization=Basic%20c2VjcmV0,").unwrap();
        assert_eq!(headers.0.get("api-key").unwrap(), "se,cret");
        assert_eq!(headers.0.get("authorization").unwrap(), "Basic c2VjcmV0");
        let shown = format!("{headers:?}");
        assert!(!shown.contains("cret") && !shown.contains("c2V"), "{shown}");
        let endpoint = Endpoint::parse("http://host", headers, None).unwrap();
        let shown = format!("{endpoint:?}{endpoint}");
        assert!(!shown.contains("cret") && !shown.contains("c2V"), "{shown}");
        for (bad, part) in [
            ("hunter2", "name=value"),
            ("a b=hunter2", "name"),
            ("a=hunter2%0d%0ahost: b", "value of a"),
            ("Host=hunter2", "host"),
            ("content-length=hunter2", "content-length"),
        ] {
            let why = Headers::parse(bad).unwrap_err().to_string();
            assert!(why.contains(part) && !why.contains("hunter2"), "{why}");
        }
        let many = "a=b,".repeat(MAX_FIELDS + 1);
        assert!(Headers::parse(&many).is_err());
    }
}
