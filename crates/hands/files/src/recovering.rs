//! After a crash: what a dying process left is put right, from the opening
//! lines of its audit. No tree is walked.
//!
//! Invariants: nothing is unlinked but what its own audit says it made and
//! never put in place, directories it made and nobody uses, and what is left of
//! something of which the store holds the same; everything else goes to the
//! undo store, back to its place, or beside its target under a name of its own.
//! Each operation that is put right gets its closing line, in the chain of the
//! process that did it and under the operation's own id.

mod case;
mod moved;
mod undone;

use std::sync::Arc;

use portcullis_gate::Gate;
use portcullis_proto::{
    Access, ConversationId, Facts, Failure, Outcome, Principal, Reason, RelPath, RequestId,
    Resource, RootId, RunId, Subject, Verb,
};

use crate::authority::{Authority, Declared};
use crate::ledger::{RecordSubject, Unfinished, mark_swept, unfinished};
use crate::private_dir::PrivateDir;

use self::case::Case;

/// What was found of an operation that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Nothing: it had not begun, or it was complete.
    Nothing,
    /// Something of ours that was never put in place: removed.
    Unpublished,
    /// What it had displaced: moved to the undo store.
    Displaced,
    /// What it was about to remove or move: back where it was.
    PutBack,
    /// Somebody else's save: kept beside the file.
    Conflict,
    /// A private workspace whose owner is gone: removed.
    Abandoned,
    /// It could not be put right now; it is tried again at the next start.
    Stuck,
}

/// One operation that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The request.
    pub request: String,
    /// What was to be done.
    pub verb: Verb,
    /// In which root.
    pub root: String,
    /// To what.
    pub path: RelPath,
    /// What was found.
    pub found: Leftover,
    /// The name a conflicting save was kept under.
    pub kept_as: Option<String>,
    /// Whether the operation stands as if it had been told as done.
    pub done: bool,
    /// Why it could not be put right, or why that is not in the audit.
    pub why: Option<Failure>,
}

/// What came of putting one operation right.
#[derive(Clone, Debug)]
struct Outcomes {
    found: Leftover,
    kept_as: Option<String>,
    done: bool,
}

impl Outcomes {
    fn of(found: Leftover, done: bool) -> Self {
        Self {
            found,
            kept_as: None,
            done,
        }
    }

    /// It had not begun, or nothing of it can be seen.
    fn not_done() -> Self {
        Self::of(Leftover::Nothing, false)
    }

    fn done() -> Self {
        Self::of(Leftover::Nothing, true)
    }
}

impl Interrupted {
    fn workspace(gone: String) -> Self {
        Self {
            request: gone.clone(),
            verb: Verb::Mkdir,
            root: gone,
            path: RelPath::root(),
            found: Leftover::Abandoned,
            kept_as: None,
            done: true,
            why: None,
        }
    }
}

impl Authority {
    /// Puts right what dead processes left in the roots declared here; `data`
    /// holds their audit. With `dry_run` it only says what it would do.
    pub fn recover(&self, data: &PrivateDir, dry_run: bool) -> Result<Vec<Interrupted>, Failure> {
        let chains = unfinished(data)?;
        // Extensions may not be at work yet: their storage is served all the same.
        let stored = if chains.iter().all(|chain| chain.operations.is_empty()) {
            Vec::new()
        } else {
            crate::extension::stored(data)
        };
        let abandoned = crate::temp::sweep(data, dry_run);
        if !dry_run {
            crate::extension::sweep(data);
        }
        let mut all: Vec<_> = abandoned.into_iter().map(Interrupted::workspace).collect();
        for chain in chains {
            let mut all_here = true;
            let mut unbegun = Vec::new();
            for operation in &chain.operations {
                let Some(root) = operation.root else {
                    // It never came to make anything.
                    unbegun.push(operation);
                    continue;
                };
                let mut served = self.roots().chain(&stored);
                let declared = served.find(|d| d.root().identity() == root);
                if declared.is_none() && crate::temp::is_of_workspace(operation) {
                    continue;
                }
                // What is left waits for its root to be served again.
                let Some(declared) = declared else {
                    all_here = false;
                    continue;
                };
                let interrupted = self.put_right(declared, &stored, operation, dry_run);
                // One whose closing line could not be written is closed at the next start.
                all_here &= interrupted.found != Leftover::Stuck && interrupted.why.is_none();
                all.push(interrupted);
            }
            if all_here && !dry_run {
                // Closed with the chain, which is done once.
                for operation in unbegun {
                    self.close_unbegun(operation);
                }
                mark_swept(data, &chain.name)?;
            }
        }
        Ok(all)
    }

