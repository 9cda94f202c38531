//! What the audit costs: opening a ledger, adding to it, and verifying it
//! against hashing the same bytes.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_files::{AuditLog, FileLedger, LedgerOptions, PrivateDir};
use portcullis_gate::{Clock, Ledger as _};
use portcullis_proto::{
    Access, ConversationId, Entity, Event, Facts, Identity, Outcome as Outcomes, Phase, Principal,
    RelPath, RequestId, Resource, RootId, RootKind, RunId, Subject, Verb,
};
use sha2::{Digest as _, Sha256};

use crate::Outcome;
use crate::clock::SystemClock;
use crate::scratch::Scratch;
use crate::setup::Setup;
use crate::table::{Figure, Limit, Row, Unit};

/// Openings, of which the best counts.
const OPENINGS: u32 = 20;
/// Lines between two looks at the clock.
const ROUND: u32 = 500;
/// Verified and hashed in turn, so that what else runs here slows both.
const TURNS: u32 = 10;
const THREADS: u64 = 8;

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let lines: u32 = if setup.smoke { 20_000 } else { 500_000 };
    let scratch = Scratch::new()?;
    let data = PrivateDir::open_or_create(&scratch.state())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let open = || FileLedger::open(&data, Arc::clone(&clock), LedgerOptions::default());

    drop(open()?);
    let openings = setup.effort.rounds_of(OPENINGS);
    let opening = best(openings, || {
        let began = Instant::now();
        let ledger = open()?;
        let took = began.elapsed();
        drop(ledger);
        Ok(took)
    })?;

    let ledger = open()?;
    let line = Line::new()?;
    let rounds = lines / ROUND;
    let appending = best(rounds, || {
        let began = Instant::now();
        line.append(&ledger, ROUND.into())?;
        Ok(began.elapsed())
    })?;
    let floor = floor(&scratch.state().join("floor"), rounds)?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| line.append(&ledger, u64::from(lines) / THREADS).is_ok()))
            .collect();
        threads
            .into_iter()
            .all(|thread| matches!(thread.join(), Ok(true)))
    })
    .then_some(())
    .ok_or("a line could not be added")?;
    let eight = f64::from(lines) / began.elapsed().as_secs_f64();
    drop(ledger);

    let log = AuditLog::open(&data)?;
    let mut found = log.verify()?;
    let (mut verifying, mut hashing) = (Duration::MAX, Duration::MAX);
    for _ in 0..setup.effort.rounds_of(TURNS) {
        let began = Instant::now();
        found = log.verify()?;
        verifying = verifying.min(began.elapsed());
        hashing = hashing.min(hash_all(&scratch.state().join("audit"))?);
    }
    if !found.is_sound() {
        return Err(format!("the audit is not sound: {:?}", found.problems).into());
    }
    let micros = |took: Duration| took.as_secs_f64() * 1e6;
    let each = |took: Duration| micros(took) / f64::from(ROUND);
    Ok(vec![
        Row::at_most(
            "audit-open",
            Figure(micros(opening), Unit::Micros),
            1000.0,
            format!("opening a ledger, which every start waits for; wall, the best of {openings}"),
        ),
        Row {
            what: "audit-append",
            ours: Some(Figure(each(appending), Unit::Micros)),
            peer: Some(Figure(each(floor), Unit::Micros)),
            ratio: Some(Figure(each(appending) / each(floor), Unit::Times)),
            limit: Limit::None,
            note: format!(
                "a line, against one write and one sha256 of as many bytes; eight threads at once \
                 add {eight:.0} lines a second"
            ),
        },
        Row::at_most_times(
            "audit-verify",
            Unit::Micros,
            (micros(verifying), micros(hashing)),
            3.0,
            format!(
                "{} lines of {} bytes verified, against sha256 of the same files",
                found.lines,
                found.bytes / found.lines.max(1)
            ),
        ),
    ])
}

/// The shortest of some rounds: other programs run here too.
fn best(rounds: u32, mut once: impl FnMut() -> Outcome<Duration>) -> Outcome<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        best = best.min(once()?);
    }
    Ok(best)
}

/// A read of one file, as it stands in the audit.
struct Line {
    facts: Facts,
    subject: Subject,
    request: RequestId,
}

impl Line {
    fn new() -> Outcome<Self> {
        let facts = Facts {
            verb: Verb::Read,
            resources: vec![Resource {
                root: RootId::parse("main").ok_or("not a root id")?,
                kind: RootKind::Workspace,
                path: RelPath::parse("crates/gate/src/permits/mod.rs")
                    .map_err(|_bad| "not a path")?,
                access: Access::Read,
                identity: Some(Identity {
                    dev: 64_769,
                    ino: 12_345_678,
                    entity: Entity::File,
                    owner: 1000,
                    links: 1,
                }),
                above: None,
            }],
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        };
        let subject = Subject::agent_run(
            Principal::User { id: "ada".into() },
            ConversationId::new("c_01JABCDEF"),
            RunId::new("r_01JABCDEF"),
        );
        Ok(Self {
            facts,
            subject,
            request: RequestId::new("01JABCDEF-1234"),
        })
    }

    fn append(&self, ledger: &FileLedger, lines: u64) -> Outcome<()> {
        for n in 0..lines {
            ledger
                .append(&Event {
                    phase: Phase::Closing,
                    at: 1_794_000_000_000 + n,
                    request_id: &self.request,
                    route: "mcp",
                    called: None,
                    trace: None,
                    subject: &self.subject,
                    facts: &self.facts,
                    alleged: None,
                    outcome: Outcomes::Success,
                    policy_source: "mode:filesystem-read",
                    wrapper_ids: &[],
                    kind: None,
                    reason: None,
                    question: None,
                    answered_by: None,
                    bytes: Some(4096),
                    hash: None,
                    counts: None,
                    staged: None,
                    duration_us: 7,
                })
                .map_err(|_down| "a line could not be added")?;
        }
        Ok(())
    }
}

/// What a line of that length takes at least: one write and one hash.
fn floor(path: &Path, rounds: u32) -> Outcome<Duration> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let line = [b'x'; 529];
    best(rounds, || {
        let began = Instant::now();
        for _ in 0..ROUND {
            file.write_all(&line)?;
            std::hint::black_box(Sha256::digest(line));
        }
        Ok(began.elapsed())
    })
}

/// Reads and hashes what verifying reads, in one stream per file, as plainly as
/// it can be done.
fn hash_all(audit: &Path) -> Outcome<Duration> {
    let began = Instant::now();
    let mut buffer = vec![0; 64 << 10];
    for chain in std::fs::read_dir(audit)? {
        let chain = chain?.path();
        if !chain.is_dir() {
            continue;
        }
        for segment in std::fs::read_dir(chain)? {
            let mut file = File::open(segment?.path())?;
            let mut hasher = Sha256::new();
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    read => hasher.update(buffer.get(..read).unwrap_or_default()),
                }
            }
            std::hint::black_box(hasher.finalize());
        }
    }
    Ok(began.elapsed())
}
