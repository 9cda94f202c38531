//! Why a run could not begin. Once the race has begun, problems are findings in the report instead.
//!
//! Invariant: `Display` never repeats its source.

use std::fmt;
use std::io;

/// A run that could not begin.
#[derive(Debug)]
pub enum Error {
    /// The operating system gave no randomness for the marks.
    NoRandomness(getrandom::Error),
    /// The scratch tree could not be built.
    Scratch(io::Error),
    /// The server could not be started.
    Start(io::Error),
    /// The server did not complete the opening handshake.
    Handshake {
        /// What went wrong.
        problem: String,
        /// What the server wrote to standard error, if anything.
        stderr: String,
    },
    /// None of the server's tools could be used to read, list or stat in calm.
    NothingToRace {
        /// The names of the tools the server offers.
        tools: Vec<String>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRandomness(_) => out.write_str("no randomness for the marks"),
            Self::Scratch(_) => out.write_str("the scratch tree could not be built"),
            Self::Start(_) => out.write_str("the server could not be started"),
            Self::Handshake { problem, stderr } => {
                write!(out, "the server did not complete the handshake: {problem}")?;
                let said = stderr.trim();
                if said.is_empty() {
                    Ok(())
                } else {
                    write!(out, "\nit wrote: {said}")
                }
            }
            Self::NothingToRace { tools } => write!(
                out,
                "no tool of the server works in calm, so there is nothing to race; it offers: {}",
                if tools.is_empty() {
                    "nothing".to_owned()
                } else {
                    tools.join(", ")
                }
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoRandomness(cause) => Some(cause),
            Self::Scratch(cause) | Self::Start(cause) => Some(cause),
            Self::Handshake { .. } | Self::NothingToRace { .. } => None,
        }
    }
}
