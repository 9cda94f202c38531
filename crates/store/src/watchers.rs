//! Who is there to answer: terminals that run `portcullis approve --watch`.

use rusqlite::params;

use crate::db::Lasting;
use crate::error::StoreError;
use crate::store::{Store, ms};

/// A watcher not heard of for so long is gone.
const ALIVE_MS: u64 = 5_000;

impl Store {
    /// Says that the watcher `id` is there. To be repeated every second or two.
    pub fn watcher_heartbeat(&self, id: &str, now_ms: u64) -> Result<(), StoreError> {
        // Lost in a power cut, it is lost with the watcher.
        self.write(Lasting::System, |tx| {
            tx.prepare_cached(
                "INSERT INTO watchers (id, seen_at) VALUES (?1, ?2)
                 ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            )?
            .execute(params![id, ms(now_ms)])?;
            tx.prepare_cached("DELETE FROM watchers WHERE seen_at <= ?1 OR seen_at > ?2")?
                .execute(window(now_ms))?;
            Ok(())
        })
    }

    /// Says that the watcher `id` has gone.
    pub fn watcher_gone(&self, id: &str) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| {
            tx.execute("DELETE FROM watchers WHERE id = ?1", [id])?;
            Ok(())
        })
    }

    /// Whether a watcher was heard of within the last five seconds.
    pub fn has_watcher(&self, now_ms: u64) -> Result<bool, StoreError> {
        self.read(|conn| {
            Ok(conn
                .prepare_cached("SELECT 1 FROM watchers WHERE seen_at > ?1 AND seen_at <= ?2")?
                .exists(window(now_ms))?)
        })
    }
}

/// After, and up to, which a heartbeat counts. One from the future is a clock
/// that was set back, and must not be believed for hours.
fn window(now_ms: u64) -> [i64; 2] {
    [
        ms(now_ms.saturating_sub(ALIVE_MS)),
        ms(now_ms.saturating_add(ALIVE_MS)),
    ]
}
