//! A process that changes something and is killed or failed while it does:
//! this very binary, with the real audit, under `strace`.
//!
//! A change runs in two threads: one resolves and asks, one acts. strace counts
//! the calls of each thread for itself, so it is attached to the one thread
//! whose call is to be hit, when everything before the change is done.
//!
//! Where strace is missing the tests say so and fail, since `./test` installs it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use portcullis_files::archive::PackAs;
use portcullis_files::{
    AuditLog, Authority, Expect, FileLedger, Filter, Interrupted, LedgerOptions, PrivateDir,
    Resolver, WriteOptions,
};
use portcullis_gate::{Gate, GateParts, RootSpec};
use portcullis_policy::{Modes, RootPolicy, Rules};
use portcullis_proto::{AccessSet, Failure, Mode, Reason, RelPath, RootId, RootKind};
use portcullis_testkit::{RealClock, Scratch, forgetful_keeper};

use crate::course::Thread;
use crate::support::{Calls, ONE_RUNTIME, block_on, in_session, runtime, snapshot};

const TREE: &str = "PORTCULLIS_TEST_CRASH";
const VERB: &str = "PORTCULLIS_TEST_VERB";
const TRACED: &str = "PORTCULLIS_TEST_TRACED";

/// Every change that a failed call ends, by name. What is undone or redone was
/// done earlier, by another process.
pub(crate) const VERBS: [&str; 25] = [
    "write",
    "create",
    "edit",
    "append",
    "move",
    "move_over",
    "move_tree",
    "copy",
    "copy_new",
    "remove",
    "remove_tree",
    "mkdir",
    "chmod",
    "extract",
    "undo_write",
    "undo_create",
    "undo_remove",
    "undo_move",
    "undo_move_over",
    "undo_mkdir",
    "undo_chmod",
    "undo_copy",
    "undo_extract",
    "redo_move_over",
    "redo_remove",
];
/// Packing a directory, to where nothing is and over what is there.
pub(crate) const PACKINGS: [&str; 4] = ["pack", "pack_over", "undo_pack", "undo_pack_over"];
const BEFORE: &str = "f = one\n g = two\n d/x = deep\n d/y/z = deeper\n keep/foreign = precious";

pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

/// How the tree lies on its mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    /// All on one.
    One,
    /// The data directory in memory, and no store in the root: by copy.
    StoreElsewhere,
    /// `f` is itself a mount.
    FileIsMount,
}

pub(crate) fn authority(base: &Path, prefix: &str) -> (Authority, PrivateDir) {
    let data = PrivateDir::open_or_create(&base.join("data")).unwrap();
    let options = LedgerOptions {
        head_every: std::time::Duration::from_hours(1),
        recover: false,
        ..LedgerOptions::default()
    };
    let clock = Arc::new(RealClock::new());
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
    if base.join("f-is-a-mount").exists() {
        policy.mounts = vec![RelPath::parse("f").unwrap()];
    }
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

pub(crate) fn calls(authority: &Authority) -> Calls {
    Calls(authority.scope(&in_session("s"), None).unwrap())
}

/// Not a test of its own: the process that is killed or failed.
#[test]
fn child_that_changes_something() {
    let Some(base) = std::env::var_os(TREE).map(PathBuf::from) else {
        return;
    };
    ONE_RUNTIME.get_or_init(runtime);
    let (authority, _) = authority(&base, &format!("p{}", std::process::id()));
    let calls = calls(&authority);
    let verb = std::env::var(VERB).unwrap();
    if let Some(most) = verb.strip_prefix("short_") {
        let limit = rustix::process::Rlimit {
            current: most.parse().ok(),
            maximum: None,
        };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    }
    let tid = || rustix::thread::gettid().as_raw_nonzero().get();
    let acting = block_on(async { tokio::task::spawn_blocking(tid).await.unwrap() });
    let threads = format!("{} {} {acting}", std::process::id(), tid());
    fs::write(base.join("threads~"), threads).unwrap();
    fs::rename(base.join("threads~"), base.join("threads")).unwrap();
    wait_for_tracer(&base);
    // Everything from here on is what strace counts.
    let done = act(&calls, &verb);
    let _marker = rustix::fs::access("/portcullis-test-ends", rustix::fs::Access::EXISTS);
    let told = match done {
        Ok(undo) => {
            fs::write(base.join("undo"), undo.unwrap_or_default()).unwrap();
            "done".to_owned()
        }
        Err(why) => format!(
            "{} {}\n{why}\n{}",
            why.kind().as_str(),
            why.reason().as_str(),
            why.next_step().unwrap_or_default()
        ),
    };
    fs::write(base.join("told"), told).unwrap();
}

/// Waits until those who are to be traced are: each makes a call that nobody
/// else makes, until that stands in the tracer's log.
fn wait_for_tracer(base: &Path) {
    let traced = std::env::var(TRACED).unwrap();
    let log = base.join("strace");
    let wait = move |mark: &'static str| {
        let seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let looker = {
            let (seen, log) = (Arc::clone(&seen), log.clone());
            std::thread::spawn(move || {
                let patience = Instant::now() + portcullis_testkit::PATIENCE;
                while !fs::read_to_string(&log).is_ok_and(|log| log.contains(mark)) {
                    assert!(Instant::now() < patience, "no tracer came");
                    std::thread::sleep(Duration::from_micros(300));
                }
                seen.store(true, Ordering::Release);
            })
        };
        while !seen.load(Ordering::Acquire) {
            let _marker = rustix::fs::access(mark, rustix::fs::Access::EXISTS);
            std::thread::sleep(Duration::from_micros(300));
        }
        looker.join().unwrap();
    };
    let also = wait.clone();
    if traced != "Asking" {
        block_on(async move {
            let acting = tokio::task::spawn_blocking(move || also("/portcullis-test-acting"));
            acting.await.unwrap();
        });
    }
    if traced != "Acting" {
        wait("/portcullis-test-asking");
    }
}

