//! Lends a machine, from the first word to the last: says what is offered, hears
//! what is wanted, comes back after every break, and says goodbye.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use portcullis_gate::Clock;
use portcullis_link::{Accepted, Dialect, Wrapped, bounds, paths};
use portcullis_proto::{Secret, read_json};
use portcullis_tools::Machine;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::age::Age;
use crate::calls::Calls;
use crate::http::{Ask, Http, Streaming, Trouble};
use crate::listen::{Heard, Over, listen, poll};
use crate::pace::Pace;
use crate::route::Route;
use crate::seed;
use crate::surface::{Errands, Surface};
use crate::{Observer, Status};

/// How long a stream may take to open.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);
/// How often a server that was never reached is tried, and how often one that
/// does not know us any more.
const MAX_TRIES: u32 = 5;
/// A stream that lasted so long, or brought a call, was a good one: the next
/// wait is short again.
const GOOD: Duration = Duration::from_secs(10);
/// So many streams in a row that brought nothing, and events are looked for.
const MAX_MUTE: u32 = 2;
/// How long calls under way have at the end, and all of the goodbye.
const DRAIN: Duration = Duration::from_secs(2);
const GOODBYE: Duration = Duration::from_secs(3);

/// What is lent, to whom, and on whose behalf.
pub struct Lending {
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// What was confirmed.
    pub surface: Surface,
    /// On whose behalf.
    pub errands: Errands,
    /// The way to the server.
    pub route: Route,
    /// What lets us in: a pairing token, or a key that both sides know.
    pub key: Secret,
    /// How to speak to it.
    pub speaking: Speaking,
    /// Hears what becomes of it.
    pub observer: Arc<dyn Observer>,
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending")
            .field("route", &self.route)
            .field("errands", &self.errands)
            .finish_non_exhaustive()
    }
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaking {
    /// As it understands: n8n's dialect with ours offered, and the seed's where
    /// there is no such route.
    Auto,
    /// In this dialect or not at all.
    Only(Dialect),
}

impl Speaking {
    /// What a link begins with.
    const fn first(self) -> Dialect {
        match self {
            Self::Only(Dialect::Seed) => Dialect::Seed,
            Self::Auto | Self::Only(Dialect::Shipped | Dialect::Ours) => Dialect::Shipped,
        }
    }

    /// Whether our own dialect is offered.
    const fn offers_ours(self) -> bool {
        match self {
            Self::Auto | Self::Only(Dialect::Ours) => true,
            Self::Only(Dialect::Seed | Dialect::Shipped) => false,
        }
    }

    /// Whether a server that answers in `dialect` is spoken to.
    fn takes(self, dialect: Dialect) -> bool {
        match self {
            Self::Auto => true,
            Self::Only(only) => only == dialect,
        }
    }
}

/// How a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody here wanted it.
    Asked,
    /// The server ended the session.
    ByServer,
    /// Another daemon, on that host, stands for this machine now.
    Replaced(String),
    /// The server was never reached, in words.
    Unreachable(String),
    /// The token was not taken: wrong, used, or too old.
    WrongToken,
    /// The server answered the first word with this status.
    Refused(u16),
    /// The server does not know the session any more.
    Lost,
    /// The server speaks the seed's dialect, which only looks at files, and
    /// looking at files is not lent.
    NothingToLend,
    /// The server does not speak the dialect that was asked for. It was told
    /// goodbye, and the token is used up.
    OtherDialect,
}

/// What became of an init.
enum Told {
    Accepted,
    Forbidden,
    Refused(StatusCode),
    Trouble(String),
    /// Trying again would not help.
    Untrusted(String),
    OtherDialect,
}

