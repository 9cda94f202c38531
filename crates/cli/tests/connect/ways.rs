//! Ways to a server, as the environment names them to the binary: proxies, and
//! whose certificates are trusted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fake::Fake;
use crate::flags::{Daemon, auto};
use crate::sandbox::{Came, Sandbox};
use crate::served::Served;

/// A name nobody answers to but the proxy.
const FAR: &str = "http://instance.example";
/// And the one of the certificate below.
const NAMED: &str = "portcullis.test";
const PATIENCE: Duration = portcullis_testkit::PATIENCE;

/// A file among the tests of another crate.
fn tls(name: &str) -> String {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../daemon/tests/lending/tls");
    tests.join(name).display().to_string()
}

/// A proxy that leads everybody to one port, and remembers what it was asked.
struct Proxy {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, heard) = (stream.unwrap(), Arc::clone(&heard));
                std::thread::spawn(move || lead(stream, port, &heard));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn lead(mut stream: TcpStream, port: u16, heard: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.extend(byte);
    }
    let text = String::from_utf8(head.clone()).unwrap();
    let first = text.lines().next().unwrap_or_default().to_owned();
    let mut behind = TcpStream::connect(("127.0.0.1", port)).unwrap();
    if first.starts_with("CONNECT ") {
        let yes = b"HTTP/1.1 200 Connection established\r\n\r\n";
        stream.write_all(yes).unwrap();
    } else {
        behind.write_all(&head).unwrap();
    }
    heard.lock().unwrap().push(first);
    let (mut from, mut to) = (stream.try_clone().unwrap(), behind.try_clone().unwrap());
    std::thread::spawn(move || {
        // Either may go at any time.
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(std::net::Shutdown::Write).ok();
    });
    std::io::copy(&mut behind, &mut stream).ok();
    stream.shutdown(std::net::Shutdown::Write).ok();
}

/// The port behind an address.
fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn a_proxy_of_the_environment_is_gone_through() {
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let (sandbox, fake) = (Sandbox::new(), Fake::start());
        let proxy = Proxy::to(port_of(&fake.url()));
        let env = [(name, proxy.url.as_str()), ("NO_PROXY", "other.example")];
        let daemon = Daemon::start(&sandbox, &auto(FAR, &[]), &env);
        fake.linked();
        fake.call("gw_1", "read_file", json!({"filePath": "a.txt"}));
        assert_eq!(fake.reply("gw_1"), None, "{name}");
        daemon.end().with(0);
        let asked = proxy.asked();
        let init = format!("POST {FAR}/rest/instance-ai/gateway/init HTTP/1.1");
        assert!(asked.contains(&init), "{name}: {asked:?}");
    }
}

#[test]
fn who_is_named_in_no_proxy_and_this_machine_are_reached_without() {
    let (sandbox, fake) = (Sandbox::new(), Fake::start());
    let port = port_of(&fake.url());
    let proxy = Proxy::to(port);
    // Not this machine by its looks, though it is by where it leads.
    let other = format!("http://0.0.0.0:{port}");
    for (url, none_for, is_through) in [
        (other.as_str(), "0.0.0.0", false),
        (&other, "0.0.0.0/8", false),
        (&other, "*", false),
        (&other, "1.2.3.4, other.example", true),
        (&fake.url(), "", false),
    ] {
        let before = (fake.count(), proxy.asked().len());
        let env = [("HTTP_PROXY", proxy.url.as_str()), ("NO_PROXY", none_for)];
        let daemon = Daemon::start(&sandbox, &auto(url, &[]), &env);
        let began = Instant::now();
        // The stream as well: what ends before it is another end.
        while fake.count() < before.0 + 2 {
            assert!(began.elapsed() < PATIENCE, "{url} {none_for}");
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon.end().with(0);
        let asked = proxy.asked();
        assert_eq!(asked.len() > before.1, is_through, "{none_for}: {asked:?}");
    }
}

/// A server of ours under TLS, and a proxy that leads to it.
struct Encrypted {
    there: Sandbox,
    _server: Served,
    proxy: Proxy,
    url: String,
}

impl Encrypted {
    fn new() -> Self {
        let there = Sandbox::new();
        let (certificate, key) = (tls("certificate.pem"), tls("key-for-tests-only.pem"));
        let command = there.command(&[
            "serve",
            "--dir",
            ".",
            "--port",
            "0",
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
            "--allow-host",
            NAMED,
        ]);
        let server = Served::of(&there, command);
        let port = port_of(server.address());
        Self {
            there,
            _server: server,
            proxy: Proxy::to(port),
            url: format!("https://{NAMED}:{port}"),
        }
    }

    fn pairing(&self) -> String {
        let create = ["link", "create", "--url", &self.url];
        let came = self.there.run(&create).with(0);
        came.out.split_whitespace().nth(3).unwrap().to_owned()
    }
}

#[test]
fn https_goes_through_the_tunnel_to_whose_authority_was_named() {
    let encrypted = Encrypted::new();
    let (proxy, certificate) = (encrypted.proxy.url.as_str(), tls("certificate.pem"));
    let certificate = certificate.as_str();
    // Nobody of the system's own: what is trusted was named.
    let nobody = encrypted.there.dir().join("nobody.pem");
    std::fs::write(&nobody, "").unwrap();
    let nobody = ("SSL_CERT_FILE", nobody.to_str().unwrap());
    for (more, env) in [
        (&["--ca", certificate][..], &[nobody][..]),
        (&[], &[nobody, ("PORTCULLIS_CA", certificate)]),
        (&[], &[("SSL_CERT_FILE", certificate)]),
    ] {
        let sandbox = Sandbox::new();
        let token = encrypted.pairing();
        let mut args = auto(&encrypted.url, more);
        args[2] = &token;
        let mut env = env.to_vec();
        env.push(("HTTPS_PROXY", proxy));
        let daemon = Daemon::start(&sandbox, &args, &env);
        let log = sandbox.data().join("connect.log");
        let linked = format!("connected to {} (portcullis)", encrypted.url);
        let began = Instant::now();
        loop {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            if log.contains(&linked) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{more:?} {env:?}: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let listed = encrypted.there.run(&["link", "list"]).with(0);
        listed.out_has("✓ paired");
        daemon.end().with(0);
    }
    let (_, host) = encrypted.url.split_once("://").unwrap();
    for asked in encrypted.proxy.asked() {
        assert_eq!(asked, format!("CONNECT {host} HTTP/1.1"));
    }
}

#[test]
fn a_server_whose_authority_nobody_named_is_not_spoken_to() {
    let encrypted = Encrypted::new();
    // Somebody is trusted, and it is not who signed that certificate.
    let other = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let other = other.join("../server/tests/http/tls/certificate.pem");
    let sandbox = Sandbox::new();
    let token = encrypted.pairing();
    let mut args = auto(&encrypted.url, &[]);
    args[2] = &token;
    let mut command = sandbox.command(&args);
    command
        .env("SSL_CERT_FILE", other)
        .env("HTTPS_PROXY", &encrypted.proxy.url);
    Came::from(command.output().unwrap())
        .with(1)
        .err_has("certificate")
        .err_has("--ca FILE");
    assert!(!encrypted.proxy.asked().is_empty());
    let listed = encrypted.there.run(&["link", "list"]).with(0);
    listed.out_has("No machine is lent");
}
