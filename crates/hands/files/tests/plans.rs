//! Random operation plans over hostile names, against cap-std as oracle.
//!
//! Each plan is a small tree with links of every kind, and some hundred readings
//! of paths made of real names and of what attackers write. Where we allow, cap-std
//! must allow too and give the same bytes and names; nothing from outside may come
//! back, nothing may panic. A short run is part of the tests; the long one:
//!
//! ```text
//! PORTCULLIS_PLANS=10000000 cargo test --release -p portcullis-files --test plans -- --nocapture
//! ```
//!
//! `PORTCULLIS_PLANS_SEED` repeats a run.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests plant what Portcullis is tried on"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _};
use portcullis_files::{
    ByteWindow, GlobRequest, ListRequest, Order, ScopedFs, TextFrom, TextRequest, TreeNode,
    TreeRequest, Want,
};
use portcullis_policy::{Hardlinks, Symlinks};
use portcullis_proto::{Failure, Reason, RelPath};
use portcullis_testkit::{Scratch, World};

/// Readings per tree.
const PER_TREE: u64 = 2_000;
const SHORT: u64 = 20_000;
/// In what nothing inside has, and everything outside.
const MARK: &str = "CANARY";

/// Splitmix64: small, seeded, good enough to wander.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end.max(1) as u64).unwrap()
    }

    fn one_of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "src",
    "lib.rs",
    "data.json",
    "deep",
    "x y",
    "ü",
    "e\u{301}",
    "...",
    "..a",
    "-rf",
    "*",
    "[b]",
    "con",
    "aux.txt",
    "name.",
    "trail ",
    ".hidden",
    "~",
    "C:x",
    "a:stream",
    "%2e%2e",
    "\\..\\b",
    "README",
    ".gitignore",
    ".env",
    "key.pem",
];

/// What no file inside is called, and attackers write.
const HOSTILE: &[&str] = &[
    "..",
    "..",
    ".",
    "",
    "\0",
    "a\0b",
    "\n",
    "\u{202e}gnp",
    "\u{200f}",
    "\u{7f}",
    "\r",
    "....",
    ". .",
    "..\u{2044}etc",
    "\u{ff0e}\u{ff0e}",
    "CANARY.txt",
    "out",
    "proc",
    "self",
    "etc",
    "passwd",
    "portcullis",
    "\t",
    "a\u{feff}",
    "\u{1b}[0m",
];

const TARGETS: &[&str] = &[
    "a",
    "b",
    "../a",
    "src",
    "../src",
    "deep/a",
    ".",
    "..",
    "../..",
    "../out",
    "../../out",
    "../out/CANARY.txt",
    "../../out/CANARY.txt",
    "../out/dir",
    "/etc/passwd",
    "/",
    "/proc/self/root",
    "/proc/self/cwd",
    "missing",
    "loop",
    "../root/a",
    "a/../../out",
    "/dev/null",
    ".env",
];

/// A tree, and everything that really is in it.
struct Plan {
    world: World,
    oracle: Dir,
    real: BTreeSet<String>,
    dirs: Vec<String>,
    follows: bool,
}

fn plant(dice: &mut Dice) -> Plan {
    let scratch = Scratch::in_memory("");
    scratch.file("../out/CANARY.txt", MARK);
    scratch.file("../out/dir/CANARY.txt", MARK);
    scratch.file("../root_CANARY/CANARY.txt", MARK);
    let mut dirs = vec![String::new()];
    for _ in 0..8 + dice.below(16) {
        let parent = dirs[dice.below(dirs.len())].clone();
        let path = format!("{parent}{}", dice.one_of(NAMES));
        let place = scratch.at(&path);
        // What is taken already is left as it is.
        match dice.below(14) {
            0..=3 => {
                if std::fs::create_dir(&place).is_ok() {
                    dirs.push(format!("{path}/"));
                }
            }
            4..=8 if place.symlink_metadata().is_err() => {
                let content = format!("{{\"inside\": {}}}", dice.roll() % 1000);
                let content = format!("[{}{content}]", "1, ".repeat(dice.below(20)));
                drop(std::fs::write(&place, content));
            }
            9..=10 => drop(std::os::unix::fs::symlink(dice.one_of(TARGETS), &place)),
            11 => drop(std::fs::hard_link(scratch.at("../out/CANARY.txt"), &place)),
            12 if place.symlink_metadata().is_err() => scratch.add(&format!("{path} |")),
            _ => {
                let odd = std::ffi::OsStr::from_bytes(b"odd\xff\xfe");
                drop(std::fs::write(scratch.at(&parent).join(odd), "inside"));
            }
        }
    }
    let oracle = Dir::open_ambient_dir(scratch.root(), ambient_authority()).unwrap();
    let mut real = BTreeSet::new();
    survey(&scratch.root(), "", &mut real);
    let follows = dice.chance(50);
    let mut builder = World::workspace().policy(|policy| {
        policy.hardlinks = Hardlinks::Reject;
        if follows {
            policy.symlinks = Symlinks::AllowInRoot;
        }
    });
    let best_effort = dice.chance(25);
    if best_effort {
        builder = builder.best_effort();
    }
    let world = builder.over(scratch);
    world.lines.forget();
    Plan {
        world,
        oracle,
        real,
        dirs,
        follows: follows && !best_effort,
    }
}

