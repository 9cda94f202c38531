//! Calls that are under way to linked machines, kept so that a server that
//! starts again knows what it sent.
//!
//! A call is written before it is sent, under the number of its event, which
//! rises by one per machine and is never given twice.

use rusqlite::{Transaction, params};

use crate::accounts::time;
use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// How long an ended call is kept.
const KEEP_MS: u64 = 10 * 60 * 1000;
/// How many ended calls of one machine are kept; the oldest go.
const MAX_ENDED: i64 = 256;
/// The longest reply that is kept, in bytes.
const MAX_REPLY: usize = 16 * 1024 * 1024;

/// A call that has no result yet, and whose time is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// Which.
    pub request_id: String,
    /// The number of its event.
    pub event: u64,
    /// What was sent, as JSON.
    pub call: String,
    /// When it fails.
    pub deadline: u64,
}

impl Store {
    /// Keeps a call that is about to be sent to `machine`; the number of its event.
    pub fn begin_link_call(
        &self,
        machine: &str,
        request_id: &str,
        call: &str,
        deadline: u64,
        now_ms: u64,
    ) -> Result<u64, StoreError> {
        // The operating system's hands are enough: after a power cut nobody waits.
        self.write(Lasting::System, |tx| {
            let event = next_event(tx, machine)?;
            tx.prepare_cached(
                "INSERT INTO link_calls (id, machine, event, call, deadline, state, made_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6)",
            )?
            .execute(params![
                request_id,
                machine,
                event,
                call,
                ms(deadline),
                ms(now_ms)
            ])?;
            tx.prepare_cached(
                "DELETE FROM link_calls WHERE machine = ?1 AND event <= ?2 AND state <> 'waiting'",
            )?
            .execute(params![machine, event - MAX_ENDED])?;
            Ok(time(event))
        })
    }

    /// Ends a call with its reply, where nobody was there to take it; whether it waited.
    pub fn settle_link_call(
        &self,
        request_id: &str,
        reply: Option<&str>,
    ) -> Result<bool, StoreError> {
        let reply = reply.filter(|reply| reply.len() <= MAX_REPLY);
        self.end_call(request_id, "settled", reply)
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

    /// Ends a call of `machine` whose time is not over with its reply, where
    /// nobody was there to take it; whether there was one.
    pub fn settle_kept_link_call(
        &self,
        machine: &str,
        request_id: &str,
        reply: &str,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        if !self.link_call_waits(machine, request_id, now_ms)? {
            return Ok(false);
        }
        self.settle_link_call(request_id, Some(reply))
    }

    /// Ends a call without one; whether it waited.
    pub fn fail_link_call(&self, request_id: &str) -> Result<bool, StoreError> {
        self.end_call(request_id, "failed", None)
    }

    fn end_call(
        &self,
        request_id: &str,
        state: &str,
        reply: Option<&str>,
    ) -> Result<bool, StoreError> {
        self.write(Lasting::System, |tx| {
            // What was asked may hold what somebody wrote: it is let go with the call.
            let ended = tx
                .prepare_cached(
                    "UPDATE link_calls SET state = ?2, reply = ?3, call = ''
                     WHERE id = ?1 AND state = 'waiting'",
                )?
                .execute(params![request_id, state, reply])?;
            Ok(ended > 0)
        })
    }

    /// The calls of `machine` that wait for a result, the oldest first.
    pub fn waiting_link_calls(
        &self,
        machine: &str,
        now_ms: u64,
    ) -> Result<Vec<WaitingCall>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT id, event, call, deadline FROM link_calls
                 WHERE machine = ?1 AND state = 'waiting' AND deadline > ?2 ORDER BY event",
            )?;
            let rows = statement.query_map(params![machine, ms(now_ms)], |row| {
                Ok(WaitingCall {
                    request_id: row.get(0)?,
                    event: time(row.get(1)?),
                    call: row.get(2)?,
                    deadline: time(row.get(3)?),
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Forgets calls that ended a while ago, and those whose time is over.
    pub fn prune_link_calls(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.write(Lasting::System, |tx| {
            let old = ms(now_ms.saturating_sub(KEEP_MS));
            let gone = tx.execute(
                "DELETE FROM link_calls WHERE (made_at <= ?1 AND state <> 'waiting')
                 OR deadline <= ?1",
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
