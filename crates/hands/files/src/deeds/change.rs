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
    /// Digest of what a yes to a move or copy holds it to, if anything does.
    pub(crate) pinned: Option<Digest>,
    /// What a file that is copied must hold, where a yes holds it to that.
    pub(crate) content: Option<Digest>,
    /// Whether most of a large file goes, or something protected below it.
    pub(crate) shrinks: bool,
    /// What is protected below it, the first of it.
    pub(crate) below: Vec<RelPath>,
    /// How many more there are.
    pub(crate) more_below: u64,
    /// Whether it brings a secret below it to where that can be read.
    pub(crate) exposes: bool,
    /// Whether what it displaces does not fit into the undo store.
    pub(crate) unkept: bool,
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
            more_below: self.more_below,
            unkept: self.unkept,
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
