//! An archive about to be looked into, or unpacked.

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_policy::Terms;
use portcullis_proto::{Access, Digest, Facts, Failure, RelPath, Verb};

use super::Key;
use super::read::Reading;
use crate::writing::Place;

/// An archive, pinned, and the place it is to be unpacked to.
#[derive(Debug)]
pub struct Unpacking {
    pub(crate) archive: Reading,
    pub(crate) place: Place,
    /// Digest of the archive, where it is asked about by what is in it.
    pub(crate) shown: Option<Digest>,
    /// Whether it brings more than its name tells: something protected.
    pub(crate) shrinks: bool,
    /// Some of that.
    pub(crate) below: Vec<RelPath>,
}

impl Deed for Unpacking {
    type Key = Key;

    fn facts(&self) -> Facts {
        let mut resources = vec![self.place.resource(Access::Write)];
        resources.extend(self.archive.facts().resources);
        resources.push(self.place.resource(Access::Archive));
        Facts {
            verb: Verb::Extract,
            resources,
            shown: self.shown,
            shrinks: self.shrinks,
            below: self.below.clone(),
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