/// Where the session stands.
struct Session {
    clock: Arc<dyn Clock>,
    http: Arc<Http>,
    calls: Arc<Calls>,
    observer: Arc<dyn Observer>,
    init: Bytes,
    /// What remembers the calls: another session has another.
    instance: String,
    speaking: Speaking,
    /// Whether looking at files is lent, which is all the seed's dialect has.
    lends_reading: bool,
    /// Whether the seed's events want the key in the query.
    keys_query: bool,
    pace: Pace,
    heard: Heard,
    dialect: Dialect,
    /// Whether the server has taken us in once.
    is_linked: bool,
    needs_init: bool,
    /// How often in a row a session that was linked was refused.
    refusals: u32,
    /// Whether the last stream was refused, too.
    was_refused: bool,
    /// Streams in a row that brought nothing.
    mute: u32,
    /// The server said that the session is over. Where it may not have meant
    /// this one, that is tried once.
    was_disconnected: bool,
}

/// Lends until `ending`, or until there is nobody to lend to: on a machine that
/// does not sleep. Where it may, see [`lend_by`].
pub async fn lend(lending: Lending, ending: CancellationToken) -> Ended {
    let clock = Awake(std::time::Instant::now());
    lend_by(Arc::new(clock), lending, ending).await
}

/// Lends by a clock that also runs while the machine sleeps: a call that was sent
/// before is not taken for a new one after.
pub async fn lend_by(clock: Arc<dyn Clock>, lending: Lending, ending: CancellationToken) -> Ended {
    let Ok(key) = HeaderValue::from_bytes(lending.key.expose()) else {
        return Ended::WrongToken;
    };
    let Some(instance) = instance() else {
        return Ended::Unreachable("this system has no chance to give".to_owned());
    };
    let speaking = lending.speaking;
    let workspaces = lending.machine.workspaces();
    let mut init = lending.surface.init(&instance, &workspaces);
    init.portcullis = init.portcullis.filter(|_| speaking.offers_ours());
    let init = serde_json::to_vec(&init).unwrap_or_default();
    let lends_reading = lending.surface.offers(seed::READS);
    let http = Arc::new(Http::new(lending.route, HeaderValue::from_static("-")));
    http.use_key(key);
    let calls = Arc::new(Calls::new(
        lending.machine,
        Arc::clone(&http),
        Arc::new(lending.surface),
        lending.errands,
        Arc::clone(&lending.observer),
    ));
    let mut session = Session {
        clock,
        http,
        calls,
        observer: lending.observer,
        init: init.into(),
        instance,
        speaking,
        lends_reading,
        keys_query: false,
        pace: Pace::default(),
        heard: Heard::default(),
        dialect: speaking.first(),
        is_linked: false,
        needs_init: true,
        refusals: 0,
        was_refused: false,
        mute: 0,
        was_disconnected: false,
    };
    let ended = tokio::select! {
        biased;
        () = ending.cancelled() => Ended::Asked,
        ended = session.keep_up() => ended,
    };
    match &ended {
        Ended::Asked => session.goodbye(DRAIN).await,
        Ended::OtherDialect => {
            // The server has taken us in before it could be told that it should not.
            session.is_linked = true;
            session.calls.stop();
            session.goodbye(Duration::ZERO).await;
        }
        Ended::ByServer
        | Ended::Replaced(_)
        | Ended::Unreachable(_)
        | Ended::WrongToken
        | Ended::Refused(_)
        | Ended::Lost
        | Ended::NothingToLend => session.calls.stop(),
    }
    ended
}

impl Session {
    /// Keeps the link up until it has ended for good.
    async fn keep_up(&mut self) -> Ended {
        loop {
            if self.needs_init {
                match self.init().await {
                    Ok(()) => {}
                    Err(Some(ended)) => return ended,
                    Err(None) => continue,
                }
            }
            let began = Instant::now();
            let over = self.hear().await;
            if began.elapsed() >= GOOD || self.heard.call {
                self.pace.reset();
            }
            self.mute = match over {
                Over::Mute => self.mute + 1,
                Over::Broken(_) if !self.heard.anything => self.mute,
                Over::Broken(_) | Over::Disconnected | Over::Replaced(_) | Over::Refused(_) => 0,
            };
            match over {
                Over::Replaced(by) => return Ended::Replaced(by),
                // Our own server means it. n8n says it to the newest stream when an
                // older one breaks late, and then the session key still counts.
                Over::Disconnected if self.dialect.is_ours() || self.was_disconnected => {
                    return Ended::ByServer;
                }
                Over::Disconnected => {
                    self.was_disconnected = true;
                    self.needs_init = true;
                }
                Over::Refused(_) => {
                    self.needs_init = true;
                    // Whoever answers is there: the first time nothing is waited for.
                    if std::mem::replace(&mut self.was_refused, true) {
                        self.rest("the server does not know this session").await;
                    }
                }
                Over::Mute => self.come_back("the stream brings nothing").await,
                Over::Broken(why) => self.come_back(why).await,
            }
        }
    }

