//! Calls that are under way to linked machines, kept so that a server that
//! starts again knows what it sent.
//!
//! A call is written before it is sent, under the number of its event, which
//! rises by one per machine and is never given twice. One that has a name can be
//! asked for again: what it came to is kept, and the name stands for nothing else.

use portcullis_proto::Scope;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::accounts::time;
use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// How long an ended call is kept, and the name of one.
const KEEP_MS: u64 = 10 * 60 * 1000;
/// How many ended calls of one machine are kept that have no name; the oldest go.
const MAX_ENDED: i64 = 256;
/// How many calls of one machine may be made while one with a name is kept:
/// past it no name is taken, since to forget one early is to do it twice.
const MAX_NAMED: i64 = 65_536;
/// The longest reply that is kept, in bytes.
const MAX_REPLY: usize = 16 * 1024 * 1024;
/// Bytes of replies of one machine that are kept; the oldest are let go, and
/// their calls stay known as answered.
const MAX_REPLIES: i64 = 64 * 1024 * 1024;

/// A call that has no result yet, and whose time is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// Which.
    pub request_id: String,
    /// The number of its event.
    pub event: u64,
    /// When it fails.
    pub deadline: u64,
    /// The daemon it was sent to; nothing where it was sent to none.
    pub sent_to: Option<String>,
}

/// A call that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct NewCall<'a> {
    /// To which machine.
    pub machine: &'a str,
    /// Under which request id.
    pub request_id: &'a str,
    /// What is sent, as JSON.
    pub call: &'a str,
    /// When it fails.
    pub deadline: u64,
    /// The daemon that listens now; nothing where none does.
    pub sent_to: Option<&'a str>,
    /// The name its caller gave it, and what it takes to be told of it.
    pub named: Option<(CallName, Scope)>,
}

/// What a caller calls a call, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// A digest of the name and of whose it is.
    pub name: [u8; 32],
    /// A digest of what is asked for.
    pub what: [u8; 32],
}

/// What became of a call that was to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BegunCall {
    /// It is kept, under the number of its event.
    New(u64),
    /// Its name stands for this one already; nothing was kept.
    Known(KeptCall),
}

/// A call that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCall {
    /// Which.
    pub request_id: String,
    /// For which machine.
    pub machine: String,
    /// When it fails.
    pub deadline: u64,
    /// What was asked for, where it has a name.
    pub what: Option<[u8; 32]>,
    /// What it takes to be told of it, where it has a name.
    pub scope: Option<Scope>,
    /// What became of it.
    pub state: KeptState,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptState {
    /// Nothing yet.
    Waiting,
    /// It was answered; with this, where that is still kept.
    Settled(Option<String>),
    /// It ended without an answer.
    Failed,
}

