//! Which machine a conversation stays with.

use rusqlite::params;

use crate::accounts::time;
use crate::db::Lasting;
use crate::error::StoreError;
use crate::store::{Store, ms};

/// A conversation and the machine of its first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Which conversation.
    pub key: String,
    /// Whose.
    pub owner: String,
    /// The machine; none for the one the server runs on.
    pub machine: Option<String>,
    /// What the machine is called.
    pub name: String,
    /// When its last call was noted, in milliseconds since 1970.
    pub seen_at: u64,
}

impl Store {
    /// Every binding there is.
    pub fn bindings(&self) -> Result<Vec<Binding>, StoreError> {
        self.read(|conn| {
            let mut found =
                conn.prepare("SELECT key, owner, machine, name, seen_at FROM bindings")?;
            let found = found.query_map([], |row| {
                Ok(Binding {
                    key: row.get(0)?,
                    owner: row.get(1)?,
                    machine: row.get(2)?,
                    name: row.get(3)?,
                    seen_at: time(row.get(4)?),
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Keeps a binding, and forgets those of `forgotten`. One that was noted later
    /// stays: two may be written in another order than they were made.
    pub fn keep_binding(&self, kept: &Binding, forgotten: &[String]) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| {
            tx.prepare_cached(
                "INSERT INTO bindings (key, owner, machine, name, seen_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (key) DO UPDATE SET
                   machine = excluded.machine, name = excluded.name, seen_at = excluded.seen_at
                 WHERE excluded.seen_at >= seen_at",
            )?
            .execute(params![
                kept.key,
                kept.owner,
                kept.machine,
                kept.name,
                ms(kept.seen_at)
            ])?;
            for key in forgotten {
                tx.prepare_cached("DELETE FROM bindings WHERE key = ?1")?
                    .execute([key])?;
            }
            Ok(())
        })
    }

    /// Forgets bindings.
    pub fn forget_bindings(&self, keys: &[String]) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| {
            for key in keys {
                tx.prepare_cached("DELETE FROM bindings WHERE key = ?1")?
                    .execute([key])?;
            }
            Ok(())
        })
    }
}
