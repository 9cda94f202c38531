//! Keeps a store within its bounds: what displaced nothing goes first, then what
//! is old, from its oldest end. What displaced something is kept for a day,
//! whatever the bounds: while it fills the store, a change that would displace
//! more is asked about.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use portcullis_proto::{Entity, Failure};
use rustix::fs::FlockOperation;

use super::store::{UndoStore, order};
use super::tree::survey;
use crate::meta::Meta;
use crate::sys;

/// How many operations are kept that displaced something, and how many that
/// displaced nothing.
pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// How many bytes of displaced files and trees are kept.
pub(crate) const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// For how long what displaced something is kept, whatever the bounds: until a
/// person has had a day to find out.
pub(crate) const KEPT_MS: i64 = 24 * 60 * 60 * 1000;
/// What is only there while something is under way is not, after this: one
/// whose process died and whose recovery did not come.
const UNDER_WAY_MS: i64 = 24 * 60 * 60 * 1000;
/// What a file takes on a disk at least, so that many small ones count too.
const BLOCK: u64 = 4096;
/// After so many bytes of its own a process looks at what others put there.
const LOOK_EVERY: u64 = 128 * 1024 * 1024;
/// For how long a look at a store that is nearly full is believed.
const BELIEVED: Duration = Duration::from_secs(2);

/// What something takes of a store, with the entry that tells of it.
pub(crate) fn weight(bytes: u64) -> u64 {
    bytes
        .div_ceil(BLOCK)
        .saturating_add(1)
        .saturating_mul(BLOCK)
}

/// What a store holds under one name.
#[derive(Default)]
struct Held {
    /// When the latest of it changed, in milliseconds since 1970.
    at: i64,
    bytes: u64,
    /// Whether what it displaced is there.
    has_pre: bool,
    has_entry: bool,
    /// Whether it displaced something.
    displaces: bool,
}

impl Held {
    /// Whether there is more of it than what is only there meanwhile.
    fn lasts(&self) -> bool {
        self.has_pre || self.has_entry
    }
}

/// What a store holds, oldest first.
struct Sorted {
    /// What displaced something.
    displaced: Vec<(String, Held)>,
    /// What displaced nothing.
    added: Vec<(String, Held)>,
    /// What is only there while something is under way.
    meanwhile: Vec<(String, Held)>,
}

/// How much is kept of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoHeld {
    /// The operation.
    pub id: String,
    /// When, in milliseconds since 1970, by the clock files are stamped by.
    pub at: u64,
    /// How much room it takes.
    pub bytes: u64,
}

/// How full a store is, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// What cannot go yet.
    young: u64,
    /// What this process added since it last looked.
    added: u64,
    looked: Option<Instant>,
}

impl Tally {
    pub(super) fn add(&mut self, bytes: u64) {
        let weight = weight(bytes);
        // One that is more than all there may be was asked about by itself.
        if weight <= MAX_BYTES {
            self.young = self.young.saturating_add(weight);
            self.added = self.added.saturating_add(weight);
        }
    }

    fn is_full_for(&self, bytes: u64) -> bool {
        self.young.saturating_add(weight(bytes)) > MAX_BYTES
    }
}

impl UndoStore {
    /// Whether it has no room for so many bytes more: what is young fills it.
    pub(crate) fn is_full_for(&self, bytes: u64) -> bool {
        self.tally().is_full_for(bytes)
    }

    /// Whether it has to be looked at before it can be said how full it is.
    pub(crate) fn needs_look(&self) -> bool {
        let tally = self.tally();
        let nearly_full = tally.young > MAX_BYTES / 4 * 3 || tally.added > LOOK_EVERY;
        match tally.looked {
            None => true,
            Some(looked) => nearly_full && looked.elapsed() > BELIEVED,
        }
    }

