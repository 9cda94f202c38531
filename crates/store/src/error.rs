//! What can go wrong with our own state: what to show, what to log, what to do.

use std::borrow::Cow;
use std::fmt;

use portcullis_proto::{Failure, Reason};
use rusqlite::ErrorCode;

/// The sort of trouble, closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The file is not a database, or a damaged one.
    Damaged,
    /// A newer Portcullis wrote it.
    Newer,
    /// It is a database, but not ours.
    NotOurs,
    /// Its mode, owner or type would let others at it.
    Unsafe,
    /// A table has reached its bound.
    Full,
    /// Another process held the lock for too long.
    Busy,
    /// The disk is full.
    NoSpace,
    /// What was to be stored is not storable.
    Invalid,
    /// What was named is not there.
    Missing,
    /// The name is taken already.
    Taken,
    /// It must not be: the last administrator would go, say.
    Refused,
    /// The disk or the file system failed.
    Io,
}

/// A failure of the store.
///
/// `message` and `next_step` may be shown to anyone and never hold a host path;
/// `detail` is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    trouble: Trouble,
    message: Cow<'static, str>,
    hint: Option<&'static str>,
    detail: Box<str>,
}

impl StoreError {
    pub(crate) fn new(trouble: Trouble, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            trouble,
            message: message.into(),
            hint: None,
            detail: Box::default(),
        }
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn because(mut self, detail: impl fmt::Display) -> Self {
        self.detail = detail.to_string().into_boxed_str();
        self
    }

    pub(crate) fn damaged(detail: impl fmt::Display) -> Self {
        Self::new(Trouble::Damaged, "The state database is damaged.")
            .hint(
                "Nothing was changed. Stop every portcullis process, then move `state.db`, \
                 `state.db-wal` and `state.db-shm` out of the data directory; \
                 `sqlite3 state.db .recover` may save the rules in it. Without them, stored \
                 rules and trust start empty.",
            )
            .because(detail)
    }

    pub(crate) fn io(detail: impl fmt::Display) -> Self {
        Self::new(
            Trouble::Io,
            "The state database could not be read or written.",
        )
        .hint("Run `portcullis doctor`; it tries the data directory.")
        .because(detail)
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Trouble::Invalid, message)
    }

    /// The sort of trouble.
    pub const fn trouble(&self) -> Trouble {
        self.trouble
    }

    /// What happened, fit to be shown.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it, fit to be shown.
    pub const fn next_step(&self) -> Option<&str> {
        self.hint
    }

    /// The cause, for the log only; may be empty.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::damaged(error),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::new(Trouble::Busy, "The state database is in use.")
                    .hint("Try again; another portcullis process is writing to it.")
                    .because(error)
            }
            Some(ErrorCode::DiskFull) => {
                Self::new(Trouble::NoSpace, "The disk of the state database is full.")
                    .because(error)
            }
            _ => Self::io(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let reason = match error.trouble {
            Trouble::Busy => Reason::Busy,
            Trouble::NoSpace => Reason::NoSpace,
            Trouble::Missing => Reason::NotFound,
            Trouble::Taken => Reason::AlreadyExists,
            Trouble::Refused => Reason::BadArguments,
            Trouble::Damaged
            | Trouble::Newer
            | Trouble::NotOurs
            | Trouble::Unsafe
            | Trouble::Full
            | Trouble::Invalid
            | Trouble::Io => Reason::Io,
        };
        let mut failure = Self::new(reason, error.message);
        if let Some(hint) = error.hint {
            failure = failure.hint(hint);
        }
        failure.detail(error.detail)
    }
}
