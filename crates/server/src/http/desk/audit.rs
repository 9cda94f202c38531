//! The record, as far as it is one's own.

use std::sync::Arc;

use http::StatusCode;
use portcullis_proto::{Failure, Principal, Reason, Scope, Verb};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::super::door::Standing;
use super::super::reply::{self, Reply};
use super::super::rest::{Asks as _, EXACT, Flag, Number, Parameter, Query, query};
use super::super::server::{Asked, Server};
use super::super::shares::Long;
use super::audit_feed::{LineListener, Whose};
use super::refuse;
use super::stream::{HOLDS_NO_MORE, LOOK_AGAIN, SERVER_ENDS, Sender, open};

/// How many lines where nobody says.
const DEFAULT_LINES: usize = 100;
/// How many lines at most.
const MAX_LINES: u64 = 1_000;

/// One line of the record.
#[derive(Clone, Debug)]
pub struct AuditLine {
    /// Its chain and its number in it.
    pub id: String,
    /// The person it is about; nobody for a line of the service itself.
    pub owner: Option<String>,
    /// `fs.access` or `fs.denied`.
    pub event: &'static str,
    /// All of it.
    pub value: Value,
}

/// Which lines.
#[derive(Clone, Debug, Default)]
pub struct AuditAsk {
    /// From when on, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Until when.
    pub until: Option<u64>,
    /// In which root.
    pub root: Option<String>,
    /// At or below which path.
    pub path: Option<String>,
    /// With which outcome.
    pub outcome: Option<String>,
    /// Of which operation.
    pub operation: Option<String>,
    /// Behind this line, which an earlier answer named.
    pub after: Option<String>,
    /// About whom; everybody where nobody is named.
    pub owner: Option<String>,
    /// How many at most, the newest where `after` names none.
    pub limit: usize,
}

/// Where the record is read. It may take a while: never on a thread that
/// answers requests.
pub trait AuditSource: Send + Sync {
    /// Lines, oldest first.
    fn query(&self, ask: &AuditAsk) -> Result<Vec<AuditLine>, Failure>;

    /// Tells which lines are among those asked for, wherever they come from.
    fn sieve(&self, ask: &AuditAsk) -> Result<AuditSieve, Failure>;

    /// What is written from now on.
    fn follow(&self) -> Result<Box<dyn FollowAudit>, Failure>;
}

/// Whether a line is among those asked for; whose it is, is not looked at.
pub type AuditSieve = Box<dyn Fn(&AuditLine) -> bool + Send + Sync>;

/// The record as it is written.
pub trait FollowAudit: Send {
    /// What was written since the last look.
    fn poll(&mut self) -> Result<Vec<AuditLine>, Failure>;
}

query! {
    /// What `GET /audit` and `GET /audit/events` ask for.
    pub(crate) struct AuditQuery {
        /// From when on, in milliseconds since 1970.
        "since" since: Number<0, EXACT>,
        /// Until when, in milliseconds since 1970.
        "until" until: Number<0, EXACT>,
        /// In which root.
        "root" root: Option<String>,
        /// At or below which path, from the root.
        "path" path: Option<String>,
        /// With which outcome.
        "outcome" outcome: Option<ToldOutcome>,
        /// Of which operation.
        "operation" operation: Option<ToldVerb>,
        /// Behind this line: `last` of the reply before, or the id of an event.
        "after" after: Option<String>,
        /// How many lines at most. Default: 100.
        "limit" limit: Number<1, MAX_LINES>,
        /// Everybody's lines, for an administrator.
        "all" all: Flag,
    }
}

/// One of the words a line of the record has for how it ended.
#[derive(Debug)]
pub(crate) struct ToldOutcome(String);

/// One of the words a line of the record has for what was done.
#[derive(Debug)]
pub(crate) struct ToldVerb(String);

/// The outcomes that closing lines have.
const OUTCOMES: [&str; 5] = ["success", "denied", "failed", "parked", "abandoned"];

