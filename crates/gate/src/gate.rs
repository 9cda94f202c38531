//! The gate itself: what it holds, and how an attempt begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use portcullis_policy::{
    BadPattern, Effect, Explanation, Rule, Rules, Source, Standing, View, explain, judged_with_read,
};
use portcullis_proto::{
    Access, Facts, Failure, Outcome, Principal, Reason, RelPath, RequestId, Resource, SessionId,
    Verb,
};
use smallvec::SmallVec;

use crate::approve::Keeper;
use crate::attempt::Attempt;
use crate::book::Book;
use crate::caller::Caller;
use crate::clock::Clock;
use crate::deed::Settled;
use crate::grant::{GrantBook, Granted};
use crate::hook::Hook;
use crate::ledger::Ledger;
use crate::permit::unrecorded;
use crate::recent::{Recent, RecentChange};
use crate::root::RootEntry;
use crate::session::Sessions;

/// What a gate is made of.
pub struct GateParts {
    /// Where lines go.
    pub ledger: Arc<dyn Ledger>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Who keeps lasting answers.
    pub keeper: Arc<dyn Keeper>,
    /// Whose say counts, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Modes and stored rules.
    pub rules: Rules,
    /// Tells this process's request ids from every other's.
    pub prefix: String,
}

impl std::fmt::Debug for GateParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateParts")
            .field("rules", &self.rules)
            .field("hooks", &self.hooks.len())
            .finish_non_exhaustive()
    }
}

/// The one way through.
pub struct Gate {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keeper: Arc<dyn Keeper>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) sessions: Sessions,
    pub(crate) recent: Recent,
    rules: ArcSwap<Rules>,
    grants: GrantBook,
    /// What every request id of this process begins with.
    prefix: String,
    next: AtomicU64,
    parked: AtomicUsize,
    sealed: AtomicBool,
    /// Attempts whose closing line is not written yet.
    under_way: AtomicUsize,
    ending: AtomicBool,
}

/// The longest alleged path the audit repeats, in bytes.
const MAX_ALLEGED: usize = 512;
/// How many questions may be open at once: more than a person could ever
/// answer, and a bound on what a caller can make us hold (about 1 KiB each).
const MAX_PARKED: usize = 16_384;
/// How many allows the answers of one process may add to the stored rules;
/// after that each yes is once. A deny is always added.
const MAX_STORED: usize = 4096;

/// How many digits the longest number has.
const MAX_DIGITS: usize = 20;

impl Gate {
    /// Builds the gate. One per process.
    pub fn new(parts: GateParts) -> Arc<Self> {
        let grants = GrantBook::new(Arc::clone(&parts.clock));
        Arc::new(Self {
            ledger: parts.ledger,
            clock: parts.clock,
            keeper: parts.keeper,
            hooks: parts.hooks,
            sessions: Sessions::new(),
            recent: Recent::default(),
            rules: ArcSwap::from_pointee(parts.rules),
            grants,
            prefix: format!("r_{}_", parts.prefix),
            next: AtomicU64::new(1),
            parked: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        })
    }

    /// The grants in force.
    pub fn grants(&self) -> &GrantBook {
        &self.grants
    }

    /// The changes `principal` makes now or made a moment ago, the newest first.
    pub fn recent_changes_of(&self, principal: &Principal) -> Vec<Arc<RecentChange>> {
        self.recent.of(principal, self.clock.monotonic_us())
    }

    /// The clock it judges by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Modes and stored rules, as they stand.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Puts other rules in force, for every deed not yet judged.
    pub fn replace_rules(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }

    /// Adds a rule to those in force. Two answers at once are both kept.
    pub(crate) fn add_rule(&self, rule: &Rule) -> Result<(), BadPattern> {
        let mut result = Ok(());
        self.rules.rcu(|rules| {
            let known = rules.stored.rules();
            let full = rule.effect == Effect::Allow && known.len() >= MAX_STORED;
            if full || known.contains(rule) {
                return Arc::clone(rules);
            }
            match rules.stored.with(rule.clone()) {
                Ok(stored) => Arc::new(Rules {
                    modes: rules.modes,
                    stored,
                }),
                Err(bad) => {
                    result = Err(bad);
                    Arc::clone(rules)
                }
            }
        });
        result
    }

