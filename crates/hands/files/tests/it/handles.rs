//! Handles: none is left behind, and a walk holds no more than its depth.

use portcullis_files::WatchRequest;
use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World};

use crate::attempts::{Reading, attempt, block_on, glob_all, is_alone, workspace};

/// How many handles of this process lead into `dir`. Other tests run beside
/// this one, so theirs are not counted.
fn open_in(dir: &std::path::Path) -> usize {
    let table = std::fs::read_dir("/proc/self/fd").unwrap();
    table
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|place| place.starts_with(dir))
        .count()
}

#[test]
fn ten_thousand_operations_leave_no_handle_behind() {
    for best_effort in [false, true] {
        let scratch = Scratch::in_memory(
            "f.json = {}\n d/e/x = y\n l -> f.json\n .env = x\n p |\n .gitignore = *.log",
        );
        let mut builder = World::workspace();
        if best_effort {
            builder = builder.best_effort();
        }
        let world = builder.over(scratch);
        let base = world.scratch.base().to_owned();
        let before = open_in(&base);
        let paths = [
            "f.json", "d", "l", ".env", "p", "absent", "d/e/x", "l/x", ".", "../x",
        ];
        world.lines.forget();
        block_on(async {
            let fs = world.fs();
            for round in 0..=(5_000 / (paths.len() * Reading::ALL.len())) {
                for path in paths {
                    for how in Reading::ALL {
                        drop(attempt(&fs, how, path).await);
                    }
                }
                assert_eq!(open_in(&base), before, "round {round}");
            }
        });
    }
}

#[test]
fn a_walk_holds_no_more_handles_than_its_depth() {
    const DEPTH: usize = 64;
    let scratch = Scratch::in_memory("");
    let mut dir = String::new();
    for level in 0..DEPTH {
        dir = format!("{dir}d{level}/");
        scratch.file(&format!("{dir}a"), "x");
        scratch.file(&format!("{dir}side/b"), "x");
    }
    let base = scratch.base().to_owned();
    let world = World::workspace().over(scratch);
    let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let caller = portcullis_testkit::agent().reporting(std::sync::Arc::new({
        let (most, base) = (most.clone(), base.clone());
        move |_| {
            most.fetch_max(open_in(&base), std::sync::atomic::Ordering::Relaxed);
        }
    }));
    let found = block_on(world.fs_for(&caller).glob(".", glob_all())).unwrap();
    assert!(found.complete);
    assert_eq!(found.entries.len(), DEPTH * 4);
    let most = most.load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        (DEPTH..=DEPTH + 4).contains(&most),
        "{most} handles at once"
    );
    assert_eq!(open_in(&base), 1, "the root's own");
}

#[test]
fn a_tree_deeper_than_a_walk_goes_is_cut_and_says_so() {
    let world = workspace("");
    let deep = vec!["d"; 140].join("/");
    std::fs::create_dir_all(world.scratch.at(&deep)).unwrap();
    let found = block_on(world.fs().glob(".", glob_all())).unwrap();
    assert!(!found.complete);
    assert_eq!(found.entries.len(), 128);
}

#[test]
fn no_handle_survives_into_a_child() {
    let world = workspace("f = x");
    let base = world.scratch.base().to_owned();
    let child = std::process::Command::new("ls")
        .args(["-l", "/proc/self/fd"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(open_in(&base) > 0, "the root is open");
    assert!(!shown.contains(&*base.to_string_lossy()), "{shown}");
}

#[test]
fn there_are_only_so_many_watches_and_those_that_end_leave_nothing() {
    // Alone, because they are counted for the whole process.
    if !is_alone("handles::there_are_only_so_many_watches_and_those_that_end_leave_nothing") {
        return;
    }
    let world = workspace("d/e/f = 1");
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    block_on(async {
        let fs = world.fs();
        let begin = || fs.watch(".", WatchRequest::default());
        begin().await.unwrap().end().await;
        let before = open();
        for _ in 0..3 {
            let mut kept = Vec::new();
            for _ in 0..32 {
                kept.push(begin().await.unwrap());
            }
            assert_eq!(begin().await.unwrap_err().reason(), Reason::Overload);
            for watch in kept {
                watch.end().await;
            }
        }
        assert_eq!(open(), before);
    });
}
