//! Builds the world a command works in: gate, authority, audit, store, hooks
//! and the clock, from what holds.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portcullis_files::{Authority, FileLedger, LedgerOptions, PrivateDir};
use portcullis_gate::{Clock, Gate, GateParts, Grant, Hook, Keeper, Ledger, LedgerDown, RootEntry};
use portcullis_policy::{Modes, Rule, RuleSet, Rules};
use portcullis_process::{Events, ProgramHook};
use portcullis_proto::{Event, Failure, Reason};
use portcullis_server::Telemetry;
use portcullis_store::Store;

use crate::clock::SystemClock;
use crate::placed::{Standing, name_of, seen_from};
use crate::problem::Problem;
use crate::settings::{HookEvent, HookSetting, Settings};

/// Everything a command that judges needs.
pub(crate) struct World {
    pub(crate) authority: Arc<Authority>,
    pub(crate) store: Store,
    /// Where our own files are.
    pub(crate) data: PrivateDir,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) live: Arc<LiveRules>,
    /// Names this process in the audit.
    pub(crate) chain: String,
    /// The audit, where deeds are done.
    ledger: Option<Arc<FileLedger>>,
}

/// How long deeds under way have to stop and write their lines at the end.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Whether deeds will be done, and so recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Deeds are done: the audit is opened.
    Serve,
    /// Rules are looked at and nothing is done.
    Look,
}

/// Opens the data directory, making it where there is none.
pub(crate) fn open_data(dir: &Path) -> Result<PrivateDir, Problem> {
    PrivateDir::open_or_create(dir).map_err(|failure| data_problem(dir, failure))
}

fn data_problem(dir: &Path, failure: Failure) -> Problem {
    let reason = failure.reason();
    let problem = Problem::from(failure);
    if reason == Reason::InsecurePermissions {
        return problem.hint(format!("chmod 700 {}", dir.display()));
    }
    problem
}

impl World {
    pub(crate) fn open(settings: &Settings, purpose: Purpose) -> Result<Self, Problem> {
        Self::open_watched(settings, purpose, None)
    }

    /// The same, with `telemetry` hearing how every attempt ends.
    pub(crate) fn open_watched(
        settings: &Settings,
        purpose: Purpose,
        telemetry: Option<&Arc<Telemetry>>,
    ) -> Result<Self, Problem> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let data = open_data(&settings.data_dir)?;
        let store = Store::new(data.path());
        let (ledger, kept, chain): (Arc<dyn Ledger>, _, String) = match purpose {
            Purpose::Serve => {
                let ledger = FileLedger::open(&data, Arc::clone(&clock), LedgerOptions::default())?;
                let chain = ledger.chain().to_owned();
                let ledger = Arc::new(ledger);
                (Arc::clone(&ledger) as Arc<dyn Ledger>, Some(ledger), chain)
            }
            Purpose::Look => (Arc::new(Closed), None, "look".to_owned()),
        };
        let ledger = match telemetry {
            Some(telemetry) => telemetry.watching(ledger),
            None => ledger,
        };
        let keeper = Arc::new(Memory::new(store.clone()));
        let gate = Gate::new(GateParts {
            ledger,
            clock: Arc::clone(&clock),
            keeper: Arc::clone(&keeper) as Arc<dyn Keeper>,
            hooks: hooks(&settings.hooks)?,
            rules: Rules::new(settings.modes),
            prefix: prefix(&chain),
        });
        let mut authority = Authority::new(
            Arc::clone(&gate),
            // Settings that stand elsewhere are ours as well.
            vec![settings.data_dir.clone(), settings.file.clone()],
            settings.home.clone(),
        )
        .protecting(settings.named.clone())
        .keeping_undo_in(data.clone())
        .with_new_modes(settings.new_modes);
        let (mut trust, mut standing) = (Vec::new(), Vec::new());
        for root in &settings.roots {
            let declared = authority
                .declare(root.spec.clone(), &root.path, settings.resolver)
                .map_err(|failure| unusable_root(&root.path, failure))?;
            for grant in &root.grants {
                let grant = Grant::new(
                    grant.to.clone(),
                    root.spec.id.clone(),
                    grant.access,
                    grant.expires_at,
                    grant.source,
                );
                if gate.grants().issue(grant).is_none() {
                    return Err(Problem::new("The settings hold more grants than fit.")
                        .hint("Give one grant per subject and root."));
                }
            }
            let dir = declared.root().host_path();
            standing.push((root.spec.id.clone(), dir.to_owned()));
            trust.push(Trust {
                entry: Arc::clone(declared.entry()),
                path: dir.to_string_lossy().into_owned(),
                identity: declared.root().identity(),
                declared: root.spec.trusted,
            });
        }
        store.stands_at(standing.iter().map(|(root, dir)| (root, name_of(dir))));
        let live = Arc::new(LiveRules {
            gate,
            store: store.clone(),
            modes: settings.modes,
            written: settings.all_rules(),
            keeper,
            trust,
            standing,
            seen: AtomicU64::new(0),
        });
        live.load()?;
        Ok(Self {
            authority: Arc::new(authority),
            store,
            data,
            clock,
            live,
            chain,
            ledger: kept,
        })
    }

    /// Ends in order: what is under way on other threads stops and writes its
    /// line, then the chain is signed off. A thread that the disk holds up for
    /// longer is not waited for.
    pub(crate) fn end(&self) {
        let gate = self.authority.gate();
        gate.end();
        let until = Instant::now() + END_PATIENCE;
        while gate.under_way() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // What is still under way has no closing line: the chain is left as a
        // crash would leave it, and the next start puts right what it finds.
        if let Some(ledger) = &self.ledger
            && gate.under_way() == 0
        {
            ledger.close();
        }
    }
}