/// The child's process, its asking thread and its acting one.
pub(crate) fn threads(base: &Path) -> (i32, i32, i32) {
    let told = fs::read_to_string(base.join("threads")).unwrap();
    let mut ids = told.split(' ').map(|id| id.parse().unwrap());
    let mut next = || ids.next().unwrap();
    (next(), next(), next())
}

pub(crate) const LONG: usize = 100_000;

/// Makes the change; says under which name it can be undone.
fn act(calls: &Calls, verb: &str) -> Result<Option<String>, Failure> {
    let options = WriteOptions::default();
    let copy_to = |to| {
        let fs = &calls.0;
        block_on(fs.copy_to("f", &Expect::Anything, fs, to, &options))
    };
    Ok(match verb {
        "write" => calls.write("f", "ONE, and more of it")?.receipt.undo,
        "create" => calls.write("n/e/w", "new")?.receipt.undo,
        "edit" => {
            let edited = calls.edit("f", "one", "ONE, and more of it")?;
            edited.receipt.undo
        }
        "append" => calls.append("f", ", and more of it")?.receipt.undo,
        "move" => calls.rename("f", "m/o/h")?.undo,
        "move_over" => calls.rename("f", "g")?.undo,
        "move_tree" => calls.rename("d", "m/d")?.undo,
        "copy" => copy_to("g")?.receipt.undo,
        "copy_new" => copy_to("n/c")?.receipt.undo,
        "remove" => calls.remove("f")?.undo,
        "remove_tree" => calls.remove("d")?.undo,
        "mkdir" => calls.mkdir("n/e/w")?.undo,
        "chmod" => calls.chmod("f", 0o640)?.undo,
        "extract" => {
            let fs = &calls.0;
            let extracted = block_on(fs.extract_archive("packed", fs, "n/e/w"))?;
            extracted.receipt.undo
        }
        verb if verb.starts_with("short_") => {
            let long = "long ".repeat(LONG / 5);
            calls.write("f", &long)?.receipt.undo
        }
        "pack" => pack(calls, "n/e/w", PackAs::TarGz)?,
        "pack_over" => pack(calls, "g", PackAs::Zip)?,
        verb if verb.starts_with("undo_") || verb.starts_with("redo_") => {
            let entries = calls.0.undo_entries()?;
            let last = entries.last().ok_or(Reason::NotFound)?;
            block_on(calls.0.undo_one(&last.id))?.redo
        }
        _ => panic!("{verb}"),
    })
}

fn pack(calls: &Calls, to: &str, pack_as: PackAs) -> Result<Option<String>, Failure> {
    let (fs, options) = (&calls.0, WriteOptions::default());
    let packed = block_on(fs.create_archive("d", fs, to, pack_as, true, &options))?;
    assert!(packed.complete && packed.entries == 3, "{packed:?}");
    Ok(packed.receipt.undo)
}