    /// Waits before another stream. n8n counts breaks until the next init, and
    /// takes the machine away ever later; ours goes on where it was.
    async fn come_back(&mut self, why: &str) {
        self.needs_init = !self.dialect.is_ours();
        self.was_disconnected = false;
        self.rest(why).await;
    }

    async fn rest(&mut self, why: &str) {
        let wait = self.pace.next();
        self.observer.tell(&Status::Waiting(wait, why));
        sleep(wait).await;
    }

    /// Says what is offered. `Err(None)` where it is to be tried again.
    async fn init(&mut self) -> Result<(), Option<Ended>> {
        self.observer.tell(&Status::Connecting);
        if self.dialect == Dialect::Seed && !self.lends_reading {
            return Err(Some(Ended::NothingToLend));
        }
        match self.introduce().await {
            // At once: who answers is there, and speaks something else.
            Told::Refused(StatusCode::NOT_FOUND)
                if !self.is_linked
                    && self.dialect != Dialect::Seed
                    && self.speaking == Speaking::Auto =>
            {
                self.dialect = Dialect::Seed;
                Err(None)
            }
            Told::Accepted => {
                self.is_linked = true;
                self.needs_init = false;
                self.refusals = 0;
                Ok(())
            }
            Told::Forbidden if !self.is_linked => Err(Some(Ended::WrongToken)),
            Told::Refused(status) if !self.is_linked => Err(Some(Ended::Refused(status.as_u16()))),
            Told::Forbidden | Told::Refused(_) if self.was_disconnected => {
                Err(Some(Ended::ByServer))
            }
            Told::Forbidden | Told::Refused(_) => {
                self.refusals += 1;
                if self.refusals >= MAX_TRIES {
                    return Err(Some(Ended::Lost));
                }
                self.rest("the server does not know this session").await;
                Err(None)
            }
            Told::OtherDialect => Err(Some(Ended::OtherDialect)),
            Told::Untrusted(why) if !self.is_linked => Err(Some(Ended::Unreachable(why))),
            Told::Trouble(why) | Told::Untrusted(why) => {
                if !self.is_linked && self.pace.tries() + 1 >= MAX_TRIES {
                    return Err(Some(Ended::Unreachable(why)));
                }
                self.rest(&why).await;
                Err(None)
            }
        }
    }

