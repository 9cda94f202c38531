//! Ways to a server: through proxies, and under TLS with a private authority.

use std::sync::{Arc, Mutex};

use portcullis_daemon::{Address, Ended, Proxies, Route, Trust};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::fake::Fake;
use crate::kit::{How, Lent, Loopback};

const CERTIFICATE: &[u8] = include_bytes!("../../../server/tests/http/tls/certificate.pem");
const KEY: &[u8] = include_bytes!("../../../server/tests/http/tls/key-for-tests-only.pem");

/// Of portcullis.test, which is not this machine by its looks.
const FAR_CERTIFICATE: &[u8] = include_bytes!("tls/certificate.pem");
const FAR_KEY: &[u8] = include_bytes!("tls/key-for-tests-only.pem");

fn acceptor() -> TlsAcceptor {
    acceptor_of(CERTIFICATE, KEY)
}

fn acceptor_of(certificate: &[u8], key: &[u8]) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            CertificateDer::pem_slice_iter(certificate)
                .map(Result::unwrap)
                .collect(),
            PrivateKeyDer::from_pem_slice(key).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn trusted() -> Trust {
    let mut trust = Trust::nobody();
    trust.add_private(CERTIFICATE).unwrap();
    trust
}

/// A proxy that connects everybody to `to`, and remembers what it was asked.
async fn proxy(to: u16) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let text = String::from_utf8(head.clone()).unwrap();
                let is_tunnel = text.starts_with("CONNECT ");
                heard.lock().unwrap().push(text);
                let mut behind = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                if is_tunnel {
                    let yes = b"HTTP/1.1 200 Connection established\r\n\r\n";
                    stream.write_all(yes).await.unwrap();
                } else {
                    // The fake server takes a path; the first line is enough here.
                    let head = String::from_utf8(head).unwrap();
                    let head = head.replacen("http://instance.example", "", 1);
                    behind.write_all(head.as_bytes()).await.unwrap();
                }
                drop(tokio::io::copy_bidirectional(&mut stream, &mut behind).await);
            });
        }
    });
    (port, asked)
}

async fn works(fake: &Fake, lent: Lent) {
    fake.until("GET /gateway/events", 1).await;
    fake.call("gw_1", "stat", json!({"path": "a.txt"}));
    fake.reply("gw_1").await;
    lent.end().await;
}

#[tokio::test]
async fn under_tls_a_private_authority_is_trusted_and_a_stranger_is_not() {
    let fake = Fake::encrypted(acceptor()).await;
    let url = format!("https://localhost:{}", fake.port);
    let route = |trust: Trust| {
        let address = Address::parse(&url).unwrap();
        Route::new(
            address,
            &Proxies::default(),
            trust,
            Arc::new(Loopback(None)),
        )
    };
    works(&fake, Lent::by(route(trusted()).unwrap(), How::default())).await;
    assert!(route(Trust::nobody()).is_err());
    // Another name than the certificate's.
    let address = Address::parse("https://instance.example").unwrap();
    let dial = Arc::new(Loopback(Some(fake.port)));
    let route = Route::new(address, &Proxies::default(), trusted(), dial).unwrap();
    let before = fake.seen().len();
    let ended = Lent::by(route, How::default()).ended().await;
    assert!(matches!(ended, Ended::Unreachable(_)), "{ended:?}");
    assert_eq!(fake.seen().len(), before);
}

#[tokio::test]
async fn https_goes_through_a_proxy_that_sees_who_is_spoken_to_and_no_more() {
    let fake = Fake::encrypted(acceptor()).await;
    let (port, asked) = proxy(fake.port).await;
    let proxies = Proxies {
        https: Some(format!("http://ada:hunter2@127.0.0.1:{port}")),
        ..Proxies::default()
    };
    // A name the certificate has, and that is not this machine by its looks.
    let address = Address::parse("https://127.0.0.1:1").unwrap();
    let direct = Route::new(address, &proxies, trusted(), Arc::new(Loopback(None)));
    assert!(
        !format!("{direct:?}").contains(&port.to_string()),
        "loopback needs none"
    );
    let address = Address::parse("https://portcullis.test").unwrap();
    let route = Route::new(address, &proxies, trusted(), Arc::new(Loopback(None))).unwrap();
    let lent = Lent::by(route, How::default());
    // The certificate is localhost's: the tunnel is made, and TLS refuses behind it.
    drop(lent.ended().await);
    let asked = asked.lock().unwrap().clone();
    let first = asked.first().unwrap();
    assert!(
        first.starts_with("CONNECT portcullis.test:443 HTTP/1.1\r\n"),
        "{first}"
    );
    assert!(
        first.contains("proxy-authorization: Basic YWRhOmh1bnRlcjI="),
        "{first}"
    );
    assert!(!first.contains("gw_"), "{first}");
    assert!(fake.seen().is_empty());
}

#[tokio::test]
async fn a_call_goes_through_the_tunnel_of_a_proxy() {
    let fake = Fake::encrypted(acceptor_of(FAR_CERTIFICATE, FAR_KEY)).await;
    let (port, asked) = proxy(fake.port).await;
    let proxies = Proxies {
        https: Some(format!("http://127.0.0.1:{port}")),
        ..Proxies::default()
    };
    let mut trust = Trust::nobody();
    trust.add_private(FAR_CERTIFICATE).unwrap();
    let address = Address::parse("https://portcullis.test").unwrap();
    let route = Route::new(address, &proxies, trust, Arc::new(Loopback(None))).unwrap();
    let lent = Lent::by(route, How::default());
    fake.until("GET /gateway/events", 1).await;
    fake.call("gw_1", "read_file", json!({"filePath": "a.txt"}));
    let reply = fake.reply("gw_1").await;
    assert_eq!(reply["result"]["structuredContent"]["content"], "one");
    assert_eq!(lent.end().await, Ended::Asked);
    // Every connection is a tunnel, and nothing else was said to the proxy.
    let asked = asked.lock().unwrap().clone();
    assert!(!asked.is_empty());
    for said in asked {
        assert_eq!(
            said,
            "CONNECT portcullis.test:443 HTTP/1.1\r\nhost: portcullis.test:443\r\n\r\n"
        );
    }
}

#[tokio::test]
async fn plain_http_goes_through_a_proxy_whole() {
    let fake = Fake::n8n().await;
    let (port, asked) = proxy(fake.port).await;
    let proxies = Proxies {
        http: Some(format!("127.0.0.1:{port}")),
        ..Proxies::default()
    };
    let address = Address::parse("http://instance.example").unwrap();
    let dial = Arc::new(Loopback(None));
    let route = Route::new(address, &proxies, Trust::nobody(), dial).unwrap();
    let lent = Lent::by(route, How::default());
    fake.until("POST /gateway/init", 1).await;
    lent.end().await;
    let asked = asked.lock().unwrap().clone();
    let target = "POST http://instance.example/rest/instance-ai/gateway/init HTTP/1.1\r\n";
    assert!(asked[0].starts_with(target), "{asked:?}");
}
