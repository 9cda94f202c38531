//! What every row needs to know of this run.

use std::path::PathBuf;

use crate::Outcome;
use crate::args::Args;
use crate::rounds::Effort;

/// What every row needs to know of this run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) smoke: bool,
    pub(crate) effort: Effort,
    /// Where the peers are installed.
    pub(crate) peers: PathBuf,
    /// The portcullis to measure.
    pub(crate) binary: PathBuf,
}

impl Setup {
    pub(crate) fn new(args: &Args) -> Outcome<Self> {
        let beside =
            || -> Outcome<PathBuf> { Ok(std::env::current_exe()?.with_file_name("portcullis")) };
        Ok(Self {
            smoke: args.smoke,
            effort: Effort::of(args.smoke),
            peers: args.peers.clone(),
            binary: args.binary.clone().map_or_else(beside, Ok)?,
        })
    }

    pub(crate) fn with_twice_the_rounds(&self) -> Self {
        Self {
            effort: self.effort.twice(),
            ..self.clone()
        }
    }
}
