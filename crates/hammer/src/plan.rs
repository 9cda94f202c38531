//! What to race, how long and how hard.
//!
//! Invariant: a plan does nothing by itself; every limit a run obeys is a field here.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::Attack;

/// What the caller wants to be true at the end; it decides [`Report::passed`](crate::Report::passed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// The server must hold. For servers under test.
    NoEscapes,
    /// The server must leak. For proving, on a server known to leak, that the hammer bites.
    Escapes,
}

/// Where the scratch tree is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScratchPlace {
    /// In shared memory where that exists (swaps are fastest there), else in this directory.
    SharedMemoryElse(PathBuf),
    /// In this directory and nowhere else.
    Exactly(PathBuf),
}

/// One run of the hammer.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server's command line; `{root}` in any argument becomes the scratch root's path.
    pub target: Vec<String>,
    /// How many requests to make in total, shared evenly among the attacks.
    pub ops: u64,
    /// The longest the whole run may take.
    pub time_limit: Duration,
    /// Which attacks to run. Duplicates are run once.
    pub attacks: Vec<Attack>,
    /// How many requests are in flight at once; 0 is taken as 1.
    pub depth: usize,
    /// Seeds the attackers' dwell times. The marks are always fresh.
    pub seed: u64,
    /// Where the scratch tree is made.
    pub scratch: ScratchPlace,
    /// A reply that takes longer than this is a hang, and a finding.
    pub reply_timeout: Duration,
    /// A reply longer than this is a finding.
    pub max_reply_bytes: usize,
    /// What the caller wants to be true at the end.
    pub expectation: Expectation,
}

impl Plan {
    /// A plan with every attack and the usual limits: a million operations in at most ten minutes.
    pub fn against(target: Vec<String>, fallback_scratch: PathBuf) -> Self {
        Self {
            target,
            ops: 1_000_000,
            time_limit: Duration::from_mins(10),
            attacks: Attack::ALL.to_vec(),
            depth: 32,
            seed: 1,
            scratch: ScratchPlace::SharedMemoryElse(fallback_scratch),
            reply_timeout: Duration::from_secs(20),
            // Far above any honest reply: the largest file in the tree is never asked to be read.
            max_reply_bytes: 4 * 1024 * 1024,
            expectation: Expectation::NoEscapes,
        }
    }
}
