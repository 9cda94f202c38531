//! How a command ends: well, with something found, or with a problem that
//! names its next step.

use std::fmt;
use std::process::ExitCode;

use portcullis_proto::Failure;
use portcullis_store::StoreError;

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing to complain about.
    Fine,
    /// It found what it looks for: a disagreement, a broken chain, a leak.
    Found,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Fine => Self::SUCCESS,
            Ending::Found => Self::from(1),
        }
    }
}

/// Why a command could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Something is wrong.
    Trouble,
    /// Something typed cannot be meant.
    Usage,
    /// Whoever read our output has seen enough.
    NobodyListens,
}

impl Problem {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            hint: None,
            kind: Kind::Trouble,
        }
    }

    /// Something typed cannot be meant.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self {
            kind: Kind::Usage,
            ..Self::new(what)
        }
    }

    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The reader of our output went away, as `head` does.
    pub(crate) fn nobody_listens() -> Self {
        Self {
            kind: Kind::NobodyListens,
            ..Self::new("")
        }
    }

    /// Whether there is somebody to tell.
    pub(crate) fn is_worth_telling(&self) -> bool {
        self.kind != Kind::NobodyListens
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Trouble => ExitCode::from(1),
            Kind::Usage => ExitCode::from(2),
            Kind::NobodyListens => ExitCode::SUCCESS,
        }
    }
}

impl From<Failure> for Problem {
    /// At the operator's own terminal the cause may be told, host path and all.
    fn from(failure: Failure) -> Self {
        let what = match failure.cause() {
            Some(cause) => format!("{} ({cause})", failure.message()),
            None => failure.message().to_owned(),
        };
        Self {
            what,
            hint: failure.next_step().map(str::to_owned),
            kind: Kind::Trouble,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let what = match error.detail() {
            "" => error.message().to_owned(),
            detail => format!("{} ({detail})", error.message()),
        };
        Self {
            hint: error.next_step().map(str::to_owned),
            ..Self::new(what)
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}
