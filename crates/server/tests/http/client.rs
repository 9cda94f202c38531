//! A client that sends what it is told to, however wrong that is.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a reply may take.
const PATIENCE: Duration = portcullis_testkit::PATIENCE;

/// A request that is well formed. What is hostile is written by hand.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    /// `None`: that of the server it is sent to.
    hosts: Option<Vec<String>>,
    body: Option<Vec<u8>>,
}

impl Ask {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            hosts: None,
            body: None,
        }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub(crate) fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target).json(body)
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    pub(crate) fn cookie(self, cookie: &str) -> Self {
        self.header("Cookie", format!("portcullis_signin={cookie}"))
    }

    /// With this Host, or with none.
    pub(crate) fn host(mut self, host: Option<&str>) -> Self {
        self.hosts = Some(host.map(str::to_owned).into_iter().collect());
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json")
            .body(body.to_string())
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// As it goes over the wire to `address`.
    pub(crate) fn wire(&self, address: SocketAddr) -> Vec<u8> {
        let own = [address.to_string()];
        let hosts = self.hosts.as_deref().unwrap_or(&own);
        let mut lines = vec![format!("{} {} HTTP/1.1", self.method, self.target)];
        lines.extend(hosts.iter().map(|host| format!("Host: {host}")));
        lines.extend(
            self.headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
        if let Some(body) = &self.body {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        let wire = lines.join("\r\n") + "\r\n\r\n";
        let mut wire = wire.into_bytes();
        wire.extend(self.body.iter().flatten());
        wire
    }
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(named, _)| named.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Every header, under its name in small letters.
    pub(crate) fn fields(&self) -> Vec<(String, &str)> {
        let fields = self.headers.iter();
        fields
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

/// One event of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// A connection, and what has been read of it.
pub(crate) struct Connection {
    stream: BufReader<Stream>,
}

/// What bytes go over.
enum Stream {
    Plain(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &mut tls.sock,
        }
    }
}

impl io::Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl Connection {
    #[track_caller]
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::try_open(address).expect("a connection")
    }

    /// Opens one where somebody listens.
    pub(crate) fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Ok(Self {
            stream: BufReader::new(Stream::Plain(stream)),
        })
    }

    /// Opens one from another address of this machine.
    #[track_caller]
    pub(crate) fn open_from(from: IpAddr, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(from, 0)).unwrap();
            socket.connect(address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(Stream::Plain(stream)),
        }
    }

    /// The same, encrypted, to who holds the certificate of the tests.
    pub(crate) fn encrypted(self, config: &Arc<rustls::ClientConfig>) -> Self {
        let Stream::Plain(socket) = self.stream.into_inner() else {
            panic!("it is encrypted already");
        };
        let name = "localhost".try_into().expect("a name");
        let tls = rustls::ClientConnection::new(Arc::clone(config), name).expect("a client");
        let stream = Stream::Tls(Box::new(rustls::StreamOwned::new(tls, socket)));
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Waits so long for what it reads, and no longer.
    pub(crate) fn patient_for(&mut self, patience: Duration) {
        self.raw().set_read_timeout(Some(patience)).unwrap();
    }

    /// What is read from here on is events.
    pub(crate) fn events(self) -> Events {
        Events {
            connection: self,
            rest: String::new(),
            began: Instant::now(),
        }
    }

    /// The socket below.
    pub(crate) fn raw(&mut self) -> &mut TcpStream {
        self.stream.get_mut().socket()
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server takes it");
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Whether the server has closed it, and sent nothing more.
    pub(crate) fn is_ended(&mut self) -> bool {
        let mut one = [0];
        match self.stream.read(&mut one) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// How many bytes come before the end, whatever they are.
    pub(crate) fn rest(&mut self) -> usize {
        let (mut count, mut some) = (0, vec![0; 64 * 1024]);
        while let Ok(read) = self.stream.read(&mut some) {
            if read == 0 {
                break;
            }
            count += read;
        }
        count
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The head of a reply.
    pub(crate) fn head(&mut self) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|status| status.parse().ok())
            .ok_or_else(|| io::Error::other(format!("no status line: {first}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a header");
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Answer {
            status,
            headers,
            body: Vec::new(),
        })
    }

    /// A whole reply.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        self.whole(head)
    }

    /// A reply whose head was read, with its body.
    pub(crate) fn whole(&mut self, mut answer: Answer) -> io::Result<Answer> {
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut answer.body)?;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                answer.body.extend(chunk);
            }
        }
        Ok(answer)
    }

    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok((size > 0).then_some(chunk))
    }

    /// Begins to listen to a stream of events.
    #[track_caller]
    pub(crate) fn listen(mut self, ask: &Ask, address: SocketAddr) -> Events {
        self.send(&ask.wire(address));
        let head = self.head().expect("a head");
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        self.events()
    }
}

/// A stream of events.
pub(crate) struct Events {
    connection: Connection,
    rest: String,
    began: Instant,
}

impl Events {
    /// The next event; nothing once the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.rest.split_once("\n\n") {
                let event = parse(block);
                self.rest = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            assert!(self.began.elapsed() < PATIENCE * 3, "it goes on for ever");
            let chunk = self.connection.chunk().ok()??;
            self.rest.push_str(&String::from_utf8(chunk).unwrap());
        }
    }

    /// The data of the next event that has no name; nothing once the stream ended.
    pub(crate) fn next_unnamed(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.rest.split_once("\n\n") {
                let event = block_of(block);
                self.rest = rest.to_owned();
                if event.name.is_empty() && !event.data.is_null() {
                    return Some(event);
                }
            }
            assert!(self.began.elapsed() < PATIENCE * 3, "it goes on for ever");
            let chunk = self.connection.chunk().ok()??;
            self.rest.push_str(&String::from_utf8(chunk).unwrap());
        }
    }

    /// The next event of that name.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, name: &str) -> Event {
        loop {
            let event = self
                .next()
                .unwrap_or_else(|| panic!("the stream ended before {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let event = block_of(block);
    (!event.name.is_empty()).then_some(event)
}

fn block_of(block: &str) -> Event {
    let mut event = Event::default();
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("event", name)) => name.clone_into(&mut event.name),
            Some(("id", id)) => id.clone_into(&mut event.id),
            // MCP opens a stream with an event that holds nothing.
            Some(("data", "")) => {}
            Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
            // A comment keeps the connection alive.
            Some(_) | None => {}
        }
    }
    event
}
