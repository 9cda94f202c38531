//! Keeps a store within its bounds, from its oldest end.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use portcullis_proto::{Entity, Failure};
use rustix::fs::FlockOperation;

use super::store::{UndoStore, order};
use super::tree::survey;
use crate::meta::Meta;
use crate::sys;

/// How many operations are kept.
pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// How many bytes of displaced files and trees are kept.
pub(crate) const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// What is only there while something is under way is not, after this: one
/// whose process died and whose recovery did not come.
const UNDER_WAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What a store holds under one name.
#[derive(Default)]
struct Held {
    /// When the latest of it changed, in milliseconds since 1970.
    at: i64,
    bytes: u64,
    /// Whether there is more of it than what is only there meanwhile.
    lasts: bool,
}

impl UndoStore {
    /// Forgets the oldest operations until the rest fits. Says how many.
    ///
    /// What is kept without an entry that says why (a crash, and a power cut
    /// after it) counts like any other operation, and goes like one.
    pub(crate) fn prune(&self, most: usize, most_bytes: u64) -> Result<usize, Failure> {
        // Two processes need not prune at once.
        if rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(0);
        }
        let pruned = self.prune_locked(most, most_bytes, sys::stamping_clock());
        let _unlocked = rustix::fs::flock(&self.dir, FlockOperation::Unlock);
        pruned
    }

    /// `now` is in nanoseconds since 1970.
    fn prune_locked(&self, most: usize, most_bytes: u64, now: i128) -> Result<usize, Failure> {
        let mut held: BTreeMap<String, Held> = BTreeMap::new();
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
            let one = held.entry(id.to_owned()).or_default();
            // A rename into the store is a change of the name, not of the content.
            let at = i64::try_from(meta.ctime_ns / 1_000_000).unwrap_or(i64::MAX);
            one.at = one.at.max(at);
            one.lasts |= matches!(what, "json" | "pre");
            one.bytes = one.bytes.saturating_add(match (what, meta.entity) {
                ("json" | "undoes", _) => 0,
                (_, Entity::Directory) => self.weight(id, &name),
                (_, Entity::File | Entity::Symlink | Entity::Mount | Entity::Special) => meta.size,
            });
        }
        let now = i64::try_from(now / 1_000_000).unwrap_or(i64::MAX);
        let (mut kept, meanwhile): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(_, held)| held.lasts);
        for (id, held) in meanwhile {
            if now.saturating_sub(held.at) > UNDER_WAY_MS {
                let _stuck = self.forget(&id);
                self.settle(&id);
            }
        }
        kept.sort_by(|(a, one), (b, other)| (one.at, order(a)).cmp(&(other.at, order(b))));
        let mut bytes = kept
            .iter()
            .fold(0u64, |sum, (_, held)| sum.saturating_add(held.bytes));
        let mut left = kept.len();
        for (id, held) in &kept {
            if left <= most && bytes <= most_bytes {
                break;
            }
            // What cannot go now is tried again; the rest goes on.
            let _stuck = self.forget(id);
            left -= 1;
            bytes = bytes.saturating_sub(held.bytes);
        }
        Ok(kept.len() - left)
    }

    /// How much a kept tree weighs: as it was told when it was taken, so that
    /// no tree is walked for it; one that nobody told of is.
    fn weight(&self, id: &str, name: &str) -> u64 {
        let told = self.entry(id).ok().flatten();
        match told.and_then(|entry| entry.before) {
            Some(before) if before.entity == Entity::Directory => before.size,
            Some(_) | None => {
                survey(self.dir.as_fd(), name, &mut |_| Ok(())).map_or(0, |surveyed| surveyed.bytes)
            }
        }
    }
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

    #[test]
    fn a_tree_counts_with_all_that_is_in_it() {
        let (_scratch, store, dir) = store(&[("r_1.pre/", 500_000), ("r_2.pre", 1000)]);
        assert_eq!(store.prune(10, 100_000).unwrap(), 1);
        assert_eq!(left(&dir), ["r_2.pre"]);
    }

    #[test]
    fn what_has_no_entry_counts_and_goes_from_the_oldest_end() {
        let (_scratch, store, dir) =
            store(&[("r_1.pre", 1000), ("r_2.pre", 1000), ("r_3.pre", 1000)]);
        assert_eq!(store.prune(2, 100_000).unwrap(), 1);
        assert_eq!(left(&dir), ["r_2.pre", "r_3.pre"]);
        assert_eq!(store.prune(2, 1500).unwrap(), 1);
        assert_eq!(left(&dir), ["r_3.pre"]);
    }

    #[test]
    fn what_is_under_way_stays_and_what_was_long_ago_goes() {
        let (_scratch, store, dir) = store(&[("r_1.part", 10), ("r_2.undoes", 10), ("note", 1)]);
        assert_eq!(store.prune(10, 1000).unwrap(), 0);
        assert_eq!(left(&dir), ["note", "r_1.part", "r_2.undoes"]);
        let later = sys::stamping_clock() + i128::from(UNDER_WAY_MS + 1000) * 1_000_000;
        store.prune_locked(10, 1000, later).unwrap();
        assert_eq!(left(&dir), ["note"]);
    }
}
