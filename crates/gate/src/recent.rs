//! The changes made here a moment ago: whoever watches is told which of them
//! were its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Access, Facts, Principal, RelPath, RequestId, RootId, Verb};

/// How many are remembered; the oldest makes room.
const REMEMBERED: usize = 1_024;
/// For how long after its end one is still looked for: longer than a watch
/// rests before it tells what it heard.
const SECONDS: u64 = 15;

/// Has not ended yet.
const UNDER_WAY: u64 = u64::MAX;

/// A change that is being made, or was made a moment ago.
#[derive(Debug)]
pub struct RecentChange {
    /// Its number among those of this process.
    pub number: u64,
    /// The attempt, as its lines in the audit name it.
    pub request_id: RequestId,
    /// What was done, and to what.
    pub facts: Arc<Facts>,
    principal: Principal,
    ended_us: AtomicU64,
}

impl RecentChange {
    /// Whether it changes `path`: by its name, or, where it changes a directory
    /// with all that is in it, as something below it.
    pub fn touches(&self, root: &RootId, path: &RelPath) -> bool {
        let with_all = match self.facts.verb {
            Verb::Move | Verb::Copy | Verb::Remove | Verb::Extract | Verb::Undo => true,
            Verb::Read
            | Verb::ReadRedacted
            | Verb::Administer
            | Verb::Relay
            | Verb::Stat
            | Verb::List
            | Verb::Tree
            | Verb::Glob
            | Verb::Search
            | Verb::Inspect
            | Verb::Watch
            | Verb::Write
            | Verb::Edit
            | Verb::Append
            | Verb::Mkdir
            | Verb::Chmod
            | Verb::Archive => false,
        };
        self.changed(root)
            .any(|changed| path == changed || (with_all && path.is_under(changed)))
    }

    /// Whether it changes something below `path`, and so may have made `path`
    /// on the way there.
    pub fn leads_through(&self, root: &RootId, path: &RelPath) -> bool {
        self.changed(root).any(|changed| changed.is_under(path))
    }

    fn changed(&self, root: &RootId) -> impl Iterator<Item = &RelPath> {
        let resources = self.facts.resources.iter();
        resources
            .filter(move |resource| resource.root == *root)
            .filter(|resource| match resource.access {
                Access::Write | Access::Delete | Access::Move => true,
                Access::Read
                | Access::List
                | Access::Metadata
                | Access::Watch
                | Access::Archive => false,
            })
            .map(|resource| &resource.path)
    }
}

/// The last of them.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    changes: Mutex<VecDeque<Arc<RecentChange>>>,
    next: AtomicU64,
}

impl Recent {
    /// One is about to be made.
    pub(crate) fn begin(
        &self,
        request_id: RequestId,
        principal: Principal,
        facts: Arc<Facts>,
    ) -> Arc<RecentChange> {
        let change = Arc::new(RecentChange {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            request_id,
            facts,
            principal,
            ended_us: AtomicU64::new(UNDER_WAY),
        });
        let mut changes = self.changes();
        if changes.len() == REMEMBERED {
            changes.pop_front();
        }
        changes.push_back(Arc::clone(&change));
        change
    }

    /// It has been made.
    pub(crate) fn end(change: &RecentChange, now_us: u64) {
        change.ended_us.store(now_us, Ordering::Release);
    }

    /// It came to nothing.
    pub(crate) fn forget(&self, change: &RecentChange) {
        self.changes().retain(|one| one.number != change.number);
    }

    /// Those of `principal` that are being made, or were a moment ago; the
    /// newest first.
    pub(crate) fn of(&self, principal: &Principal, now_us: u64) -> Vec<Arc<RecentChange>> {
        let since = now_us.saturating_sub(SECONDS * 1_000_000);
        self.changes()
            .iter()
            .rev()
            .filter(|change| change.ended_us.load(Ordering::Acquire) >= since)
            .filter(|change| change.principal == *principal)
            .cloned()
            .collect()
    }

    fn changes(&self) -> MutexGuard<'_, VecDeque<Arc<RecentChange>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::{Resource, RootKind};

    use super::*;

    fn facts(paths: &[(&str, Access)]) -> Arc<Facts> {
        let resource = |(path, access): &(&str, Access)| Resource {
            root: RootId::parse("workspace").unwrap(),
            kind: RootKind::Workspace,
            path: RelPath::parse(path).unwrap(),
            access: *access,
            identity: None,
            above: None,
        };
        Arc::new(Facts {
            verb: Verb::Copy,
            resources: paths.iter().map(resource).collect(),
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        })
    }

    fn user(id: &str) -> Principal {
        Principal::User { id: id.into() }
    }

    fn begin(recent: &Recent, who: &str) -> Arc<RecentChange> {
        let facts = facts(&[("from", Access::Read), ("a/to", Access::Write)]);
        recent.begin(RequestId::new("r_1"), user(who), facts)
    }

    #[test]
    fn a_change_is_its_makers_and_of_what_it_changes() {
        let recent = Recent::default();
        let change = begin(&recent, "ada");
        assert_eq!(recent.of(&user("ada"), 0).len(), 1);
        assert!(recent.of(&user("bob"), 0).is_empty());
        let root = RootId::parse("workspace").unwrap();
        let other = RootId::parse("other").unwrap();
        let touches = |root, path| change.touches(root, &RelPath::parse(path).unwrap());
        assert!(touches(&root, "a/to") && touches(&root, "a/to/below") && !touches(&root, "a"));
        let way = |path| change.leads_through(&root, &RelPath::parse(path).unwrap());
        assert!(way("a") && !way("b") && !way("a/to/below"));
        assert!(!touches(&root, "from"), "what is read is not changed");
        assert!(!touches(&root, "a/tool") && !touches(&root, "b"));
        assert!(!touches(&other, "a/to"));
    }

    #[test]
    fn a_change_is_remembered_for_a_moment_and_no_more_of_them_than_so_many() {
        let recent = Recent::default();
        let change = begin(&recent, "ada");
        let later = SECONDS * 1_000_000 + 2;
        assert_eq!(recent.of(&user("ada"), later).len(), 1, "it is under way");
        Recent::end(&change, 1);
        assert_eq!(recent.of(&user("ada"), later - 1).len(), 1);
        assert!(recent.of(&user("ada"), later).is_empty());
        let failed = begin(&recent, "ada");
        recent.forget(&failed);
        assert!(recent.of(&user("ada"), later).is_empty());
        for _ in 0..2 * REMEMBERED {
            begin(&recent, "ada");
        }
        assert_eq!(recent.of(&user("ada"), 0).len(), REMEMBERED);
    }
}
