//! Killed at every system call, and at random times thousands of times over: a
//! target is unchanged or wholly changed, what was told is there, nobody else's
//! bytes are lost, and nothing is left after the next start.
//!
//! `PORTCULLIS_STEPS=1` kills at every step; `PORTCULLIS_KILLS_WRITING=10000`
//! is the whole of the random kills.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_testkit::Scratch;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::course::{course, every};
use crate::support::{Calls, Chance, anyway, block_on, snapshot};
use crate::victim::{
    Mounts, PACKINGS, Tree, Trial, VERBS, authority, calls, every_opening_line_is_closed,
    left_in_store,
};

/// Kills at each `every`th step of each verb; says how many.
fn kill_at_steps(mounts: Mounts, verbs: &[&str]) -> Option<usize> {
    let mut kills = 0;
    for (at, verb) in verbs.iter().enumerate() {
        let course = course(mounts, verb)?;
        let steps = course.steps.iter().skip(at % every()).step_by(every());
        for step in steps {
            let trial = Trial::on(mounts, verb)?;
            let ran = trial.run(verb, step.thread, &[step.inject("signal=SIGKILL")]);
            assert!(ran.died, "{verb} never came to {step}: {}", ran.log);
            kills += 1;
            let found = trial.recover();
            let now = trial.tree();
            assert!(
                now == course.before || now == course.after,
                "{verb} killed at {step}: {now:#?}\n{found:?}",
            );
            if ran.told.is_some() {
                assert_eq!(now, course.after, "{verb} at {step}: told, and not done");
            }
            trial.everything_can_be_undone(verb);
        }
    }
    Some(kills)
}

#[test]
fn killed_at_every_step_a_target_is_whole_and_nothing_is_left() {
    let kills = kill_at_steps(Mounts::One, &VERBS[..14]).unwrap();
    assert!(kills > 50, "{kills} kills");
    eprintln!("{kills} kills at steps, 0 torn, 0 left behind");
}

#[test]
fn killed_at_every_step_of_packing_no_archive_is_torn_and_nothing_is_left() {
    let kills = kill_at_steps(Mounts::One, &PACKINGS).unwrap();
    assert!(kills > 20, "{kills} kills");
    let elsewhere = kill_at_steps(Mounts::StoreElsewhere, &["pack_over", "undo_pack_over"]);
    if elsewhere.is_none() {
        eprintln!("NOT TRIED: a store on another mount, since mounting is refused");
    }
    let elsewhere = elsewhere.unwrap_or_default();
    eprintln!(
        "{kills} kills at steps of packing, {elsewhere} with the store on another mount; \
         0 torn, 0 left behind"
    );
}

#[test]
fn killed_at_every_step_of_undoing_it_is_undone_or_not_and_nothing_is_left() {
    let kills = kill_at_steps(Mounts::One, &VERBS[14..]).unwrap();
    assert!(kills > 50, "{kills} kills");
    eprintln!("{kills} kills at steps of undoing, 0 torn, 0 left behind");
}

#[test]
fn killed_while_a_copy_is_made_for_undo_nothing_is_torn_and_nothing_is_left() {
    let verbs = [
        "write",
        "move_over",
        "remove",
        "remove_tree",
        "undo_write",
        "undo_remove",
        "undo_move_over",
    ];
    match kill_at_steps(Mounts::StoreElsewhere, &verbs) {
        Some(kills) => eprintln!("{kills} kills with the store on another mount"),
        None => eprintln!("NOT TRIED: a store on another mount, since mounting is refused"),
    }
}

#[test]
fn killed_while_a_file_is_written_in_place_it_is_whole_after_the_next_start() {
    let verbs = ["write", "edit", "append", "undo_write"];
    match kill_at_steps(Mounts::FileIsMount, &verbs) {
        Some(kills) => eprintln!("{kills} kills of writes in place"),
        None => eprintln!("NOT TRIED: a file that is itself a mount, since mounting is refused"),
    }
}

// ---------------------------------------------------------------- at random

const BASE: &str = "PORTCULLIS_TEST_KILLED";
const SEED: &str = "PORTCULLIS_TEST_SEED";
const PATHS: [&str; 8] = ["a", "b", "c/d", "c/e", "c", "f/g/h", "f/g", "i"];
/// What somebody else saves, too.
const SHARED: &str = "shared";
/// How many lives a tree has: the store and the audit grow with each.
const LIVES: u64 = 40;

