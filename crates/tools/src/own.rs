//! Which changes that are watched the watcher made itself.
//!
//! A change on disk does not say who made it. What is known are the calls that
//! went through the gate a moment ago, and what they changed; each is told once
//! for each path, so that what somebody else does there later is not taken for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use portcullis_files::{Change, ChangeKind};
use portcullis_gate::{Gate, RecentChange};
use portcullis_proto::{Principal, RelPath, RequestId, RootId};

/// For how many paths one call is told.
const MAX_PATHS: usize = 4_096;

/// A call of who watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCall {
    /// The attempt, as its reply and its lines in the audit name it.
    pub request_id: RequestId,
    /// What was done.
    pub operation: &'static str,
}

/// The calls of one principal.
#[derive(Debug)]
pub(crate) struct Own {
    gate: Arc<Gate>,
    principal: Principal,
    /// Those of this moment, the newest first.
    recent: Vec<Arc<RecentChange>>,
    /// What was told already, by the number of the call.
    told: HashMap<u64, HashSet<RelPath>>,
}

impl Own {
    pub(crate) fn new(gate: Arc<Gate>, principal: Principal) -> Self {
        Self {
            gate,
            principal,
            recent: Vec::new(),
            told: HashMap::new(),
        }
    }

    /// Looks which there are now.
    pub(crate) fn look(&mut self) {
        self.recent = self.gate.recent_changes_of(&self.principal);
        let recent = &self.recent;
        self.told
            .retain(|number, _| recent.iter().any(|change| change.number == *number));
    }

    /// The newest call that made `change` and was not told for it yet.
    pub(crate) fn call_behind(&mut self, root: &RootId, change: &Change) -> Option<OwnCall> {
        for call in &self.recent {
            let made = change.kind == ChangeKind::Created;
            let is_it = call.touches(root, &change.path)
                || (made && change.directory && call.leads_through(root, &change.path));
            if !is_it {
                continue;
            }
            let told = self.told.entry(call.number).or_default();
            if told.len() < MAX_PATHS && told.insert(change.path.clone()) {
                return Some(OwnCall {
                    request_id: call.request_id.clone(),
                    operation: call.facts.verb.as_str(),
                });
            }
        }
        None
    }
}
