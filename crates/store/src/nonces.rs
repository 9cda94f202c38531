//! What counts once: request states that were signed but must not be replayed.

use rusqlite::params;

use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// How many used nonces are remembered until they expire by themselves.
const MAX_NONCES: i64 = 100_000;
/// The longest nonce.
const MAX_NONCE: usize = 256;

impl Store {
    /// Uses `nonce`, which nobody accepts after `expires_at`. True for exactly
    /// one caller, in whichever process; false for everyone else and once it
    /// has expired. On an error it must count as used.
    pub fn use_once(&self, nonce: &str, expires_at: u64, now_ms: u64) -> Result<bool, StoreError> {
        if nonce.is_empty() || nonce.len() > MAX_NONCE {
            return Err(StoreError::invalid("A nonce has between 1 and 256 bytes."));
        }
        if expires_at <= now_ms {
            return Ok(false);
        }
        // On the disk: a power cut must not make it count again.
        self.write(Lasting::Disk, |tx| {
            tx.prepare_cached("DELETE FROM nonces WHERE expires_at <= ?1")?
                .execute([ms(now_ms)])?;
            let first = tx
                .prepare_cached("INSERT OR IGNORE INTO nonces (nonce, expires_at) VALUES (?1, ?2)")?
                .execute(params![nonce, ms(expires_at)])?
                > 0;
            // Counted by the index alone, and only for what is new.
            if first {
                let count: i64 =
                    tx.query_row("SELECT count(*) FROM nonces", [], |row| row.get(0))?;
                if count > MAX_NONCES {
                    return Err(StoreError::new(
                        Trouble::Full,
                        "Too many request states are in use at once.",
                    )
                    .hint("Wait until some expire."));
                }
            }
            Ok(first)
        })
    }
}
