//! A line as read back, and which lines somebody wants to see.
//!
//! Words are kept as text: a reader must be able to show every line ever
//! written, also by a version that knows more words.

use portcullis_proto::{Outcome, Verb};
use serde::{Deserialize, Serialize};

use super::event;
use super::json;

/// What kind of line it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// Something was attempted.
    #[default]
    Event,
    /// A chain begins.
    Start,
    /// A further file of the chain begins.
    Segment,
    /// The chain is signed up to here.
    Head,
    /// The line before was left torn by a dying process.
    Recovered,
    /// A kind this version does not know.
    #[serde(other)]
    Unknown,
}

/// Who acted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordSubject {
    /// What kind of principal.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which.
    pub id: String,
    /// Whose token or extension it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// In which conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// In which run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

impl RecordSubject {
    /// As [`Subject::label`](portcullis_proto::Subject::label) spells it.
    pub fn label(&self) -> String {
        match &self.user {
            Some(user) => format!("{}:{user}/{}", self.kind, self.id),
            None => format!("{}:{}", self.kind, self.id),
        }
    }
}

/// A root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordRoot {
    /// What it is for.
    pub kind: String,
    /// Its name.
    pub id: String,
}

/// Which very thing it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordIdentity {
    /// Its device.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
}

/// One of several things a deed touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordResource {
    /// In which root.
    pub root: String,
    /// Where in it.
    pub path: String,
    /// What was done to it.
    pub access: String,
    /// Its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dev: Option<u64>,
    /// Its inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ino: Option<u64>,
}

/// All things a deed touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordResources {
    /// How many there were.
    pub count: u64,
    /// SHA-256 over root, path and access of each, every part ended by a NUL.
    pub digest: String,
    /// The first of them.
    pub first: Vec<RecordResource>,
}

/// What a bulk deed came to.
pub type RecordCounts = portcullis_proto::Counts;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Its number in the chain.
    pub n: u64,
    /// The hash of the line before.
    pub prev: String,
    /// What kind of line it is.
    pub line: LineKind,
    /// Its chain.
    pub chain: String,
    /// When, RFC 3339 in UTC.
    pub timestamp: String,
    /// `opening`, `staged` or `closing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Through which surface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// What the client called its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
    /// Who.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<RecordSubject>,
    /// What was to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The access it needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// In which root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<RecordRoot>,
    /// Where in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_path: Option<String>,
    /// Which very thing stood there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<RecordIdentity>,
    /// Where it was moved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_path: Option<String>,
    /// In which root, if in another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_root: Option<RecordRoot>,
    /// What stood where it led.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_identity: Option<RecordIdentity>,
    /// Which directory the root was (staged lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_root: Option<RecordIdentity>,
    /// What was made beside the target (staged lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<RecordIdentity>,
    /// All it touched, where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<RecordResources>,
    /// Digest of what a person was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// What the caller wrote, where it never became a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alleged: Option<String>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Which rule, mode, class or person decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_source: Option<String>,
    /// The hooks that were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrapper_ids: Vec<String>,
    /// The kind of failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The finer reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The question it was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Bytes returned or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Content hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What a bulk deed came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<RecordCounts>,
    /// From attempt to line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// Whether something had to be left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clipped: bool,
    /// The writer's version (start lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The writer's process (start lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// Whether the chain was closed in order (head lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
    /// How long the torn line is (recovered lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

/// Which lines to show. What is `None` does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Not before, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Before, in milliseconds since 1970.
    pub until: Option<u64>,
    /// A principal (`ada` or `user:ada`), a conversation or a run.
    pub subject: Option<String>,
    /// The name of a root.
    pub root: Option<String>,
    /// A path, and all that is below it.
    pub path: Option<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What was to be done.
    pub operation: Option<Verb>,
    /// Also lines that are not events: starts, heads, segments, recoveries.
    pub service_lines: bool,
}

impl Filter {
    /// Whether `record` is wanted.
    pub fn admits(&self, record: &Record) -> bool {
        let when = |ms| {
            let mut text = Vec::with_capacity(24);
            json::timestamp(&mut text, ms);
            text
        };
        let at = record.timestamp.as_bytes();
        (self.service_lines || record.line == LineKind::Event)
            && self.since.is_none_or(|since| *at >= *when(since))
            && self.until.is_none_or(|until| *at < *when(until))
            && self.subject.as_deref().is_none_or(|want| {
                let subject = record.subject.as_ref();
                subject.is_some_and(|subject| is_subject(subject, want))
            })
            && self.root.as_deref().is_none_or(|want| {
                let roots = [&record.root, &record.destination_root];
                roots.into_iter().flatten().any(|root| root.id == want)
            })
            && self.path.as_deref().is_none_or(|want| {
                let paths = [&record.relative_path, &record.destination_path];
                paths.into_iter().flatten().any(|path| is_under(path, want))
            })
            && self
                .outcome
                .is_none_or(|want| record.outcome.as_deref() == Some(event::outcome(want)))
            && self
                .operation
                .is_none_or(|want| record.operation.as_deref() == Some(want.as_str()))
    }
}

fn is_subject(subject: &RecordSubject, want: &str) -> bool {
    let ids = [&subject.user, &subject.conversation_id, &subject.run_id];
    subject.id == want
        || ids.into_iter().flatten().any(|id| id == want)
        || want
            .split_once(':')
            .is_some_and(|(kind, id)| subject.kind == kind && subject.id == id)
}

fn is_under(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    matches!(above, "" | ".")
        || path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
