//! The keys of daemons: a pairing token that counts once, and the session key
//! it becomes.
//!
//! What is used, revoked or removed is gone, so a key that was good once is
//! looked up like one that never was: one digest, one look, one compare.

use rusqlite::{OptionalExtension, Transaction, params};
use subtle::ConstantTimeEq as _;

use super::{calls, machines};
use crate::accounts::{Revealed, digest_of, random_text, user_number};
use crate::db::Lasting;
use crate::error::StoreError;
use crate::store::{Store, ms};

/// What a pairing token begins with.
const PAIRING: &str = "gw_";
/// What a session key begins with.
const SESSION: &str = "sess_";
/// How long a pairing token can be used: no secret stands in an argument for longer.
const PAIRING_MS: u64 = 5 * 60 * 1000;
/// How many pairing tokens of one user can wait; the oldest goes.
const MAX_PAIRINGS: i64 = 8;
/// The longest key that is looked at, in bytes.
const MAX_KEY: usize = 256;
/// Compared with where there is no such key. No text is known that has it.
const NOBODY: [u8; 32] = [0; 32];

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKeyKind {
    /// It lets a daemon in once, and becomes a session key.
    Pairing,
    /// It is one machine's, until somebody ends it.
    Session,
    /// It is the server's own, for machines of one person; not in the store.
    Fixed,
}

/// Whose a key is. Proves that it was presented whole and held at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkKey {
    /// The person it was made for.
    pub user: String,
    /// The machine it is; nothing for a pairing token.
    pub machine: Option<String>,
    /// What it is for.
    pub kind: LinkKeyKind,
}

/// A pairing token that was made now.
#[derive(Clone, Debug)]
pub struct Pairing {
    /// The whole token, shown once.
    pub token: Revealed,
    /// From when on it is refused.
    pub expires_at: u64,
}

impl Store {
    /// Makes a pairing token of `user`, which counts once and for 5 minutes.
    pub fn create_pairing(&self, user: &str, now_ms: u64) -> Result<Pairing, StoreError> {
        let token = format!("{PAIRING}{}", random_text()?);
        let expires_at = now_ms.saturating_add(PAIRING_MS);
        self.write(Lasting::Disk, |tx| {
            let uid = user_number(tx, user)?;
            tx.execute("DELETE FROM link_keys WHERE expires_at <= ?1", [ms(now_ms)])?;
            insert(tx, &token, uid, None, Some(expires_at))?;
            tx.execute(
                "DELETE FROM link_keys WHERE uid = ?1 AND machine IS NULL AND seq NOT IN
                 (SELECT seq FROM link_keys WHERE uid = ?1 AND machine IS NULL
                  ORDER BY seq DESC LIMIT ?2)",
                [uid, MAX_PAIRINGS],
            )?;
            Ok(())
        })?;
        Ok(Pairing {
            token: Revealed::new(token),
            expires_at,
        })
    }

    /// Whose `presented` is, if anybody's, now. Nothing is used up by it.
    pub fn link_key(&self, presented: &str, now_ms: u64) -> Result<Option<LinkKey>, StoreError> {
        let digest = digest_of(presented);
        self.read(|conn| {
            let found: Option<([u8; 32], String, Option<String>)> = conn
                .prepare_cached(
                    "SELECT digest, name, machine FROM link_keys JOIN users USING (uid)
                     WHERE digest = ?1 AND (expires_at IS NULL OR expires_at > ?2)",
                )?
                .query_row(params![digest, ms(now_ms)], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()?;
            let kept = found.as_ref().map_or(&NOBODY, |(kept, ..)| kept);
            let proved = bool::from(digest.ct_eq(kept)) && presented.len() <= MAX_KEY;
            Ok(found.filter(|_| proved).map(|(_, user, machine)| LinkKey {
                kind: if machine.is_some() {
                    LinkKeyKind::Session
                } else {
                    LinkKeyKind::Pairing
                },
                user,
                machine,
            }))
        })
    }

    /// Ends the session of a machine: its key counts no more. Whether there was one.
    /// With `held`, only the session of who has that key: the machine may have been
    /// paired anew a moment ago, and is another daemon's then.
    pub fn end_link_session(&self, machine: &str, held: Option<&str>) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            if let Some(held) = held {
                let digest = digest_of(held);
                let is_its_own = tx
                    .prepare_cached("SELECT 1 FROM link_keys WHERE digest = ?1 AND machine = ?2")?
                    .exists(params![digest, machine])?;
                if !is_its_own {
                    return Ok(false);
                }
            }
            calls::fail_all(tx, machine)?;
            machines::forget_linked(tx, machine)?;
            let gone = tx.execute("DELETE FROM link_keys WHERE machine = ?1", [machine])?;
            Ok(gone > 0)
        })
    }

    /// Ends the link of a machine that has no key of its own; whether it is one.
    pub fn end_unpaired_link(&self, machine: &str) -> Result<bool, StoreError> {
        self.write(Lasting::System, |tx| {
            if machines::is_paired(tx, machine)? {
                return Ok(false);
            }
            calls::fail_all(tx, machine)?;
            machines::forget_linked(tx, machine)?;
            Ok(true)
        })
    }
}

/// Uses up the pairing token `presented`: whose it was, for exactly one caller.
pub(super) fn take_pairing(
    tx: &Transaction<'_>,
    presented: &str,
    now_ms: u64,
) -> Result<Option<i64>, StoreError> {
    let taken: Option<(i64, Option<i64>)> = tx
        .prepare_cached(
            "DELETE FROM link_keys WHERE digest = ?1 AND machine IS NULL
             RETURNING uid, expires_at",
        )?
        .query_row(params![digest_of(presented)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let live = taken.filter(|(_, end)| end.is_some_and(|end| end > ms(now_ms)));
    Ok(live.map(|(uid, _)| uid))
}

/// Gives a machine its one session key; those it had before count no more.
pub(super) fn give_session(
    tx: &Transaction<'_>,
    uid: i64,
    machine: &str,
) -> Result<Revealed, StoreError> {
    let key = format!("{SESSION}{}", random_text()?);
    tx.execute("DELETE FROM link_keys WHERE machine = ?1", [machine])?;
    insert(tx, &key, uid, Some(machine), None)?;
    Ok(Revealed::new(key))
}

fn insert(
    tx: &Transaction<'_>,
    key: &str,
    uid: i64,
    machine: Option<&str>,
    expires_at: Option<u64>,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO link_keys (digest, uid, machine, expires_at) VALUES (?1, ?2, ?3, ?4)",
        params![digest_of(key), uid, machine, expires_at.map(ms)],
    )?;
    Ok(())
}
