//! The record, for a server's routes: read from the files every process writes.

use std::collections::BTreeMap;

use portcullis_files::{AuditLog, Filter, Follow, PrivateDir, Record};
use portcullis_proto::{Failure, Outcome, Reason, Verb};
use portcullis_server::{AuditAsk, AuditLine, AuditSource, FollowAudit};
use serde_json::Value;

/// Reads the audit in the data directory.
pub(crate) struct AuditFiles(PrivateDir);

/// When a line was written, in which chain, and its number there: the order in
/// which lines are told.
type Key = (String, String, u64);

fn key(record: &Record) -> Key {
    (record.timestamp.clone(), record.chain.clone(), record.n)
}

fn owner(record: &Record) -> Option<String> {
    let subject = record.subject.as_ref()?;
    match subject.kind.as_str() {
        "user" => Some(subject.id.clone()),
        "token" => subject.user.clone(),
        _ => None,
    }
}

fn line(record: &Record) -> Result<AuditLine, Failure> {
    let value =
        serde_json::to_value(record).map_err(|error| Failure::from(Reason::Bug).detail(error))?;
    let denied = value.get("outcome").and_then(Value::as_str) == Some("denied");
    Ok(AuditLine {
        id: format!("{}:{}", record.chain, record.n),
        owner: owner(record),
        event: if denied { "fs.denied" } else { "fs.access" },
        value,
    })
}

fn filter(ask: &AuditAsk) -> Result<Filter, Failure> {
    let unknown =
        |what: &str| Failure::new(Reason::BadArguments, format!("There is no such {what}."));
    let outcome = match ask.outcome.as_deref() {
        None => None,
        Some("success") => Some(Outcome::Success),
        Some("denied") => Some(Outcome::Denied),
        Some("failed") => Some(Outcome::Failed),
        Some("parked") => Some(Outcome::Parked),
        Some("abandoned") => Some(Outcome::Abandoned),
        Some(_) => return Err(unknown("outcome")),
    };
    let operation = match ask.operation.as_deref() {
        None => None,
        Some(word) => Some(
            Verb::ALL
                .into_iter()
                .find(|verb| verb.as_str() == word)
                .ok_or_else(|| unknown("operation"))?,
        ),
    };
    Ok(Filter {
        since: ask.since,
        until: ask.until,
        root: ask.root.clone(),
        path: ask.path.clone(),
        outcome,
        operation,
        ..Filter::default()
    })
}

impl AuditFiles {
    pub(crate) fn in_data(data: PrivateDir) -> Self {
        Self(data)
    }

    /// Where the line an id names stands among the others.
    /// Another's line is nowhere.
    fn place(log: &AuditLog, id: &str, of: Option<&str>) -> Result<Option<Key>, Failure> {
        let bad = || {
            Failure::new(Reason::BadCursor, "The id names no line of the record.")
                .hint("Leave it out to begin with the newest lines.")
        };
        let (chain, number) = id.rsplit_once(':').ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        let all = log.records(Filter {
            service_lines: true,
            ..Filter::default()
        })?;
        // A line that cannot be read is for `verify` to report.
        let found = all
            .filter_map(Result::ok)
            .find(|record| record.chain == chain && record.n == number);
        // Another's line is as good as none: whose it is, is not told.
        found
            .filter(|record| of.is_none() || owner(record).as_deref() == of)
            .map(|record| Some(key(&record)))
            .ok_or_else(bad)
    }
}

impl AuditSource for AuditFiles {
    fn query(&self, ask: &AuditAsk) -> Result<Vec<AuditLine>, Failure> {
        let log = AuditLog::open(&self.0)?;
        let after = match &ask.after {
            Some(id) => Self::place(&log, id, ask.owner.as_deref())?,
            None => None,
        };
        let mut kept: BTreeMap<Key, Record> = BTreeMap::new();
        for record in log.records(filter(ask)?)?.filter_map(Result::ok) {
            if ask.owner.is_some() && owner(&record) != ask.owner {
                continue;
            }
            let key = key(&record);
            if after.as_ref().is_some_and(|after| key <= *after) {
                continue;
            }
            kept.insert(key, record);
            if kept.len() > ask.limit {
                // Behind a line come the next ones; else the newest are wanted.
                if ask.after.is_some() {
                    kept.pop_last();
                } else {
                    kept.pop_first();
                }
            }
        }
        kept.values().map(line).collect()
    }

    fn follow(&self) -> Result<Box<dyn FollowAudit>, Failure> {
        let log = AuditLog::open(&self.0)?;
        Ok(Box::new(Following(log.follow(Filter::default())?)))
    }
}

struct Following(Follow);

impl FollowAudit for Following {
    fn poll(&mut self) -> Result<Vec<AuditLine>, Failure> {
        self.0.poll()?.iter().map(line).collect()
    }
}
