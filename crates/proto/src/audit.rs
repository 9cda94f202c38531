//! One line of the audit.
//!
//! [`Event`] is what the gate hands to a ledger; it borrows, because it is
//! built on the hot path. The ledger adds what makes it a link of the chain.

use serde::{Deserialize, Serialize};

use crate::{Digest, ErrorKind, Facts, QuestionId, Reason, RequestId, Subject, Trace};

/// Which line of a deed it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before a mutation acts.
    Opening,
    /// A mutation has made what it will put in place, and not put it there yet.
    Staged,
    /// The one line every attempt ends in.
    Closing,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has begun (opening lines only).
    Begun,
    /// Done.
    Success,
    /// Somebody or some rule said no.
    Denied,
    /// It could not be done.
    Failed,
    /// It waits for an answer that another call will bring.
    Parked,
    /// Dropped unsettled: cancelled, or a panic. On a mutation that had begun,
    /// what came of it is unknown.
    Abandoned,
}

impl Outcome {
    /// The outcome as the audit spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Success => "success",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Parked => "parked",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What a deed came to, in numbers. All zero where they do not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Entries returned.
    #[serde(skip_serializing_if = "is_zero")]
    pub entries: u64,
    /// Entries left out because a rule denies them.
    #[serde(skip_serializing_if = "is_zero")]
    pub denied: u64,
    /// Entries left out because they are secret, or would have to be asked about.
    #[serde(skip_serializing_if = "is_zero")]
    pub secret: u64,
    /// Entries left out because an ignore file names them.
    #[serde(skip_serializing_if = "is_zero")]
    pub ignored: u64,
    /// Directories and files dropped because they were moved while they were read.
    #[serde(skip_serializing_if = "is_zero")]
    pub moved: u64,
    /// Files and directories that could not be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread: u64,
    /// Files whose content was searched.
    #[serde(skip_serializing_if = "is_zero")]
    pub searched: u64,
    /// Files that were searched no further because they are binary.
    #[serde(skip_serializing_if = "is_zero")]
    pub binary: u64,
}

impl Counts {
    /// These and others together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            denied: self.denied + other.denied,
            secret: self.secret + other.secret,
            ignored: self.ignored + other.ignored,
            moved: self.moved + other.moved,
            unread: self.unread + other.unread,
            searched: self.searched + other.searched,
            binary: self.binary + other.binary,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What a mutation makes beside its target, so that whoever comes after a crash
/// can tell it from everybody else's. Told twice: before it is made, and when
/// its inode is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// Device and inode of the root it happens in.
    pub root: (u64, u64),
    /// Its own device and inode, once it is made.
    pub made: Option<(u64, u64)>,
}

/// What the gate tells a ledger.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// Which line of the deed.
    pub phase: Phase,
    /// Milliseconds since 1970, from the gate's clock.
    pub at: u64,
    /// The attempt.
    pub request_id: &'a RequestId,
    /// Through which surface.
    pub route: &'a str,
    /// What the client called its request; two may have the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called: Option<&'a str>,
    /// The request it was part of, where that is traced. For who watches lines
    /// being written: no line holds it.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// Who.
    pub subject: &'a Subject,
    /// What, and to what. Taken once: what was judged is what is recorded.
    pub facts: &'a Facts,
    /// What the caller wrote, where it never became a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alleged: Option<&'a str>,
    /// How it ended.
    pub outcome: Outcome,
    /// Which rule, mode, class or person decided.
    pub policy_source: &'a str,
    /// The hooks that were asked, in order.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub wrapper_ids: &'a [String],
    /// The kind of failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// The finer reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The question it was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<&'a QuestionId>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<&'a str>,
    /// Bytes returned or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Content hash, where one was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<Digest>,
    /// What a bulk deed came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// What was staged (staged lines only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// From attempt to line, in microseconds.
    pub duration_us: u64,
}
