//! Where audit lines go.

use std::fmt;

use portcullis_proto::Event;

/// Keeps the audit. A line is kept when `append` has returned `Ok`: it then
/// survives the death of this process.
pub trait Ledger: Send + Sync {
    /// Writes one line, by the calling thread, without waiting for a disk.
    fn append(&self, event: &Event<'_>) -> Result<(), LedgerDown>;
}

/// The ledger could not keep a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerDown(pub String);

impl fmt::Display for LedgerDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the audit could not be written: {}", self.0)
    }
}

impl std::error::Error for LedgerDown {}
