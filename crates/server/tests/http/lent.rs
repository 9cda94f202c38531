//! A machine of its own, lent to a server by our own daemon over the real listener.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portcullis_daemon::{
    Address, Asking, Dial, Dialling, Ended, Errands, Lending, Observer, Proxies, Route, Speaking,
    Status, Surface, Trust, lend,
};
use portcullis_gate::Caller;
use portcullis_proto::{Group, Secret, SessionId, Subject};
use portcullis_tools::Machine as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::client::Ask;
use crate::daemon::pairing;
use crate::world::{PATIENCE, Running, World};

/// Connects to loopback: to the port that is meant, or to what stands before it.
struct Loopback(Option<u16>);

impl Dial for Loopback {
    fn dial<'a>(&'a self, _host: &'a str, port: u16) -> Dialling<'a> {
        Box::pin(TcpStream::connect(("127.0.0.1", self.0.unwrap_or(port))))
    }
}

/// How much the clock of a hurried machine moves on at once, and how long that takes at
/// least: it is 20 times as fast as others.
const HURRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(1));

/// Hears nothing.
struct Deaf;

impl Observer for Deaf {
    fn tell(&self, _status: &Status<'_>) {}
}

/// How it is lent.
pub(crate) struct How {
    pub(crate) name: &'static str,
    pub(crate) asking: Asking,
    /// The groups whose tools are lent; nothing for all that are on.
    pub(crate) only: Option<Group>,
    /// The port of what stands between it and the server, where something does.
    pub(crate) via: Option<u16>,
    /// Its clock is faster than the server's, so that what takes minutes takes seconds.
    pub(crate) is_hurried: bool,
}

impl How {
    pub(crate) fn named(name: &'static str) -> Self {
        Self {
            name,
            asking: Asking::There,
            only: None,
            via: None,
            is_hurried: false,
        }
    }
}

/// Moves a clock on that stands still otherwise. While this waits nothing else does
/// anything, so that the clock never runs away from who has something to do.
async fn hurry() {
    let (step, least) = HURRY;
    loop {
        tokio::time::sleep(step).await;
        std::thread::sleep(least);
    }
}

/// A machine that is lent until it is dropped.
pub(crate) struct Lent {
    ending: CancellationToken,
    thread: Option<JoinHandle<Ended>>,
}

impl Lent {
    /// Lends what `far` has to ada's agents, and waits until it is linked.
    #[track_caller]
    pub(crate) fn to(near: &World, server: &Running, far: &World, how: How) -> Self {
        let inside = far.inside();
        let tools = inside
            .here
            .catalog(&Caller::new(Subject::of(inside.me.clone()), "test"));
        let tools = tools
            .into_iter()
            .filter(|tool| how.only.is_none_or(|only| tool.group == only))
            .collect();
        let url = format!("http://{}", server.address);
        let route = Route::new(
            Address::parse(&url).unwrap(),
            &Proxies::default(),
            Trust::nobody(),
            Arc::new(Loopback(how.via)),
        );
        let lending = Lending {
            machine: Arc::new(inside.here),
            surface: Surface {
                root_path: far.scratch.root().display().to_string(),
                host: "ada@laptop".into(),
                machine: how.name.into(),
                version: "0".into(),
                tools,
            },
            errands: Errands {
                principal: inside.me,
                session: SessionId::new("far"),
                origin: url,
                asking: how.asking,
            },
            route: route.unwrap(),
            key: Secret::new(pairing(near, "ada").as_bytes()),
            observer: Arc::new(Deaf),
            speaking: Speaking::Auto,
        };
        let ending = CancellationToken::new();
        let until = ending.clone();
        let (gate, ledger) = (inside.gate, inside.ledger);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(how.is_hurried)
                .build()
                .unwrap();
            let ended = runtime.block_on(async move {
                if how.is_hurried {
                    tokio::spawn(hurry());
                }
                lend(lending, until).await
            });
            runtime.shutdown_timeout(Duration::from_secs(5));
            gate.end();
            ledger.close();
            ended
        });
        let token = near.token("ada", &[portcullis_proto::Scope::FsRead]);
        let from = Instant::now();
        loop {
            let status = server.ask(&Ask::get("/status").bearer(&token)).expect(200);
            let machines = status.json()["machines"].clone();
            if machines[0] == how.name {
                break;
            }
            assert!(from.elapsed() < PATIENCE, "not linked: {machines}");
            std::thread::sleep(Duration::from_millis(2));
        }
        Self {
            ending,
            thread: Some(thread),
        }
    }

    fn stop(&mut self) {
        self.ending.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }

    /// Ends it, as Ctrl-C does.
    pub(crate) fn end(mut self) {
        self.stop();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.stop();
    }
}
