//! Mounts and file systems that cannot do everything: each has its rule, and the
//! receipt says which it was.

use std::fs;

use portcullis_files::{Cas, Label, UndoPlace};
use portcullis_proto::Reason;
use portcullis_testkit::{Answer, Scratch, World, answer_renameat2_with, is_superuser};

use crate::support::{Calls, block_on, is_clean, snapshot, stays, world};

fn cannot_mount() -> bool {
    if is_superuser() {
        return false;
    }
    eprintln!("NOT TRIED: mounts, since mounting needs the superuser");
    true
}

/// Runs `test` where no two names can be swapped, nor one be given only if it is
/// free: as on some network file systems.
fn without_swapping(test: impl FnOnce() + Send + 'static) {
    let test = std::thread::spawn(move || {
        answer_renameat2_with(Answer::Einval);
        test();
    });
    test.join().unwrap();
}

#[test]
fn where_nothing_can_be_swapped_writers_that_lock_are_kept_apart_and_it_is_said() {
    without_swapping(|| {
        let world = world("f = one\n g = two\n d/x = deep");
        let root = world.scratch.root();
        let before = snapshot(&root);
        let calls = Calls::of(&world);
        let replaced = calls.write("f", "ONE").unwrap().receipt;
        assert_eq!(replaced.cas, Cas::Cooperative);
        assert_eq!(replaced.labels, [Label::CopiedForUndo]);
        assert_eq!(replaced.kept_in, Some(UndoPlace::DataDirectory));
        assert_eq!(
            calls.edit("f", "ONE", "Two").unwrap().receipt.cas,
            Cas::Cooperative
        );
        assert_eq!(
            calls.append("f", "more").unwrap().receipt.cas,
            Cas::Cooperative
        );
        // What is new is linked into place, which is exact.
        let created = calls.write("n/e/w", "new").unwrap().receipt;
        assert_eq!((created.cas, created.labels), (Cas::Exact, vec![]));
        let over = calls.rename("f", "g").unwrap();
        assert_eq!(over.cas, Cas::Cooperative);
        assert_eq!(over.labels, [Label::CopiedForUndo]);
        assert_eq!(calls.rename("d", "moved/d").unwrap().cas, Cas::Cooperative);
        assert_eq!(
            calls.copy("g", "n/e/w").unwrap().receipt.cas,
            Cas::Cooperative
        );
        calls.chmod("g", 0o640).unwrap();
        calls.remove("moved").unwrap();
        assert_eq!(calls.read("g"), "Twomore");
        assert!(is_clean(&root));
        let left = calls.undo_all();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(snapshot(&root), before);
        assert!(is_clean(&root));
    });
}

/// The rule of it: what is there is looked at once more before it is replaced.
#[test]
fn where_nothing_can_be_swapped_a_name_that_is_taken_is_not_taken_again() {
    without_swapping(|| {
        let world = world("f = one\n g = two");
        let calls = Calls::of(&world);
        let taken = calls.write_with("f", "x", &crate::support::create());
        assert_eq!(taken.unwrap_err().reason(), Reason::AlreadyExists);
        let taken = block_on(calls.0.move_to("f", &calls.0, "g", &stays()));
        assert_eq!(taken.unwrap_err().reason(), Reason::AlreadyExists);
        assert_eq!(
            (calls.read("f"), calls.read("g")),
            ("one".into(), "two".into())
        );
        assert!(is_clean(&world.scratch.root()));
    });
}