/// One change, as it is told before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Op {
    verb: &'static str,
    one: &'static str,
    other: &'static str,
    text: String,
}

const OPS: [&str; 10] = [
    "write", "edit", "append", "move", "copy", "remove", "mkdir", "chmod", "undo", "shared",
];

impl Op {
    fn pick(chance: &mut Chance, n: u64) -> Self {
        let path = |chance: &mut Chance| PATHS[usize::try_from(chance.below(8)).unwrap()];
        let verb = OPS[usize::try_from(chance.below(10)).unwrap()];
        let (one, other) = (path(chance), path(chance));
        let text = format!(
            "text {n} {}\n",
            "x".repeat(usize::try_from(chance.below(3000)).unwrap())
        );
        Self {
            verb,
            one,
            other,
            text,
        }
    }

    fn act(
        &self,
        calls: &Calls,
        last: &mut Option<String>,
    ) -> Result<(), portcullis_proto::Failure> {
        let undo = match self.verb {
            "write" => calls.write(self.one, &self.text)?.receipt.undo,
            "edit" => calls.edit(self.one, "text", "TEXT")?.receipt.undo,
            "append" => calls.append(self.one, &self.text)?.receipt.undo,
            "move" => calls.rename(self.one, self.other)?.undo,
            "copy" => calls.copy(self.one, self.other)?.receipt.undo,
            "remove" => calls.remove(self.one)?.undo,
            "mkdir" => calls.mkdir(self.one)?.undo,
            "chmod" => calls.chmod(self.one, 0o700)?.undo,
            "shared" => {
                // Neither undone later, nor told with the tree.
                let text = format!("ours\n{}", self.text);
                *last = None;
                return match self.text.len() % 2 {
                    0 => calls.write_with(SHARED, &text, &anyway()).map(drop),
                    _ => block_on(calls.0.append(SHARED, text, &anyway())).map(drop),
                };
            }
            _ => match last.take() {
                Some(id) => block_on(calls.0.undo_one(&id))?.redo,
                None => return Ok(()),
            },
        };
        *last = undo;
        Ok(())
    }
}

/// What stands in the root, but for what somebody else writes too.
fn own(root: &Path) -> Tree {
    let mut tree = snapshot(root);
    tree.retain(|path, _| !path.starts_with(SHARED));
    tree
}

/// Not a test of its own: changes one thing after the other until it is killed.
#[test]
fn child_that_never_stops() {
    let Some(base) = std::env::var_os(BASE).map(PathBuf::from) else {
        return;
    };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let (authority, data) = authority(&base, &format!("k{seed}"));
    let log = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(base.join("log"));
    let mut log = log.unwrap();
    let mut tell = |line: String| log.write_all(line.as_bytes()).unwrap();
    if seed == 0 {
        tell("recovering\n".to_owned());
        authority.recover(&data, false).unwrap();
        return;
    }
    let calls = calls(&authority);
    let mut chance = Chance(seed);
    let mut last = None;
    // The tree before the last change that was told, for undoing it.
    let root = base.join("root");
    for n in seed * 1_000_000.. {
        let op = Op::pick(&mut chance, n);
        let undoes = last.is_some();
        tell(format!(
            "begin {} {} {} {undoes} {}",
            op.verb, op.one, op.other, op.text
        ));
        let done = op.act(&calls, &mut last);
        // Told at once: from here on it must be there.
        tell(format!("told {}\n", done.is_ok()));
        let tree = serde_json::to_string(&own(&root)).unwrap();
        tell(format!("end {} {tree}\n", done.is_ok()));
    }
}

/// A process in a tree, told by what it wrote to its log.
struct Life {
    /// The tree after each change that was told, the one before all first.
    trees: Vec<Tree>,
    /// Whether each of them succeeded.
    succeeded: Vec<bool>,
    /// What it was doing when it died.
    under_way: Option<(String, String, String, bool, String)>,
    /// Whether it was told how that ended, and how.
    told: Option<bool>,
}

