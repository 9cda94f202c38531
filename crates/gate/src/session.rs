//! What was allowed for a session, kept in memory and gone with it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use portcullis_policy::{BadPattern, Rule, RuleSet};
use portcullis_proto::{Principal, SessionId};

/// How many answers a session remembers at most; after that each is once.
const MAX_RULES: usize = 1024;
/// How many sessions are remembered at most; in another one, each answer is once.
const MAX_SESSIONS: usize = 4096;

/// A session is a principal's own: naming somebody else's session id brings
/// none of what was allowed in it.
type Key = (SessionId, Principal);

/// Session rules, by session. Reading takes no lock.
#[derive(Debug)]
pub(crate) struct Sessions {
    rules: ArcSwap<HashMap<Key, Arc<RuleSet>>>,
    none: Arc<RuleSet>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self {
            rules: ArcSwap::default(),
            none: Arc::new(RuleSet::none()),
        }
    }

    pub(crate) fn of(&self, session: Option<&SessionId>, principal: &Principal) -> Arc<RuleSet> {
        self.look(session, principal, Arc::clone)
    }

    /// Whether `rules` are those of the session as it stands.
    pub(crate) fn are(
        &self,
        rules: &Arc<RuleSet>,
        session: Option<&SessionId>,
        principal: &Principal,
    ) -> bool {
        self.look(session, principal, |current| Arc::ptr_eq(rules, current))
    }

    fn look<T>(
        &self,
        session: Option<&SessionId>,
        principal: &Principal,
        at: impl FnOnce(&Arc<RuleSet>) -> T,
    ) -> T {
        let rules = self.rules.load();
        let known = session
            .filter(|_| !rules.is_empty())
            .and_then(|session| rules.get(&(session.clone(), principal.clone())));
        at(known.unwrap_or(&self.none))
    }

    pub(crate) fn remember(
        &self,
        session: &SessionId,
        principal: &Principal,
        rule: &Rule,
    ) -> Result<(), BadPattern> {
        let key = (session.clone(), principal.clone());
        let mut result = Ok(());
        self.rules.rcu(|all| {
            let known = all.get(&key).unwrap_or(&self.none);
            let room = known.rules().len() < MAX_RULES
                && (all.contains_key(&key) || all.len() < MAX_SESSIONS);
            if !room || known.rules().contains(rule) {
                return Arc::clone(all);
            }
            match known.with(rule.clone()) {
                Ok(rules) => {
                    let mut next = HashMap::clone(all);
                    next.insert(key.clone(), Arc::new(rules));
                    Arc::new(next)
                }
                Err(bad) => {
                    result = Err(bad);
                    Arc::clone(all)
                }
            }
        });
        result
    }

    pub(crate) fn end(&self, session: &SessionId) {
        self.rules.rcu(|all| {
            let mut next = HashMap::clone(all);
            next.retain(|(known, _), _| known != session);
            next
        });
    }
}
