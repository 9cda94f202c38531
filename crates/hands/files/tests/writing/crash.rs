//! Killed or failed at every system call: a target is unchanged or wholly
//! changed, and nothing is left after the next start.
//!
//! `strace` injects the death or the error; the child is this very binary, with
//! the real audit. Where strace is missing the tests say so and fail, since
//! `./test` installs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use portcullis_files::{
    Authority, Expect, FileLedger, LedgerOptions, PrivateDir, Resolver, WriteOptions,
};
use portcullis_gate::{Gate, GateParts, RootSpec};
use portcullis_policy::{Modes, RootPolicy, Rules};
use portcullis_proto::{AccessSet, Mode, RootId, RootKind};
use portcullis_testkit::{FakeClock, Scratch, forgetful_keeper};

use crate::support::{Calls, block_on, in_session, snapshot};

const TREE: &str = "PORTCULLIS_TEST_CRASH";
const VERB: &str = "PORTCULLIS_TEST_VERB";

/// What the child does, and what the tree holds before and after.
const VERBS: [&str; 9] = [
    "write", "create", "edit", "append", "move", "copy", "remove", "undo", "extract",
];
const TREE_BEFORE: &str = "f = one\n g = two\n d/x = deep\n d/y/z = deeper";

fn authority(base: &Path, prefix: &str) -> (Authority, PrivateDir) {
    let data = PrivateDir::open_or_create(&base.join("data")).unwrap();
    let options = LedgerOptions {
        head_every: std::time::Duration::from_hours(1),
        recover: false,
        ..LedgerOptions::default()
    };
    let clock = Arc::new(FakeClock::new());
    let ledger = FileLedger::open(&data, clock.clone(), options).unwrap();
    let gate = Gate::new(GateParts {
        ledger: Arc::new(ledger),
        clock,
        keeper: forgetful_keeper(),
        hooks: Vec::new(),
        rules: Rules::new(Modes::all(Mode::Allow)),
        prefix: prefix.into(),
    });
    let mut authority = Authority::new(gate, Vec::new(), None).keeping_undo_in(data.clone());
    let mut policy = RootPolicy::of(RootKind::Workspace);
    policy.ambient = AccessSet::ALL;
    let spec = RootSpec {
        id: RootId::parse("main").unwrap(),
        kind: RootKind::Workspace,
        display_name: None,
        policy,
        owner: None,
        trusted: true,
    };
    authority
        .declare(spec, &base.join("root"), Resolver::Best)
        .unwrap();
    (authority, data)
}

/// Not a test of its own: the process that is killed or failed.
#[test]
fn child_that_changes_something() {
    let Some(base) = std::env::var_os(TREE).map(PathBuf::from) else {
        return;
    };
    let (authority, _) = authority(&base, &format!("p{}", std::process::id()));
    let calls = Calls(authority.scope(&in_session("s"), None).unwrap());
    let verb = std::env::var(VERB).unwrap();
    // Everything below this line is what strace counts: it is told by a marker.
    let _marker = rustix::fs::access("/portcullis-test-begins", rustix::fs::Access::EXISTS);
    let done = act(&calls, &verb);
    let _marker = rustix::fs::access("/portcullis-test-ends", rustix::fs::Access::EXISTS);
    match done {
        Ok(()) => fs::write(base.join("told"), "done").unwrap(),
        Err(why) => {
            let told = format!("{} {}", why.kind().as_str(), why.reason().as_str());
            fs::write(base.join("told"), told).unwrap();
        }
    }
}