    /// Forgets what has to go for the rest to fit. Says how many.
    ///
    /// What is kept without an entry that says why (a crash, and a power cut
    /// after it) counts as what displaced something, and goes like it.
    pub(crate) fn prune(&self, most: usize, most_bytes: u64) -> Result<usize, Failure> {
        // Two processes need not prune at once.
        let alone = rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive).is_ok();
        let most = if alone { most } else { usize::MAX };
        let pruned = self.prune_at(most, most_bytes, self.now());
        if alone {
            let _unlocked = rustix::fs::flock(&self.dir, FlockOperation::Unlock);
        }
        pruned
    }

    /// `now` is in nanoseconds since 1970; with `most` of all there can be
    /// nothing is forgotten, and only counted.
    fn prune_at(&self, most: usize, most_bytes: u64, now: i128) -> Result<usize, Failure> {
        let now = millis(now);
        let Sorted {
            mut displaced,
            mut added,
            meanwhile,
        } = self.sorted()?;
        let only_counts = most == usize::MAX;
        if !only_counts {
            for (id, held) in meanwhile {
                if now.saturating_sub(held.at) > UNDER_WAY_MS {
                    let _stuck = self.forget(&id);
                    self.settle(&id);
                }
            }
        }
        let mut pruned = 0;
        for (id, _) in added.drain(..added.len().saturating_sub(most)) {
            let _stuck = self.forget(&id);
            pruned += 1;
        }
        let is_young = |held: &Held| now.saturating_sub(held.at) < KEPT_MS;
        let mut bytes = displaced.iter().fold(0u64, |sum, (_, held)| {
            sum.saturating_add(weight(held.bytes))
        });
        let mut left = displaced.len();
        for (id, held) in &displaced {
            let fits = left <= most && (bytes <= most_bytes || only_counts);
            if fits || is_young(held) {
                break;
            }
            // What cannot go now is tried again; the rest goes on.
            let _stuck = self.forget(id);
            left -= 1;
            bytes = bytes.saturating_sub(weight(held.bytes));
        }
        pruned += displaced.len() - left;
        displaced.drain(..displaced.len() - left);
        let mut tally = Tally {
            looked: Some(Instant::now()),
            ..Tally::default()
        };
        for (_, held) in displaced.iter().filter(|(_, held)| is_young(held)) {
            tally.add(held.bytes);
        }
        tally.added = 0;
        *self.tally() = tally;
        Ok(pruned)
    }

    /// What is kept, each with how much room it takes, oldest first.
    pub(crate) fn held_entries(&self) -> Result<Vec<UndoHeld>, Failure> {
        let sorted = self.sorted()?;
        let kept = sorted.displaced.into_iter().chain(sorted.added);
        let mut all: Vec<_> = kept.collect();
        all.sort_by(by_age);
        let told = all.into_iter().map(|(id, held)| UndoHeld {
            id,
            at: u64::try_from(held.at).unwrap_or(0),
            bytes: weight(held.bytes),
        });
        Ok(told.collect())
    }

    fn sorted(&self) -> Result<Sorted, Failure> {
        let (kept, meanwhile): (Vec<_>, Vec<_>) =
            self.all()?.into_iter().partition(|(_, held)| held.lasts());
        let (mut displaced, mut added): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|(_, held)| held.displaces);
        displaced.sort_by(by_age);
        added.sort_by(by_age);
        Ok(Sorted {
            displaced,
            added,
            meanwhile,
        })
    }

    fn all(&self) -> Result<BTreeMap<String, Held>, Failure> {
        let mut all: BTreeMap<String, Held> = BTreeMap::new();
        for name in self.names()? {
            let Some((id, what)) = name.rsplit_once('.') else {
                continue;
            };
            if !matches!(what, "json" | "pre" | "part" | "undoes") {
                continue;
            }
            let Ok(seen) = sys::child_meta(self.dir.as_fd(), name.as_str()) else {
                continue;
            };
            let meta = Meta::of_statx(&seen);
            let one = all.entry(id.to_owned()).or_default();
            // A rename into the store is a change of the name, not of the content.
            one.at = one.at.max(millis(meta.ctime_ns));
            one.has_pre |= what == "pre";
            one.has_entry |= what == "json";
            one.bytes = one.bytes.saturating_add(match (what, meta.entity) {
                ("json" | "undoes", _) => 0,
                (_, Entity::Directory) => self.weight_of_tree(id, &name),
                (_, Entity::File | Entity::Symlink | Entity::Mount | Entity::Special) => meta.size,
            });
        }
        for (id, held) in &mut all {
            // An entry that cannot be read is taken for one that matters.
            held.displaces = held.has_pre
                || held.has_entry
                    && self
                        .entry(id)
                        .ok()
                        .flatten()
                        .is_none_or(|entry| entry.displaces());
        }
        Ok(all)
    }

    /// How much a kept tree weighs: as it was told when it was taken, so that
    /// no tree is walked for it; one that nobody told of is.
    fn weight_of_tree(&self, id: &str, name: &str) -> u64 {
        let told = self.entry(id).ok().flatten();
        match told.and_then(|entry| entry.before) {
            Some(before) if before.entity == Entity::Directory => before.size,
            Some(_) | None => {
                survey(self.dir.as_fd(), name, &mut |_| Ok(())).map_or(0, |surveyed| surveyed.bytes)
            }
        }
    }
}

fn by_age((a, one): &(String, Held), (b, other): &(String, Held)) -> std::cmp::Ordering {
    (one.at, order(a)).cmp(&(other.at, order(b)))
}

