//! What can go wrong, as agents and people see it.
//!
//! The fourteen kinds are the wire's and never grow; [`Reason`] is finer. A
//! [`Failure`] carries two messages: the one that may be shown (no host path,
//! ever) and the cause, which goes to the log only.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Reason;

/// The closed set of error kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The path leads, or alleges to lead, out of every root.
    PathOutsideWorkspace,
    /// A symbolic link stands where a file or directory was expected.
    SymlinkEscape,
    /// Nothing is there.
    PathNotFound,
    /// The content is not text.
    BinaryFile,
    /// Over a stated size.
    FileTooLarge,
    /// What was expected there is not what is there.
    HashMismatch,
    /// Something is there already.
    FileAlreadyExists,
    /// The text to replace does not occur.
    TextNotFound,
    /// The text to replace occurs more than once.
    AmbiguousTextMatch,
    /// A change in a workspace nobody has trusted.
    UntrustedWorkspace,
    /// A rule, a person or the operating system said no.
    PermissionDenied,
    /// The machine could not do it.
    IoError,
    /// A defect of ours.
    InternalError,
    /// The request itself is malformed.
    ParseError,
}

impl ErrorKind {
    /// Every kind, in the order of the table in PROTOCOL.md.
    pub const ALL: [Self; 14] = [
        Self::PathOutsideWorkspace,
        Self::SymlinkEscape,
        Self::PathNotFound,
        Self::BinaryFile,
        Self::FileTooLarge,
        Self::HashMismatch,
        Self::FileAlreadyExists,
        Self::TextNotFound,
        Self::AmbiguousTextMatch,
        Self::UntrustedWorkspace,
        Self::PermissionDenied,
        Self::IoError,
        Self::InternalError,
        Self::ParseError,
    ];

    /// The kind as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PathOutsideWorkspace => "path_outside_workspace",
            Self::SymlinkEscape => "symlink_escape",
            Self::PathNotFound => "path_not_found",
            Self::BinaryFile => "binary_file",
            Self::FileTooLarge => "file_too_large",
            Self::HashMismatch => "hash_mismatch",
            Self::FileAlreadyExists => "file_already_exists",
            Self::TextNotFound => "text_not_found",
            Self::AmbiguousTextMatch => "ambiguous_text_match",
            Self::UntrustedWorkspace => "untrusted_workspace",
            Self::PermissionDenied => "permission_denied",
            Self::IoError => "io_error",
            Self::InternalError => "internal_error",
            Self::ParseError => "parse_error",
        }
    }

    /// The HTTP status the kind travels under.
    pub const fn status(self) -> u16 {
        match self {
            Self::PathOutsideWorkspace | Self::SymlinkEscape | Self::ParseError => 400,
            Self::UntrustedWorkspace | Self::PermissionDenied => 403,
            Self::PathNotFound => 404,
            Self::HashMismatch | Self::FileAlreadyExists => 409,
            Self::FileTooLarge => 413,
            Self::BinaryFile | Self::TextNotFound | Self::AmbiguousTextMatch => 422,
            Self::InternalError => 500,
            Self::IoError => 503,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a failure is a decision or an accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Somebody or some rule decided so; trying again changes nothing.
    Policy,
    /// The machine or the request fell short; trying again may help.
    Operational,
}

impl Category {
    /// The category as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Operational => "operational",
        }
    }
}

/// One failed deed: what to tell the agent, and what to tell the log.
///
/// `message` and `hint` may be shown to anyone and so never hold a host path;
/// `detail` is for the operator's log alone and is never serialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    reason: Reason,
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
    detail: Option<Box<str>>,
}

impl Failure {
    /// A failure for `reason`, saying what happened.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason,
            message: message.into(),
            hint: None,
            detail: None,
        }
    }

    /// Adds the exact next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause, for the log.
    #[must_use]
    pub fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string().into_boxed_str());
        self
    }

    /// The finer code.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The wire's kind, which the reason decides.
    pub const fn kind(&self) -> ErrorKind {
        self.reason.kind()
    }

    /// Decision or accident, which the reason decides.
    pub const fn category(&self) -> Category {
        self.reason.category()
    }

    /// What happened, fit to be shown.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The next step, fit to be shown.
    pub fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The cause, for the log only.
    pub fn cause(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self::new(reason, reason.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_spelled_once_and_the_serialised_name_agrees() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in ErrorKind::ALL {
            assert!(seen.insert(kind.as_str()), "{kind} twice");
            assert_eq!(
                serde_json::to_value(kind).unwrap(),
                serde_json::json!(kind.as_str())
            );
        }
        assert_eq!(seen.len(), 14);
    }
}