fn survey(dir: &std::path::Path, above: &str, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = format!("{above}{name}");
        if entry.file_type().unwrap().is_dir() {
            survey(&entry.path(), &format!("{path}/"), into);
        }
        into.insert(path);
    }
}

/// A path, as bytes: half of them lead somewhere, none is to be trusted.
fn alleged(dice: &mut Dice, plan: &Plan) -> Vec<u8> {
    let mut path = Vec::new();
    if dice.chance(65) {
        let at = dice.below(plan.real.len() + 1);
        if let Some(real) = plan.real.iter().nth(at) {
            path.extend_from_slice(real.as_bytes());
        }
        if dice.chance(75) {
            return path;
        }
    }
    if dice.chance(4) {
        path.insert(0, b'/');
    }
    for _ in 0..dice.below(5) {
        let parts: [&[u8]; 4] = [b"/", b"/", b"//", b"/./"];
        if !path.is_empty() {
            path.extend_from_slice(dice.one_of(&parts));
        }
        match dice.below(20) {
            0..=9 => path.extend_from_slice(dice.one_of(NAMES).as_bytes()),
            10..=16 => path.extend_from_slice(dice.one_of(HOSTILE).as_bytes()),
            17 => path.extend_from_slice(&[0xff, 0xc0, 0xaf]),
            18 => path.extend(std::iter::repeat_n(b'n', 250 + dice.below(12))),
            _ => {
                let unit: [&[u8]; 3] = [b"d/", b"../", b"\xc3\xa9"];
                let unit = dice.one_of(&unit);
                path.extend(unit.repeat(4090 / unit.len() + dice.below(12)));
            }
        }
    }
    path.extend(std::iter::repeat_n(b'/', dice.below(3)));
    path
}

const VERBS: usize = 7;
const VERB_NAMES: [&str; VERBS] = ["bytes", "text", "json", "list", "stat", "glob", "tree"];

/// How often each verb was tried, and how often it came to something.
#[derive(Clone, Copy, Default)]
struct Tally {
    tried: [u64; VERBS],
    done: [u64; VERBS],
    compared: u64,
}

#[track_caller]
fn nothing_from_outside(what: &[u8], path: &str) {
    let found = what.windows(MARK.len()).any(|part| part == MARK.as_bytes());
    assert!(!found, "escape: {path:?} returned what is outside");
}

fn settle<T>(result: Result<T, Failure>, path: &str) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(failure) => {
            let reason = failure.reason();
            assert!(
                !matches!(reason, Reason::Bug | Reason::Io | Reason::AuditUnavailable),
                "{path:?}: {failure:?}"
            );
            None
        }
    }
}

async fn step(plan: &Plan, fs: &ScopedFs, dice: &mut Dice, tally: &mut Tally) {
    let bytes = alleged(dice, plan);
    // A surface gets bytes; only what is text becomes a path at all.
    let Ok(path) = std::str::from_utf8(&bytes) else {
        assert!(RelPath::parse_bytes(&bytes).is_err());
        tally.tried[0] += 1;
        return;
    };
    // Walks cost a change of thread, so they are tried less often.
    let verb = match dice.below(100) {
        0..=29 => 0,
        30..=49 => 1,
        50..=59 => 2,
        60..=79 => 3,
        80..=95 => 4,
        96..=97 => 5,
        _ => 6,
    };
    tally.tried[verb] += 1;
    let compared = match verb {
        0 => read_bytes(plan, fs, dice, path).await,
        1 => read_text(plan, fs, dice, path).await,
        2 => settle(fs.read_json(path).await, path).map(|value| {
            nothing_from_outside(value.to_string().as_bytes(), path);
        }),
        3 => list(plan, fs, dice, path).await,
        4 => stat(plan, fs, path).await,
        5 => glob(plan, fs, path).await,
        _ => tree(plan, fs, dice, path).await,
    };
    if compared.is_some() {
        tally.done[verb] += 1;
        tally.compared += 1;
    }
}