fn life(first: Tree, log: &str) -> Life {
    let mut life = Life {
        trees: vec![first],
        succeeded: Vec::new(),
        under_way: None,
        told: None,
    };
    for line in log.split_inclusive('\n') {
        if let Some(told) = line.strip_prefix("begin ") {
            let mut parts = told.splitn(5, ' ').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            let (verb, one, other) = (next(), next(), next());
            let undoes = next() == "true";
            life.under_way = Some((verb, one, other, undoes, next()));
            life.told = None;
        } else if let Some(told) = line.strip_prefix("told ") {
            life.told = Some(told == "true\n");
        } else if let Some(told) = line.strip_prefix("end ").and_then(|l| l.strip_suffix('\n')) {
            let (ok, tree) = told.split_once(' ').unwrap();
            life.trees.push(serde_json::from_str(tree).unwrap());
            life.succeeded.push(ok == "true");
            life.under_way = None;
            life.told = None;
        }
    }
    life
}

/// The content of the tree after `op`, if it can be made there.
fn after(life: &Life, now: &Tree) -> Option<BTreeMap<String, Vec<u8>>> {
    let (verb, one, other, undoes, text) = life.under_way.clone()?;
    let tree = life.trees.last()?;
    let mut next: BTreeMap<String, Vec<u8>> = content(tree);
    let make_parents = |next: &mut BTreeMap<String, Vec<u8>>, path: &str| {
        for above in Path::new(path).ancestors().skip(1) {
            if let Some(above) = above.to_str().filter(|above| !above.is_empty()) {
                next.entry(above.to_owned()).or_default();
            }
        }
    };
    let below = |path: &str| format!("{path}/");
    match verb.as_str() {
        "write" => {
            make_parents(&mut next, &one);
            next.insert(one, text.into_bytes());
        }
        "append" => {
            make_parents(&mut next, &one);
            next.entry(one)
                .or_default()
                .extend_from_slice(text.as_bytes());
        }
        "edit" => {
            let old = String::from_utf8(next.get(&one)?.clone()).unwrap();
            next.insert(one, old.replacen("text", "TEXT", 1).into_bytes());
        }
        "copy" => {
            let copied = next.get(&one)?.clone();
            make_parents(&mut next, &other);
            next.insert(other, copied);
        }
        "move" => {
            let moved: Vec<_> = next
                .iter()
                .filter(|(path, _)| **path == one || path.starts_with(&below(&one)))
                .map(|(path, text)| (path.clone(), text.clone()))
                .collect();
            make_parents(&mut next, &other);
            for (path, text) in moved {
                next.remove(&path);
                let below = path.strip_prefix(&one).unwrap();
                next.insert(format!("{other}{below}"), text);
            }
        }
        "remove" => next.retain(|path, _| *path != one && !path.starts_with(&below(&one))),
        "mkdir" => {
            make_parents(&mut next, &one);
            next.entry(one).or_default();
        }
        "chmod" => {
            let mode = |tree: &Tree| tree.get(&one).map(|(mode, _)| mode & 0o777);
            let fits = mode(now) == mode(tree) || mode(now) == Some(0o700);
            assert!(fits, "{one}: {:?}", mode(now));
        }
        // The last change that was told, and that succeeded, goes again.
        "undo" if undoes => {
            let last = life.succeeded.iter().rposition(|ok| *ok)?;
            next = content(life.trees.get(last)?);
        }
        _ => {}
    }
    Some(next)
}

fn content(tree: &Tree) -> BTreeMap<String, Vec<u8>> {
    tree.iter()
        .map(|(path, (_, text))| (path.clone(), text.clone()))
        .collect()
}

