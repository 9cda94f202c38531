//! Who is trusted to say who a server is: the system's certificates, and those
//! of a private authority.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;

/// Why certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTrust(String);

impl fmt::Display for BadTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTrust {}

/// Who is trusted.
#[derive(Clone)]
pub struct Trust {
    roots: rustls::RootCertStore,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({} roots)", self.roots.len())
    }
}

impl Trust {
    /// Nobody yet.
    pub fn nobody() -> Self {
        Self {
            roots: rustls::RootCertStore::empty(),
        }
    }

    /// Adds what a system came with, as PEM. One of them that cannot be used
    /// does not spoil the others; how many there were.
    pub fn add_system(&mut self, pem: &[u8]) -> usize {
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        self.roots.add_parsable_certificates(certificates).0
    }

    /// Adds what a person named, as PEM. All of it has to be usable.
    pub fn add_private(&mut self, pem: &[u8]) -> Result<(), BadTrust> {
        let unusable = |error: &dyn fmt::Display| BadTrust(format!("it cannot be used: {error}"));
        let mut added = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            let added_one = self.roots.add(certificate);
            added_one.map_err(|error| unusable(&error))?;
            added += 1;
        }
        if added == 0 {
            return Err(BadTrust("it holds no certificate".to_owned()));
        }
        Ok(())
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    pub(crate) fn connector(self) -> Result<TlsConnector, BadTrust> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BadTrust(error.to_string()))?
            .with_root_certificates(self.roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