/// The path both are asked for: ours takes a trailing slash, theirs minds it.
fn shared(path: &str) -> RelPath {
    RelPath::parse(path).expect("what was done had a path")
}

async fn read_bytes(plan: &Plan, fs: &ScopedFs, dice: &mut Dice, path: &str) -> Option<()> {
    let whole = dice.chance(70);
    let window = if whole {
        ByteWindow::Whole
    } else {
        let offset = if dice.chance(90) {
            dice.roll() % 64
        } else {
            dice.roll()
        };
        let max = dice.below(64);
        ByteWindow::Part { offset, max }
    };
    let page = settle(fs.read_bytes(path, window).await, path)?;
    nothing_from_outside(&page.bytes, path);
    let theirs = plan
        .oracle
        .read(shared(path).shown())
        .unwrap_or_else(|error| {
            panic!("cap-std refuses {path:?}, which we allow: {error}");
        });
    match window {
        ByteWindow::Whole => assert_eq!(page.bytes, theirs, "{path:?}"),
        ByteWindow::Part { offset, max } => {
            let from = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(theirs.len());
            let end = from.saturating_add(max).min(theirs.len());
            assert_eq!(page.bytes, &theirs[from..end], "{path:?}");
        }
    }
    Some(())
}

async fn read_text(plan: &Plan, fs: &ScopedFs, dice: &mut Dice, path: &str) -> Option<()> {
    let request = TextRequest {
        from: match dice.below(8) {
            0 => TextFrom::Tail(dice.roll() % 4),
            1 => TextFrom::Byte(dice.roll() % 40),
            2 => TextFrom::Byte(dice.roll()),
            3 => TextFrom::Cursor(dice.one_of(HOSTILE).to_owned()),
            _ => TextFrom::Line(1),
        },
        max_lines: 100,
        max_bytes: 4096,
        max_line_bytes: dice.chance(20).then_some(16),
        encoding: None,
        classify: dice.chance(20),
    };
    let all = request.from == TextFrom::Line(1) && request.max_line_bytes.is_none();
    let reply = settle(fs.read_text(path, request).await, path)?;
    nothing_from_outside(reply.page.text.as_bytes(), path);
    if all {
        let theirs = plan.oracle.read(shared(path).shown()).unwrap();
        assert_eq!(reply.page.text.as_bytes(), theirs, "{path:?}");
    }
    Some(())
}

async fn list(plan: &Plan, fs: &ScopedFs, dice: &mut Dice, path: &str) -> Option<()> {
    let whole = dice.chance(70);
    let request = ListRequest {
        want: Want::All,
        order: if dice.chance(50) {
            Order::Name
        } else {
            Order::DirectoriesFirst
        },
        max: if whole { 1000 } else { dice.below(4) },
        after: (!whole && dice.chance(50)).then(|| format!("0:{}", dice.one_of(NAMES))),
        metadata: dice.chance(50),
        include_ignored: true,
        mark_ignored: false,
    };
    let listed = settle(fs.list(path, request).await, path)?;
    let theirs: BTreeSet<String> = plan
        .oracle
        .read_dir(shared(path).shown())
        .unwrap_or_else(|error| panic!("cap-std refuses {path:?}, which we allow: {error}"))
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    for entry in &listed.entries {
        // Inside, a name may well be the canary's: as a link to it, by its own name.
        assert!(
            theirs.contains(&entry.name),
            "{path:?} shows {:?}",
            entry.name
        );
        if let Some(path) = &entry.path {
            assert!(
                plan.real.contains(path.as_str()),
                "{path} is nowhere inside"
            );
        }
    }
    if whole {
        let left_out = listed.counts.secret + listed.counts.denied;
        let shown = listed.entries.len() as u64;
        assert_eq!(shown + left_out, theirs.len() as u64, "{path:?}");
    }
    Some(())
}

