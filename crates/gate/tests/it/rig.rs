//! A gate over a make-believe machine: recorded lines, a clock that stands
//! still, one hand with its own key, and people who say what the test tells them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use portcullis_gate::{
    Answer, Approver, Attempt, Caller, Clock, Decision, Deed, Gate, GateParts, Grant, GrantSource,
    Hook, HookCall, HookSay, Keeper, Ledger, LedgerDown, Permit, Question, Reply, RootEntry,
    RootSpec, Settled, Surface,
};
use portcullis_policy::{Modes, PatternSet, RootPolicy, Rule, Rules, Terms};
use portcullis_proto::{
    AccessSet, Digest, Entity, Event, Facts, Failure, Identity, Mode, Outcome, Phase, Principal,
    Reason, RelPath, RootId, RootKind, Subject, Verb,
};

pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs `work` to its end, on a clock that jumps over every wait.
pub fn block<T>(work: impl Future<Output = T>) -> T {
    runtime().block_on(work)
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// One line of the audit, kept.
#[derive(Clone, Debug)]
pub struct Line {
    pub phase: Phase,
    pub request: String,
    pub outcome: Outcome,
    pub reason: Option<Reason>,
    pub source: String,
    pub hooks: Vec<String>,
    pub alleged: Option<String>,
    pub paths: Vec<String>,
    pub question: Option<String>,
    pub answered_by: Option<String>,
    pub bytes: Option<u64>,
}

/// A ledger that remembers, and fails when told to.
#[derive(Default)]
pub struct Lines {
    kept: Mutex<Vec<Line>>,
    pub opening_fails: AtomicBool,
    pub closing_fails: AtomicBool,
    pub panics: AtomicBool,
}

impl Ledger for Lines {
    fn append(&self, event: &Event<'_>) -> Result<(), LedgerDown> {
        assert!(!self.panics.load(Ordering::SeqCst), "the ledger panics");
        let fails = match event.phase {
            Phase::Opening | Phase::Staged => &self.opening_fails,
            Phase::Closing => &self.closing_fails,
        };
        if fails.load(Ordering::SeqCst) {
            return Err(LedgerDown("told to".into()));
        }
        self.kept.lock().unwrap().push(Line {
            phase: event.phase,
            request: event.request_id.to_string(),
            outcome: event.outcome,
            reason: event.reason,
            source: event.policy_source.into(),
            hooks: event.wrapper_ids.to_vec(),
            alleged: event.alleged.map(Into::into),
            paths: event
                .facts
                .resources
                .iter()
                .map(|resource| resource.path.to_string())
                .collect(),
            question: event.question.map(ToString::to_string),
            answered_by: event.answered_by.map(Into::into),
            bytes: event.bytes,
        });
        Ok(())
    }
}

impl Lines {
    pub fn all(&self) -> Vec<Line> {
        self.kept.lock().unwrap().clone()
    }

    pub fn closing(&self) -> Vec<Line> {
        let mut lines = self.all();
        lines.retain(|line| line.phase == Phase::Closing);
        lines
    }
}

#[derive(Default)]
pub struct FakeClock(pub AtomicU64);

impl FakeClock {
    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn monotonic_us(&self) -> u64 {
        self.now_ms() * 1000
    }
}

#[derive(Default)]
pub struct Kept {
    pub rules: Mutex<Vec<Rule>>,
    pub fails: AtomicBool,
}

impl Keeper for Kept {
    fn keep(&self, rule: &Rule) -> Result<(), String> {
        if self.fails.load(Ordering::SeqCst) {
            return Err("/home/ada/.portcullis is full".into());
        }
        self.rules.lock().unwrap().push(rule.clone());
        Ok(())
    }
}

/// What stands at every path of the make-believe machine.
#[derive(Clone, Debug)]
pub struct Found {
    pub identity: Option<Identity>,
    /// Where a link leads, instead of the path attempted.
    pub leads_to: Option<String>,
    pub shown: Option<Digest>,
    /// Whether it takes more away than its name tells.
    pub shrinks: bool,
    /// What resolving fails with.
    pub fails: Option<Reason>,
    pub panics: bool,
}

pub const PLAIN: Identity = Identity {
    dev: 1,
    ino: 7,
    entity: Entity::File,
    owner: 1000,
    links: 1,
};

/// The key of this hand.
pub struct Key(());

/// A deed of this hand.
pub struct Look {
    facts: Facts,
}

impl Deed for Look {
    type Key = Key;
    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

/// How the rig is set up.
pub struct Setup {
    pub modes: Modes,
    pub hooks: Vec<Arc<dyn Hook>>,
    pub kind: RootKind,
    pub policy: RootPolicy,
    pub granted: AccessSet,
    pub expires_at: Option<u64>,
    pub trusted: bool,
}

pub struct Rig {
    pub gate: Arc<Gate>,
    pub lines: Arc<Lines>,
    pub clock: Arc<FakeClock>,
    pub kept: Arc<Kept>,
    pub root: Arc<RootEntry>,
    pub found: Mutex<Found>,
    pub resolves: AtomicUsize,
    pub acts: AtomicUsize,
}

/// Everything allowed and granted.
pub fn open_rig() -> Arc<Rig> {
    rig(|_| {})
}

/// Reading and writing are asked about.
pub fn asking_rig() -> Arc<Rig> {
    rig(|setup| setup.modes = Modes::all(Mode::Ask))
}

pub fn rig(change: impl FnOnce(&mut Setup)) -> Arc<Rig> {
    let mut setup = Setup {
        modes: Modes::all(Mode::Allow),
        hooks: Vec::new(),
        kind: RootKind::Workspace,
        policy: RootPolicy::of(RootKind::Workspace),
        granted: AccessSet::ALL,
        expires_at: None,
        trusted: true,
    };
    setup.policy.denied = PatternSet::compile(&["/denied"]).unwrap();
    change(&mut setup);
    let lines = Arc::new(Lines::default());
    let clock = Arc::new(FakeClock(AtomicU64::new(1_000)));
    let kept = Arc::new(Kept::default());
    let gate = Gate::new(GateParts {
        ledger: lines.clone(),
        clock: clock.clone(),
        keeper: kept.clone(),
        hooks: setup.hooks,
        rules: Rules::new(setup.modes),
        prefix: "t".into(),
    });
    let root = RootEntry::new(RootSpec {
        id: RootId::parse("w").unwrap(),
        kind: setup.kind,
        display_name: None,
        policy: setup.policy,
        owner: None,
        trusted: setup.trusted,
    });
    gate.grants().issue(Grant::new(
        ada(),
        root.id().clone(),
        setup.granted,
        setup.expires_at,
        GrantSource::Core,
    ));
    Arc::new(Rig {
        gate,
        lines,
        clock,
        kept,
        root,
        found: Mutex::new(Found {
            identity: Some(PLAIN),
            leads_to: None,
            shown: None,
            shrinks: false,
            fails: None,
            panics: false,
        }),
        resolves: AtomicUsize::new(0),
        acts: AtomicUsize::new(0),
    })
}

pub fn ada() -> Principal {
    Principal::User { id: "ada".into() }
}

/// A caller nobody can be asked about.
pub fn alone() -> Caller {
    Caller::new(Subject::of(ada()), "test")
}

/// A caller whose approver is `people`.
pub fn with(people: &Arc<People>) -> Caller {
    alone().asking(people.clone())
}

impl Rig {
    pub fn attempt(
        self: &Arc<Self>,
        caller: &Caller,
        verb: Verb,
        alleged: &str,
    ) -> Result<Attempt, Failure> {
        self.gate.attempt(caller, verb, &self.root, alleged)
    }

    /// What this hand finds when it resolves what was attempted.
    pub fn resolve(self: &Arc<Self>, verb: Verb, path: &RelPath) -> Result<Look, Failure> {
        self.resolves.fetch_add(1, Ordering::SeqCst);
        let found = self.found.lock().unwrap().clone();
        assert!(!found.panics, "resolving panics");
        if let Some(reason) = found.fails {
            return Err(reason.into());
        }
        let path = found
            .leads_to
            .map_or_else(|| path.clone(), |to| RelPath::parse(&to).unwrap());
        Ok(Look {
            facts: Facts {
                verb,
                resources: vec![portcullis_proto::Resource {
                    root: self.root.id().clone(),
                    kind: self.root.kind(),
                    path,
                    access: verb.access(),
                    identity: found.identity,
                    above: None,
                }],
                shown: found.shown,
                shrinks: found.shrinks,
                below: Vec::new(),
                more_below: 0,
                unkept: false,
            },
        })
    }

    pub fn resolver(
        self: &Arc<Self>,
        verb: Verb,
        attempt: &Attempt,
    ) -> impl Fn(&Terms) -> Result<Look, Failure> + Send + 'static {
        let (rig, path) = (Arc::clone(self), attempt.path());
        move |_| rig.resolve(verb, &path)
    }

    pub async fn permit(
        self: &Arc<Self>,
        caller: &Caller,
        verb: Verb,
        alleged: &str,
    ) -> Result<Permit<Look>, Failure> {
        let attempt = self.attempt(caller, verb, alleged)?;
        let resolve = self.resolver(verb, &attempt);
        attempt.enter(resolve).await
    }

    /// Spends a permit on an act that always succeeds.
    pub fn act(&self, permit: Permit<Look>) -> Result<&'static str, Failure> {
        permit.spend(Key(()), |_, _, _| {
            self.acts.fetch_add(1, Ordering::SeqCst);
            Ok(("bytes", Settled::bytes(5)))
        })
    }

    /// The whole way.
    pub async fn run(
        self: &Arc<Self>,
        caller: &Caller,
        verb: Verb,
        alleged: &str,
    ) -> Result<&'static str, Failure> {
        let permit = self.permit(caller, verb, alleged).await?;
        self.act(permit)
    }

    /// The whole way, to the reason it failed for.
    pub fn reason(self: &Arc<Self>, caller: &Caller, verb: Verb, alleged: &str) -> Option<Reason> {
        block(self.run(caller, verb, alleged))
            .err()
            .map(|failure| failure.reason())
    }

    /// The one closing line there is.
    #[track_caller]
    pub fn only_closing(&self) -> Line {
        let closing = self.lines.closing();
        assert_eq!(closing.len(), 1, "exactly one closing line: {closing:#?}");
        closing[0].clone()
    }

    #[track_caller]
    pub fn ended(&self, outcome: Outcome, reason: Option<Reason>) -> Line {
        let line = self.only_closing();
        assert_eq!((line.outcome, line.reason), (outcome, reason), "{line:#?}");
        line
    }

    pub fn resolved(&self) -> usize {
        self.resolves.load(Ordering::SeqCst)
    }

    pub fn acted(&self) -> usize {
        self.acts.load(Ordering::SeqCst)
    }
}