impl Parameter for Option<ToldOutcome> {
    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        one_of(query, name, &OUTCOMES).map(|word| word.map(ToldOutcome))
    }

    fn schema() -> Value {
        json!({"type": "string", "enum": OUTCOMES})
    }
}

impl Parameter for Option<ToldVerb> {
    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        one_of(query, name, &Verb::ALL.map(Verb::as_str)).map(|word| word.map(ToldVerb))
    }

    fn schema() -> Value {
        json!({"type": "string", "enum": Verb::ALL.map(Verb::as_str)})
    }
}

fn one_of(query: &Query, name: &str, words: &[&str]) -> Result<Option<String>, Failure> {
    let word: Option<String> = Parameter::read(query, name)?;
    match word {
        Some(word) if !words.contains(&word.as_str()) => {
            let why = format!("There is no such {name}.");
            let hint = format!("`{name}` is one of: {}.", words.join(", "));
            Err(Failure::new(Reason::BadArguments, why).hint(hint))
        }
        word @ (Some(_) | None) => Ok(word),
    }
}

fn ask(asked: &Asked) -> Result<AuditAsk, Failure> {
    let query = AuditQuery::read(&asked.head.uri)?;
    let everybody = query.all.0.unwrap_or(false);
    if everybody && !asked.identity.may(Scope::Admin) {
        return Err(Failure::new(
            Reason::NoGrant,
            "Only an administrator sees the record of everybody.",
        )
        .hint("Leave `all` out to see your own."));
    }
    Ok(AuditAsk {
        since: query.since.0,
        until: query.until.0,
        root: query.root,
        path: query.path,
        outcome: query.outcome.map(|word| word.0),
        operation: query.operation.map(|word| word.0),
        after: query.after,
        owner: (!everybody).then(|| asked.identity.user.as_ref().to_owned()),
        limit: query.limit.count().unwrap_or(DEFAULT_LINES),
    })
}

/// What `GET /audit` replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditReply {
    /// Lines, the oldest first.
    #[schemars(with = "Vec<ToldLine>")]
    lines: Vec<Value>,
    /// The last of them: pass it as `after` for those behind it.
    last: Option<String>,
}

/// One line of the record. It may have members besides: every line ever
/// written is told as it stands, also one of a version that knows more words.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditLine", extend("additionalProperties" = true))]
#[expect(
    dead_code,
    reason = "a shape for the document; lines come from their source as they are"
)]
struct ToldLine {
    /// Its number in its chain.
    n: u64,
    /// When it was written.
    timestamp: String,
}

async fn read(
    server: &Arc<Server>,
    asked: &Asked,
    ask: AuditAsk,
) -> Result<Vec<AuditLine>, Failure> {
    read_as(server, &asked.identity.principal, ask).await
}

/// Reads the record for `who`. That goes through all of it, so nobody has more
/// than one look at a time.
async fn read_as(
    server: &Arc<Server>,
    who: &Principal,
    ask: AuditAsk,
) -> Result<Vec<AuditLine>, Failure> {
    let turn = server.shares.turn(Long::Record, who).await?;
    let source = Arc::clone(&server.parts.audit);
    // The turn goes with the look: who breaks off has not ended it.
    let look = move || {
        let found = source.query(&ask);
        drop(turn);
        found
    };
    tokio::task::spawn_blocking(look)
        .await
        .unwrap_or_else(|panicked| Err(Failure::from(Reason::Bug).detail(panicked)))
}

pub(crate) async fn query(server: &Arc<Server>, asked: &Asked) -> Reply {
    let ask = match ask(asked) {
        Ok(ask) => ask,
        Err(why) => return refuse(server, asked, "audit", why),
    };
    match read(server, asked, ask).await {
        Ok(lines) => {
            let last = lines.last().map(|line| line.id.clone());
            let lines: Vec<Value> = lines.into_iter().map(|line| line.value).collect();
            reply::of(StatusCode::OK, &AuditReply { lines, last })
        }
        Err(why) => refuse(server, asked, "audit", why),
    }
}

