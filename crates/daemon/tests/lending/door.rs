//! The door on loopback: how long a page waits for the person, and that who may
//! not ask is refused before anybody was asked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use portcullis_daemon::{Porter, Wanted, answer_door};
use portcullis_testkit::promised;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

const ORIGIN: &str = "https://instance.example";

/// Lets one origin ask, and keeps what it wants before the person.
struct Keeps {
    asks: mpsc::UnboundedSender<Wanted>,
    knocks: Mutex<Vec<String>>,
    is_own: AtomicBool,
    /// The thread everything else is done on, and whether it had to wait.
    runtime: ThreadId,
    held_up: AtomicBool,
}

impl Porter for Keeps {
    fn is_own(&self, from: SocketAddr, to: SocketAddr) -> bool {
        assert_ne!(from.port(), to.port());
        let holds_up = thread::current().id() == self.runtime;
        self.held_up.fetch_or(holds_up, Ordering::AcqRel);
        self.is_own.load(Ordering::Acquire)
    }

    fn may_ask(&self, origin: &str) -> bool {
        origin == ORIGIN
    }

    fn knocked(&self, origin: &str) {
        self.knocks.lock().unwrap().push(origin.to_owned());
    }

    fn lent_to(&self) -> Option<String> {
        None
    }

    fn status(&self) -> Value {
        json!({})
    }

    fn ask(&self, wanted: Wanted) -> Result<(), Wanted> {
        self.asks.send(wanted).map_err(|back| back.0)
    }

    fn disconnect(&self) {}
}

struct Door {
    port: u16,
    porter: Arc<Keeps>,
    asked: mpsc::UnboundedReceiver<Wanted>,
}

impl Door {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asks, asked) = mpsc::unbounded_channel();
        let porter = Arc::new(Keeps {
            asks,
            knocks: Mutex::default(),
            is_own: AtomicBool::new(true),
            runtime: thread::current().id(),
            held_up: AtomicBool::new(false),
        });
        tokio::spawn(answer_door(listener, Arc::clone(&porter) as _));
        Self {
            port,
            porter,
            asked,
        }
    }

    /// Says something as a page of `origin` does.
    async fn say(&self, line: &str, origin: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let (port, length) = (self.port, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: {origin}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

async fn heard(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn wants(origin: &str) -> String {
    json!({"url": origin, "token": "gw_0123456789abcdef0123456789abcdef"}).to_string()
}

#[tokio::test]
async fn a_page_waits_five_minutes_for_the_person_and_then_it_is_a_no() {
    let mut door = Door::open().await;
    let page = door.say("POST /connect", ORIGIN, &wants(ORIGIN)).await;
    let Wanted { decided, .. } = door.asked.recv().await.unwrap();
    // From here on nothing but time can answer, and it passes when all else waits.
    tokio::time::pause();
    let began = Instant::now();
    let answer = heard(page).await;
    let waited = began.elapsed();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let second = Duration::from_secs(1);
    assert!(
        waited + second >= Duration::from_mins(5) && waited <= Duration::from_mins(5) + second,
        "{waited:?}"
    );
    // A yes that comes now is heard by nobody, and whoever gives it is told so.
    assert!(decided.send(true).is_err());
}

#[tokio::test]
async fn who_may_not_ask_gets_one_answer_whatever_it_says_and_whether_or_not_it_is_new() {
    let mut door = Door::open().await;
    let stranger = "https://evil.example";
    let mut answers = Vec::new();
    for (line, body) in [
        ("GET /health", String::new()),
        ("GET /status", String::new()),
        ("OPTIONS /connect", String::new()),
        ("POST /connect", wants(stranger)),
        ("POST /connect", wants(ORIGIN)),
        ("POST /disconnect", "{}".to_owned()),
        ("GET /health", String::new()),
    ] {
        let answer = heard(door.say(line, stranger, &body).await).await;
        let undated = answer.lines().filter(|line| !line.starts_with("date:"));
        answers.push(undated.collect::<Vec<_>>().join("\n"));
    }
    assert!(answers[0].starts_with("HTTP/1.1 403"), "{}", answers[0]);
    assert!(!answers[0].contains("access-control"), "{}", answers[0]);
    assert!(answers.iter().all(|one| *one == answers[0]), "{answers:#?}");
    assert!(
        door.asked.try_recv().is_err(),
        "nothing is put before the person"
    );
    let knocks = door.porter.knocks.lock().unwrap().clone();
    assert_eq!(knocks, [stranger; 7]);
    let known = heard(door.say("GET /health", ORIGIN, "").await).await;
    assert!(known.starts_with("HTTP/1.1 200"), "{known}");
    // Another user of this machine is nobody, whatever it says.
    door.porter.is_own.store(false, Ordering::Release);
    for line in ["GET /health", "POST /connect"] {
        let answer = heard(door.say(line, ORIGIN, &wants(ORIGIN)).await).await;
        let undated = answer.lines().filter(|line| !line.starts_with("date:"));
        assert_eq!(undated.collect::<Vec<_>>().join("\n"), answers[0]);
    }
    assert!(door.asked.try_recv().is_err());
}

#[tokio::test]
async fn others_of_this_machine_are_not_in_the_way_of_who_may_ask() {
    let door = Door::open().await;
    door.porter.is_own.store(false, Ordering::Release);
    let began = Instant::now();
    // As many as there are places, and more; none of them says a word.
    let (goes, mut gone) = mpsc::unbounded_channel();
    for _ in 0..20 {
        let mut silent = TcpStream::connect(("127.0.0.1", door.port)).await.unwrap();
        let goes = goes.clone();
        tokio::spawn(async move {
            let heard = silent.read(&mut [0]).await;
            goes.send(heard.unwrap_or(0)).ok();
        });
    }
    // Two are waited for, and who finds no place is let go without a word.
    for _ in 0..18 {
        assert_eq!(gone.recv().await, Some(0));
    }
    door.porter.is_own.store(true, Ordering::Release);
    let known = heard(door.say("GET /health", ORIGIN, "").await).await;
    assert!(known.starts_with("HTTP/1.1 200"), "{known}");
    // A silent one is given five seconds: nobody had to wait for that.
    let took = began.elapsed();
    assert!(took < promised(Duration::from_secs(5)), "{took:?}");
    // Who it is takes long to find out, and calls do not wait for that.
    assert!(!door.porter.held_up.load(Ordering::Acquire));
}
