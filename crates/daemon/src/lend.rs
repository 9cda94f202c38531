//! Lends a machine, from the first word to the last: says what is offered, hears
//! what is wanted, comes back after every break, and says goodbye.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use portcullis_link::{Accepted, Dialect, Wrapped, bounds, paths};
use portcullis_proto::Secret;
use portcullis_tools::Machine;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::http::{Ask, Http, Trouble};
use crate::listen::{Heard, Over, listen, poll};
use crate::pace::Pace;
use crate::route::Route;
use crate::surface::{Errands, Surface};
use crate::{Observer, Status};

/// How long a stream may take to open.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);
/// How often a server that was never reached is tried, and how often one that
/// does not know us any more.
const MAX_TRIES: u32 = 5;
/// A stream that lasted so long was a good one: the next wait is short again.
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
}

/// What became of an init.
enum Told {
    Accepted,
    Forbidden,
    Refused(StatusCode),
    Trouble(String),
    /// Trying again would not help.
    Untrusted(String),
}

/// Where the session stands.
struct Session {
    http: Arc<Http>,
    calls: Arc<Calls>,
    observer: Arc<dyn Observer>,
    init: Bytes,
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

/// Lends until `ending`, or until there is nobody to lend to.
pub async fn lend(lending: Lending, ending: CancellationToken) -> Ended {
    let Ok(key) = HeaderValue::from_bytes(lending.key.expose()) else {
        return Ended::WrongToken;
    };
    let init = serde_json::to_vec(&lending.surface.init()).unwrap_or_default();
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
        http,
        calls,
        observer: lending.observer,
        init: init.into(),
        pace: Pace::default(),
        heard: Heard::default(),
        dialect: Dialect::Shipped,
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
        Ended::Asked => session.goodbye().await,
        Ended::ByServer
        | Ended::Replaced(_)
        | Ended::Unreachable(_)
        | Ended::WrongToken
        | Ended::Refused(_)
        | Ended::Lost => session.calls.stop(),
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
            if began.elapsed() >= GOOD {
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
        match self.introduce().await {
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
        let ask = Ask::post(paths::INIT, self.init.clone());
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
        let Ok(Wrapped { data }) = serde_json::from_slice::<Wrapped<Accepted>>(&body) else {
            return Told::Refused(status);
        };
        if let Some(key) = data.session_key {
            match HeaderValue::from_str(&key) {
                Ok(key) if key.len() <= bounds::MAX_KEY => self.http.use_key(key),
                Ok(_) | Err(_) => return Told::Refused(status),
            }
        }
        self.dialect = match data.portcullis {
            Some(_) => Dialect::Ours,
            None => Dialect::Shipped,
        };
        self.calls.speaks_ours(self.dialect.is_ours());
        Told::Accepted
    }

    /// Hears what is wanted, until nothing more is.
    async fn hear(&mut self) -> Over {
        if self.dialect.is_ours() && self.mute >= MAX_MUTE {
            self.observer.tell(&Status::Connected(self.dialect));
            return poll(&self.http, &self.calls, &mut self.heard).await;
        }
        self.heard.anything = false;
        let mut ask = Ask::get(paths::EVENTS);
        ask.after = self.heard.last.filter(|_| self.dialect.is_ours());
        match self.http.open(&ask, OPEN_PATIENCE).await {
            Ok(Ok(stream)) => {
                self.was_refused = false;
                self.observer.tell(&Status::Connected(self.dialect));
                listen(stream, &self.calls, &mut self.heard).await
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

    /// Lets calls under way end, and says goodbye.
    async fn goodbye(&mut self) {
        let until = Instant::now() + GOODBYE;
        self.calls.drain(DRAIN).await;
        if self.is_linked {
            let left = until.saturating_duration_since(Instant::now());
            let ask = Ask::post(paths::DISCONNECT, Bytes::from_static(b"{}"));
            // A server that does not hear it finds out by itself.
            drop(self.http.send_within(&ask, left).await);
        }
    }
}
