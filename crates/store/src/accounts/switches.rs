//! What a person switches off for a while: their files, for every credential
//! that is theirs or acts on their behalf. Nothing is revoked by it.

use std::collections::HashSet;

use portcullis_proto::{Scope, ScopeSet};
use rusqlite::{Connection, params};

use super::users::require;
use crate::db::Lasting;
use crate::error::StoreError;
use crate::store::Store;

/// Whether something is switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// It is there.
    #[default]
    On,
    /// It is as if it were not there.
    Off,
}

impl Switch {
    /// `on` or `off`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// The scopes that files are used by.
const OF_FILES: ScopeSet = ScopeSet::of(&[Scope::FsRead, Scope::FsWrite]);

impl Store {
    /// Switches a user's files `to`; which way they are now. Every process sees it
    /// with its next look at [`Store::version`](crate::Store::version).
    pub fn switch_files(&self, user: &str, to: Switch) -> Result<Switch, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let uid = require(tx, user)?;
            tx.execute(
                "INSERT INTO switches (uid, files) VALUES (?1, ?2)
                 ON CONFLICT (uid) DO UPDATE SET files = excluded.files",
                params![uid, to.as_str()],
            )?;
            Ok(to)
        })
    }

    /// The users whose files are off.
    pub fn users_without_files(&self) -> Result<HashSet<String>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT name FROM users JOIN switches USING (uid) WHERE files = 'off'",
            )?;
            let names = statement.query_map([], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
    }
}

/// The numbers of the users whose files are off.
pub(super) fn off(conn: &Connection) -> Result<HashSet<i64>, StoreError> {
    let mut statement = conn.prepare_cached("SELECT uid FROM switches WHERE files = 'off'")?;
    let uids = statement.query_map([], |row| row.get(0))?;
    Ok(uids.collect::<Result<_, _>>()?)
}

/// What is left of `scopes` while files are off.
pub(super) fn without_files(scopes: ScopeSet) -> ScopeSet {
    let rest: Vec<Scope> = scopes.iter().filter(|one| !OF_FILES.has(*one)).collect();
    ScopeSet::of(&rest)
}