fn act(calls: &Calls, verb: &str) -> Result<(), portcullis_proto::Failure> {
    let options = WriteOptions::default();
    match verb {
        "write" => calls.write("f", "ONE, and more of it").map(drop),
        "create" => calls.write("n/e/w", "new").map(drop),
        "edit" => calls.edit("f", "one", "ONE, and more of it").map(drop),
        "append" => calls.append("f", ", and more of it").map(drop),
        "move" => calls.rename("f", "g").map(drop),
        "copy" => block_on(
            calls
                .0
                .copy_to("f", &Expect::Anything, &calls.0, "g", &options),
        )
        .map(drop),
        "remove" => calls.remove("d").map(drop),
        "extract" => {
            let fs = &calls.0;
            block_on(fs.extract_archive("packed", fs, "n/e/w")).map(drop)
        }
        "undo" => {
            let entries = calls.0.undo_entries()?;
            let last = entries.last().ok_or(portcullis_proto::Reason::NotFound)?;
            block_on(calls.0.undo_one(&last.id)).map(drop)
        }
        _ => panic!("{verb}"),
    }
}

/// A tar with a directory and two files, one of several blocks.
fn packed() -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in [("d/a", "deep"), ("b", &*"b".repeat(1_500))] {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(content.as_bytes());
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

struct Trial {
    scratch: Scratch,
}

type Tree = BTreeMap<String, (u32, Vec<u8>)>;

impl Trial {
    fn new(verb: &str) -> Self {
        let scratch = Scratch::of(TREE_BEFORE);
        let trial = Self { scratch };
        if verb == "extract" {
            trial.scratch.file("packed", packed());
        }
        if verb == "undo" {
            let (authority, _) = authority(trial.scratch.base(), "earlier");
            let calls = Calls(authority.scope(&in_session("s"), None).unwrap());
            calls.write("f", "changed").unwrap();
        }
        trial
    }

    fn tree(&self) -> Tree {
        snapshot(&self.scratch.root())
    }

    /// Runs the child with `inject`; whether anything was injected.
    fn run(&self, verb: &str, inject: &str) -> Ran {
        let log = self.scratch.base().join("strace");
        let child = Command::new("strace")
            .args(["-f", "-qq", "-o"])
            .arg(&log)
            .args(["-e", "trace=!clock_gettime,futex,mmap,munmap,brk,madvise"])
            .args(if inject.is_empty() {
                vec![]
            } else {
                vec!["-e", inject]
            })
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "crash::child_that_changes_something",
                "--nocapture",
            ])
            .arg("--test-threads=1")
            .env(TREE, self.scratch.base())
            .env(VERB, verb)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("strace, which ./test installs");
        let told = fs::read_to_string(self.scratch.base().join("told")).ok();
        let _gone = fs::remove_file(self.scratch.base().join("told"));
        Ran {
            told,
            died: !child.success(),
            log: fs::read_to_string(log).unwrap_or_default(),
        }
    }

    /// The next start: puts right what is left, and leaves nothing of ours.
    fn recover(&self) {
        let (authority, data) = authority(self.scratch.base(), "later");
        authority.recover(&data, false).unwrap();
        let left: Vec<_> = self.tree().into_keys().collect();
        assert!(
            !left.iter().any(|path| path.contains(".portcullis")),
            "left behind: {left:?}"
        );
        // A second start finds nothing more.
        let again = authority.recover(&data, false).unwrap();
        assert!(again.is_empty(), "{again:?}");
    }
}

struct Ran {
    told: Option<String>,
    died: bool,
    log: String,
}

