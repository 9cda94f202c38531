//! Gate, authority and scope as the product wires them, in this process.

use std::sync::Arc;

use portcullis_files::{Authority, FileLedger, LedgerOptions, PrivateDir, Resolver, ScopedFs};
use portcullis_gate::{Caller, Clock, Gate, GateParts, Hook, Keeper, Ledger, LedgerDown, RootSpec};
use portcullis_policy::{Modes, RootPolicy, Rule, Rules};
use portcullis_proto::{
    AccessSet, ConversationId, Event, Group, Mode, Principal, RootId, RootKind, RunId, SessionId,
    Subject,
};
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::clock::SystemClock;
use crate::scratch::Scratch;

/// A gate with one root, and somebody who may read it.
pub(crate) struct World {
    pub(crate) gate: Arc<Gate>,
    pub(crate) caller: Caller,
    pub(crate) scope: ScopedFs,
    pub(crate) runtime: Runtime,
}

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audit {
    /// To disk, as the product writes them.
    Real,
    /// Nowhere, to see what the rest costs.
    Null,
}

impl World {
    /// One whose root may be read.
    pub(crate) fn new(scratch: &Scratch, audit: Audit, hooks: Vec<Arc<dyn Hook>>) -> Outcome<Self> {
        Self::build(scratch, audit, hooks, Mode::Ask)
    }

    /// One whose root may be changed, with the audit on disk and what changes
    /// displace kept for undo.
    pub(crate) fn writable(scratch: &Scratch) -> Outcome<Self> {
        Self::build(scratch, Audit::Real, Vec::new(), Mode::Allow)
    }

    fn build(
        scratch: &Scratch,
        audit: Audit,
        hooks: Vec<Arc<dyn Hook>>,
        writing: Mode,
    ) -> Outcome<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ledger: Arc<dyn Ledger> = match audit {
            Audit::Real => {
                let data = PrivateDir::open_or_create(&scratch.state())?;
                Arc::new(FileLedger::open(
                    &data,
                    Arc::clone(&clock),
                    LedgerOptions::default(),
                )?)
            }
            Audit::Null => Arc::new(Nowhere),
        };
        let gate = Gate::new(GateParts {
            ledger,
            clock,
            keeper: Arc::new(Nowhere),
            hooks,
            rules: Rules::new(
                Modes::recommended()
                    .with(Group::FilesystemRead, Mode::Allow)
                    .with(Group::FilesystemWrite, writing),
            ),
            prefix: "bench".to_owned(),
        });
        let mut authority = Authority::new(Arc::clone(&gate), vec![scratch.state()], None);
        let mut policy = RootPolicy::of(RootKind::Workspace);
        let trusted = writing == Mode::Allow;
        if trusted {
            policy.ambient = AccessSet::ALL;
            authority = authority.keeping_undo_in(PrivateDir::open_or_create(&scratch.state())?);
        }
        let spec = RootSpec {
            id: RootId::parse("workspace").ok_or("not a root id")?,
            kind: RootKind::Workspace,
            display_name: None,
            policy,
            owner: None,
            trusted,
        };
        authority.declare(spec, &scratch.root(), Resolver::Best)?;
        let principal = Principal::User { id: "me".into() };
        let subject = Subject::agent_run(principal, ConversationId::new("c"), RunId::new("r"));
        let caller = Caller::new(subject, "bench").in_session(SessionId::new("s"));
        let scope = authority.scope(&caller, None)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self {
            gate,
            caller,
            scope,
            runtime,
        })
    }
}

struct Nowhere;

impl Ledger for Nowhere {
    fn append(&self, _event: &Event<'_>) -> Result<(), LedgerDown> {
        Ok(())
    }
}

impl Keeper for Nowhere {
    fn keep(&self, _rule: &Rule) -> Result<(), String> {
        Ok(())
    }
}