pub type Ask = dyn Fn(&Question) -> Boxed<'static, Reply> + Send + Sync;

/// People who say what the test tells them, in order.
pub struct People {
    pub surface: Surface,
    pub always: Option<bool>,
    pub asked: Mutex<Vec<Question>>,
    script: Mutex<VecDeque<Box<Ask>>>,
}

impl People {
    pub fn on(surface: Surface) -> Self {
        Self {
            surface,
            always: None,
            asked: Mutex::default(),
            script: Mutex::default(),
        }
    }

    pub fn then(
        self,
        ask: impl Fn(&Question) -> Boxed<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        self.script.lock().unwrap().push_back(Box::new(ask));
        self
    }

    /// Answers at once, from its own surface.
    pub fn say(self, decision: Decision) -> Self {
        let surface = self.surface;
        self.reply(Reply::Answered(answer(decision, surface)))
    }

    pub fn reply(self, reply: Reply) -> Self {
        self.then(move |_| Box::pin(std::future::ready(reply.clone())))
    }

    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    pub fn questions(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for People {
    fn surface(&self) -> Surface {
        self.surface
    }

    fn may_say_always(&self) -> bool {
        self.always.unwrap_or_else(|| self.surface.may_say_always())
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Boxed<'a, Reply> {
        self.asked.lock().unwrap().push(question.clone());
        let next = self.script.lock().unwrap().pop_front();
        next.expect("nobody expected this question")(question)
    }
}

pub fn answer(decision: Decision, surface: Surface) -> Answer {
    Answer {
        decision,
        surface,
        by: "ada".into(),
    }
}

/// A person at the terminal who says these things, in order.
pub fn terminal(decisions: &[Decision]) -> Arc<People> {
    decisions
        .iter()
        .fold(People::on(Surface::Terminal), |people, decision| {
            people.say(*decision)
        })
        .shared()
}

type Before = dyn Fn(&HookCall) -> Boxed<'static, HookSay> + Send + Sync;

/// A hook that says what the test tells it.
pub struct Says {
    id: &'static str,
    before: Box<Before>,
    pub heard: Mutex<Vec<Outcome>>,
    pub after_panics: bool,
}

impl Says {
    pub fn new(
        id: &'static str,
        before: impl Fn(&HookCall) -> Boxed<'static, HookSay> + Send + Sync + 'static,
    ) -> Self {
        Self {
            id,
            before: Box::new(before),
            heard: Mutex::default(),
            after_panics: false,
        }
    }

    pub fn at_once(id: &'static str, say: HookSay) -> Arc<Self> {
        Arc::new(Self::new(id, move |_| {
            Box::pin(std::future::ready(say.clone()))
        }))
    }
}

impl Hook for Says {
    fn id(&self) -> &str {
        self.id
    }

    fn before<'a>(&'a self, call: &'a HookCall) -> Boxed<'a, HookSay> {
        (self.before)(call)
    }

    fn after(&self, _: &HookCall, outcome: Outcome) {
        self.heard.lock().unwrap().push(outcome);
        assert!(!self.after_panics, "the hook panics afterwards");
    }
}

/// Ready with `value` after it was polled `times` times in vain.
pub fn after_polls<T: Send + Clone + 'static>(mut times: usize, value: T) -> Boxed<'static, T> {
    Box::pin(std::future::poll_fn(move |context| {
        if times == 0 {
            return std::task::Poll::Ready(value.clone());
        }
        times -= 1;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    }))
}

/// Spends with this hand's key; only the rig can.
pub fn spend<T>(
    permit: Permit<Look>,
    act: impl FnOnce(&portcullis_gate::Live<'_>) -> Result<(T, Settled), Failure>,
) -> Result<T, Failure> {
    permit.spend(Key(()), |_, _, live| act(live))
}

impl Look {
    pub fn with_facts(facts: Facts) -> Self {
        Self { facts }
    }
}
