//! Undoing everything brings everything back, and nobody else's work is lost.

use std::fs;

use portcullis_proto::Reason;

use crate::support::{Calls, Chance, block_on, inode, is_clean, snapshot, world};

const PATHS: [&str; 9] = ["a", "b", "c/d", "c/e", "c", "f/g/h", "f/g", "f", "i"];

/// One random change; most are refused now and then, which is as good.
fn step(calls: &Calls, chance: &mut Chance, n: usize) {
    let pick = |chance: &mut Chance| PATHS[usize::try_from(chance.below(9)).unwrap()];
    let (one, other) = (pick(chance), pick(chance));
    let _done_or_refused = match chance.below(8) {
        0 | 1 => calls.write(one, &format!("text {n}\n")).map(drop),
        2 => calls.append(one, &format!("more {n}\n")).map(drop),
        3 => calls.edit(one, "text", "TEXT").map(drop),
        4 => calls.mkdir(one).map(drop),
        5 => calls.rename(one, other).map(drop),
        6 => calls.copy(one, other).map(drop),
        _ if chance.below(2) == 0 => calls.chmod(one, 0o700).map(drop),
        _ => calls.remove(one).map(drop),
    };
}

#[test]
fn after_any_sequence_undoing_all_of_it_brings_the_tree_back() {
    for seed in 1..=40 {
        let world = world("a = alpha text\n c/d = deep text\n f/g/h = deeper\n l -> a");
        let root = world.scratch.root();
        let before = snapshot(&root);
        let calls = Calls::of(&world);
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        for n in 0..25 {
            step(&calls, &mut chance, n);
        }
        let left = calls.undo_all();
        assert!(left.is_empty(), "seed {seed}: {left:?}");
        assert_eq!(snapshot(&root), before, "seed {seed}");
    }
}

#[test]
fn undo_puts_the_very_same_file_back_and_can_itself_be_undone() {
    let world = world("f = one");
    let path = world.scratch.root().join("f");
    let was = inode(&path);
    let calls = Calls::of(&world);
    let done = calls.write("f", "two").unwrap();
    let undone = block_on(calls.0.undo_one(&done.receipt.undo.unwrap())).unwrap();
    assert_eq!((calls.read("f"), inode(&path)), ("one".into(), was));
    block_on(calls.0.undo_one(&undone.redo.unwrap())).unwrap();
    assert_eq!(calls.read("f"), "two");
    assert!(is_clean(&world.scratch.root()));
}

#[test]
fn what_somebody_else_changed_since_is_left_and_told() {
    let world = world("a = one\n b = two\n c = three\n d/x = y");
    let root = world.scratch.root();
    let calls = Calls::of(&world);
    calls.write("a", "agent").unwrap();
    calls.write("b", "agent").unwrap();
    calls.remove("c").unwrap();
    calls.mkdir("new").unwrap();
    calls.write("made", "agent").unwrap();
    calls.rename("d", "e").unwrap();
    fs::write(root.join("a"), "person").unwrap();
    fs::write(root.join("c"), "person").unwrap();
    fs::write(root.join("new/file"), "person").unwrap();
    fs::write(root.join("made"), "person").unwrap();
    fs::write(root.join("e/y"), "person").unwrap();
    let mut left = calls.undo_all();
    left.sort_by(|one, other| one.0.cmp(&other.0));
    let paths: Vec<_> = left.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["a", "c", "made", "new"]);
    assert!(
        left.iter()
            .all(|(_, why)| why.reason() == Reason::ChangedSince)
    );
    for path in ["a", "c", "new/file", "made", "d/y"] {
        assert_eq!(
            fs::read_to_string(root.join(path)).unwrap(),
            "person",
            "{path}"
        );
    }
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "two");
    assert_eq!(
        calls.0.undo_entries().unwrap().len(),
        4 + 2,
        "what was left is still kept"
    );
}

#[test]
fn an_operation_nobody_knows_is_refused() {
    let world = world("f = x");
    let calls = Calls::of(&world);
    for id in ["", "nothing", "../x", "a/b"] {
        let why = block_on(calls.0.undo_one(id)).unwrap_err();
        assert_eq!(why.reason(), Reason::NotFound, "{id}");
    }
}
