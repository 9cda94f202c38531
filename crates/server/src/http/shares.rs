//! What one principal may hold at once, so that the others get theirs.
//!
//! The same for REST and MCP: whoever takes as much as it can, by whichever
//! way, takes its own share and nothing of anybody else's.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use portcullis_proto::{Failure, Principal, Reason};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bodies::Bodies;
use super::limits::{
    ARCHIVES_OF_ONE, IN_LINE_OF_ONE, MAX_STREAMS, MAX_UPLOADS, RECORDS_OF_ONE, STREAMS_OF_ONE,
    UPLOADS_OF_ONE, WALKS_OF_ONE, WATCHES_OF_ONE,
};
use super::reply::{self, Reply};
use crate::issuer::are_of_one_voice;

/// Whose a share is: a credential's. Of an issuer's tokens all of one person's
/// together, since whoever may refresh one makes as many as they like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder(Principal);

impl Holder {
    pub(crate) fn of(principal: &Principal) -> Self {
        match principal {
            Principal::Token { user, .. } if are_of_one_voice(principal, principal) => {
                Self(Principal::Token {
                    user: Arc::clone(user),
                    id: Arc::default(),
                })
            }
            Principal::Core { .. }
            | Principal::User { .. }
            | Principal::Token { .. }
            | Principal::Extension { .. }
            | Principal::Automation { .. } => Self(principal.clone()),
        }
    }

    /// As a text: no two holders have the same.
    pub(crate) fn label(&self) -> String {
        self.0.label()
    }
}

/// Who holds how much of what.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Resources that are watched.
    pub(crate) watches: Arc<Places>,
    /// Files that are uploaded.
    pub(crate) uploads: Arc<Places>,
    /// Streams of events that are open.
    pub(crate) streams: Arc<Places>,
    /// Memory for bodies on their way.
    pub(crate) bodies: Bodies,
    /// Memory for what is built of them. Taken after that of the body, and who has
    /// it waits for nothing more.
    pub(crate) values: Bodies,
    walks: Line,
    archives: Line,
    records: Line,
}

/// What takes long, and is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Long {
    /// Going through a tree.
    Walk,
    /// Unpacking, packing or looking into an archive.
    Archive,
    /// Going through the record.
    Record,
}

impl Long {
    /// What a call of `tool` is, if it is anything of the kind.
    pub(crate) fn of_tool(tool: &str) -> Option<Self> {
        match tool {
            "get_file_tree" | "glob" | "grep" | "search_files" => Some(Self::Walk),
            "create_archive" | "extract_archive" | "inspect_archive" => Some(Self::Archive),
            _ => None,
        }
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            // How many there may be in all, the hand says that watches.
            watches: Places::new("watches", usize::MAX, WATCHES_OF_ONE),
            uploads: Places::new("uploads", MAX_UPLOADS, UPLOADS_OF_ONE),
            streams: Places::new("streams of events", MAX_STREAMS, STREAMS_OF_ONE),
            bodies: Bodies::default(),
            values: Bodies::default(),
            walks: Line::new("searches and walks", WALKS_OF_ONE),
            archives: Line::new("archives", ARCHIVES_OF_ONE),
            records: Line::new("looks at the record", RECORDS_OF_ONE),
        }
    }
}

impl Shares {
    /// Waits until `who` may begin something long, behind its own alone.
    pub(crate) async fn turn(&self, long: Long, who: &Principal) -> Result<Turn, Failure> {
        let who = Holder::of(who);
        match long {
            Long::Walk => self.walks.turn(&who).await,
            Long::Archive => self.archives.turn(&who).await,
            Long::Record => self.records.turn(&who).await,
        }
    }
}

/// So many of something, and so many of them for one.
#[derive(Debug)]
pub(crate) struct Places<K: Eq + Hash = Holder> {
    what: &'static str,
    all: usize,
    one: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    of: HashMap<K, usize>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Eq + Hash = Holder> {
    places: Arc<Places<K>>,
    who: K,
}

impl<K: Eq + Hash + Clone> Places<K> {
    pub(super) fn new(what: &'static str, all: usize, one: usize) -> Arc<Self> {
        Arc::new(Self {
            what,
            all,
            one,
            taken: Mutex::new(Taken {
                all: 0,
                of: HashMap::new(),
            }),
        })
    }

    /// Takes one for `who`.
    pub(crate) fn take(self: &Arc<Self>, who: &K) -> Result<Place<K>, Failure> {
        let mut taken = self.taken();
        let held = taken.of.get(who).copied().unwrap_or_default();
        let (what, one, all) = (self.what, self.one, self.all);
        if held >= one {
            return Err(Failure::new(
                Reason::Overload,
                format!("This credential has {one} {what} already, and may have no more at once. Nothing was begun."),
            )
            .hint("End one of them, or wait until one has ended."));
        }
        if taken.all >= all {
            return Err(Failure::new(
                Reason::Overload,
                format!(
                    "There are {all} {what} already, and may be no more at once. Nothing was begun."
                ),
            )
            .hint("Try again in a second."));
        }
        taken.all += 1;
        taken.of.insert(who.clone(), held + 1);
        drop(taken);
        Ok(Place {
            places: Arc::clone(self),
            who: who.clone(),
        })
    }
}

impl<K: Eq + Hash> Places<K> {
    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(held) = taken.of.get_mut(&self.who) {
            *held -= 1;
            if *held == 0 {
                taken.of.remove(&self.who);
            }
        }
    }
}

