//! A gate and an authority over a scratch tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_files::{Authority, OperatorFile, OperatorRole, PrivateDir, Resolver, ScopedFs};
use portcullis_gate::{Caller, Clock, Gate, GateParts, Hook, Keeper, RootSpec};
use portcullis_policy::{Modes, RootPolicy, Rule, RuleSet, Rules};
use portcullis_proto::{
    AccessSet, ConversationId, Failure, Group, Mode, Principal, RootId, RootKind, RunId, Subject,
};

use crate::{FakeClock, Lines, Scratch};

/// An agent, on behalf of nobody in particular.
pub fn agent() -> Caller {
    let token = Principal::Token {
        user: "ada".into(),
        id: "t1".into(),
    };
    let subject = Subject::agent_run(token, ConversationId::new("c1"), RunId::new("r1"));
    Caller::new(subject, "test")
}

/// A person.
pub fn user() -> Caller {
    let ada = Principal::User { id: "ada".into() };
    Caller::new(Subject::of(ada), "test")
}

/// Portcullis itself.
pub fn core() -> Caller {
    let core = Principal::Core { id: "test".into() };
    Caller::new(Subject::of(core), "test")
}

/// Keeps no rule, and says that it did.
pub fn forgetful_keeper() -> Arc<dyn Keeper> {
    struct Forgetful;
    impl Keeper for Forgetful {
        fn keep(&self, _rule: &Rule) -> Result<(), String> {
            Ok(())
        }
    }
    Arc::new(Forgetful)
}

/// What a world is made of, before it is.
pub struct WorldBuilder {
    policy: RootPolicy,
    kind: RootKind,
    owner: Option<Principal>,
    resolver: Resolver,
    rules: Rules,
    hooks: Vec<Arc<dyn Hook>>,
    clock: Option<Arc<dyn Clock>>,
    own_state: Vec<PathBuf>,
    named: Vec<OperatorFile>,
    writable: bool,
    data: Option<PrivateDir>,
    keeps: bool,
}

