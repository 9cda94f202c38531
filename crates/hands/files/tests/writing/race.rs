//! The swap hammer over every mutating verb: whatever is swapped under our
//! feet, nothing outside the root is created, changed or removed.
//!
//! `PORTCULLIS_RACES=1000000` is the whole of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use portcullis_files::{Expect, MoveOptions, WriteOptions};
use portcullis_testkit::{Scratch, World};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::{block_on, in_session, snapshot};

const VERBS: usize = 8;

fn races() -> u64 {
    std::env::var("PORTCULLIS_RACES")
        .ok()
        .and_then(|races| races.parse().ok())
        .unwrap_or(4_000)
}

/// Swaps two paths until told to stop; says how often.
fn swap(one: &Path, other: &Path, stop: &AtomicBool) -> u64 {
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
            swaps += 1;
        }
    }
    // An even number leaves everything where it was.
    if swaps % 2 == 1 {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
    swaps
}

/// What stands outside, which must be the same afterwards: the same names in
/// the same places as in `inside`, so that a step through the wrong door finds
/// what it looks for.
const OUTSIDE: &str = "../out/f = precious\n ../out/g = precious\n ../out/d/x = precious\n \
                       ../out/d/y/z = precious\n ../out/new/";

#[test]
fn whatever_is_swapped_nothing_outside_is_created_changed_or_removed() {
    let per_attack = races() / 3;
    let mut succeeded = [0u64; VERBS];
    let mut swaps = 0;
    for attack in ["parent", "grandparent", "leaf"] {
        let scratch = Scratch::in_memory(OUTSIDE);
        let (root, out) = (scratch.root(), scratch.base().join("out"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        let (door, wrong) = match attack {
            "parent" => (root.join("a/b"), root.join("wrong")),
            "grandparent" => (root.join("a"), root.join("wrong")),
            _ => (root.join("a/b/f"), root.join("wrong")),
        };
        fs::write(root.join("a/b/f"), "inside").unwrap();
        match attack {
            "parent" => symlink(&out, &wrong).unwrap(),
            // One more step below it, so that `a/b` leads out too.
            "grandparent" => {
                fs::create_dir(scratch.base().join("around")).unwrap();
                symlink(&out, scratch.base().join("around/b")).unwrap();
                symlink(scratch.base().join("around"), &wrong).unwrap();
            }
            _ => symlink(out.join("f"), &wrong).unwrap(),
        }
        let before = snapshot(&out);
        let world = World::workspace().writable().over(scratch);
        world.lines.forget();
        let stop = Arc::new(AtomicBool::new(false));
        let done: [AtomicU64; VERBS] = Default::default();
        std::thread::scope(|scope| {
            let swapper = {
                let (stop, door, wrong) = (Arc::clone(&stop), door.clone(), wrong.clone());
                scope.spawn(move || swap(&door, &wrong, &stop))
            };
            let fs = world.fs_for(&in_session("s"));
            let options = WriteOptions {
                durable: false,
                expect: Expect::Anything,
                ..WriteOptions::default()
            };
            block_on(async {
                for n in 0..per_attack {
                    let verb = usize::try_from(n).unwrap() % VERBS;
                    let text = format!("ours {n}");
                    let ok = match verb {
                        0 => fs.write_bytes("a/b/f", text.into(), &options).await.is_ok(),
                        1 => fs.write_bytes("a/b/g", text.into(), &options).await.is_ok(),
                        2 => fs.append("a/b/g", text, &options).await.is_ok(),
                        3 => fs.mkdir("a/b/d/y").await.is_ok(),
                        4 => fs
                            .copy_to("a/b/g", &Expect::Anything, &fs, "a/b/d/x", &options)
                            .await
                            .is_ok(),
                        5 => fs
                            .move_to("a/b/g", &fs, "a/b/h", &MoveOptions::default())
                            .await
                            .is_ok(),
                        6 => fs.chmod("a/b/h", 0o640).await.is_ok(),
                        _ => fs.remove("a/b/d", &Expect::Anything).await.is_ok(),
                    };
                    if ok {
                        done[verb].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            stop.store(true, Ordering::Relaxed);
            swaps += swapper.join().unwrap();
        });
        assert_eq!(
            snapshot(&out),
            before,
            "{attack}: something outside changed"
        );
        for (total, done) in succeeded.iter_mut().zip(&done) {
            *total += done.load(Ordering::Relaxed);
        }
        let left = snapshot(&world.scratch.root());
        assert!(
            !left.keys().any(|path| path.contains(".portcullis")),
            "{attack}: {:?}",
            left.keys()
        );
    }
    eprintln!(
        "{} operations, {swaps} swaps, succeeded by verb: {succeeded:?}",
        races()
    );
    let timid: Vec<_> = succeeded
        .iter()
        .filter(|done| **done * 100 < races() / 8)
        .collect();
    assert!(
        timid.is_empty(),
        "a verb that hardly ever succeeds proves nothing: {succeeded:?}"
    );
}
