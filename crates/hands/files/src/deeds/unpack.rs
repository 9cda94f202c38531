//! An archive about to be looked into, or unpacked.

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_policy::Terms;
use portcullis_proto::{Access, Digest, Facts, Failure, RelPath, Verb};

use super::Key;
use super::read::Reading;
use crate::archive::Manifest;
use crate::scoped::ArchiveTurn;
use crate::writing::Place;

/// An archive, pinned, and the place it is to be unpacked to.
#[derive(Debug)]
pub struct Unpacking {
    pub(crate) archive: Reading,
    pub(crate) place: Place,
    /// What is in it, or why that is not known: told only to whom it is
    /// permitted.
    pub(crate) manifest: Result<Manifest, Failure>,
    /// What it brings that is asked about, if there is any.
    pub(crate) protected: Option<Protected>,
    /// Until it is unpacked.
    pub(crate) turn: ArchiveTurn,
}

/// More than the archive's name tells: something that runs by itself, or is
/// secret.
#[derive(Debug)]
pub(crate) struct Protected {
    /// Digest of the archive it is in.
    pub(crate) archive: Digest,
    /// Some of it.
    pub(crate) below: Vec<RelPath>,
    /// How many more there are.
    pub(crate) more_below: u64,
}

impl Deed for Unpacking {
    type Key = Key;

    fn facts(&self) -> Facts {
        let mut resources = vec![self.place.resource(Access::Write)];
        resources.extend(self.archive.facts().resources);
        resources.push(self.place.resource(Access::Archive));
        let protected = self.protected.as_ref();
        Facts {
            verb: Verb::Extract,
            resources,
            shown: protected.map(|protected| protected.archive),
            shrinks: protected.is_some(),
            below: protected.map_or_else(Vec::new, |protected| protected.below.clone()),
            more_below: protected.map_or(0, |protected| protected.more_below),
            // It is unpacked where nothing is.
            unkept: false,
        }
    }
}

/// Looks into an archive.
pub(crate) fn inspect<T>(
    permit: Permit<Reading>,
    act: impl FnOnce(Reading, &Live<'_>) -> Result<(T, Settled), Failure>,
) -> Result<T, Failure> {
    permit.spend(Key::turn(), |reading, _, live| act(reading, live))
}

/// Unpacks an archive.
pub(crate) fn unpack<T>(
    permit: Permit<Unpacking>,
    act: impl FnOnce(Unpacking, &Terms, &Live<'_>) -> Result<(T, Settled), Failure>,
) -> Result<T, Failure> {
    permit.spend(Key::turn(), act)
}