/// The system calls of the act itself, by name, with how many came before.
fn calls_of(log: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    let mut inside = false;
    for line in log.lines() {
        let Some((_, call)) = line.split_once(' ') else {
            continue;
        };
        let Some((name, _)) = call.trim_start().split_once('(') else {
            continue;
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        if line.contains("portcullis-test-begins") {
            inside = true;
        } else if line.contains("portcullis-test-ends") {
            inside = false;
        } else if inside {
            calls.push((name.to_owned(), *count));
        }
    }
    calls
}

/// The calls worth failing: those that touch files.
const FILE_CALLS: [&str; 22] = [
    "openat",
    "openat2",
    "fstat",
    "statx",
    "newfstatat",
    "flock",
    "pread64",
    "read",
    "write",
    "fchmod",
    "fchown",
    "flistxattr",
    "fdatasync",
    "fsync",
    "renameat2",
    "renameat",
    "unlinkat",
    "mkdirat",
    "getdents64",
    "readlinkat",
    "lseek",
    "fstatfs",
];

fn trees(verb: &str) -> (Tree, Tree, Vec<(String, usize)>) {
    let trial = Trial::new(verb);
    let before = trial.tree();
    let ran = trial.run(verb, "");
    assert_eq!(ran.told.as_deref(), Some("done"), "{verb}");
    let calls = calls_of(&ran.log);
    let files = calls
        .iter()
        .filter(|(name, _)| FILE_CALLS.contains(&name.as_str()))
        .count();
    assert!(files > 5, "{verb}: {calls:?}");
    (before, trial.tree(), calls)
}

/// Directories that were made on the way may stay when a crash comes between.
fn without_empty_directories(tree: &Tree) -> Tree {
    tree.iter()
        .filter(|(path, (mode, _))| {
            let is_directory = mode & 0o170_000 == 0o040_000;
            let prefix = format!("{path}/");
            !is_directory
                || tree.keys().any(|other| {
                    other.starts_with(&prefix) && tree[other].0 & 0o170_000 != 0o040_000
                })
        })
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect()
}

/// `PORTCULLIS_STEPS=1` tries every step of every verb; otherwise each third.
fn every() -> usize {
    if std::env::var_os("PORTCULLIS_STEPS").is_some() {
        1
    } else {
        3
    }
}

#[test]
fn killed_at_every_step_a_target_is_whole_and_nothing_is_left() {
    let mut kills = 0;
    for (at, verb) in VERBS.into_iter().enumerate() {
        let (before, after, calls) = trees(verb);
        for (name, nth) in calls.iter().skip(at % every()).step_by(every()) {
            let trial = Trial::new(verb);
            let inject = format!("inject={name}:signal=SIGKILL:when={nth}");
            let ran = trial.run(verb, &inject);
            kills += usize::from(ran.died);
            trial.recover();
            let now = trial.tree();
            let bare = without_empty_directories(&now);
            let whole = bare == without_empty_directories(&before)
                || bare == without_empty_directories(&after);
            assert!(whole, "{verb} killed at {name} {nth}: {now:#?}");
            if ran.told.as_deref() == Some("done") {
                assert_eq!(now, after, "{verb} at {name} {nth}: told, and not done");
            }
        }
    }
    assert!(kills > 50, "{kills} kills");
    eprintln!("{kills} kills, 0 torn, 0 left behind");
}

#[test]
fn failed_at_every_step_a_target_is_whole_and_nothing_is_left() {
    let errors = ["ENOSPC", "EIO", "EDQUOT", "EACCES", "EINTR"];
    let mut failed = 0;
    let mut turn = 0;
    for verb in VERBS {
        let (before, after, calls) = trees(verb);
        let steps = calls
            .iter()
            .filter(|(name, _)| FILE_CALLS.contains(&name.as_str()));
        for (name, nth) in steps.step_by(every()) {
            turn += 1;
            let error = errors[turn % errors.len()];
            let trial = Trial::new(verb);
            let ran = trial.run(verb, &format!("inject={name}:error={error}:when={nth}"));
            let told = ran
                .told
                .unwrap_or_else(|| panic!("{verb}: died at {name} {nth} {error}"));
            let now = trial.tree();
            let left = now.keys().any(|path| path.contains(".portcullis"));
            assert!(
                !left,
                "{verb} failed at {name} {nth} with {error}: {:?}",
                now.keys()
            );
            if told == "done" {
                assert_eq!(now, after, "{verb} at {name} {nth} {error}");
            } else {
                failed += 1;
                let bare = without_empty_directories(&now);
                let whole = bare == without_empty_directories(&before)
                    || bare == without_empty_directories(&after);
                assert!(
                    whole,
                    "{verb} failed at {name} {nth} with {error} ({told}): {now:#?}"
                );
            }
        }
    }
    assert!(failed > 20, "{failed} failures");
    eprintln!("{turn} errors injected, {failed} told as failures");
}
