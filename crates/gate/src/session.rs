//! What was allowed for a session, kept in memory and gone with it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use portcullis_policy::{BadPattern, Rule, RuleSet};
use portcullis_proto::SessionId;

/// How many answers a session remembers at most; after that each is once.
const MAX_RULES: usize = 1024;

/// Session rules, by session. Reading takes no lock.
#[derive(Debug)]
pub(crate) struct Sessions {
    rules: ArcSwap<HashMap<SessionId, Arc<RuleSet>>>,
    none: Arc<RuleSet>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self {
            rules: ArcSwap::default(),
            none: Arc::new(RuleSet::none()),
        }
    }

    pub(crate) fn of(&self, session: Option<&SessionId>) -> Arc<RuleSet> {
        session
            .and_then(|session| self.rules.load().get(session).cloned())
            .unwrap_or_else(|| Arc::clone(&self.none))
    }

    pub(crate) fn remember(&self, session: &SessionId, rule: &Rule) -> Result<(), BadPattern> {
        let mut result = Ok(());
        self.rules.rcu(|all| {
            let mut next = HashMap::clone(all);
            let known = next
                .get(session)
                .cloned()
                .unwrap_or_else(|| Arc::clone(&self.none));
            if known.rules().len() < MAX_RULES {
                match known.with(rule.clone()) {
                    Ok(rules) => {
                        next.insert(session.clone(), Arc::new(rules));
                    }
                    Err(bad) => result = Err(bad),
                }
            }
            next
        });
        result
    }

    pub(crate) fn end(&self, session: &SessionId) {
        self.rules.rcu(|all| {
            let mut next = HashMap::clone(all);
            next.remove(session);
            next
        });
    }
}
