//! Many writers at once: none is lost, whoever they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::{Calls, anyway, in_session, is_clean, world};

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// Names the tree to a child; without it the child's test does nothing.
const TREE: &str = "PORTCULLIS_TEST_TREE";
const WRITERS: &str = "PORTCULLIS_TEST_WRITERS";
const PROCESSES: usize = 4;

/// Not a test of its own: one of the processes of the test below.
#[test]
fn child_that_edits_lines() {
    let Some(tree) = std::env::var_os(TREE).map(PathBuf::from) else {
        return;
    };
    let writers = std::env::var(WRITERS).unwrap();
    let (first, rounds) = writers.split_once(',').unwrap();
    edit_lines(&tree, first.parse().unwrap(), rounds.parse().unwrap());
}

/// Sixteen threads, each of which counts its own line up.
fn edit_lines(tree: &std::path::Path, first: usize, rounds: usize) {
    let scratch = Scratch::of("");
    let world = World::workspace().writable().over_directory(scratch, tree);
    let world = &world;
    std::thread::scope(|scope| {
        for writer in first..first + 16 {
            scope.spawn(move || {
                let calls = Calls(world.fs_for(&in_session(&format!("w{writer}"))));
                for round in 0..rounds {
                    let line = |n: usize| format!("line {writer:02} = {n:06}\n");
                    while let Err(why) = calls.edit("f", &line(round), &line(round + 1)) {
                        let again = matches!(why.reason(), Reason::VersionMismatch | Reason::Busy);
                        assert!(again, "writer {writer} round {round}: {why:?}");
                    }
                }
            });
        }
    });
}

/// `PORTCULLIS_EDITS=1000` is the whole of it: 64 writers × 1,000 edits.
#[test]
fn sixty_four_writers_in_four_processes_lose_no_edit() {
    let rounds = from_environment("PORTCULLIS_EDITS", 8);
    let scratch = Scratch::of("");
    let tree = scratch.root();
    let lines: String = (0..64)
        .map(|n| format!("line {n:02} = {:06}\n", 0))
        .collect();
    fs::write(tree.join("f"), lines).unwrap();
    let this = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..PROCESSES)
        .map(|process| {
            Command::new(&this)
                .args(["--exact", "crowd::child_that_edits_lines", "--nocapture"])
                .env(TREE, &tree)
                .env(WRITERS, format!("{},{rounds}", process * 16))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let wanted: String = (0..64)
        .map(|n| format!("line {n:02} = {rounds:06}\n"))
        .collect();
    assert_eq!(fs::read_to_string(tree.join("f")).unwrap(), wanted);
    assert!(is_clean(&tree));
}

/// `PORTCULLIS_SAVES=5000` is the whole of it.
#[test]
fn an_editor_that_ignores_our_locks_loses_no_save() {
    let saves = from_environment("PORTCULLIS_SAVES", 400);
    let world = world("");
    let root = world.scratch.root();
    fs::write(root.join("f"), "start\n").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let ours = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (world, stop, ours) = (&world, Arc::clone(&stop), &ours);
            scope.spawn(move || {
                let calls = Calls(world.fs_for(&in_session(&format!("w{writer}"))));
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    let text = format!("ours {writer} {n}\n");
                    if calls.write_with("f", &text, &anyway()).is_ok() {
                        ours.fetch_add(1, Ordering::Relaxed);
                    }
                    n += 1;
                }
            });
        }
        // The editor: each save is seen by somebody or kept somewhere.
        for n in 0..saves {
            if n == saves / 2 {
                // On a busy machine ours may not have had a turn yet.
                let until = Instant::now() + portcullis_testkit::PATIENCE;
                while ours.load(Ordering::Relaxed) == 0 && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let text = format!("editor save {n}\n");
            match n % 3 {
                // In place, as one write of the same length.
                0 => {
                    use std::io::Write as _;
                    let file = fs::OpenOptions::new().write(true).open(root.join("f"));
                    let mut file = file.unwrap();
                    file.write_all(text.as_bytes()).unwrap();
                    file.set_len(text.len() as u64).unwrap();
                }
                1 => {
                    fs::write(root.join("editor~"), &text).unwrap();
                    fs::rename(root.join("editor~"), root.join("f")).unwrap();
                }
                _ => {
                    fs::write(root.join("editor~"), &text).unwrap();
                    let (from, to) = (root.join("editor~"), root.join("f"));
                    renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE).unwrap();
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // A save by rename that nobody of ours displaced was overwritten by the
    // editor itself; what counts is what we displaced: all of it is kept.
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut keep = |dir: &std::path::Path| {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if let Ok(text) = fs::read_to_string(&path) {
                kept.extend(text.lines().map(str::to_owned));
            }
        }
    };
    keep(&root);
    for store in fs::read_dir(world.scratch.base().join("data/undo")).unwrap() {
        keep(&store.unwrap().path());
    }
    let calls = Calls(world.fs_for(&in_session("check")));
    let displaced = calls.0.undo_entries().unwrap();
    let done = ours.load(Ordering::Relaxed);
    assert!(done > 0, "ours were written too");
    for entry in &displaced {
        let before = entry.before.as_ref().unwrap();
        let content = calls.0.undo_content(&entry.id, 1000).unwrap();
        let content = content.unwrap_or_else(|| panic!("{} displaced something", entry.id));
        assert!(!content.is_empty() || before.size == 0, "{}", entry.id);
    }
    assert_eq!(
        displaced.len(),
        done,
        "each write of ours kept what it displaced"
    );
    assert!(is_clean(&root));
    let conflicts = kept
        .iter()
        .filter(|line| line.starts_with("editor"))
        .count();
    eprintln!("{saves} saves, {done} of ours, {conflicts} editor saves kept by us");
}