fn unusable_root(path: &Path, failure: Failure) -> Problem {
    let next = failure.next_step().map(str::to_owned);
    Problem::from(failure).hint(
        next.unwrap_or_else(|| format!("Name a directory you can list: ls -ld {}", path.display())),
    )
}

/// A short name for this process: the random end of its chain's.
pub(crate) fn prefix(chain: &str) -> String {
    chain.rsplit('-').next().unwrap_or(chain).to_owned()
}

fn hooks(settings: &[HookSetting]) -> Result<Vec<Arc<dyn Hook>>, Problem> {
    settings
        .iter()
        .map(|setting| Ok(Arc::new(hook(setting)?) as Arc<dyn Hook>))
        .collect()
}

/// One hook program.
pub(crate) fn hook(setting: &HookSetting) -> Result<ProgramHook, Problem> {
    let events = if setting.events.contains(&HookEvent::After) {
        Events::Both
    } else {
        Events::Before
    };
    ProgramHook::new(setting.id.clone(), setting.command.clone(), setting.timeout)
        .map(|hook| hook.events(events))
        .map_err(|bad| {
            Problem::new(format!("The hook {:?} cannot be used: {bad}.", setting.id))
                .hint("Mend its command in the settings, then: portcullis doctor")
        })
}

/// Keeps rules in force that other processes may change: settings, what the
/// store holds, and what it could not take.
pub(crate) struct LiveRules {
    gate: Arc<Gate>,
    store: Store,
    modes: Modes,
    written: Vec<Rule>,
    keeper: Arc<Memory>,
    trust: Vec<Trust>,
    standing: Vec<Standing>,
    seen: AtomicU64,
}

struct Trust {
    entry: Arc<RootEntry>,
    path: String,
    identity: (u64, u64),
    declared: bool,
}

impl LiveRules {
    /// Puts in force what the store holds now, if that changed. Costs one look
    /// at the disk while there is no database, and one short query after.
    pub(crate) fn refresh(&self) -> Result<bool, Problem> {
        let version = self.store.version()?;
        if version == self.seen.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.load()?;
        Ok(true)
    }

    fn load(&self) -> Result<(), Problem> {
        // The number first: a change between the two is seen the next time.
        let version = self.store.version()?;
        let mut rules = self.written.clone();
        let stored = self.store.rules()?;
        rules.extend(stored.iter().flat_map(|one| seen_from(one, &self.standing)));
        rules.extend(self.keeper.not_stored());
        let stored = RuleSet::compile(rules).map_err(Problem::new)?;
        self.gate.replace_rules(Rules {
            modes: self.modes,
            stored,
        });
        for root in &self.trust {
            let (dev, ino) = root.identity;
            let trusted = root.declared || self.store.is_trusted(&root.path, dev, ino)?;
            root.entry.set_trusted(trusted);
        }
        self.seen.store(version, Ordering::Release);
        Ok(())
    }
}

/// Keeps lasting answers in the store, and remembers those it did not take: an
/// answer that could not be stored holds as long as this process.
struct Memory {
    store: Store,
    not_stored: Mutex<Vec<Rule>>,
}

impl Memory {
    fn new(store: Store) -> Self {
        Self {
            store,
            not_stored: Mutex::default(),
        }
    }

    fn not_stored(&self) -> Vec<Rule> {
        self.not_stored
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Keeper for Memory {
    fn keep(&self, rule: &Rule) -> Result<(), String> {
        let kept = self.store.keep(rule);
        if kept.is_err() {
            self.not_stored
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(rule.clone());
        }
        kept
    }
}

/// A ledger for commands that do nothing: whatever was tried would be refused.
struct Closed;

impl Ledger for Closed {
    fn append(&self, _event: &Event<'_>) -> Result<(), LedgerDown> {
        Err(LedgerDown("this command records nothing".to_owned()))
    }
}
