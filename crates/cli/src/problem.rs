//! How a command ends: well, with something found, or with a problem that
//! names its next step.

use std::fmt;
use std::process::ExitCode;

use portcullis_proto::Failure;

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
    usage: bool,
}

impl Problem {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            hint: None,
            usage: false,
        }
    }

    /// Something typed cannot be meant.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self {
            usage: true,
            ..Self::new(what)
        }
    }

    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
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
            usage: false,
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}
