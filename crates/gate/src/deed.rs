//! What a hand brings to the gate, and what comes of it.

use portcullis_proto::{Counts, Digest, Facts};

/// A fully resolved thing about to be done. The hand that built it keeps its
/// fields private; the gate, hooks and prompts see its [`Facts`] only.
pub trait Deed: Send {
    /// Held only by the hand that makes such deeds: without it a permit can be
    /// dropped, never spent.
    type Key;

    /// What it looks like from outside. Asked once, and judged, shown and
    /// recorded as it was then.
    fn facts(&self) -> Facts;
}

/// What a deed came to, for its closing line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Bytes returned or written.
    pub bytes: Option<u64>,
    /// Content hash, where one was computed.
    pub hash: Option<Digest>,
    /// What a bulk deed came to.
    pub counts: Option<Counts>,
}

impl Settled {
    /// So many bytes.
    pub fn bytes(bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..Self::default()
        }
    }

    /// So many entries.
    pub fn counts(counts: Counts) -> Self {
        Self {
            counts: Some(counts),
            ..Self::default()
        }
    }
}
