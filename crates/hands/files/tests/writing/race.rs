//! The swap hammer over every mutating verb: whatever is swapped, renamed,
//! mounted or linked under our feet, nothing outside the root is created,
//! changed or removed, and nothing of ours is outside.
//!
//! The oracle is on throughout: it knows everything outside by its inode, and
//! looks at names, content, sizes, times and links of all of it. The verbs of
//! archives have a turn of their own, in `race_archives`.
//!
//! `PORTCULLIS_RACES=1000000` is the whole of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_files::text::{Edit, EncodingChoice};
use portcullis_files::{Expect, MoveOptions, ScopedFs, WriteOptions};
use portcullis_testkit::{Scratch, World};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::race_archives;
use crate::support::{block_on, in_session, snapshot};

const VERBS: [&str; 11] = [
    "write", "edit", "undo", "create", "append", "mkdir", "copy", "move", "chmod", "remove", "tree",
];
const ATTACKS: [&str; 7] = [
    "parent",
    "grandparent",
    "leaf",
    "root renamed",
    "root swapped",
    "hard link",
    "mount",
];
/// How long a mount stays where it landed instead of where it was put: a tenth
/// of what a removal waits, so that on a busy machine it is less than that.
const LANDED_FOR: Duration = Duration::from_millis(20);
/// Names the attack to a child in a mount namespace of its own.
const ATTACK: &str = "PORTCULLIS_TEST_ATTACK";

/// Which verbs are raced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbs {
    /// Those that change one thing.
    Changes,
    /// Those of archives.
    Archives,
}

impl Verbs {
    const ALL: [Self; 2] = [Self::Changes, Self::Archives];

    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Changes => &VERBS,
            Self::Archives => &race_archives::VERBS,
        }
    }

    fn plant(self, scratch: &Scratch, attack: &str) {
        match self {
            Self::Changes => {
                fs::create_dir_all(scratch.at("a/b/d")).unwrap();
                scratch.file("a/b/f", "inside");
            }
            Self::Archives => race_archives::plant(scratch, attack),
        }
    }

    /// One operation; whether it succeeded.
    async fn act(self, fs: &ScopedFs, verb: &str, n: u64, last: &mut Option<String>) -> bool {
        match self {
            Self::Changes => act(fs, verb, n, last).await,
            Self::Archives => race_archives::act(fs, verb, n, last).await,
        }
    }
}

fn races() -> u64 {
    std::env::var("PORTCULLIS_RACES")
        .ok()
        .and_then(|races| races.parse().ok())
        .unwrap_or(7_000)
}

/// What stands outside: the same names in the same places as inside, so that a
/// step through the wrong door finds what it looks for.
const OUTSIDE: &str = "../out/f = precious\n ../out/g = precious\n ../out/h = precious\n \
                       ../out/d/x = precious\n ../out/d/y/z = precious\n ../out/new/\n \
                       ../out/a/b/f = precious\n ../out/a/b/d/x = precious\n \
                       ../around/b/f = precious";

/// All that can be known of an entry, but for when it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    ino: u64,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    content: Vec<u8>,
}

type Oracle = BTreeMap<PathBuf, Known>;

fn look(top: &Path, out: &mut Oracle) {
    let meta = top.symlink_metadata().unwrap();
    let content = if meta.is_symlink() {
        fs::read_link(top)
            .unwrap()
            .into_os_string()
            .into_encoded_bytes()
    } else if meta.is_file() {
        fs::read(top).unwrap()
    } else {
        Vec::new()
    };
    assert!(
        !content.starts_with(b"ours"),
        "ours is outside: {}",
        top.display()
    );
    out.insert(
        top.to_owned(),
        Known {
            ino: meta.ino(),
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            content,
        },
    );
    if meta.is_dir() {
        for entry in fs::read_dir(top).unwrap() {
            look(&entry.unwrap().path(), out);
        }
    }
}

fn outside(base: &Path) -> Oracle {
    let mut out = Oracle::new();
    for place in ["out", "around"] {
        look(&base.join(place), &mut out);
    }
    out
}

/// What an attacker does over and over; each turn is undone by the next.
struct Attack {
    name: &'static str,
    root: PathBuf,
    base: PathBuf,
}

impl Attack {
    fn swaps(&self) -> (PathBuf, PathBuf) {
        let (root, base) = (&self.root, &self.base);
        match self.name {
            "parent" => (root.join("a/b"), root.join("wrong")),
            "grandparent" => (root.join("a"), root.join("wrong")),
            "leaf" | "hard link" => (root.join("a/b/f"), root.join("wrong")),
            "root renamed" => (root.clone(), base.join("elsewhere")),
            _ => (root.clone(), base.join("out")),
        }
    }

