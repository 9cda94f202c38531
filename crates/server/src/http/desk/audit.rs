//! The record, as far as it is one's own.

use std::sync::Arc;

use http::StatusCode;
use portcullis_proto::{Failure, Reason, Scope};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};
use super::super::rest::Query;
use super::super::server::{Asked, Server};
use super::refuse;
use super::stream::events;

/// How many lines where nobody says.
const DEFAULT_LINES: u64 = 100;
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

    /// What is written from now on.
    fn follow(&self) -> Result<Box<dyn FollowAudit>, Failure>;
}

/// The record as it is written.
pub trait FollowAudit: Send {
    /// What was written since the last look.
    fn poll(&mut self) -> Result<Vec<AuditLine>, Failure>;
}

fn ask(asked: &Asked) -> Result<AuditAsk, Failure> {
    let query = Query::of(&asked.head.uri);
    let text = |name: &str| query.text(name).map(|text| text.map(str::to_owned));
    let everybody = query.flag("all")?;
    if everybody && !asked.identity.may(Scope::Admin) {
        return Err(Failure::new(
            Reason::NoGrant,
            "Only an administrator sees the record of everybody.",
        )
        .hint("Leave `all` out to see your own."));
    }
    let limit = query.number("limit", 1, MAX_LINES)?;
    Ok(AuditAsk {
        since: query.number("since", 0, u64::MAX)?,
        until: query.number("until", 0, u64::MAX)?,
        root: text("root")?,
        path: text("path")?,
        outcome: text("outcome")?,
        operation: text("operation")?,
        after: text("after")?,
        owner: (!everybody).then(|| asked.identity.user.as_ref().to_owned()),
        limit: usize::try_from(limit.unwrap_or(DEFAULT_LINES)).unwrap_or_default(),
    })
}

async fn read(server: &Arc<Server>, ask: AuditAsk) -> Result<Vec<AuditLine>, Failure> {
    let source = Arc::clone(&server.parts.audit);
    tokio::task::spawn_blocking(move || source.query(&ask))
        .await
        .unwrap_or_else(|panicked| Err(Failure::from(Reason::Bug).detail(panicked)))
}

pub(crate) async fn query(server: &Arc<Server>, asked: &Asked) -> Reply {
    let ask = match ask(asked) {
        Ok(ask) => ask,
        Err(why) => return refuse(server, asked, "audit", why),
    };
    match read(server, ask).await {
        Ok(lines) => {
            let last = lines.last().map(|line| line.id.clone());
            let lines: Vec<Value> = lines.into_iter().map(|line| line.value).collect();
            reply::value(StatusCode::OK, &json!({"lines": lines, "last": last}))
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
    let owner = ask.owner.clone();
    // Listened to first: what is written meanwhile is told twice, not never.
    let feed = match server.feeds.audit(server).await {
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
    let missed = if ask.after.is_some() {
        ask.limit = usize::try_from(MAX_LINES).unwrap_or_default();
        match read(server, ask).await {
            Ok(lines) => lines,
            Err(why) => return refuse(server, asked, "audit", why),
        }
    } else {
        Vec::new()
    };
    let first = missed
        .into_iter()
        .map(|line| (line.event, line.id, line.value))
        .collect();
    events(server, asked.standing(server), first, feed, move |item| {
        (owner.is_none() || item.owner == owner)
            .then(|| (item.event, item.id.clone(), item.value.clone()))
    })
}