/// Saves the shared file by exchange until told to stop: what it gets back is
/// what it displaced.
fn save_by_exchange(base: &Path, first: u64, stop: &AtomicBool) -> (u64, Vec<String>) {
    let (mine, theirs) = (base.join("mine~"), base.join("root").join(SHARED));
    let mut taken = Vec::new();
    let mut n = first;
    while !stop.load(Ordering::Relaxed) {
        fs::write(&mine, format!("foreign {n}\n")).unwrap();
        if renameat_with(CWD, &mine, CWD, &theirs, RenameFlags::EXCHANGE).is_ok() {
            taken.push(fs::read_to_string(&mine).unwrap());
            n += 1;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    (n, taken)
}

fn start(base: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "crash::child_that_never_stops",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(BASE, base)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills a child at some moment after it told that it began.
fn kill_soon(base: &Path, mut child: Child, chance: &mut Chance, most_us: u64) {
    let log = base.join("log");
    let patience = Instant::now() + portcullis_testkit::PATIENCE;
    while fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
        assert!(Instant::now() < patience, "the child never began");
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    std::thread::sleep(Duration::from_micros(chance.below(most_us)));
    let _dead_already = child.kill();
    child.wait().unwrap();
}

#[test]
fn killed_at_random_times_nothing_is_torn_lost_destroyed_or_left() {
    let wanted: u64 = std::env::var("PORTCULLIS_KILLS_WRITING")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(60);
    let began = Instant::now();
    let mut chance = Chance(0x2545_f491_4f6c_dd1d ^ u64::from(std::process::id()));
    let mut by_verb: BTreeMap<String, u64> = BTreeMap::new();
    let (mut lives, mut kills, mut told, mut saves, mut of_recovery) = (0u64, 0, 0, 0, 0u64);
    while kills < wanted {
        let scratch = Scratch::in_memory("a = alpha text\n c/d = deep text\n f/g/h = deeper text");
        let base = scratch.base().to_owned();
        let root = scratch.root();
        fs::write(root.join(SHARED), "start\n").unwrap();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut next_save = 0;
        for _ in 0..LIVES {
            lives += 1;
            let first = own(&root);
            let _gone = fs::remove_file(base.join("log"));
            let child = start(&base, lives);
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let from = next_save;
                let (base, stop) = (&base, &stop);
                let editor = scope.spawn(move || save_by_exchange(base, from, stop));
                kill_soon(base, child, &mut chance, 12_000);
                stop.store(true, Ordering::Relaxed);
                let (next, displaced) = editor.join().unwrap();
                saves += next - next_save;
                next_save = next;
                taken.extend(
                    displaced
                        .iter()
                        .flat_map(|text| text.lines())
                        .map(str::to_owned),
                );
            });
            let log = fs::read_to_string(base.join("log")).unwrap_or_default();
            let life = life(first, &log);
            told += u64::try_from(life.succeeded.iter().filter(|ok| **ok).count()).unwrap();
            if let Some((verb, ..)) = life.under_way.as_ref().filter(|_| life.told.is_none()) {
                *by_verb.entry(verb.clone()).or_default() += 1;
                kills += 1;
            }
            // The next start may be killed, too.
            if chance.below(4) == 0 {
                let _gone = fs::remove_file(base.join("log"));
                kill_soon(&base, start(&base, 0), &mut chance, 1500);
                of_recovery += 1;
            }
            let (authority, data) = authority(&base, &format!("r{lives}"));
            let found = authority.recover(&data, false).unwrap();
            assert!(found.iter().all(|one| one.why.is_none()), "{found:?}");
            let now = own(&root);
            let as_before = content(&now) == content(life.trees.last().unwrap());
            let as_after = life.under_way.is_some() && Some(content(&now)) == after(&life, &now);
            let whole = match life.told {
                None => as_before || as_after,
                Some(true) => as_after,
                Some(false) => as_before,
            };
            assert!(
                whole,
                "life {lives}, killed in {:?} (told {:?})\nfound {found:?}\nbefore {:?}\nnow {now:?}",
                life.under_way,
                life.told,
                life.trees.last()
            );
            let all = snapshot(&root);
            let left: Vec<_> = all
                .keys()
                .filter(|path| path.contains(".portcullis"))
                .collect();
            assert!(left.is_empty(), "life {lives}: {left:?} {found:?}");
            let left = left_in_store(&base);
            assert!(left.is_empty(), "life {lives}: left in the store: {left:?}");
        }
        // Every save of somebody else is somewhere: in the file, beside it, in
        // the store, or where they took it themselves.
        let mut kept = taken;
        let stores = fs::read_dir(base.join("data/undo"))
            .unwrap()
            .map(|s| s.unwrap().path());
        for dir in stores.chain([root.clone()]) {
            for entry in fs::read_dir(dir).unwrap() {
                if let Ok(text) = fs::read_to_string(entry.unwrap().path()) {
                    kept.extend(text.lines().map(str::to_owned));
                }
            }
        }
        let lost: Vec<_> = (0..next_save)
            .map(|n| format!("foreign {n}"))
            .filter(|save| !kept.contains(save))
            .collect();
        assert!(lost.is_empty(), "destroyed: {lost:?}");
        let (last, data) = authority(&base, "check");
        drop(last);
        every_opening_line_is_closed(&data);
    }
    eprintln!(
        "{kills} kills during a change ({by_verb:?}), {} between two, {of_recovery} of recovery; \
         {told} changes told, {saves} saves of somebody else; \
         0 torn, 0 lost, 0 destroyed, 0 left behind; {:?}",
        lives - kills,
        began.elapsed()
    );
}
