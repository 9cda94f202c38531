//! Changing something: what it looks like from outside, whatever the change.

use portcullis_gate::{Deed, Permit};
use portcullis_proto::{Access, Digest, Facts, Failure, RelPath, Verb};

use super::Key;
use crate::writing::Place;

/// One place about to be changed, or two.
#[derive(Debug)]
pub struct Changing {
    pub(crate) verb: Verb,
    pub(crate) place: Place,
    /// Where it goes, for a move or a copy.
    pub(crate) to: Option<Place>,
    /// Digest of what is to be written.
    pub(crate) shown: Option<Digest>,
    /// Whether most of a large file goes, or something protected below it.
    pub(crate) shrinks: bool,
    /// What is protected below it, the first of it.
    pub(crate) below: Vec<RelPath>,
}

impl Deed for Changing {
    type Key = Key;

    fn facts(&self) -> Facts {
        let mut resources = vec![self.place.resource(self.verb.access())];
        if let Some(to) = &self.to {
            resources.push(to.resource(Access::Write));
        }
        if self.verb == Verb::Move {
            // What is moved away is gone from where it was.
            resources.push(self.place.resource(Access::Delete));
        }
        Facts {
            verb: self.verb,
            resources,
            shown: self.shown,
            shrinks: self.shrinks,
            below: self.below.clone(),
        }
    }
}

/// Carries a change out.
pub(crate) fn change<T>(
    permit: Permit<Changing>,
    act: impl FnOnce(
        Changing,
        &portcullis_policy::Terms,
        &portcullis_gate::Live<'_>,
    ) -> Result<(T, portcullis_gate::Settled), Failure>,
) -> Result<T, Failure> {
    permit.spend(Key::turn(), act)
}
