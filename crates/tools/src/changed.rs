//! What tools that change files have in common: the cap on what is sent, what
//! is expected to be there, and the receipt they reply with.

use std::fmt::Write as _;

use portcullis_files::text::Diff;
use portcullis_files::{Authority, Cas, Changed, Expect, Label, Receipt, UndoPlace};
use portcullis_gate::Caller;
use portcullis_proto::{Digest, Failure, Reason, Verb};
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::LIMITS;
use crate::shown::containment;

/// A receipt, as every tool that changes something replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ChangeReply")]
pub struct Reply {
    /// Path from the root, where it stands now.
    path: String,
    /// Where it stood, for a move, or what it was copied from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Changes when the file does; pass it as expectedVersion to a later change.
    version: String,
    /// SHA-256 of the content, where content was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Bytes it has now, where the caller may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Whether it was not there before.
    created: bool,
    /// kernel_atomic or best_effort.
    containment: String,
    /// exact, or cooperative where only writers that lock are kept apart.
    cas: &'static str,
    /// What else to know, such as link_broken, in_place, not_kept or rebased (somebody changed it since it was last read; read it before writing all of it).
    labels: Vec<String>,
    /// What a person names to have it undone: portcullis undo apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    /// Where what it displaced is kept: data_directory, mount_top, in_root or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<&'static str>,
    /// What changed, where there is something to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<ShownDiff>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownDiff {
    /// A unified diff.
    text: String,
    /// How many lines came.
    added: u64,
    /// How many lines went.
    removed: u64,
    /// Whether something of the difference is not in the text.
    truncated: bool,
}

impl ShownDiff {
    /// Adds it to a reply's text.
    pub(crate) fn tell(&self, text: &mut String) {
        if self.text.is_empty() {
            return;
        }
        text.push('\n');
        text.push_str(&self.text);
    }
}

impl From<Diff> for ShownDiff {
    fn from(diff: Diff) -> Self {
        Self {
            text: diff.text,
            added: diff.added,
            removed: diff.removed,
            truncated: diff.truncated,
        }
    }
}

impl Reply {
    pub(crate) fn of(receipt: Receipt) -> Self {
        Self {
            path: receipt.path.shown().to_owned(),
            from: None,
            version: receipt.version,
            sha256: receipt.hash.map(|hash| hash.hex()),
            bytes: receipt.bytes,
            created: receipt.created,
            containment: containment(receipt.containment),
            cas: match receipt.cas {
                Cas::Exact => "exact",
                Cas::Cooperative => "cooperative",
            },
            labels: labels(&receipt.labels),
            undo: receipt.undo,
            kept_in: receipt.kept_in.map(UndoPlace::as_str),
            diff: None,
        }
    }

    pub(crate) fn of_change(changed: Changed) -> Self {
        Self {
            diff: changed.diff.map(ShownDiff::from),
            ..Self::of(changed.receipt)
        }
    }

    /// Says where it comes from.
    pub(crate) fn from(mut self, path: &str) -> Self {
        self.from = Some(path.to_owned());
        self
    }

    pub(crate) const fn created(&self) -> bool {
        self.created
    }

    /// One plain line, what to know besides, and the diff. `did` is the word
    /// for what was done.
    pub(crate) fn text(&self, did: &str) -> String {
        let mut text = match &self.from {
            Some(from) => format!("{did} {from} to {}", self.path),
            None => format!("{did} {}", self.path),
        };
        if let Some(diff) = self
            .diff
            .as_ref()
            .filter(|diff| diff.added + diff.removed > 0)
        {
            let _ = write!(text, " (+{} -{} lines)", diff.added, diff.removed);
        }
        if let Some(bytes) = self.bytes.filter(|_| self.sha256.is_some()) {
            let _ = write!(text, ", {bytes} bytes");
        }
        text.push_str(&afterwards(&self.labels, self.undo.as_deref()));
        if let Some(diff) = &self.diff {
            diff.tell(&mut text);
        }
        text
    }
}

/// The label of a change made on somebody else's.
const REBASED: &str = "rebased";

/// The end of the plain line: labels and the name to undo it by.
pub(crate) fn afterwards(labels: &[String], undo: Option<&str>) -> String {
    let mut text = String::new();
    if !labels.is_empty() {
        let _ = write!(text, " [{}]", labels.join(", "));
    }
    if labels.iter().any(|label| label == REBASED) {
        text.push_str("; somebody changed the file since it was last read: read it again before you write all of it");
    }
    if let Some(undo) = undo {
        let _ = write!(text, "; undo: {undo}");
    }
    text
}

/// Labels, as the wire spells them.
pub(crate) fn labels(labels: &[Label]) -> Vec<String> {
    let word = |label: &Label| match label {
        Label::LinkBroken => "link_broken",
        Label::InPlace => "in_place",
        Label::OwnerNotPreserved => "owner_not_preserved",
        Label::XattrsNotPreserved => "xattrs_not_preserved",
        Label::SetidDropped => "setid_dropped",
        Label::NotKept => "not_kept",
        Label::CopiedForUndo => "copied_for_undo",
        Label::OpenWriter => "open_writer",
        Label::NotSynced => "not_synced",
        Label::Rebased => REBASED,
    };
    labels.iter().map(|label| word(label).to_owned()).collect()
}

/// Refuses what is larger than one call may bring, before anything is tried.
pub(crate) fn fits(
    authority: &Authority,
    caller: &Caller,
    verb: Verb,
    path: &str,
    bytes: usize,
) -> Result<(), Failure> {
    let most = LIMITS.write_bytes.max;
    if bytes <= most {
        return Ok(());
    }
    let why = Failure::new(
        Reason::TooLarge,
        format!("The call brings {bytes} bytes; {most} are the most."),
    )
    .hint("Write the beginning, then add the rest with append_file.");
    Err(authority.gate().refuse(caller, verb, path, why))
}

/// What the caller expects to find. Without a word from it: what it last saw.
pub(crate) fn expect(version: Option<String>, hash: Option<&str>) -> Result<Expect, Failure> {
    let bad = |what: &str| Err(Failure::new(Reason::BadArguments, what.to_owned()));
    match (version, hash) {
        (None, None) => Ok(Expect::LastSeen),
        (Some(version), None) => Ok(Expect::Version(version)),
        (None, Some(hash)) => match Digest::parse(hash.trim_start_matches("sha256:")) {
            Some(hash) => Ok(Expect::Hash(hash)),
            None => bad("expectedHash is a SHA-256: 64 hexadecimal digits."),
        },
        (Some(_), Some(_)) => bad("Give expectedVersion or expectedHash, not both."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_one_thing_and_well_formed() {
        let hex = "a".repeat(64);
        assert_eq!(expect(None, None).unwrap(), Expect::LastSeen);
        assert_eq!(
            expect(Some("v".into()), None).unwrap(),
            Expect::Version("v".into())
        );
        assert!(matches!(
            expect(None, Some(&format!("sha256:{hex}"))).unwrap(),
            Expect::Hash(_)
        ));
        assert!(expect(Some("v".into()), Some(&hex)).is_err());
        assert!(expect(None, Some("aa")).is_err());
    }
}