async fn stat(plan: &Plan, fs: &ScopedFs, path: &str) -> Option<()> {
    let reply = settle(fs.stat(path).await, path)?;
    let theirs = if plan.follows {
        plan.oracle.metadata(shared(path).shown())
    } else {
        plan.oracle.symlink_metadata(shared(path).shown())
    };
    let theirs = theirs.unwrap_or_else(|error| {
        panic!("cap-std refuses {path:?}, which we allow: {error}");
    });
    assert_eq!(
        (reply.meta.ino, reply.meta.size),
        (theirs.ino(), theirs.len()),
        "{path:?}"
    );
    Some(())
}

/// What really is below the directory at `top`.
fn below(plan: &Plan, top: &RelPath) -> usize {
    let under =
        |path: &&String| RelPath::parse(path).is_ok_and(|path| path.is_under(top) && path != *top);
    plan.real.iter().filter(under).count()
}

async fn glob(plan: &Plan, fs: &ScopedFs, path: &str) -> Option<()> {
    let request = GlobRequest {
        pattern: None,
        want: Want::All,
        max: 1000,
        include_ignored: true,
        patience_us: 60_000_000,
    };
    let found = settle(fs.glob(path, request).await, path)?;
    for entry in &found.entries {
        let path = entry.path.as_ref().unwrap();
        assert!(
            plan.real.contains(path.as_str()),
            "{path} is nowhere inside"
        );
    }
    if found.complete && found.counts.secret == 0 {
        assert_eq!(found.entries.len(), below(plan, &found.path), "{path:?}");
    }
    Some(())
}

/// How many nodes there are, each of which really is inside.
fn count(plan: &Plan, nodes: &[TreeNode]) -> usize {
    let one = |node: &TreeNode| {
        if let Some(path) = &node.path {
            assert!(
                plan.real.contains(path.as_str()),
                "{path} is nowhere inside"
            );
        }
        1 + count(plan, &node.children)
    };
    nodes.iter().map(one).sum()
}

async fn tree(plan: &Plan, fs: &ScopedFs, dice: &mut Dice, path: &str) -> Option<()> {
    let request = TreeRequest {
        max_depth: dice.below(4),
        max_entries: 1 + dice.below(30),
        exclude: Vec::new(),
        include_ignored: true,
        sizes: true,
        patience_us: 60_000_000,
    };
    let most = request.max_entries;
    let tree = settle(fs.tree(path, request).await, path)?;
    let shown = count(plan, &tree.children);
    assert!(shown <= most, "{path:?}");
    assert_eq!(shown as u64, tree.counts.entries);
    Some(())
}

fn wander(seed: u64, cases: u64) -> Tally {
    let mut dice = Dice(seed);
    let mut tally = Tally::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut left = cases;
    while left > 0 {
        let plan = plant(&mut dice);
        assert!(!plan.dirs.is_empty());
        let fs = plan.world.fs();
        let now = left.min(PER_TREE);
        runtime.block_on(async {
            for _ in 0..now {
                step(&plan, &fs, &mut dice, &mut tally).await;
            }
        });
        left -= now;
    }
    tally
}

#[test]
fn random_plans_over_hostile_names_never_escape_and_agree_with_cap_std() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let cases = number("PORTCULLIS_PLANS").unwrap_or(SHORT);
    let seed = number("PORTCULLIS_PLANS_SEED").unwrap_or(0x5eed);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let began = Instant::now();
    let tallies = std::thread::scope(|scope| {
        let start =
            |n: u64| scope.spawn(move || wander(seed.wrapping_add(n << 32), cases / threads));
        let running: Vec<_> = (0..threads).map(start).collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no plan fails"))
            .collect::<Vec<_>>()
    });
    let took = began.elapsed();
    let mut all = Tally::default();
    for tally in tallies {
        for verb in 0..VERBS {
            all.tried[verb] += tally.tried[verb];
            all.done[verb] += tally.done[verb];
        }
        all.compared += tally.compared;
    }
    let tried: u64 = all.tried.iter().sum();
    let mut report = format!(
        "{tried} cases in {took:.1?} ({} a second), {} done and compared, 0 escapes:",
        u128::from(tried) * 1_000_000 / took.as_micros().max(1),
        all.compared
    );
    for (verb, name) in VERB_NAMES.into_iter().enumerate() {
        let (tried, done) = (all.tried[verb], all.done[verb]);
        write!(report, " {name} {done}/{tried}").unwrap();
        assert!(done * 100 >= tried, "{name}: {done} of {tried}");
    }
    drop(writeln!(std::io::stderr(), "{report}"));
}