/// A tar with a directory and two files, one of several blocks.
fn packed() -> Vec<u8> {
    tar_of(&[("d/a", "deep"), ("b", &"b".repeat(1_500))])
}

/// A tar of these files.
pub(crate) fn tar_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
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

pub(crate) struct Trial {
    pub(crate) scratch: Scratch,
    foreign: u64,
    /// The tree before everything, for undoing all of it.
    first: Tree,
}

impl Trial {
    pub(crate) fn new(verb: &str) -> Self {
        Self::on(Mounts::One, verb).unwrap()
    }

    /// With its mounts; `None` where the kernel lets nobody mount.
    pub(crate) fn on(mounts: Mounts, verb: &str) -> Option<Self> {
        let scratch = Scratch::of(BEFORE);
        match mounts {
            Mounts::One => {}
            Mounts::StoreElsewhere => {
                scratch.add("../data/");
                scratch.chmod("../data", 0o700);
                // Neither the top of the mount nor the root can hold a store:
                // what has their names belongs to others.
                scratch.bind(".", ".").then_some(())?;
                scratch.tmpfs("../data").then_some(())?;
                scratch.chmod("../data", 0o700);
                scratch.file(".portcullis", "in the way");
            }
            Mounts::FileIsMount => {
                scratch.add("../real = one\n ../f-is-a-mount = yes");
                scratch.bind("../real", "f").then_some(())?;
            }
        }
        if verb.ends_with("extract") {
            scratch.file("packed", packed());
        }
        let first = snapshot(&scratch.root());
        let earlier = verb
            .strip_prefix("undo_")
            .or_else(|| verb.strip_prefix("redo_"));
        if let Some(earlier) = earlier {
            let (authority, _) = authority(scratch.base(), "earlier");
            let calls = calls(&authority);
            let verb_done = match earlier {
                "remove" => "remove_tree",
                other => other,
            };
            act(&calls, verb_done).unwrap();
            if verb.starts_with("redo_") {
                act(&calls, "undo_").unwrap();
            }
        }
        let foreign = fs::metadata(scratch.root().join("keep/foreign")).unwrap();
        Some(Self {
            foreign: foreign.ino(),
            first,
            scratch,
        })
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = snapshot(&self.scratch.root());
        // In the way of a store, where that is tried.
        if tree
            .get(".portcullis")
            .is_some_and(|(_, text)| text == b"in the way")
        {
            tree.remove(".portcullis");
        }
        tree
    }

    /// Runs the child with these injections into one thread; what came of it.
    pub(crate) fn run(&self, verb: &str, thread: Thread, inject: &[String]) -> Ran {
        self.start(verb, Some(thread), inject).end(self)
    }

