//! A machine with a few files, lent to a fake server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use portcullis_daemon::{
    Address, Asking, Dial, Dialling, Ended, Errands, Lending, Observer, Proxies, Route, Speaking,
    Status, Surface, Trust, lend_by,
};
use portcullis_gate::{Approver, Clock};
use portcullis_proto::{Mode, Principal, Secret, SessionId};
use portcullis_testkit::{RealClock, Scratch, World, user};
use portcullis_tools::{Here, Machine};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::deadlines::Endless;
use crate::fake::Fake;

/// What was told, in words, and how long waits were to be.
#[derive(Default)]
pub(crate) struct Told {
    words: Mutex<Vec<String>>,
    waits: Mutex<Vec<Duration>>,
}

impl Observer for Told {
    fn tell(&self, status: &Status<'_>) {
        self.words.lock().unwrap().push(format!("{status:?}"));
        if let Status::Waiting(wait, _) = status {
            self.waits.lock().unwrap().push(*wait);
        }
    }
}

impl Told {
    pub(crate) fn count(&self, part: &str) -> usize {
        let told = self.words.lock().unwrap();
        told.iter().filter(|one| one.contains(part)).count()
    }

    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.waits.lock().unwrap().clone()
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.words.lock().unwrap().clone()
    }
}

/// Connects to loopback, whatever host is named.
pub(crate) struct Loopback(pub(crate) Option<u16>);

impl Dial for Loopback {
    fn dial<'a>(&'a self, _host: &'a str, port: u16) -> Dialling<'a> {
        Box::pin(TcpStream::connect(("127.0.0.1", self.0.unwrap_or(port))))
    }
}

/// How a machine is lent.
pub(crate) struct How {
    pub(crate) reading: Mode,
    pub(crate) writing: Mode,
    pub(crate) asking: Asking,
    pub(crate) token: &'static str,
    pub(crate) speaking: Speaking,
    /// Its tools never come to an end.
    pub(crate) is_endless: bool,
    /// What tells how old something is that is heard.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Default for How {
    fn default() -> Self {
        Self {
            reading: Mode::Allow,
            writing: Mode::Allow,
            asking: Asking::Nobody,
            token: Fake::token(),
            speaking: Speaking::Auto,
            is_endless: false,
            clock: Arc::new(RealClock::new()),
        }
    }
}

/// A machine that is lent.
pub(crate) struct Lent {
    pub(crate) world: World,
    pub(crate) told: Arc<Told>,
    pub(crate) ending: CancellationToken,
    task: JoinHandle<Ended>,
}

/// The files there are.
const FILES: &str = "
    a.txt = one
    src/lib.rs = fn main() {}
    .env = SECRET=1
    ../outside.txt = outsideCanary
    ../settings.json = {}
";

pub(crate) fn asked(approver: impl Approver + 'static) -> How {
    How {
        writing: Mode::Ask,
        asking: Asking::Here(Arc::new(approver)),
        ..How::default()
    }
}

impl Lent {
    /// Lends to `fake`, and waits until the link is up.
    pub(crate) async fn to(fake: &Fake, how: How) -> Self {
        let lent = Self::begin(&fake.url(), how);
        fake.until("GET /gateway/events", 1).await;
        lent
    }

    pub(crate) fn begin(url: &str, how: How) -> Self {
        let address = Address::parse(url).unwrap();
        let route = Route::new(
            address,
            &Proxies::default(),
            Trust::nobody(),
            Arc::new(Loopback(None)),
        );
        Self::by(route.unwrap(), how)
    }

    pub(crate) fn by(route: Route, how: How) -> Self {
        let mut world = World::workspace()
            .writable()
            .reading(how.reading)
            .writing(how.writing)
            .clock(RealClock::new())
            .over(Scratch::of(FILES));
        let root_path = world.scratch.root().display().to_string();
        // The world keeps what looks; the machine has what acts.
        let authority = std::mem::replace(
            &mut world.authority,
            portcullis_files::Authority::new(Arc::clone(&world.gate), Vec::new(), None),
        );
        let machine = Here::new(Arc::new(authority)).writing();
        let tools = machine.catalog(&user());
        let machine: Arc<dyn Machine> = if how.is_endless {
            Arc::new(Endless(machine))
        } else {
            Arc::new(machine)
        };
        let told = Arc::new(Told::default());
        let ending = CancellationToken::new();
        let lending = Lending {
            machine,
            surface: Surface {
                root_path,
                host: "ada@laptop".into(),
                machine: "laptop".into(),
                version: "0".into(),
                tools,
            },
            errands: Errands {
                principal: Principal::User { id: "me".into() },
                session: SessionId::new("s"),
                origin: "http://server".into(),
                asking: how.asking,
            },
            route,
            key: Secret::new(how.token.as_bytes()),
            speaking: how.speaking,
            observer: Arc::clone(&told) as Arc<dyn Observer>,
        };
        let task = tokio::spawn(lend_by(how.clock, lending, ending.clone()));
        Self {
            world,
            told,
            ending,
            task,
        }
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.world.scratch.at(path)).ok()
    }

    /// Ends it, as Ctrl-C does.
    pub(crate) async fn end(self) -> Ended {
        self.ending.cancel();
        self.ended().await
    }

    /// Waits for its end.
    pub(crate) async fn ended(self) -> Ended {
        let ended = tokio::time::timeout(portcullis_testkit::PATIENCE, self.task).await;
        ended.expect("an end").unwrap()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}