    fn put_right(
        &self,
        declared: &Arc<Declared>,
        stored: &[Arc<Declared>],
        operation: &Unfinished,
        dry_run: bool,
    ) -> Interrupted {
        let outcome = Case::new(declared, operation, dry_run).and_then(|case| {
            let outcome = case.put_right()?;
            self.remove_made(operation, stored, &outcome, dry_run)?;
            Ok(outcome)
        });
        let path = target(operation);
        let mut interrupted = Interrupted {
            request: operation.request.clone(),
            verb: operation.verb,
            root: declared.entry().id().as_str().to_owned(),
            path: path.clone(),
            found: Leftover::Stuck,
            kept_as: None,
            done: false,
            why: None,
        };
        match outcome {
            Ok(outcome) => {
                if !dry_run {
                    let gate = self.gate();
                    interrupted.why = close(gate, declared, operation, &outcome).err();
                }
                interrupted.found = outcome.found;
                interrupted.kept_as = outcome.kept_as;
                interrupted.done = outcome.done;
            }
            // One that cannot be put right now keeps no other back.
            Err(why) => interrupted.why = Some(why),
        }
        interrupted
    }

    /// Directories made on the way to something that did not come go again,
    /// innermost first, while they are empty.
    fn remove_made(
        &self,
        operation: &Unfinished,
        stored: &[Arc<Declared>],
        outcome: &Outcomes,
        dry_run: bool,
    ) -> Result<(), Failure> {
        if outcome.done || dry_run || operation.made.is_empty() {
            return Ok(());
        }
        for declared in self.roots().chain(stored) {
            let identity = declared.root().identity();
            if operation.made.iter().any(|made| made.root == identity) {
                case::remove_made(declared, operation, &case::way_to(operation))?;
            }
        }
        Ok(())
    }

    fn close_unbegun(&self, operation: &Unfinished) {
        let id = RootId::parse(&operation.root_name);
        if let Some(declared) = id.and_then(|id| self.root(Some(&id))) {
            // Nothing came of it: whether that is told changes nothing.
            let _told = close(self.gate(), declared, operation, &Outcomes::not_done());
        }
    }
}

/// What the operation was to change.
fn target(operation: &Unfinished) -> &RelPath {
    match (&operation.to, operation.verb) {
        (Some(to), Verb::Copy | Verb::Archive) => to,
        _ => &operation.path,
    }
}

/// The closing line that the dead process did not come to write.
fn close(
    gate: &Gate,
    declared: &Declared,
    operation: &Unfinished,
    outcome: &Outcomes,
) -> Result<(), Failure> {
    let entry = declared.entry();
    let resource = |path: &RelPath, access| Resource {
        root: entry.id().clone(),
        kind: entry.kind(),
        path: path.clone(),
        access,
        identity: None,
        above: entry.policy().above.clone(),
    };
    let mut resources = vec![resource(&operation.path, operation.verb.access())];
    resources.extend(operation.to.as_ref().map(|to| resource(to, Access::Write)));
    let facts = Facts {
        verb: operation.verb,
        resources,
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    };
    let (ended, reason) = match (outcome.found, outcome.done) {
        (Leftover::Conflict, _) => (Outcome::Failed, Some(Reason::VersionMismatch)),
        (_, true) => (Outcome::Success, None),
        (_, false) => (Outcome::Abandoned, None),
    };
    let request = RequestId::new(operation.request.clone());
    gate.close_for_dead(
        &request,
        &subject(&operation.subject),
        &facts,
        ended,
        reason,
    )
    .map_err(|down| {
        Failure::new(
            Reason::AuditUnavailable,
            "It was put right, and the audit could not be told.",
        )
        .hint("Run `portcullis doctor`; it says what the audit lacks.")
        .detail(down)
    })
}

/// Who it was, as the opening line told.
fn subject(told: &RecordSubject) -> Subject {
    let id: Arc<str> = told.id.as_str().into();
    let principal = match told.kind.as_str() {
        "user" => Principal::User { id },
        "token" => Principal::Token {
            user: told.user.as_deref().unwrap_or_default().into(),
            id,
        },
        "extension" => Principal::Extension { id },
        "automation" => Principal::Automation { id },
        _ => Principal::Core { id },
    };
    let mut subject = Subject::of(principal);
    if told.kind == "extension" {
        subject.on_behalf_of = told.user.as_deref().map(Arc::from);
    }
    subject.conversation_id = told.conversation_id.as_deref().map(ConversationId::new);
    subject.run_id = told.run_id.as_deref().map(RunId::new);
    subject
}
