//! What the tests share: a directory, questions, a clock, another process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_gate::{Answer, Clock, Decision, Question, Surface};
use portcullis_policy::{Effect, Rule};
use portcullis_proto::{
    Access, Digest, Facts, Group, Principal, QuestionId, RelPath, Resource, RootId, RootKind,
    Subject, Verb,
};

/// When the tests take place.
pub(crate) const NOW: u64 = 1_700_000_000_000;
/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = portcullis_testkit::PATIENCE;

/// A private directory, removed when dropped.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        Self::below(std::env::temp_dir())
    }

    /// Where syncing costs nothing, if there is such a place: for tests that
    /// write ten thousand times and are not about the disk.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            Self::below(memory.to_owned())
        } else {
            Self::new()
        }
    }

    fn below(parent: PathBuf) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = parent.join(format!(
            "portcullis-store-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.join("state.db")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The database itself, as somebody with the sqlite3 program has it.
pub(crate) fn raw(dir: &Dir) -> rusqlite::Connection {
    rusqlite::Connection::open(dir.db()).unwrap()
}

pub(crate) fn rule(effect: Effect, pattern: &str) -> Rule {
    Rule {
        effect,
        group: Group::FilesystemRead,
        root: RootId::parse("work"),
        pattern: pattern.to_owned(),
        covers_protected: false,
        exact_path: false,
        source: "answer:q_1".into(),
    }
}

pub(crate) fn id(name: &str) -> QuestionId {
    QuestionId::new(name)
}

pub(crate) fn question(name: &str) -> Question {
    Question {
        id: id(name),
        digest: Digest([7; 32]),
        subject: Subject::of(Principal::User { id: "ada".into() }),
        facts: Facts {
            verb: Verb::Read,
            resources: vec![Resource {
                root: RootId::parse("work").unwrap(),
                kind: RootKind::Workspace,
                path: RelPath::parse("src/.env").unwrap(),
                access: Access::Read,
                identity: None,
                above: None,
            }],
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        },
        class: Some("secret".to_owned()),
        source: "builtin:secret".to_owned(),
        exact_path: true,
        about: None,
        offered: vec![Decision::AllowOnce, Decision::DenyOnce],
        asked_at: NOW,
        deadline: NOW + 55_000,
    }
}

pub(crate) fn answer(decision: Decision, by: &str) -> Answer {
    Answer {
        decision,
        surface: Surface::Terminal,
        by: by.to_owned(),
    }
}

/// A clock that is set by hand.
#[derive(Debug, Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn at(now: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now)))
    }
}

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.now_ms() * 1000
    }
}

/// Another process: this very binary, told to play `role` on `dir`.
pub(crate) fn other(role: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::play",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("STORE_ROLE", role)
        .env("STORE_DIR", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The lines of `text` that a role said, without what the test runner adds.
pub(crate) fn said(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.split_once("said:").map(|(_, said)| said.to_owned()))
        .collect()
}

#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}
