//! The log of a server, on standard error. Never contents, and never standard
//! output, which is the wire.

use std::fmt::Display;
use std::io::Write;

use crate::args::LogLevel;

/// Says things at or below its level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    level: LogLevel,
}

impl Log {
    pub(crate) const fn at(level: LogLevel) -> Self {
        Self { level }
    }

    pub(crate) fn error(self, what: impl Display) {
        self.say(LogLevel::Error, "error", what);
    }

    pub(crate) fn warn(self, what: impl Display) {
        self.say(LogLevel::Warn, "warn", what);
    }

    pub(crate) fn info(self, what: impl Display) {
        self.say(LogLevel::Info, "info", what);
    }

    pub(crate) fn debug(self, what: impl Display) {
        self.say(LogLevel::Debug, "debug", what);
    }

    fn say(self, level: LogLevel, word: &str, what: impl Display) {
        if level <= self.level {
            // Where standard error is closed there is nobody to tell.
            writeln!(anstream::stderr(), "portcullis {word}: {what}").ok();
        }
    }
}