#[test]
fn a_read_only_mount_is_told_as_that_and_nothing_is_tried_another_way() {
    if cannot_mount() {
        return;
    }
    let scratch = Scratch::of("f = one\n d/x = deep");
    assert!(scratch.bind(".", "."));
    assert!(scratch.remount_read_only("."));
    let world = World::workspace().writable().over(scratch);
    let root = world.scratch.root();
    let before = snapshot(&root);
    let calls = Calls::of(&world);
    for (verb, done) in [
        ("write", calls.write("f", "two").map(drop)),
        ("create", calls.write("n/e/w", "two").map(drop)),
        ("edit", calls.edit("f", "one", "two").map(drop)),
        ("append", calls.append("f", "two").map(drop)),
        ("mkdir", calls.mkdir("n").map(drop)),
        ("move", calls.rename("f", "g").map(drop)),
        ("copy", calls.copy("f", "g").map(drop)),
        ("remove", calls.remove("d").map(drop)),
        ("chmod", calls.chmod("f", 0o600).map(drop)),
    ] {
        let why = done.unwrap_err();
        assert_eq!(why.reason(), Reason::Os, "{verb}: {why:?}");
        assert!(why.message().contains("read-only"), "{verb}: {why:?}");
        assert!(why.next_step().is_some(), "{verb}");
    }
    assert_eq!(snapshot(&root), before);
    // What was done before it became read-only is listed from where it is kept.
    assert_eq!(calls.0.undo_place().unwrap(), Some(UndoPlace::Copy));
    assert!(calls.0.undo_entries().unwrap().is_empty());
}

#[test]
fn a_store_on_another_file_system_holds_copies_and_the_receipt_says_so() {
    if cannot_mount() {
        return;
    }
    let scratch = Scratch::of("f = one\n g = two\n d/x = deep\n d/y/z = deeper\n ../data/");
    // The root is the top of its mount, and what has the name of a store in it
    // is somebody's: neither can hold one.
    assert!(scratch.bind(".", ".") && scratch.tmpfs("../data"));
    scratch.chmod("../data", 0o700);
    scratch.file(".portcullis", "somebody's");
    let world = World::workspace().writable().over(scratch);
    let root = world.scratch.root();
    let before = snapshot(&root);
    let calls = Calls::of(&world);
    let replaced = calls.write("f", "ONE").unwrap().receipt;
    assert_eq!(replaced.cas, Cas::Exact);
    assert_eq!(replaced.labels, [Label::CopiedForUndo]);
    assert_eq!(replaced.kept_in, Some(UndoPlace::Copy));
    let over = calls.rename("f", "g").unwrap();
    assert_eq!(over.labels, [Label::CopiedForUndo]);
    assert_eq!(over.kept_in, Some(UndoPlace::Copy));
    let removed = calls.remove("d").unwrap();
    assert_eq!(removed.labels, [Label::CopiedForUndo]);
    assert_eq!(removed.kept_in, Some(UndoPlace::Copy));
    assert_eq!(calls.0.undo_place().unwrap(), Some(UndoPlace::Copy));
    let left = calls.undo_all();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(snapshot(&root), before);
}

#[test]
fn where_nothing_can_be_kept_nothing_is_displaced() {
    if cannot_mount() {
        return;
    }
    let scratch = Scratch::of("f = one\n d/x = deep\n ../data/");
    assert!(scratch.bind(".", ".") && scratch.tmpfs("../data"));
    scratch.chmod("../data", 0o700);
    scratch.file(".portcullis", "somebody's");
    let world = World::workspace().writable().over(scratch);
    // The data directory becomes read-only after it was opened.
    let data = world.scratch.at("../data");
    let flags = rustix::mount::MountFlags::RDONLY;
    rustix::mount::mount_remount(&data, flags, c"").unwrap();
    let root = world.scratch.root();
    let before = snapshot(&root);
    let calls = Calls::of(&world);
    for (verb, done) in [
        ("write", calls.write("f", "two").map(drop)),
        ("append", calls.append("f", "two").map(drop)),
        ("move", calls.rename("f", "d/x").map(drop)),
        ("remove", calls.remove("d").map(drop)),
    ] {
        let why = done.unwrap_err();
        assert_eq!(why.reason(), Reason::Os, "{verb}: {why:?}");
    }
    assert_eq!(snapshot(&root), before);
}

#[test]
fn a_removed_tree_weighs_what_is_in_it() {
    let world = world("");
    let root = world.scratch.root();
    fs::create_dir_all(root.join("d/deep")).unwrap();
    fs::write(root.join("d/deep/er"), vec![7; 300_000]).unwrap();
    fs::write(root.join("d/f"), vec![7; 50_000]).unwrap();
    let calls = Calls::of(&world);
    calls.remove("d").unwrap();
    let entry = calls.0.undo_entries().unwrap().pop().unwrap();
    let size = entry.before.unwrap().size;
    assert!((350_000..400_000).contains(&size), "{size}");
}
