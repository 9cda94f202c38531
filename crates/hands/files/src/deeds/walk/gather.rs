//! What a walk found, in the order of the tree, and no more than is wanted.
//!
//! Workers bring what they find in any order; what stays is what comes first in
//! the tree. As soon as there is enough, whatever lies behind the last of it
//! need not be looked at any more.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_proto::RelPath;

use super::frontier::in_order;

/// Something a walk finds.
pub(in crate::deeds) trait Find: Send {
    /// Its name in its directory, as it is ordered.
    fn name(&self) -> &[u8];
    /// How much of each limit it takes.
    fn weight(&self) -> Weight;
}

/// How much something is: in number, and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::deeds) struct Weight {
    pub(in crate::deeds) count: usize,
    pub(in crate::deeds) bytes: usize,
}

impl Weight {
    /// Whether this is more than `most`.
    fn exceeds(self, most: Self) -> bool {
        self.count > most.count || self.bytes > most.bytes
    }

    fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// A directory, ordered as the walk goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place(RelPath);

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        in_order(&self.0, &other.0)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What was found.
pub(in crate::deeds) struct Gather<T> {
    most: Weight,
    full: AtomicBool,
    state: Mutex<State<T>>,
}

struct State<T> {
    by_dir: BTreeMap<Place, Vec<T>>,
    total: Weight,
}

impl<T: Find> Gather<T> {
    /// Holds `most` and one more, by which it is known that there is more.
    pub(in crate::deeds) fn new(most: Weight) -> Self {
        Self {
            most,
            full: AtomicBool::new(false),
            state: Mutex::new(State {
                by_dir: BTreeMap::new(),
                total: Weight::default(),
            }),
        }
    }

    /// Adds what was found in `dir`.
    pub(in crate::deeds) fn put(&self, dir: &RelPath, found: Vec<T>) {
        if found.is_empty() || self.is_beyond(dir) {
            return;
        }
        let mut state = self.lock();
        let weight = found.iter().map(T::weight);
        state.total = weight.fold(state.total, Weight::plus);
        match state.by_dir.get_mut(&Place(dir.clone())) {
            Some(group) => group.extend(found),
            None => drop(state.by_dir.insert(Place(dir.clone()), found)),
        }
        if state.total.exceeds(self.most) {
            state.let_go(self.most);
            self.full.store(true, Memory::Release);
        }
    }

    /// Whether nothing of `dir` or below it can be among what is wanted.
    pub(in crate::deeds) fn is_beyond(&self, dir: &RelPath) -> bool {
        self.full.load(Memory::Acquire)
            && self
                .lock()
                .by_dir
                .last_key_value()
                .is_some_and(|(last, _)| in_order(dir, &last.0) == Ordering::Greater)
    }

    /// All of it, in order, and whether there was more.
    pub(in crate::deeds) fn finish(self) -> (Vec<T>, bool) {
        let full = self.full.into_inner();
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for mut group in state.by_dir.into_values() {
            group.sort_unstable_by(|a, b| a.name().cmp(b.name()));
            all.append(&mut group);
        }
        (all, full)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Find> State<T> {
    /// Drops from the end what is more than `most` without what comes last.
    fn let_go(&mut self, most: Weight) {
        while let Some(mut last) = self.by_dir.last_entry() {
            let group = last.get_mut();
            group.sort_unstable_by(|a, b| a.name().cmp(b.name()));
            while let Some(weight) = group.last().map(T::weight) {
                let without = self.total.minus(weight);
                if !without.exceeds(most) {
                    return;
                }
                self.total = without;
                group.pop();
            }
            last.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Find for &'static str {
        fn name(&self) -> &[u8] {
            self.as_bytes()
        }
        fn weight(&self) -> Weight {
            Weight { count: 1, bytes: 1 }
        }
    }

    fn gathered(max: usize, found: &[(&str, &'static str)]) -> (Vec<&'static str>, bool) {
        let gather = Gather::new(Weight {
            count: max,
            bytes: usize::MAX,
        });
        for (dir, name) in found {
            gather.put(&RelPath::parse(dir).unwrap(), vec![*name]);
        }
        gather.finish()
    }

    #[test]
    fn what_comes_first_stays_in_whatever_order_it_is_found() {
        let found = [("b", "4"), ("", "1"), ("a/x", "3"), ("a", "2"), ("b", "5")];
        let all = gathered(9, &found);
        assert_eq!(all, (vec!["1", "2", "3", "4", "5"], false));
        // One more than is wanted stays, to tell that there is more.
        assert_eq!(gathered(2, &found), (vec!["1", "2", "3"], true));
        let mut backwards = found;
        backwards.reverse();
        assert_eq!(gathered(2, &backwards), (vec!["1", "2", "3"], true));
        assert!(!gathered(5, &found).1);
    }

    #[test]
    fn once_there_is_enough_what_lies_behind_is_not_wanted() {
        let gather = Gather::new(Weight {
            count: 1,
            bytes: usize::MAX,
        });
        let dir = |text: &str| RelPath::parse(text).unwrap();
        gather.put(&dir("m"), vec!["1", "2"]);
        assert!(gather.is_beyond(&dir("m/a")) && gather.is_beyond(&dir("n")));
        assert!(!gather.is_beyond(&dir("m")) && !gather.is_beyond(&dir("a/z")));
    }
}
