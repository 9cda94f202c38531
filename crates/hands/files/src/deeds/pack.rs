//! A directory about to be packed: one bulk deed, by terms.

use std::sync::atomic::{AtomicU64, Ordering};

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_policy::Terms;
use portcullis_proto::{Access, Counts, Entity, Facts, Failure, Reason, RelPath, Verb};

use super::Key;
use super::list::Entry;
use super::pinned::Pinned;
use super::walk::{Dir, Gather, Hidden, Tally, Visit, Walk, Weight};
use crate::dirs::Name;
use crate::writing::Place;

/// A directory, pinned, and the place its archive goes to.
#[derive(Debug)]
pub struct Packing {
    pub(crate) top: Pinned,
    pub(crate) place: Place,
    /// Whether the archive is known to be much smaller than what it replaces.
    pub(crate) shrinks: bool,
    /// Whether what it replaces does not fit into the undo store.
    pub(crate) unkept: bool,
}

impl Deed for Packing {
    type Key = Key;

    fn facts(&self) -> Facts {
        let mut facts = self.top.facts(Verb::Archive);
        let top = facts.resources.clone();
        facts.shrinks = self.shrinks;
        facts.unkept = self.unkept;
        facts.resources.push(self.place.resource(Access::Write));
        for access in [Access::List, Access::Read] {
            let looked_at = top.iter().cloned();
            facts.resources.extend(looked_at.map(|mut resource| {
                resource.access = access;
                resource
            }));
        }
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
    let walk = Walk {
        root: &top.root,
        policy: top.entry.policy(),
        terms,
        live,
        deadline_us: live.monotonic_us().saturating_add(patience_us),
        include_ignored,
        hidden: Hidden::Shown,
    };
    let packs = Packs {
        walk: &walk,
        found: Gather::new(Weight {
            count: max,
            bytes: usize::MAX,
        }),
        special: AtomicU64::new(0),
    };
    let tally = walk.run(handle, top.path.clone(), &packs)?;
    let (found, more) = packs.found.finish();
    if more {
        return Err(Failure::new(
            Reason::TooLarge,
            format!("The directory has more than {max} entries, so nothing was packed."),
        )
        .hint("Pack the directories below it one by one."));
    }
    let mut entries: Vec<(RelPath, Entity)> = found
        .into_iter()
        .filter_map(|found| Some((found.path?, found.entity)))
        .collect();
    entries.sort_unstable_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
    Ok(Gathered {
        complete: tally.complete && tally.counts.moved == 0,
        counts: tally.counts,
        entries,
        special: packs.special.into_inner(),
    })
}

/// Takes down what a walk comes across.
struct Packs<'a> {
    walk: &'a Walk<'a>,
    found: Gather<Entry>,
    special: AtomicU64,
}

impl Visit for Packs<'_> {
    // To take a name down is less than to hand it to somebody else.
    const PIECE: usize = usize::MAX;
    type Hand = ();

    fn hand(&self) {}

    fn is_beyond(&self, _dir: &RelPath) -> bool {
        // More than there may be is refused, so nothing is left out.
        false
    }

    fn visit(
        &self,
        (): &mut (),
        dir: &Dir,
        names: Vec<Name>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let (mut found, mut special) = (Vec::new(), 0);
        for name in names {
            match (name.path, name.entity) {
                (Some(path), Entity::File | Entity::Directory) => found.push(Entry {
                    name: name.shown,
                    path: Some(path),
                    entity: name.entity,
                    meta: None,
                    ignored: false,
                }),
                (_, Entity::Symlink | Entity::Special | Entity::Mount) | (None, _) => special += 1,
            }
        }
        if self.walk.stands(dir, tally) {
            self.special.fetch_add(special, Ordering::Relaxed);
            self.found.put(&dir.path, found);
        }
        Ok(())
    }
}
