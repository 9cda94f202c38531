//! The room on its disk that the audit keeps for itself.
//!
//! Roots, the storage of extensions and what is kept for undo often lie on the
//! same disk. Who fills it must not end the record: a change is refused while
//! there is room left to say so, and to go on reading and removing.

use std::os::fd::AsFd;

use portcullis_gate::LedgerDown;
use portcullis_proto::{Event, Phase, Verb};

use super::log::AuditLog;

/// How much is kept free for lines.
const RESERVE: u64 = 32 << 20;
/// On a small disk, one part in so many of it.
const SHARE: u64 = 16;

/// Whether something may begin that takes room from the audit in `dir`.
pub(super) fn has_room_for(event: &Event<'_>, dir: impl AsFd) -> Result<(), LedgerDown> {
    let verb = event.facts.verb;
    // What was begun is told to its end. Who removes makes room, and a credential
    // must be revocable on a full disk too.
    if event.phase != Phase::Opening || !verb.mutates() || verb == Verb::Remove {
        return Ok(());
    }
    match lacking(dir) {
        None => Ok(()),
        Some(reserve) => Err(LedgerDown(format!(
            "less than {} KiB are left on its disk, which it keeps for itself",
            reserve / 1024
        ))),
    }
}

/// The bytes that should be left on the disk of `dir`, where they are not.
fn lacking(dir: impl AsFd) -> Option<u64> {
    // Where it cannot be told, the write will say.
    let disk = rustix::fs::fstatvfs(dir).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let reserve = RESERVE.min(bytes(disk.f_blocks) / SHARE);
    (bytes(disk.f_bavail) < reserve).then_some(reserve)
}

impl AuditLog {
    /// The bytes that should be left on the disk of the audit for changes to be
    /// allowed, where they are not.
    pub fn lacks_room(&self) -> Option<u64> {
        lacking(self.audit().fd())
    }
}