    async fn introduce(&mut self) -> Told {
        let init = if self.dialect == Dialect::Seed {
            self.http.speak_seed();
            self.calls.seed_init().await
        } else {
            self.init.clone()
        };
        let ask = Ask::post(paths::INIT, init);
        let (status, body) = match self.http.send(&ask).await {
            Ok(answer) => answer,
            Err(Trouble::Untrusted(why)) => return Told::Untrusted(why),
            Err(trouble @ (Trouble::Unreachable(_) | Trouble::Silent)) => {
                return Told::Trouble(trouble.to_string());
            }
        };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Told::Forbidden,
            StatusCode::TOO_MANY_REQUESTS => return Told::Trouble("it is busy".to_owned()),
            status if status.is_server_error() => {
                return Told::Trouble(format!("it answered {}", status.as_u16()));
            }
            status if !status.is_success() => return Told::Refused(status),
            _ => {}
        }
        let data = if self.dialect.wraps() {
            read_json::<Wrapped<Accepted>>(&body).map(|Wrapped { data }| data)
        } else {
            read_json::<Accepted>(&body)
        };
        let Ok(data) = data else {
            return Told::Refused(status);
        };
        let dialect = match (self.dialect, &data.portcullis) {
            (Dialect::Seed, _) => Dialect::Seed,
            (Dialect::Shipped | Dialect::Ours, Some(_)) => Dialect::Ours,
            (Dialect::Shipped | Dialect::Ours, None) => Dialect::Shipped,
        };
        if let Some(key) = data.session_key {
            match HeaderValue::from_str(&key) {
                Ok(key) if key.len() <= bounds::MAX_KEY => self.http.use_key(key),
                Ok(_) | Err(_) => return Told::Refused(status),
            }
        }
        if !self.speaking.takes(dialect) {
            return Told::OtherDialect;
        }
        self.dialect = dialect;
        self.calls.speaks(dialect);
        let replaced = data.portcullis.and_then(|ours| ours.replaced);
        if let Some(host) = replaced.filter(|_| dialect.is_ours()) {
            self.observer.tell(&Status::TookOver(&host));
        }
        let instance = HeaderValue::from_str(&self.instance).ok();
        self.http
            .use_instance(instance.filter(|_| dialect.is_ours()));
        Told::Accepted
    }

    /// Hears what is wanted, until nothing more is.
    async fn hear(&mut self) -> Over {
        (self.heard.anything, self.heard.call) = (false, false);
        if self.dialect.is_ours() && self.mute >= MAX_MUTE {
            self.observer.tell(&Status::Connected(self.dialect));
            return poll(&self.http, &self.calls, &mut self.heard, &*self.clock).await;
        }
        let age = Age::since(self.clock.now_ms());
        match self.open().await {
            Ok(Ok(stream)) => {
                self.was_refused = false;
                self.observer.tell(&Status::Connected(self.dialect));
                let by = (&*self.clock, age);
                listen(stream, &self.calls, &mut self.heard, by).await
            }
            Ok(Err(status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))) => {
                Over::Refused(status)
            }
            Ok(Err(_)) => Over::Broken("the server answered with an error"),
            Err(Trouble::Silent) => Over::Mute,
            Err(Trouble::Unreachable(_)) => Over::Broken("the server is not reached"),
            Err(Trouble::Untrusted(_)) => Over::Broken("the server's certificate is not trusted"),
        }
    }

    /// Opens the stream of events. Where a server of the seed's dialect does not
    /// take the header, the key stands in the query as well: there alone.
    async fn open(&mut self) -> Result<Result<Streaming, StatusCode>, Trouble> {
        if !self.keys_query {
            let mut ask = Ask::get(paths::EVENTS);
            ask.after = self.heard.last.filter(|_| self.dialect.is_ours());
            let opened = self.http.open(&ask, OPEN_PATIENCE).await;
            let is_refused = matches!(
                opened,
                Ok(Err(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
            );
            if self.dialect != Dialect::Seed || !is_refused {
                return opened;
            }
        }
        let path = self.http.keyed(paths::EVENTS);
        let opened = self.http.open(&Ask::get(&path), OPEN_PATIENCE).await;
        self.keys_query = matches!(opened, Ok(Ok(_)));
        opened
    }

    /// Lets calls under way end for so long, and says goodbye.
    async fn goodbye(&mut self, patience: Duration) {
        let until = Instant::now() + GOODBYE;
        self.calls.drain(patience).await;
        if self.is_linked {
            let left = until.saturating_duration_since(Instant::now());
            let ask = Ask::post(paths::DISCONNECT, Bytes::from_static(b"{}"));
            // A server that does not hear it finds out by itself.
            drop(self.http.send_within(&ask, left).await);
        }
    }
}

/// The time since some moment, without what the machine slept.
struct Awake(std::time::Instant);

impl Clock for Awake {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A name no other session has; nothing where there is no chance to be had: two
/// sessions of one name would each be sent what the other has done.
fn instance() -> Option<String> {
    let mut chance = [0; 16];
    getrandom::fill(&mut chance).ok()?;
    Some(format!("{:032x}", u128::from_le_bytes(chance)))
}