    /// Counts one more open question.
    pub(crate) fn park(self: &Arc<Self>) -> Result<Parked, Failure> {
        let parked = Parked(Arc::clone(self));
        if self.parked.fetch_add(1, Ordering::AcqRel) >= MAX_PARKED {
            return Err(Failure::new(
                Reason::Overload,
                "Too many questions wait for an answer already.",
            ));
        }
        Ok(parked)
    }

    /// Ends a session: what was allowed for it is forgotten.
    pub fn end_session(&self, session: &SessionId) {
        self.sessions.end(session);
    }

    /// Whether the gate refuses everything because its audit failed after an act.
    pub fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    /// Lets nothing more through: what has not begun is refused, and what is
    /// under way stops at its next look and writes its line.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// How many attempts have not written their closing line yet. A process
    /// that ends before this is zero takes lines with it.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Acquire)
    }

    pub(crate) fn count_in(&self) {
        self.under_way.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn count_out(&self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Begins an attempt on what `alleged` names in `root`. What cannot even be
    /// a path is refused here, and recorded like anything else.
    pub fn attempt(
        self: &Arc<Self>,
        caller: &Caller,
        verb: Verb,
        root: &Arc<RootEntry>,
        alleged: &str,
    ) -> Result<Attempt, Failure> {
        match RelPath::parse(alleged) {
            Ok(path) => {
                let facts = Facts {
                    verb,
                    resources: vec![Resource {
                        root: root.id().clone(),
                        kind: root.kind(),
                        path,
                        access: verb.access(),
                        identity: None,
                        above: root.policy().above.clone(),
                    }],
                    shown: None,
                    shrinks: false,
                    below: Vec::new(),
                    more_below: 0,
                    unkept: false,
                };
                let book = Book::open(self, caller, facts);
                Ok(Attempt::new(Arc::clone(root), book))
            }
            Err(bad) => Err(self.refuse(caller, verb, alleged, bad.into())),
        }
    }

    /// Whether hooks are asked about every deed.
    pub fn has_hooks(&self) -> bool {
        !self.hooks.is_empty()
    }

    /// Records a call that was refused before there was a root or a path to
    /// attempt anything on.
    pub fn refuse(
        self: &Arc<Self>,
        caller: &Caller,
        verb: Verb,
        alleged: &str,
        why: Failure,
    ) -> Failure {
        self.book_of(caller, verb, alleged).refuse(why)
    }

    /// Records what somebody did who was nobody before: a sign-in. A line that
    /// cannot be written seals the gate, like any other.
    pub fn note(self: &Arc<Self>, caller: &Caller, what: &str) -> Result<(), Failure> {
        let mut book = self.book_of(caller, Verb::Administer, what);
        book.source = Source::Builtin("desk");
        book.close(Outcome::Success, None, Settled::default())
            .map_err(|down| {
                Failure::new(
                    Reason::AuditUnavailable,
                    "It was done, but the audit could not be written: nothing more is let through.",
                )
                .hint("Run `portcullis doctor`; it says what the audit lacks.")
                .detail(down)
            })
    }

    /// The book of what has no root and no path.
    pub(crate) fn book_of(
        self: &Arc<Self>,
        caller: &Caller,
        verb: Verb,
        alleged: &str,
    ) -> Box<Book> {
        let nothing = Facts {
            verb,
            resources: Vec::new(),
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        };
        let mut book = Book::open(self, caller, nothing);
        book.alleged = Some(clip(alleged));
        book
    }

    /// Does what is asked of Portcullis itself and touches no root, such as
    /// approving an extension, with a line before and after; `what` names it.
    /// Where the line cannot be written, nothing is done.
    pub fn administer<T>(
        self: &Arc<Self>,
        caller: &Caller,
        what: &str,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut book = self.book_of(caller, Verb::Administer, what);
        book.source = Source::Builtin("desk");
        if let Err(failure) = self.check_open() {
            return Err(book.refuse(failure));
        }
        if let Err(down) = book.begin() {
            return Err(book.refuse(unrecorded(&down)));
        }
        match act() {
            Ok(value) => {
                // Closing seals the gate where it fails; what is done stays done.
                drop(book.close(Outcome::Success, None, Settled::default()));
                Ok(value)
            }
            Err(failure) => Err(book.refuse(failure)),
        }
    }

    /// Judges without doing anything, and tells how: `policy explain`.
    pub fn explain(
        &self,
        caller: &Caller,
        verb: Verb,
        root: &RootEntry,
        path: RelPath,
    ) -> Explanation {
        let facts = Facts {
            verb,
            resources: vec![Resource {
                root: root.id().clone(),
                kind: root.kind(),
                path,
                access: verb.access(),
                identity: None,
                above: root.policy().above.clone(),
            }],
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        };
        let view = self.view(caller, root);
        let with_read = judged_with_read(&facts, std::slice::from_ref(&view));
        let facts = with_read.map_or(facts, |(facts, _)| facts);
        let standing = facts.resources.iter().map(|resource| Standing {
            view: &view,
            granted: matches!(self.granted(caller, root, resource.access), Granted::By(_)),
        });
        explain(&facts, &standing.collect::<Vec<_>>())
    }

    pub(crate) fn view(&self, caller: &Caller, root: &RootEntry) -> View {
        View {
            rules: self.rules.load_full(),
            session: self
                .sessions
                .of(caller.session.as_ref(), &caller.subject.principal),
            root: root.id().clone(),
            policy: Arc::clone(root.policy()),
            trusted: root.trusted(),
        }
    }

    /// As [`view`](Self::view), where `earlier` was the same caller's of the same
    /// root: it still is while rules, session and trust are the same.
    pub(crate) fn view_after(&self, earlier: View, caller: &Caller, root: &RootEntry) -> View {
        let is_current = Arc::ptr_eq(&earlier.rules, &self.rules.load())
            && earlier.trusted == root.trusted()
            && self.sessions.are(
                &earlier.session,
                caller.session.as_ref(),
                &caller.subject.principal,
            );
        if is_current {
            earlier
        } else {
            self.view(caller, root)
        }
    }

    /// The live grant for `access` on `root`, if its kind ever grants that: a
    /// grant to list secrets, whoever issued it, is none.
    pub(crate) fn granted(&self, caller: &Caller, root: &RootEntry, access: Access) -> Granted {
        if !root.grantable(access) {
            return Granted::No;
        }
        self.grants
            .find_now(&caller.subject.principal, root.id(), access)
    }

    /// What tells this process's attempts from another's.
    pub fn tag(&self) -> &str {
        let tag = self.prefix.strip_prefix("r_").unwrap_or(&self.prefix);
        tag.strip_suffix('_').unwrap_or(tag)
    }

    pub(crate) fn next_request(&self) -> RequestId {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        // Every deed has one: formatting would cost three times as much, and a
        // String an allocation more.
        let mut id: SmallVec<[u8; 64]> = SmallVec::from_slice(self.prefix.as_bytes());
        let mut digits = [b'0'; MAX_DIGITS];
        let mut from = MAX_DIGITS;
        let mut rest = n;
        while let Some(digit) = from.checked_sub(1).and_then(|at| digits.get_mut(at)) {
            *digit += (rest % 10) as u8;
            from -= 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        id.extend_from_slice(digits.get(from..).unwrap_or_default());
        RequestId::new(str::from_utf8(&id).unwrap_or_default())
    }

    pub(crate) fn check_open(&self) -> Result<(), Failure> {
        if self.is_ending() {
            return Err(Reason::Cancelled.into());
        }
        if self.is_sealed() {
            return Err(Failure::new(
                Reason::AuditUnavailable,
                "The audit could not be written after an earlier act, so the gate is sealed and nothing was done.",
            )
            .hint("Run `portcullis doctor`, make room for the audit, and start Portcullis again."));
        }
        Ok(())
    }
}

/// The head of what somebody outside wrote, as much of it as the audit repeats.
pub(crate) fn clip(alleged: &str) -> Box<str> {
    let end = alleged.floor_char_boundary(MAX_ALLEGED);
    alleged.get(..end).unwrap_or_default().into()
}

/// One open question; counted while it lives.
pub(crate) struct Parked(Arc<Gate>);

impl Drop for Parked {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("sealed", &self.is_sealed())
            .finish_non_exhaustive()
    }
}