    /// Starts the child, and strace on the thread, or on both.
    pub(crate) fn start(&self, verb: &str, thread: Option<Thread>, inject: &[String]) -> Started {
        let base = self.scratch.base();
        let _of_before = fs::remove_file(base.join("threads"));
        let _of_before = fs::remove_file(base.join("strace"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim::child_that_changes_something"])
            .args(["--nocapture", "--test-threads=1"])
            .env(TREE, base)
            .env(VERB, verb)
            .env(
                TRACED,
                thread.map_or("both".to_owned(), |thread| format!("{thread:?}")),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let patience = Instant::now() + portcullis_testkit::PATIENCE;
        while !base.join("threads").exists() {
            assert!(Instant::now() < patience, "the child is not ready");
            assert!(child.try_wait().unwrap().is_none(), "the child is dead");
            std::thread::sleep(Duration::from_micros(300));
        }
        let (_, asking, acting) = threads(base);
        let mut strace = Command::new("strace");
        strace
            .args(["-qq", "-y", "-o"])
            .arg(base.join("strace"))
            .args([
                "-e",
                "trace=!clock_gettime,futex,mmap,munmap,mprotect,brk,madvise",
            ])
            .args(["-e", "signal=none"]);
        for inject in inject {
            strace.args(["-e", inject]);
        }
        for (which, id) in [(Thread::Asking, asking), (Thread::Acting, acting)] {
            if thread.is_none_or(|thread| thread == which) {
                strace.args(["-p", &id.to_string()]);
            }
        }
        let strace = strace
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace, which ./test installs");
        Started { child, strace }
    }

    /// The next start: puts right what is left, leaves nothing of ours, tells
    /// the audit, and everything that is kept can be undone.
    pub(crate) fn recover(&self) -> Vec<Interrupted> {
        let (authority, data) = authority(self.scratch.base(), "later");
        let found = authority.recover(&data, false).unwrap();
        assert!(found.iter().all(|one| one.why.is_none()), "{found:?}");
        self.nothing_is_left();
        // A second start finds nothing more.
        let again = authority.recover(&data, false).unwrap();
        assert!(again.is_empty(), "{again:?}");
        every_opening_line_is_closed(&data);
        found
    }

    pub(crate) fn nothing_is_left(&self) {
        self.nothing_is_left_but("");
    }

    /// Nothing is left, but for what the kernel was made to refuse to remove.
    pub(crate) fn nothing_is_left_but(&self, refused: &str) {
        let ours = |path: &String| path.contains(".portcullis") || path.contains(".conflict-");
        let mut left: Vec<_> = self.tree().into_keys().filter(ours).collect();
        left.extend(left_in_store(self.scratch.base()));
        left.retain(|name| !refused.contains(&format!("\"{name}\"")));
        assert!(left.is_empty(), "left behind: {left:?}");
        let foreign = self.scratch.root().join("keep/foreign");
        assert_eq!(fs::metadata(&foreign).unwrap().ino(), self.foreign);
        assert_eq!(fs::read(foreign).unwrap(), b"precious");
    }

    /// All that is kept can be undone; of an operation that was no undoing that
    /// brings everything back.
    pub(crate) fn everything_can_be_undone(&self, verb: &str) {
        assert_eq!(self.what_cannot_be_undone(verb), None, "{verb}");
    }

    /// The same, as what is wrong.
    pub(crate) fn what_cannot_be_undone(&self, verb: &str) -> Option<String> {
        let (authority, _) = authority(self.scratch.base(), "last");
        let calls = calls(&authority);
        let left = calls.undo_all();
        if !left.is_empty() {
            return Some(format!("not undone: {left:?}"));
        }
        let mut first = self.first.clone();
        first.remove(".portcullis");
        let now = self.tree();
        let undoes = verb.starts_with("undo_") || verb.starts_with("redo_");
        (!undoes && now != first).then(|| format!("undone, and not as before: {now:?}"))
    }
}

/// What is in the store of the root and should be there only for a moment.
pub(crate) fn left_in_store(base: &Path) -> Vec<String> {
    let stores = fs::read_dir(base.join("data/undo")).into_iter().flatten();
    stores
        .flat_map(|store| fs::read_dir(store.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !matches!(name.rsplit_once('.'), Some((_, "json" | "pre"))))
        .collect()
}

pub(crate) fn every_opening_line_is_closed(data: &PrivateDir) {
    let log = AuditLog::open(data).unwrap();
    let mut open = std::collections::BTreeSet::new();
    let mut closed = std::collections::BTreeSet::new();
    for record in log.records(Filter::default()).unwrap() {
        // What a dying process left torn is no line.
        let Ok(record) = record else { continue };
        let Some(request) = record.request_id else {
            continue;
        };
        match record.phase.as_deref() {
            Some("opening") => drop(open.insert(request)),
            Some("closing") => drop(closed.insert(request)),
            _ => {}
        }
    }
    let unclosed: Vec<_> = open.difference(&closed).collect();
    assert!(unclosed.is_empty(), "never closed: {unclosed:?}");
}

/// A child under way, and its strace.
pub(crate) struct Started {
    child: Child,
    strace: Child,
}

impl Started {
    pub(crate) fn end(mut self, trial: &Trial) -> Ran {
        let base = trial.scratch.base();
        let success = self.child.wait().unwrap().success();
        self.strace.wait().unwrap();
        let take = |name| {
            let text = fs::read_to_string(base.join(name)).ok();
            let _gone = fs::remove_file(base.join(name));
            text
        };
        Ran {
            told: take("told"),
            undo: take("undo").filter(|id| !id.is_empty()),
            died: !success,
            log: fs::read_to_string(base.join("strace")).unwrap_or_default(),
        }
    }
}

pub(crate) struct Ran {
    pub(crate) told: Option<String>,
    /// Under which name it can be undone.
    pub(crate) undo: Option<String>,
    pub(crate) died: bool,
    pub(crate) log: String,
}