    fn prepare(&self) {
        let (root, out) = (&self.root, self.base.join("out"));
        let wrong = root.join("wrong");
        match self.name {
            "parent" => symlink(&out, &wrong).unwrap(),
            // One more step below it, so that `a/b` leads out too.
            "grandparent" => symlink(self.base.join("around"), &wrong).unwrap(),
            "leaf" => symlink(out.join("f"), &wrong).unwrap(),
            "hard link" => fs::hard_link(out.join("f"), &wrong).unwrap(),
            "root renamed" => fs::create_dir(self.base.join("elsewhere")).unwrap(),
            _ => {}
        }
    }

    /// Attacks until told to stop; says how often.
    fn run(&self, stop: &AtomicBool) -> u64 {
        let mut turns: u64 = 0;
        if self.name == "mount" {
            // Over the directory that is used, and over one that is removed.
            let places = [self.root.join("a/b"), self.root.join("a/b/d")];
            let mut swept = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                for place in &places {
                    if mount_bind(self.base.join("out"), place).is_ok() {
                        turns += 1;
                        std::thread::yield_now();
                        unmount_all(place);
                    }
                }
                // A mount moves along with a directory that is renamed, or lands
                // on it under its new name. The kernel renames nothing that has one
                // on it: what stays longer than a removal waits keeps its new name.
                if swept.elapsed() > LANDED_FOR {
                    for mounted in mounts_below(&self.base) {
                        unmount_all(&mounted);
                    }
                    swept = Instant::now();
                }
            }
            for mounted in mounts_below(&self.base) {
                unmount_all(&mounted);
            }
            return turns;
        }
        let (one, other) = self.swaps();
        while !stop.load(Ordering::Relaxed) {
            if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                turns += 1;
            }
        }
        // An even number leaves everything where it was.
        if turns % 2 == 1 {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
        turns
    }
}

fn unmount_all(place: &Path) {
    while unmount(place, UnmountFlags::DETACH).is_ok() {}
}

fn mounts_below(base: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    let below = places
        .map(PathBuf::from)
        .filter(|place| place.starts_with(base));
    below.collect()
}

/// One operation; whether it succeeded.
async fn act(fs: &ScopedFs, verb: &str, n: u64, last: &mut Option<String>) -> bool {
    let options = WriteOptions {
        durable: false,
        expect: portcullis_files::Expect::Anything,
        ..WriteOptions::default()
    };
    let text = format!("ours {n}");
    match verb {
        "write" => {
            let done = fs.write_bytes("a/b/f", Vec::from(text), &options).await;
            let ok = done.is_ok();
            *last = done.ok().and_then(|done| done.receipt.undo);
            ok
        }
        "create" => fs
            .write_bytes("a/b/g", Vec::from(text), &options)
            .await
            .is_ok(),
        "append" => fs.append("a/b/g", text, &options).await.is_ok(),
        "mkdir" => fs.mkdir("a/b/d/y").await.is_ok(),
        "copy" => fs
            .copy_to("a/b/g", &Expect::Anything, fs, "a/b/d/x", &options)
            .await
            .is_ok(),
        "move" => fs
            .move_to("a/b/g", fs, "a/b/h", &MoveOptions::default())
            .await
            .is_ok(),
        "chmod" => {
            let mode = if n.is_multiple_of(2) { 0o640 } else { 0o600 };
            fs.chmod("a/b/f", mode).await.is_ok() || fs.chmod("a/b/h", mode).await.is_ok()
        }
        "edit" => {
            let edits = vec![Edit {
                old: "ours".into(),
                new: "ours too".into(),
                all: true,
            }];
            let done = fs
                .edit("a/b/f", edits, EncodingChoice::Detect, &options)
                .await;
            let ok = done.is_ok();
            // What is undone next is what was done last.
            *last = done.ok().and_then(|done| done.receipt.undo).or(last.take());
            ok
        }
        "undo" => match last.take() {
            Some(id) => fs.undo_one(&id).await.is_ok(),
            None => false,
        },
        "remove" => fs.remove("a/b/h", &Expect::Anything).await.is_ok(),
        _ => fs.remove("a/b/d", &Expect::Anything).await.is_ok(),
    }
}

/// Stops an attacker, also where what it attacks has failed: whoever waits for
/// it would wait for ever.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What came of one attack: how often it turned, and what succeeded.
struct Hammered {
    turns: u64,
    succeeded: Vec<u64>,
}