fn millis(ns: i128) -> i64 {
    i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use portcullis_policy::RootPolicy;
    use portcullis_proto::RootKind;

    use super::*;
    use crate::{PrivateDir, Resolver, Root, ScratchDir};

    /// A store with what `names` says: each a file of so many bytes, or a tree.
    fn store(names: &[(&str, usize)]) -> (ScratchDir, UndoStore, std::path::PathBuf) {
        let scratch = ScratchDir::new(&std::env::temp_dir()).unwrap();
        let served = scratch.path().join("root");
        fs::create_dir(&served).unwrap();
        let policy = RootPolicy::of(RootKind::Workspace);
        let root = Root::adopt(&served, &policy, Resolver::Best).unwrap();
        let data = PrivateDir::open_or_create(&scratch.path().join("data")).unwrap();
        let store = UndoStore::open(&data, &root).unwrap();
        let (dev, ino) = root.identity();
        let dir = scratch.path().join(format!("data/undo/{dev:x}-{ino:x}"));
        for (name, size) in names {
            let place = match name.strip_suffix('/') {
                Some(tree) => {
                    fs::create_dir(dir.join(tree)).unwrap();
                    dir.join(tree).join("file")
                }
                None => dir.join(name),
            };
            fs::write(place, vec![b' '; *size]).unwrap();
            // The next one is younger.
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
        (scratch, store, dir)
    }

    fn left(dir: &std::path::Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = names
            .map(|name| name.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// So many hours from now.
    fn in_hours(hours: i64) -> i128 {
        sys::stamping_clock() + i128::from(hours) * 3_600_000_000_000
    }

    /// An entry of an operation that displaced nothing.
    fn made(dir: &std::path::Path, id: &str) {
        let entry = format!(
            r#"{{"id":"{id}","at":1,"root":"main","rootIdentity":[1,2],"verb":"mkdir","path":"d","subject":"user:me"}}"#
        );
        fs::write(dir.join(format!("{id}.json")), entry).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(15));
    }

    #[test]
    fn a_tree_counts_with_all_that_is_in_it() {
        let (_scratch, store, dir) = store(&[("r_1.pre/", 500_000), ("r_2.pre", 1000)]);
        assert_eq!(store.prune_at(10, 100_000, in_hours(25)).unwrap(), 1);
        assert_eq!(left(&dir), ["r_2.pre"]);
    }

    #[test]
    fn what_displaced_something_is_kept_for_a_day_whatever_the_bounds() {
        let (_scratch, store, dir) = store(&[("r_1.pre", 9000), ("r_2.pre", 9000)]);
        assert_eq!(store.prune(1, 1).unwrap(), 0);
        assert_eq!(store.prune_at(1, 1, in_hours(23)).unwrap(), 0);
        assert_eq!(left(&dir), ["r_1.pre", "r_2.pre"]);
        assert_eq!(store.prune_at(1, 1, in_hours(25)).unwrap(), 2);
        assert!(left(&dir).is_empty());
    }

    #[test]
    fn what_displaced_nothing_is_counted_apart_and_goes_first() {
        let (_scratch, store, dir) = store(&[("r_1.pre", 10), ("r_2.json", 10)]);
        for n in 3..8 {
            made(&dir, &format!("r_{n}"));
        }
        assert_eq!(store.prune(2, 1_000_000).unwrap(), 3);
        // An entry that cannot be read may be one that matters.
        let kept = ["r_1.pre", "r_2.json", "r_6.json", "r_7.json"];
        assert_eq!(left(&dir), kept);
        assert_eq!(store.prune_at(2, 1_000_000, in_hours(25)).unwrap(), 0);
        assert_eq!(left(&dir), kept);
    }

    #[test]
    fn a_clock_set_forward_makes_nothing_old() {
        let (_scratch, mut store, dir) = store(&[("r_1.pre", 10), ("r_2.pre", 10)]);
        // As if it had been opened two days ago by the clock, and just now by the
        // time that has passed.
        store.opened.0 -= i128::from(48) * 3_600_000_000_000;
        assert!(store.now() < sys::stamping_clock() - 47 * 3_600_000_000_000);
        assert_eq!(store.prune(1, 1).unwrap(), 0);
        assert_eq!(left(&dir), ["r_1.pre", "r_2.pre"]);
    }

    #[test]
    fn many_small_ones_fill_a_store_as_few_large_ones_do() {
        let mut tally = Tally::default();
        let each = weight(1);
        assert_eq!(each, 2 * BLOCK);
        for _ in 0..MAX_BYTES / each {
            assert!(!tally.is_full_for(1));
            tally.add(1);
        }
        assert!(tally.is_full_for(1) && tally.is_full_for(0));
    }

    #[test]
    fn what_has_no_entry_counts_and_goes_from_the_oldest_end() {
        let (_scratch, store, dir) =
            store(&[("r_1.pre", 1000), ("r_2.pre", 1000), ("r_3.pre", 1000)]);
        assert_eq!(store.prune_at(2, 100_000, in_hours(25)).unwrap(), 1);
        assert_eq!(left(&dir), ["r_2.pre", "r_3.pre"]);
        assert_eq!(store.prune_at(2, weight(1000), in_hours(25)).unwrap(), 1);
        assert_eq!(left(&dir), ["r_3.pre"]);
    }

    #[test]
    fn what_is_under_way_stays_and_what_was_long_ago_goes() {
        let (_scratch, store, dir) = store(&[("r_1.part", 10), ("r_2.undoes", 10), ("note", 1)]);
        assert_eq!(store.prune(10, 1000).unwrap(), 0);
        assert_eq!(left(&dir), ["note", "r_1.part", "r_2.undoes"]);
        let later = sys::stamping_clock() + i128::from(UNDER_WAY_MS + 1000) * 1_000_000;
        store.prune_at(10, 1000, later).unwrap();
        assert_eq!(left(&dir), ["note"]);
    }
}
