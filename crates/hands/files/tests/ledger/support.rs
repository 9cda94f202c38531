//! A data directory that goes away, a real clock and events to write.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_files::{AuditLog, FileLedger, LedgerOptions, PrivateDir, Verification};
use portcullis_gate::{Clock, Ledger, LedgerDown};
use portcullis_proto::{
    Access, Entity, Event, Facts, Identity, Outcome, Phase, Principal, RelPath, RequestId,
    Resource, RootId, RootKind, Subject, Verb,
};

/// A data directory that is removed when dropped.
pub(crate) struct Data {
    pub(crate) path: PathBuf,
    pub(crate) dir: PrivateDir,
}

impl Data {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = std::env::temp_dir().join(format!(
            "pc-ledger-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let _left_over = std::fs::remove_dir_all(&path);
        let dir = PrivateDir::open_or_create(&path).unwrap();
        Self { path, dir }
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }

    pub(crate) fn ledger(&self, options: LedgerOptions) -> FileLedger {
        FileLedger::open(&self.dir, Arc::new(RealClock::new()), options).unwrap()
    }

    /// A closed chain of `lines` events; where its first segment is.
    pub(crate) fn closed_chain(&self, lines: u64) -> PathBuf {
        let ledger = self.ledger(quiet());
        for n in 0..lines {
            append(&ledger, n).unwrap();
        }
        self.segment(ledger.chain(), 0)
    }

    pub(crate) fn segment(&self, chain: &str, number: u32) -> PathBuf {
        self.audit().join(chain).join(format!("{number:03}.jsonl"))
    }

    pub(crate) fn log(&self) -> AuditLog {
        AuditLog::open(&self.dir).unwrap()
    }

    pub(crate) fn verify(&self) -> Verification {
        self.log().verify().unwrap()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.path);
    }
}

/// No head but those the test causes, no mending but where the test asks.
pub(crate) fn quiet() -> LedgerOptions {
    LedgerOptions {
        head_every: Duration::from_hours(1),
        recover: false,
        ..LedgerOptions::default()
    }
}

pub(crate) struct RealClock(Instant);

impl RealClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

/// Appends the read of `src/<n>.rs` by `ada` as request `r<n>`.
pub(crate) fn append(ledger: &FileLedger, n: u64) -> Result<(), LedgerDown> {
    append_with(ledger, n, Verb::Read, Outcome::Success)
}

pub(crate) fn append_with(
    ledger: &FileLedger,
    n: u64,
    verb: Verb,
    outcome: Outcome,
) -> Result<(), LedgerDown> {
    put(ledger, n, Phase::Closing, verb, outcome)
}

/// Appends the line before `verb` acts.
pub(crate) fn begin(ledger: &FileLedger, n: u64, verb: Verb) -> Result<(), LedgerDown> {
    put(ledger, n, Phase::Opening, verb, Outcome::Begun)
}

fn put(
    ledger: &FileLedger,
    n: u64,
    phase: Phase,
    verb: Verb,
    outcome: Outcome,
) -> Result<(), LedgerDown> {
    let facts = Facts {
        verb,
        resources: vec![Resource {
            root: RootId::parse("main").unwrap(),
            kind: RootKind::Workspace,
            path: RelPath::parse(&format!("src/{n}.rs")).unwrap(),
            access: Access::Read,
            identity: Some(Identity {
                dev: 2049,
                ino: n,
                entity: Entity::File,
                owner: 0,
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
    ledger.append(&Event {
        phase,
        at: 1_794_000_000_000 + n,
        request_id: &RequestId::new(format!("r{n}")),
        route: "mcp",
        called: None,
        trace: None,
        subject: &Subject::of(Principal::User { id: "ada".into() }),
        facts: &facts,
        alleged: None,
        outcome,
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
        duration_us: 5,
    })
}

/// The lines of a file, each with its newline.
pub(crate) fn lines(path: &Path) -> Vec<Vec<u8>> {
    std::fs::read(path)
        .unwrap()
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// Waits for something another thread will do; fails after ten seconds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + portcullis_testkit::PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::yield_now();
    }
}