fn hammer(verbs: Verbs, name: &'static str, races: u64) -> Hammered {
    let scratch = Scratch::in_memory(OUTSIDE);
    let root = scratch.root();
    verbs.plant(&scratch, name);
    let attack = Attack {
        name,
        base: scratch.base().to_owned(),
        root: root.clone(),
    };
    attack.prepare();
    let mut before = outside(&attack.base);
    let world = World::workspace().writable().over(scratch);
    let stop = AtomicBool::new(false);
    let mut hammered = Hammered {
        turns: 0,
        succeeded: vec![0; verbs.names().len()],
    };
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| attack.run(&stop));
        let stops = Stops(&stop);
        let fs = world.fs_for(&in_session("s"));
        block_on(async {
            let mut last = None;
            for n in 0..races {
                let verb = usize::try_from(n).unwrap() % verbs.names().len();
                if verbs.act(&fs, verbs.names()[verb], n, &mut last).await {
                    hammered.succeeded[verb] += 1;
                }
                if n.is_multiple_of(1000) {
                    world.lines.forget();
                }
            }
        });
        drop(stops);
        hammered.turns = attacker.join().unwrap();
    });
    if name == "hard link" {
        // The attacker's own names and ours in the store count as links, and
        // making one is a change of the inode: everything else must be as it was.
        let links = |known: &mut Known| {
            known.links = 0;
            known.changed = (0, 0);
        };
        let mut after = outside(&attack.base);
        let place = attack.base.join("out/f");
        before.get_mut(&place).map(links).unwrap();
        after.get_mut(&place).map(links).unwrap();
        assert_eq!(after, before, "{name}: something outside changed");
    } else if name == "root swapped" {
        // The attacker's own renames change the directory it swaps.
        let renamed = |known: &mut Known| known.changed = (0, 0);
        let mut after = outside(&attack.base);
        let place = attack.base.join("out");
        before.get_mut(&place).map(renamed).unwrap();
        after.get_mut(&place).map(renamed).unwrap();
        assert_eq!(after, before, "{name}: something outside changed");
    } else {
        let after = outside(&attack.base);
        assert_eq!(after, before, "{name}: something outside changed");
    }
    let left = snapshot(&root);
    let ours = |path: &&String| path.contains(".portcullis");
    let left: Vec<_> = left.keys().filter(ours).collect();
    assert!(left.is_empty(), "{name}: {left:?}");
    hammered
}

/// Not a test of its own: one attack, where it may mount.
#[test]
fn child_that_is_attacked_by_mounts() {
    let Ok(told) = std::env::var(ATTACK) else {
        return;
    };
    let (which, races) = told.split_once(' ').unwrap();
    let named = |verbs: &Verbs| format!("{verbs:?}") == which;
    let verbs = Verbs::ALL.into_iter().find(named).unwrap();
    let hammered = hammer(verbs, "mount", races.parse().unwrap());
    let told: Vec<_> = hammered.succeeded.iter().map(u64::to_string).collect();
    eprintln!("hammered {} {}", hammered.turns, told.join(" "));
}

/// Whether this process may have mounts of its own.
fn may_mount() -> bool {
    Command::new("unshare")
        .args(["-m", "--propagation", "private", "true"])
        .status()
        .is_ok_and(|status| status.success())
}

/// The attack by mounts, in a mount namespace of its own.
fn hammer_with_mounts(verbs: Verbs, races: u64) -> Option<Hammered> {
    if !may_mount() {
        return None;
    }
    let child = Command::new("unshare")
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "race::child_that_is_attacked_by_mounts"])
        .args(["--nocapture", "--test-threads=1"])
        .env(ATTACK, format!("{verbs:?} {races}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{told}");
    let line = told.lines().find_map(|line| line.strip_prefix("hammered "));
    let mut numbers = line.unwrap().split(' ').map(|n| n.parse::<u64>().unwrap());
    let turns = numbers.next().unwrap();
    let succeeded: Vec<u64> = numbers.collect();
    assert_eq!(succeeded.len(), verbs.names().len());
    Some(Hammered { turns, succeeded })
}

#[test]
fn whatever_is_swapped_nothing_outside_is_created_changed_or_removed() {
    hammer_with_all(Verbs::Changes);
}

#[test]
fn whatever_is_swapped_no_archive_holds_the_outside_or_is_unpacked_there() {
    hammer_with_all(Verbs::Archives);
}

