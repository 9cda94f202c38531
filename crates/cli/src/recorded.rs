//! The record of what a person changes at their own terminal: who may sign in,
//! what a token is for, what a question was answered.
//!
//! A line before and one after, in a chain of this process's own, as the routes of
//! a server write them. Where the line cannot be written, nothing is changed.

use std::sync::{Arc, OnceLock};

use portcullis_files::{FileLedger, LedgerOptions, PrivateDir};
use portcullis_gate::{Caller, Clock, Gate, GateParts};
use portcullis_policy::{Modes, Rules};
use portcullis_proto::{Failure, Principal, Subject};
use portcullis_store::Store;

use crate::clock::SystemClock;
use crate::problem::Problem;
use crate::wiring::prefix;

/// How a token of ours begins.
const TOKEN: &str = "pcl_";

/// Records what one command changes. The chain is begun with the first change: a
/// command that only looks leaves none.
pub(crate) struct Recorded {
    data: PrivateDir,
    caller: Caller,
    chain: OnceLock<Chain>,
}

struct Chain {
    gate: Arc<Gate>,
    ledger: Arc<FileLedger>,
}

impl Recorded {
    /// For the command that is called so in the record: `cli/user`.
    pub(crate) fn by(tool: &'static str, data: &PrivateDir) -> Self {
        let subject = Subject::of(Principal::User { id: "me".into() });
        Self {
            data: data.clone(),
            caller: Caller::new(subject, tool).by_grant_alone(),
            chain: OnceLock::new(),
        }
    }

    /// Does `act`, which `what` names without a secret, with a line before and after.
    pub(crate) fn change<T>(
        &self,
        what: &str,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Problem> {
        let gate = self.gate()?;
        Ok(gate.administer(&self.caller, &without_tokens(what), act)?)
    }

    fn gate(&self) -> Result<&Arc<Gate>, Problem> {
        if self.chain.get().is_none() {
            let chain = Chain::begin(&self.data)?;
            // One thread changes things; were there another, one chain would do.
            drop(self.chain.set(chain));
        }
        let chain = self.chain.get();
        chain
            .map(|chain| &chain.gate)
            .ok_or_else(|| Problem::new("The record cannot be kept, so nothing was changed."))
    }
}

impl Chain {
    fn begin(data: &PrivateDir) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ledger = FileLedger::open(data, Arc::clone(&clock), LedgerOptions::default())?;
        let ledger = Arc::new(ledger);
        let gate = Gate::new(GateParts {
            prefix: prefix(ledger.chain()),
            ledger: Arc::clone(&ledger) as _,
            clock,
            keeper: Arc::new(Store::new(data.path())),
            hooks: Vec::new(),
            rules: Rules::new(Modes::recommended()),
        });
        Ok(Self { gate, ledger })
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.gate.end();
        self.ledger.close();
    }
}

/// Somebody may type a whole token where a name belongs.
fn without_tokens(what: &str) -> String {
    let words = what.split(' ').map(|word| {
        if word.contains(TOKEN) {
            "pcl_…"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_typed_for_a_name_is_not_recorded() {
        assert_eq!(without_tokens("user add ada"), "user add ada");
        assert_eq!(
            without_tokens("user remove pcl_0123456789_secret now"),
            "user remove pcl_… now"
        );
    }
}
