//! A directory about to be packed: one bulk deed, by terms.

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_policy::Terms;
use portcullis_proto::{Access, Counts, Entity, Facts, Failure, Reason, RelPath, Verb};

use super::Key;
use super::pinned::Pinned;
use super::walk::{Ended, Go, Walk};
use crate::writing::Place;

/// A directory, pinned, and the place its archive goes to.
#[derive(Debug)]
pub struct Packing {
    pub(crate) top: Pinned,
    pub(crate) place: Place,
}

impl Deed for Packing {
    type Key = Key;

    fn facts(&self) -> Facts {
        let mut facts = self.top.facts(Verb::Archive);
        let mut looked_at = facts.resources.clone();
        for resource in &mut looked_at {
            resource.access = Access::List;
        }
        facts.resources.push(self.place.resource(Access::Write));
        facts.resources.append(&mut looked_at);
        facts
    }
}

/// Packs a directory.
pub(crate) fn pack<T>(
    permit: Permit<Packing>,
    act: impl FnOnce(Packing, &Terms, &Live<'_>) -> Result<(T, Settled), Failure>,
) -> Result<T, Failure> {
    permit.spend(Key::turn(), act)
}

/// What is to be packed, in a stable order.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Files and directories, each directory before what is in it.
    pub(crate) entries: Vec<(RelPath, Entity)>,
    /// What was left out, by terms.
    pub(crate) counts: Counts,
    /// Links, devices and names that no path can ask for.
    pub(crate) special: u64,
    /// Whether all of it was looked at.
    pub(crate) complete: bool,
}

/// Goes through the directory; more than `max` entries are refused.
pub(crate) fn gather(
    top: &Pinned,
    terms: &Terms,
    live: &Live<'_>,
    include_ignored: bool,
    max: usize,
    patience_us: u64,
) -> Result<Gathered, Failure> {
    let handle = top
        .handle
        .try_clone()
        .map_err(|error| crate::errno::from_io(&error))?;
    let mut entries = Vec::new();
    let mut special = 0;
    let mut walk = Walk {
        root: &top.root,
        policy: top.entry.policy(),
        terms,
        live,
        deadline_us: live.monotonic_us().saturating_add(patience_us),
        include_ignored,
        counts: Counts::default(),
        seen: 0,
    };
    let ended = walk.run(handle, top.path.clone(), |name| {
        match (name.path, name.entity) {
            (Some(path), Entity::File | Entity::Directory) => entries.push((path, name.entity)),
            (_, Entity::Symlink | Entity::Special | Entity::Mount) | (None, _) => special += 1,
        }
        if entries.len() > max {
            Go::Stop
        } else {
            Go::On
        }
    })?;
    if entries.len() > max {
        return Err(Failure::new(
            Reason::TooLarge,
            format!("The directory has more than {max} entries, so nothing was packed."),
        )
        .hint("Pack the directories below it one by one."));
    }
    Ok(Gathered {
        counts: walk.counts,
        complete: ended == Ended::Complete && walk.counts.moved == 0,
        entries,
        special,
    })
}