fn hammer_with_all(verbs: Verbs) {
    let per_attack = races() / ATTACKS.len() as u64;
    let mut total = vec![0u64; verbs.names().len()];
    let mut tried = 0;
    for attack in ATTACKS {
        if verbs == Verbs::Archives && !race_archives::can_try(attack) {
            eprintln!("NOT TRIED: {attack}, which needs a file of somebody else");
            continue;
        }
        let hammered = if attack == "mount" {
            hammer_with_mounts(verbs, per_attack)
        } else {
            Some(hammer(verbs, attack, per_attack))
        };
        let Some(hammered) = hammered else {
            eprintln!("NOT TRIED: {attack}, since mounting is refused");
            continue;
        };
        tried += per_attack;
        eprintln!(
            "{attack}: {per_attack} operations, {} turns, succeeded: {}",
            hammered.turns,
            verbs
                .names()
                .iter()
                .zip(&hammered.succeeded)
                .map(|(verb, done)| format!("{verb} {done}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        assert!(hammered.turns > 0, "{attack}: an attack that never came");
        for (total, done) in total.iter_mut().zip(hammered.succeeded) {
            *total += done;
        }
    }
    eprintln!("{tried} operations, 0 outside; succeeded by verb: {total:?}");
    let per_verb = tried / verbs.names().len() as u64;
    for (verb, done) in verbs.names().iter().zip(&total) {
        assert!(
            done * 100 >= per_verb,
            "{verb} hardly ever succeeds, which proves nothing: {total:?}"
        );
    }
}

/// Not a test of its own: removes a tree over and over while something is
/// mounted into it.
#[test]
fn child_that_removes_what_is_mounted_over() {
    let Some(rounds) = std::env::var("PORTCULLIS_TEST_REMOVALS").ok() else {
        return;
    };
    let rounds: u64 = rounds.parse().unwrap();
    // With the store on the mount, in memory elsewhere, and with none at all.
    for store in ["moved", "copied", "none"] {
        let scratch = Scratch::in_memory("../out/precious = kept\n ../out/deep/er = kept\n e/");
        let root = scratch.root();
        let out = scratch.base().join("out");
        if store == "copied" {
            scratch.add("../data/");
            assert!(scratch.bind(".", ".") && scratch.tmpfs("../data"));
            scratch.chmod("../data", 0o700);
            scratch.file(".portcullis", "in the way");
        }
        let mut oracle = Oracle::new();
        look(&out, &mut oracle);
        let mut world = World::workspace().writable();
        if store == "none" {
            world = world.without_undo();
        }
        let world = world.over(scratch);
        let stop = AtomicBool::new(false);
        let (mut removed, mut refused, mut planted) = (0, 0, 0u64);
        std::thread::scope(|scope| {
            let attacker = scope.spawn(|| {
                let mut turns = 0;
                while !stop.load(Ordering::Relaxed) {
                    let place = root.join("d/sub/deep");
                    if mount_bind(&out, &place).is_ok() {
                        turns += 1;
                        std::thread::yield_now();
                        unmount_all(&place);
                    }
                    for moved in mounts_below(&root).iter().filter(|place| **place != root) {
                        unmount_all(moved);
                    }
                }
                turns
            });
            let fs = world.fs_for(&in_session("s"));
            // On until one removal came through: with few rounds the attacker may
            // win them all.
            let mut round = 0;
            while round < rounds || (removed == 0 && round < rounds * 50) {
                round += 1;
                let _there = fs::create_dir_all(root.join("d/sub/deep"));
                for n in 0..20 {
                    let _there = fs::write(root.join(format!("d/sub/{n}")), "ours");
                }
                match block_on(fs.remove("d", &Expect::Anything)) {
                    Ok(_) => removed += 1,
                    Err(_) => refused += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
            planted = attacker.join().unwrap();
        });
        for place in mounts_below(world.scratch.base()) {
            if place != root && place != world.scratch.base().join("data") {
                unmount_all(&place);
            }
        }
        let mut after = Oracle::new();
        look(&out, &mut after);
        assert_eq!(after, oracle, "{store}: something outside changed");
        eprintln!("{store}: {removed} removed, {refused} refused, {planted} mounts planted");
        assert!(removed > 0 && planted > 0);
        let open = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&root, open).unwrap();
    }
}

#[test]
fn a_mount_planted_while_a_tree_is_removed_loses_nothing_behind_it() {
    if !may_mount() {
        eprintln!("NOT TRIED: mounts planted during a removal, since mounting is refused");
        return;
    }
    let rounds = (races() / 100).clamp(70, 5_000);
    let child = Command::new("unshare")
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "race::child_that_removes_what_is_mounted_over"])
        .args(["--nocapture", "--test-threads=1"])
        .env("PORTCULLIS_TEST_REMOVALS", rounds.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{told}");
    eprintln!("{told}");
}