impl WorldBuilder {
    /// Where an agent may change everything, and what it displaces is kept
    /// beside the root.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.rules.modes = self.rules.modes.with(Group::FilesystemWrite, Mode::Allow);
        self.policy.ambient = AccessSet::ALL;
        self.writable = true;
        self
    }

    /// Where nothing that is displaced is kept.
    #[must_use]
    pub fn without_undo(mut self) -> Self {
        self.keeps = false;
        self
    }

    /// With another policy of the root.
    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(&mut RootPolicy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// With this owner.
    #[must_use]
    pub fn owner(mut self, owner: Principal) -> Self {
        self.owner = Some(owner);
        self
    }

    /// With the component walk, whatever the kernel offers.
    #[must_use]
    pub fn best_effort(mut self) -> Self {
        self.resolver = Resolver::BestEffort;
        self
    }

    /// With this mode for reading.
    #[must_use]
    pub fn reading(mut self, mode: Mode) -> Self {
        self.rules.modes = self.rules.modes.with(Group::FilesystemRead, mode);
        self
    }

    /// With this mode for writing.
    #[must_use]
    pub fn writing(mut self, mode: Mode) -> Self {
        self.rules.modes = self.rules.modes.with(Group::FilesystemWrite, mode);
        self
    }

    /// With Portcullis's own state in `data`, for a writable world.
    #[must_use]
    pub fn keeping_in(mut self, data: PrivateDir) -> Self {
        self.data = Some(data);
        self
    }

    /// With these stored rules.
    #[must_use]
    pub fn rules(mut self, rules: Vec<Rule>) -> Self {
        self.rules.stored = RuleSet::compile(rules).expect("rules that compile");
        self
    }

    /// With one more hook.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// With a clock that runs.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// With Portcullis's own files there.
    #[must_use]
    pub fn own_state(mut self, place: PathBuf) -> Self {
        self.own_state.push(place);
        self
    }

    /// With a file the operator named.
    #[must_use]
    pub fn named(mut self, path: PathBuf, role: OperatorRole) -> Self {
        let what = "a named file".to_owned();
        self.named.push(OperatorFile { what, path, role });
        self
    }

    /// Builds it over `scratch`; the root may be refused.
    pub fn try_over(self, scratch: Scratch) -> Result<World, Failure> {
        let root = scratch.root();
        self.try_over_directory(scratch, &root)
    }

    /// Builds it over `directory`, which `scratch` holds.
    #[track_caller]
    pub fn over_directory(self, scratch: Scratch, directory: &Path) -> World {
        match self.try_over_directory(scratch, directory) {
            Ok(world) => world,
            Err(failure) => panic!("the root is refused: {failure:?}"),
        }
    }

    fn try_over_directory(self, scratch: Scratch, directory: &Path) -> Result<World, Failure> {
        let lines = Arc::new(Lines::default());
        let fake = Arc::new(FakeClock::new());
        let clock = self.clock.unwrap_or_else(|| fake.clone());
        let gate = Gate::new(GateParts {
            ledger: lines.clone(),
            clock,
            keeper: forgetful_keeper(),
            hooks: self.hooks,
            rules: self.rules,
            // Several processes may share a tree; their requests must not share a name.
            prefix: format!("test{}", std::process::id()),
        });
        let home = Some(scratch.base().to_owned());
        let mut authority =
            Authority::new(gate.clone(), self.own_state, home).protecting(self.named);
        if self.writable && self.keeps {
            let data = match self.data {
                Some(data) => data,
                None => PrivateDir::open_or_create(&scratch.base().join("data"))?,
            };
            authority = authority.keeping_undo_in(data);
        }
        let id = RootId::parse("main").expect("a name");
        let spec = RootSpec {
            id,
            kind: self.kind,
            display_name: None,
            policy: self.policy,
            owner: self.owner,
            trusted: self.writable,
        };
        authority.declare(spec, directory, self.resolver)?;
        Ok(World {
            scratch,
            gate,
            authority,
            lines,
            clock: fake,
        })
    }

    /// Builds it over `scratch`.
    #[track_caller]
    pub fn over(self, scratch: Scratch) -> World {
        match self.try_over(scratch) {
            Ok(world) => world,
            Err(failure) => panic!("the root is refused: {failure:?}"),
        }
    }
}

impl std::fmt::Debug for WorldBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorldBuilder")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A tree, and the one way into it.
#[derive(Debug)]
pub struct World {
    /// The tree.
    pub scratch: Scratch,
    /// The gate.
    pub gate: Arc<Gate>,
    /// The authority, with one root called `main`.
    pub authority: Authority,
    /// What was recorded.
    pub lines: Arc<Lines>,
    /// The clock, where no other was asked for.
    pub clock: Arc<FakeClock>,
}

impl World {
    /// A world whose root is a workspace and where reading is allowed.
    pub fn workspace() -> WorldBuilder {
        Self::of_kind(RootKind::Workspace)
    }

    /// A world whose root is of this kind and where reading is allowed.
    pub fn of_kind(kind: RootKind) -> WorldBuilder {
        WorldBuilder {
            policy: RootPolicy::of(kind),
            kind,
            owner: None,
            resolver: Resolver::Best,
            rules: Rules::new(Modes::all(Mode::Ask).with(Group::FilesystemRead, Mode::Allow)),
            hooks: Vec::new(),
            clock: None,
            own_state: Vec::new(),
            named: Vec::new(),
            writable: false,
            data: None,
            keeps: true,
        }
    }

    /// What an agent may do in the root.
    pub fn fs(&self) -> ScopedFs {
        self.fs_for(&agent())
    }

    /// What `caller` may do in the root.
    pub fn fs_for(&self, caller: &Caller) -> ScopedFs {
        self.authority.scope(caller, None).expect("there is a root")
    }
}
