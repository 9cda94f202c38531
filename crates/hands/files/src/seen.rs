//! Which version of a file a session last saw.
//!
//! A write that names no version expects this one, so that nobody's save is
//! overwritten by a caller that has not seen it. Bounded: what was seen long
//! ago is forgotten, and a write then expects nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use portcullis_gate::Caller;
use portcullis_proto::{Principal, RelPath, RootId, SessionId};

use crate::writing::Version;

/// How many are remembered at least; twice as many at most.
const KEPT: usize = 16 * 1024;

type Key = (SessionId, Principal, RootId, RelPath);

/// What every session last saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The newer half and the older half.
    halves: Mutex<(HashMap<Key, Version>, HashMap<Key, Version>)>,
}

impl Seen {
    /// `caller` has seen `version` of `path`. A caller of no session is told
    /// from no other, so nothing is remembered for it.
    pub(crate) fn note(&self, caller: &Caller, root: &RootId, path: &RelPath, version: Version) {
        let Some(key) = key(caller, root, path) else {
            return;
        };
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.0.len() >= KEPT {
            halves.1 = std::mem::take(&mut halves.0);
        }
        halves.0.insert(key, version);
    }

    /// The version `caller` last saw.
    pub(crate) fn last(&self, caller: &Caller, root: &RootId, path: &RelPath) -> Option<Version> {
        let key = key(caller, root, path)?;
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.0.get(&key).or_else(|| halves.1.get(&key)).cloned()
    }

    /// What `caller` saw at `from` and below stands at `to` now, by its own act,
    /// and is as seen as it was: what was stale stays stale, what was never seen
    /// stays unseen. Of another root nothing below is known.
    pub(crate) fn carry(&self, caller: &Caller, root: &RootId, from: &RelPath, to: &RelPath) {
        let Some((session, principal, ..)) = key(caller, root, from) else {
            return;
        };
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let (newer, older) = &mut *halves;
        for half in [newer, older] {
            let moved = half.extract_if(|key, _| {
                key.0 == session && key.1 == principal && key.2 == *root && key.3.is_under(from)
            });
            let moved: Vec<_> = moved.collect();
            for ((session, principal, root, path), version) in moved {
                let below = path.as_str().get(from.as_str().len()..).unwrap_or_default();
                let path = RelPath::parse(&format!("{}{below}", to.as_str()));
                if let Ok(path) = path {
                    half.insert((session, principal, root, path), version);
                }
            }
        }
    }

    /// What `caller` saw there and below is gone, by its own act.
    pub(crate) fn forget(&self, caller: &Caller, root: &RootId, path: &RelPath) {
        let Some((session, principal, ..)) = key(caller, root, path) else {
            return;
        };
        let stays = |key: &Key, _: &mut Version| {
            let gone = key.0 == session && key.1 == principal && key.2 == *root;
            !(gone && key.3.is_under(path))
        };
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.0.retain(stays);
        halves.1.retain(stays);
    }
}

fn key(caller: &Caller, root: &RootId, path: &RelPath) -> Option<Key> {
    Some((
        caller.session.clone()?,
        caller.subject.principal.clone(),
        root.clone(),
        path.clone(),
    ))
}