/// The record as it is written; from behind `Last-Event-ID` where that is named.
pub(crate) async fn watch(server: &Arc<Server>, asked: &Asked) -> Reply {
    let mut ask = match ask(asked) {
        Ok(ask) => ask,
        Err(why) => return refuse(server, asked, "audit", why),
    };
    let sieve = match server.parts.audit.sieve(&ask) {
        Ok(sieve) => sieve,
        Err(why) => return refuse(server, asked, "audit", why),
    };
    let whose = ask.owner.clone().map_or(Whose::Everybodys, Whose::Of);
    // Listened to first: what is written meanwhile is told twice, not never.
    let feed = match server.feeds.audit.join(server, whose).await {
        Ok(feed) => feed,
        Err(why) => return reply::failure(&why),
    };
    ask.after = asked
        .head
        .headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok())
        .map(str::to_owned)
        .or(ask.after);
    ask.limit = usize::try_from(MAX_LINES).unwrap_or_default();
    let missed = match ask.after {
        Some(_) => match read(server, asked, ask.clone()).await {
            Ok(lines) => lines,
            Err(why) => return refuse(server, asked, "audit", why),
        },
        None => Vec::new(),
    };
    let (send, reply) = open();
    let telling = Telling {
        server: Arc::clone(server),
        who: asked.identity.principal.clone(),
        standing: asked.standing(server),
        send,
    };
    tokio::spawn(async move {
        if telling.catch_up(ask, missed).await {
            telling.follow(feed, sieve).await;
        }
    });
    reply
}

/// A listener to the record.
struct Telling {
    server: Arc<Server>,
    who: Principal,
    standing: Standing,
    send: Sender,
}

impl Telling {
    /// Tells what was written before, a page at a time; whether to go on.
    async fn catch_up(&self, mut ask: AuditAsk, mut page: Vec<AuditLine>) -> bool {
        loop {
            if !self.standing.holds() {
                self.send.end(HOLDS_NO_MORE).await;
                return false;
            }
            let is_last = page.len() < ask.limit;
            for line in page {
                // Each line may be waited for.
                if !self.standing.holds() || self.server.ending().is_cancelled() {
                    break;
                }
                ask.after = Some(line.id.clone());
                if !self.send.tell((line.event, line.id, line.value)).await {
                    return false;
                }
            }
            if self.server.ending().is_cancelled() {
                self.send.end(SERVER_ENDS).await;
                return false;
            }
            if is_last && self.standing.holds() {
                return true;
            }
            page = match read_as(&self.server, &self.who, ask.clone()).await {
                Ok(page) => page,
                Err(why) => {
                    self.send.end(why.message()).await;
                    return false;
                }
            };
        }
    }

    /// Tells what is written from now on. A reader that falls behind is told
    /// so and let go: it can come back with the id it heard last.
    async fn follow(&self, mut feed: LineListener, sieve: AuditSieve) {
        let ending = self.server.ending().clone();
        loop {
            let heard = tokio::select! {
                () = ending.cancelled() => {
                    self.send.end(SERVER_ENDS).await;
                    return;
                }
                () = self.send.closed() => return,
                heard = tokio::time::timeout(LOOK_AGAIN, feed.recv()) => heard,
            };
            if !self.standing.holds() {
                self.send.end(HOLDS_NO_MORE).await;
                return;
            }
            let stays = match heard {
                Ok(Ok(line)) if sieve(&line) => {
                    let told = (line.event, line.id.clone(), line.value.clone());
                    self.send.tell(told).await
                }
                Ok(Ok(_)) | Err(_) => self.send.keep_alive().await,
                Ok(Err(RecvError::Lagged(missed))) => {
                    self.send.say("dropped", &json!({"missed": missed})).await;
                    false
                }
                Ok(Err(RecvError::Closed)) => false,
            };
            if !stays {
                return;
            }
        }
    }
}
