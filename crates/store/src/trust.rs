//! Which directories a person trusts, by what they are and not by name alone.

use rusqlite::params;

use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::Store;

/// How many directories can be trusted.
const MAX_TRUSTED: i64 = 10_000;
/// The longest path, as the kernel has it.
const MAX_PATH: usize = 4096;

/// A directory somebody trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// Its canonical path.
    pub path: String,
    /// The device it was on.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// When, in seconds since 1970: for people, nothing rests on it.
    pub since: i64,
}

impl Store {
    /// Trusts the directory at the canonical `path`, which is `dev` and `ino`.
    /// What stood there before is trusted no longer.
    pub fn trust_add(&self, path: &str, dev: u64, ino: u64) -> Result<(), StoreError> {
        if path.len() > MAX_PATH {
            return Err(StoreError::invalid("The path is too long."));
        }
        self.write(Lasting::Disk, |tx| {
            let count: i64 = tx.query_row("SELECT count(*) FROM trust", [], |row| row.get(0))?;
            if count >= MAX_TRUSTED {
                return Err(StoreError::new(
                    Trouble::Full,
                    "There are 10,000 trusted directories, which is the most there may be.",
                )
                .hint("Remove some with `portcullis trust remove`."));
            }
            tx.execute(
                "INSERT INTO trust (path, dev, ino, trusted_at) VALUES (?1, ?2, ?3, unixepoch())
                 ON CONFLICT (path) DO UPDATE
                 SET dev = excluded.dev, ino = excluded.ino, trusted_at = excluded.trusted_at",
                // All 64 bits, as SQLite's signed integer holds them.
                params![path, dev.cast_signed(), ino.cast_signed()],
            )?;
            Ok(())
        })
    }

    /// Trusts `path` no longer; whether it was trusted.
    pub fn trust_remove(&self, path: &str) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            Ok(tx.execute("DELETE FROM trust WHERE path = ?1", [path])? > 0)
        })
    }

    /// Whether the directory at `path` is trusted: the same name *and* the same
    /// directory. Another one under the name is not.
    pub fn is_trusted(&self, path: &str, dev: u64, ino: u64) -> Result<bool, StoreError> {
        self.read(|conn| {
            Ok(conn
                .prepare_cached("SELECT 1 FROM trust WHERE path = ?1 AND dev = ?2 AND ino = ?3")?
                .exists(params![path, dev.cast_signed(), ino.cast_signed()])?)
        })
    }

    /// Every trusted directory, by path.
    pub fn trusted(&self) -> Result<Vec<Trusted>, StoreError> {
        self.read(|conn| {
            let mut statement =
                conn.prepare_cached("SELECT path, dev, ino, trusted_at FROM trust ORDER BY path")?;
            let rows = statement.query_map([], |row| {
                Ok(Trusted {
                    path: row.get(0)?,
                    dev: row.get::<_, i64>(1)?.cast_unsigned(),
                    ino: row.get::<_, i64>(2)?.cast_unsigned(),
                    since: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}