/// What a machine replied, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallReply<'a> {
    /// What it came to.
    Last(&'a str),
    /// It wants a person's yes first. Nothing was done, so the next call under
    /// that name is made anew.
    Question(&'a str),
}

impl Store {
    /// Keeps a call that is about to be sent, unless its name stands for another.
    pub fn begin_link_call(&self, call: NewCall<'_>, now_ms: u64) -> Result<BegunCall, StoreError> {
        // The operating system's hands are enough: after a power cut nobody waits.
        self.write(Lasting::System, |tx| {
            if let Some((named, _)) = call.named
                && let Some(known) = by_name(tx, &named.name)?
            {
                return Ok(BegunCall::Known(known));
            }
            tx.prepare_cached(
                "UPDATE link_calls SET call = ''
                 WHERE machine = ?1 AND state = 'waiting' AND deadline <= ?2 AND call <> ''",
            )?
            .execute(params![call.machine, ms(now_ms)])?;
            let event = next_event(tx, call.machine)?;
            if call.named.is_some() {
                refuse_too_many(tx, call.machine, event)?;
            }
            tx.prepare_cached(
                "INSERT INTO link_calls
                 (id, machine, event, call, deadline, state, made_at, sent_to, name, what, scope)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                call.request_id,
                call.machine,
                event,
                call.call,
                ms(call.deadline),
                ms(now_ms),
                call.sent_to,
                call.named.map(|(named, _)| named.name),
                call.named.map(|(named, _)| named.what),
                call.named.map(|(_, scope)| scope.as_str()),
            ])?;
            tx.prepare_cached(
                "DELETE FROM link_calls
                 WHERE machine = ?1 AND event <= ?2 AND name IS NULL AND state <> 'waiting'",
            )?
            .execute(params![call.machine, event - MAX_ENDED])?;
            Ok(BegunCall::New(time(event)))
        })
    }

    /// The call that has that name; of its reply, only that there is one.
    pub fn named_link_call(&self, name: &[u8; 32]) -> Result<Option<KeptCall>, StoreError> {
        self.read(|conn| by_name(conn, name))
    }

    /// The call of that request id.
    pub fn link_call(&self, request_id: &str) -> Result<Option<KeptCall>, StoreError> {
        self.read(|conn| {
            Ok(conn
                .prepare_cached(&format!("{KEPT}, reply FROM link_calls WHERE id = ?1"))?
                .query_row([request_id], kept)
                .optional()?)
        })
    }

    /// Ends a call whose caller has its reply; whether it waited.
    pub fn settle_link_call(&self, request_id: &str) -> Result<bool, StoreError> {
        self.write(Lasting::System, |tx| end(tx, request_id, "settled"))
    }

    /// Whether a call waits under `request_id` for `machine`.
    pub fn link_call_waits(
        &self,
        machine: &str,
        request_id: &str,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        self.read(|conn| {
            let waits = conn
                .prepare_cached(
                    "SELECT 1 FROM link_calls
                     WHERE id = ?1 AND machine = ?2 AND state = 'waiting' AND deadline > ?3",
                )?
                .exists(params![request_id, machine, ms(now_ms)])?;
            Ok(waits)
        })
    }

    /// Ends a call of `machine` whose time is not over with its reply; whether
    /// there was one. The reply is kept for who asks for the call by its name.
    pub fn settle_kept_link_call(
        &self,
        machine: &str,
        request_id: &str,
        reply: CallReply<'_>,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        let (text, name_stays) = match reply {
            CallReply::Last(text) => (text, true),
            CallReply::Question(text) => (text, false),
        };
        self.write(Lasting::System, |tx| {
            let named: Option<bool> = tx
                .prepare_cached(
                    "SELECT name IS NOT NULL FROM link_calls
                     WHERE id = ?1 AND machine = ?2 AND state = 'waiting' AND deadline > ?3",
                )?
                .query_row(params![request_id, machine, ms(now_ms)], |row| row.get(0))
                .optional()?;
            let Some(named) = named else {
                return Ok(false);
            };
            end(tx, request_id, "settled")?;
            if named && text.len() <= MAX_REPLY {
                let bytes = i64::try_from(text.len()).map_err(StoreError::io)?;
                tx.prepare_cached(
                    "UPDATE link_calls SET reply = ?2, reply_bytes = ?3,
                     name = CASE WHEN ?4 THEN name END WHERE id = ?1",
                )?
                .execute(params![request_id, text, bytes, name_stays])?;
                make_room(tx, machine, request_id)?;
            }
            Ok(true)
        })
    }

    /// Ends a call without a reply; whether it waited.
    pub fn fail_link_call(&self, request_id: &str) -> Result<bool, StoreError> {
        self.write(Lasting::System, |tx| end(tx, request_id, "failed"))
    }

    /// The calls of `machine` that wait for a result, the oldest first.
    pub fn waiting_link_calls(
        &self,
        machine: &str,
        now_ms: u64,
    ) -> Result<Vec<WaitingCall>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT id, event, deadline, sent_to FROM link_calls
                 WHERE machine = ?1 AND state = 'waiting' AND deadline > ?2 ORDER BY event",
            )?;
            let rows = statement.query_map(params![machine, ms(now_ms)], |row| {
                Ok(WaitingCall {
                    request_id: row.get(0)?,
                    event: time(row.get(1)?),
                    deadline: time(row.get(2)?),
                    sent_to: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// What is asked by a call that waits, as JSON. One at a time: each may be
    /// large, and readers wait for each other.
    pub fn waiting_link_call(&self, request_id: &str) -> Result<Option<String>, StoreError> {
        self.read(|conn| {
            Ok(conn
                .prepare_cached("SELECT call FROM link_calls WHERE id = ?1 AND state = 'waiting'")?
                .query_row([request_id], |row| row.get(0))
                .optional()?)
        })
    }

    /// What waits for `machine` and was sent to nobody is sent to `daemon` from
    /// now on.
    pub fn send_link_calls(&self, machine: &str, daemon: &str) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| {
            tx.prepare_cached(
                "UPDATE link_calls SET sent_to = ?2
                 WHERE machine = ?1 AND state = 'waiting' AND sent_to IS NULL",
            )?
            .execute(params![machine, daemon])?;
            Ok(())
        })
    }

    /// Ends every call that waits for `machine` and was sent to a daemon other
    /// than `daemon`, which knows nothing of it; which those were.
    pub fn fail_link_calls_of_others(
        &self,
        machine: &str,
        daemon: &str,
    ) -> Result<Vec<String>, StoreError> {
        self.write(Lasting::System, |tx| {
            let mut statement = tx.prepare_cached(
                "UPDATE link_calls SET state = 'failed', call = ''
                 WHERE machine = ?1 AND state = 'waiting' AND sent_to <> ?2 RETURNING id",
            )?;
            let rows = statement.query_map(params![machine, daemon], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Ends what a server that was killed left under way and whose callers are gone
    /// with it: nobody can ask for a call without a name again, so whatever it did
    /// now would be done after its caller was told that it failed.
    pub fn fail_nameless_link_calls(&self) -> Result<usize, StoreError> {
        self.write(Lasting::System, |tx| {
            Ok(tx.execute(
                "UPDATE link_calls SET state = 'failed', call = ''
                 WHERE state = 'waiting' AND name IS NULL",
                [],
            )?)
        })
    }

    /// Forgets calls that ended a while ago, and what was asked in those whose time
    /// is over.
    pub fn prune_link_calls(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.write(Lasting::System, |tx| {
            tx.execute(
                "UPDATE link_calls SET call = ''
                 WHERE state = 'waiting' AND deadline <= ?1 AND call <> ''",
                [ms(now_ms)],
            )?;
            let old = ms(now_ms.saturating_sub(KEEP_MS));
            let gone = tx.execute(
                "DELETE FROM link_calls WHERE made_at <= ?1 AND deadline <= ?1",
                [old],
            )?;
            Ok(gone)
        })
    }
}

/// Ends every call that waits for `machine`: what was asked of one daemon is not
/// another's to do.
pub(super) fn fail_all(tx: &Transaction<'_>, machine: &str) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE link_calls SET state = 'failed', call = '' WHERE machine = ?1 AND state = 'waiting'",
    )?
    .execute([machine])?;
    Ok(())
}

/// What was asked may hold what somebody wrote: it is let go with the call.
fn end(tx: &Transaction<'_>, request_id: &str, state: &str) -> Result<bool, StoreError> {
    let ended = tx
        .prepare_cached(
            "UPDATE link_calls SET state = ?2, call = '' WHERE id = ?1 AND state = 'waiting'",
        )?
        .execute(params![request_id, state])?;
    Ok(ended > 0)
}

const KEPT: &str = "SELECT id, machine, deadline, what, state, scope";

fn by_name(conn: &Connection, name: &[u8; 32]) -> Result<Option<KeptCall>, StoreError> {
    // A reply may be large, and is read by who is told of it.
    Ok(conn
        .prepare_cached(&format!("{KEPT}, NULL FROM link_calls WHERE name = ?1"))?
        .query_row([name], kept)
        .optional()?)
}

fn kept(row: &rusqlite::Row<'_>) -> rusqlite::Result<KeptCall> {
    let (state, scope): (String, Option<String>) = (row.get(4)?, row.get(5)?);
    Ok(KeptCall {
        request_id: row.get(0)?,
        machine: row.get(1)?,
        deadline: time(row.get(2)?),
        what: row.get(3)?,
        scope: scope.as_deref().and_then(Scope::parse),
        state: match state.as_str() {
            "waiting" => KeptState::Waiting,
            "settled" => KeptState::Settled(row.get(6)?),
            _ => KeptState::Failed,
        },
    })
}

/// Refuses another name while one is kept that so many calls came after.
fn refuse_too_many(tx: &Transaction<'_>, machine: &str, event: i64) -> Result<(), StoreError> {
    let is_full = tx
        .prepare_cached(
            "SELECT 1 FROM link_calls
             WHERE machine = ?1 AND event <= ?2 AND name IS NOT NULL LIMIT 1",
        )?
        .exists(params![machine, event - MAX_NAMED])?;
    if is_full {
        return Err(StoreError::new(
            Trouble::Full,
            "Too many calls with a name were made of the machine in ten minutes. Nothing was sent.",
        )
        .hint("Call it without a name, or in a few minutes."));
    }
    Ok(())
}

/// Lets go of the oldest replies of a machine until the rest fits; `newest` stays.
fn make_room(tx: &Transaction<'_>, machine: &str, newest: &str) -> Result<(), StoreError> {
    let mut held: i64 = tx
        .prepare_cached("SELECT kept_bytes FROM machines WHERE id = ?1")?
        .query_row([machine], |row| row.get(0))?;
    while held > MAX_REPLIES {
        let oldest: Option<(String, i64)> = tx
            .prepare_cached(
                "SELECT id, reply_bytes FROM link_calls
                 WHERE machine = ?1 AND reply_bytes > 0 AND id <> ?2 ORDER BY event LIMIT 1",
            )?
            .query_row(params![machine, newest], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((id, bytes)) = oldest else {
            break;
        };
        tx.prepare_cached("UPDATE link_calls SET reply = NULL, reply_bytes = 0 WHERE id = ?1")?
            .execute([id])?;
        held -= bytes;
    }
    Ok(())
}

fn next_event(tx: &Transaction<'_>, machine: &str) -> Result<i64, StoreError> {
    let event = tx
        .prepare_cached(
            "UPDATE machines SET last_event = last_event + 1 WHERE id = ?1 RETURNING last_event",
        )?
        .query_row([machine], |row| row.get(0));
    match event {
        Ok(event) => Ok(event),
        Err(rusqlite::Error::QueryReturnedNoRows) => Err(StoreError::new(
            Trouble::Missing,
            "The machine was removed. Nothing was sent to it.",
        )),
        Err(error) => Err(error.into()),
    }
}