/// A line for each principal: some of it go on, the rest waits behind them.
#[derive(Debug)]
struct Line {
    /// Who goes on or waits.
    all: Arc<Places>,
    turns: EachTheir,
}

/// So many of something for each principal.
#[derive(Debug)]
pub(crate) struct EachTheir {
    each: usize,
    of: Mutex<HashMap<Holder, Weak<Semaphore>>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _place: Place,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Line {
    fn new(what: &'static str, at_once: usize) -> Self {
        Self {
            all: Places::new(what, usize::MAX, IN_LINE_OF_ONE),
            turns: EachTheir::new(at_once),
        }
    }

    async fn turn(&self, who: &Holder) -> Result<Turn, Failure> {
        let place = self.all.take(who)?;
        let turns = self.turns.of(who);
        Ok(Turn {
            _place: place,
            // Nobody closes it; and if somebody did, one more is no harm.
            _turn: turns.acquire_owned().await.ok(),
        })
    }
}

impl EachTheir {
    pub(super) fn new(each: usize) -> Self {
        Self {
            each,
            of: Mutex::default(),
        }
    }

    /// Those of `who`.
    pub(super) fn of(&self, who: &Holder) -> Arc<Semaphore> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of.get(who).and_then(Weak::upgrade) {
            return known;
        }
        // Those that nobody holds or waits for any more make room.
        of.retain(|_, theirs| theirs.strong_count() > 0);
        let made = Arc::new(Semaphore::new(self.each));
        of.insert(who.clone(), Arc::downgrade(&made));
        made
    }
}

/// Over its share: come again in a second.
pub(crate) fn over(why: &Failure) -> Reply {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let body = json!({
        "errorKind": why.kind().as_str(),
        "reason": why.reason().as_str(),
        "error": why.message(),
        "hint": why.next_step(),
        "code": "too_many_at_once",
        "status": status.as_u16(),
        "retryAfterSeconds": 1,
    });
    let mut reply = reply::value(status, &body);
    reply
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> Holder {
        Holder::of(&Principal::User { id: id.into() })
    }

    #[test]
    fn an_issuers_tokens_of_one_person_hold_one_share() {
        let token = |user: &str, id: &str| {
            Holder::of(&Principal::Token {
                user: user.into(),
                id: id.into(),
            })
        };
        assert_eq!(token("ada", "jwt_1"), token("ada", "jwt_2"));
        assert_ne!(token("ada", "jwt_1"), token("bob", "jwt_1"));
        // Ours were made one by one, and an agent must not starve its person.
        assert_ne!(token("ada", "aaaaaaaaaa"), token("ada", "bbbbbbbbbb"));
        assert_ne!(token("ada", "jwt_1"), user("ada"));
    }

    #[test]
    fn one_takes_its_share_and_the_others_get_theirs() {
        let places = Places::new("things", 5, 2);
        let ada = [places.take(&user("ada")), places.take(&user("ada"))];
        assert!(ada.iter().all(Result::is_ok));
        assert!(places.take(&user("ada")).is_err());
        let others: Vec<_> = ["bob", "bob", "eve"]
            .iter()
            .map(|who| places.take(&user(who)).unwrap())
            .collect();
        assert!(places.take(&user("eve")).is_err(), "there are no more");
        drop(ada);
        assert!(places.take(&user("eve")).is_ok());
        drop(others);
        assert!(places.taken().of.is_empty() && places.taken().all == 0);
    }

    #[tokio::test]
    async fn who_waits_waits_behind_its_own_alone() {
        let line = Line::new("things", 2);
        let (ada, bob) = (user("ada"), user("bob"));
        let first = line.turn(&ada).await.unwrap();
        let _second = line.turn(&ada).await.unwrap();
        let third = line.turn(&ada);
        tokio::pin!(third);
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut third).await.is_err());
        line.turn(&bob).await.unwrap();
        drop(first);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let line = Line::new("things", 1);
        let ada = user("ada");
        let first = line.turn(&ada).await.unwrap();
        let mut waiting: Vec<_> = (1..IN_LINE_OF_ONE)
            .map(|_| Box::pin(line.turn(&ada)))
            .collect();
        for one in &mut waiting {
            assert!(
                tokio::time::timeout(std::time::Duration::ZERO, one)
                    .await
                    .is_err()
            );
        }
        assert!(line.turn(&ada).await.is_err());
        drop(waiting);
        drop(first);
        line.turn(&ada).await.unwrap();
        line.turns.of(&user("bob"));
        assert_eq!(line.turns.of.lock().unwrap().len(), 1);
    }
}
