//! Nobody's save is overwritten by a caller that has not seen it.

use std::fs;

use portcullis_files::{ByteWindow, Expect, Label, MoveOptions, WriteOptions};
use portcullis_proto::{ErrorKind, Reason};

use crate::support::{Calls, block_on, in_session, snapshot, world};

fn expecting(expect: Expect) -> WriteOptions {
    WriteOptions {
        expect,
        ..WriteOptions::default()
    }
}

#[test]
fn what_was_read_and_changed_by_somebody_else_is_not_overwritten() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    calls.read("f");
    fs::write(world.scratch.root().join("f"), "two").unwrap();
    let why = calls.write("f", "mine").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    assert_eq!(why.kind(), ErrorKind::HashMismatch);
    assert_eq!(calls.read("f"), "two");
    calls.write("f", "mine").unwrap();
}

#[test]
fn a_change_of_the_same_size_within_one_tick_is_seen() {
    let world = world("");
    let path = world.scratch.root().join("f");
    let calls = Calls::of(&world);
    for round in 0..200 {
        fs::write(&path, "one").unwrap();
        calls.read("f");
        fs::write(&path, "two").unwrap();
        let why = calls.write("f", "mine").unwrap_err();
        assert_eq!(why.reason(), Reason::VersionMismatch, "round {round}");
    }
}

#[test]
fn what_was_never_read_may_be_overwritten_and_is_kept() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    let done = calls.write("f", "two").unwrap();
    let kept = calls
        .0
        .undo_content(&done.receipt.undo.unwrap(), 100)
        .unwrap();
    assert_eq!(kept.as_deref(), Some(&b"one"[..]));
}

#[test]
fn our_own_write_counts_as_seen() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    for n in 0..5 {
        calls.write("f", &format!("{n}")).unwrap();
        calls
            .edit("f", &format!("{n}"), &format!("{n}{n}"))
            .unwrap();
    }
    calls.rename("f", "g").unwrap();
    calls.write("g", "x").unwrap();
}

#[test]
fn two_sessions_do_not_overwrite_each_other() {
    let world = world("f = a\nb = x");
    fs::write(world.scratch.root().join("f"), "a\nb\nc\nd\ne\n").unwrap();
    let one = Calls(world.fs_for(&in_session("one")));
    let two = Calls(world.fs_for(&in_session("two")));
    one.read("f");
    two.read("f");
    one.edit("f", "a", "A").unwrap();
    // Elsewhere in the file: it is made on what is there now.
    two.edit("f", "e", "E").unwrap();
    assert_eq!(one.read("f"), "A\nb\nc\nd\nE\n");
    two.read("f");
    one.edit("f", "c", "C1").unwrap();
    // The same place: two has not seen it.
    let why = two.edit("f", "c\n", "C2\n").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    let why = two.write("f", "all mine").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
}

#[test]
fn a_version_or_a_hash_that_is_named_must_fit() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    let first = calls.write("f", "two").unwrap().receipt;
    calls.write("f", "three").unwrap();
    let stale = expecting(Expect::Version(first.version));
    let why = calls.write_with("f", "four", &stale).unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    let why = calls.edit_with("f", "three", "four", &stale).unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    let stale = expecting(Expect::Hash(first.hash.unwrap()));
    let why = calls.write_with("f", "four", &stale).unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    let now = calls.write("f", "five").unwrap().receipt;
    let fresh = expecting(Expect::Hash(now.hash.unwrap()));
    let now = calls.write_with("f", "six", &fresh).unwrap().receipt;
    let fresh = expecting(Expect::Version(now.version));
    calls.write_with("f", "seven", &fresh).unwrap();
}

#[test]
fn what_vanished_since_it_was_read_is_not_made_anew() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    calls.read("f");
    fs::remove_file(world.scratch.root().join("f")).unwrap();
    let why = calls.write("f", "two").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    assert!(!world.scratch.root().join("f").exists());
}

#[test]
fn a_root_can_require_that_a_file_is_read_first() {
    let world = portcullis_testkit::World::workspace()
        .writable()
        .policy(|policy| policy.read_before_write = true)
        .over(portcullis_testkit::Scratch::of("f = one"));
    let calls = Calls::of(&world);
    let why = calls.write("f", "two").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    calls.write("new", "two").unwrap();
    calls.read("f");
    calls.write("f", "two").unwrap();
}

#[test]
fn what_somebody_changed_since_it_was_read_is_not_removed() {
    let world = world("f = one\n d/x = deep");
    let calls = Calls::of(&world);
    calls.read("f");
    fs::write(world.scratch.root().join("f"), "two").unwrap();
    let why = calls.remove("f").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    assert_eq!(calls.read("f"), "two");
    calls.remove("f").unwrap();
    // What was never read, and a directory, goes as it is.
    calls.remove("d").unwrap();
    assert!(snapshot(&world.scratch.root()).is_empty());
}

#[test]
fn moves_copies_and_removals_take_a_version_and_change_nothing_where_it_differs() {
    let world = world("f = one\n g = two");
    let calls = Calls::of(&world);
    let fs = &calls.0;
    let page = block_on(fs.read_bytes("f", ByteWindow::Whole)).unwrap();
    let seen = Expect::Version(page.meta.version());
    std::fs::write(world.scratch.root().join("f"), "new").unwrap();
    let other = Expect::Hash(portcullis_proto::Digest([7; 32]));
    let before = snapshot(&world.scratch.root());
    for expect in [seen, other] {
        let moving = MoveOptions {
            source: expect.clone(),
            ..MoveOptions::default()
        };
        let options = WriteOptions::default();
        let appending = expecting(expect.clone());
        let refused = [
            block_on(fs.move_to("f", fs, "h", &moving)).map(drop),
            block_on(fs.copy_to("f", &expect, fs, "h", &options)).map(drop),
            block_on(fs.remove("f", &expect)).map(drop),
            block_on(fs.append("f", "more".into(), &appending)).map(drop),
        ];
        for why in refused {
            assert_eq!(why.unwrap_err().reason(), Reason::VersionMismatch);
        }
        assert_eq!(snapshot(&world.scratch.root()), before);
    }
    let hash = portcullis_proto::Digest::parse(
        "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437",
    );
    let now = Expect::Hash(hash.unwrap());
    block_on(fs.copy_to("f", &now, fs, "h", &WriteOptions::default())).unwrap();
    let moving = MoveOptions {
        source: now.clone(),
        ..MoveOptions::default()
    };
    block_on(fs.move_to("f", fs, "i", &moving)).unwrap();
    block_on(fs.remove("i", &now)).unwrap();
    assert_eq!(calls.read("h"), "new");
}

#[test]
fn moving_makes_nothing_seen_that_was_not() {
    let world = world("f = one\n d/x = one");
    let root = world.scratch.root();
    let calls = Calls::of(&world);
    calls.read("f");
    calls.read("d/x");
    fs::write(root.join("f"), "theirs").unwrap();
    fs::write(root.join("d/x"), "theirs").unwrap();
    calls.rename("f", "g").unwrap();
    calls.rename("d", "e").unwrap();
    for path in ["g", "e/x"] {
        let why = calls.write(path, "mine").unwrap_err();
        assert_eq!(why.reason(), Reason::VersionMismatch, "{path}");
        assert_eq!(calls.read(path), "theirs");
        calls.write(path, "mine").unwrap();
    }
}

#[test]
fn moving_away_and_back_is_no_way_around_reading_first() {
    let world = portcullis_testkit::World::workspace()
        .writable()
        .policy(|policy| policy.read_before_write = true)
        .over(portcullis_testkit::Scratch::of("f = one"));
    let calls = Calls::of(&world);
    calls.rename("f", "g").unwrap();
    let why = calls.write("g", "mine").unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    calls.read("g");
    calls.rename("g", "f").unwrap();
    calls.write("f", "mine").unwrap();
}

#[test]
fn links_and_directories_that_were_moved_and_used_can_be_removed() {
    let world = world("f = one\n l -> f\n a/x = deep");
    let calls = Calls::of(&world);
    calls.rename("l", "k").unwrap();
    calls.remove("k").unwrap();
    calls.rename("a", "b").unwrap();
    calls.write("b/y", "new").unwrap();
    calls.remove("b").unwrap();
}

#[test]
fn an_edit_made_on_somebody_elses_change_does_not_count_as_having_seen_it() {
    let world = world("");
    world.scratch.file("f", "first\nsecond\nthird\n");
    let calls = Calls::of(&world);
    let save = |text: &str| fs::write(world.scratch.at("f"), text).unwrap();
    calls.read("f");
    save("first\nsecond\nthird, and somebody's save\n");
    let edited = calls.edit("f", "first", "1st").unwrap().receipt;
    assert_eq!(edited.labels, [Label::Rebased]);
    let lost = "1st\nsecond\nthird\n";
    // Not by what this session saw last, nor by what the reply told.
    for options in [
        WriteOptions::default(),
        expecting(Expect::Version(edited.version)),
    ] {
        let why = calls.write_with("f", lost, &options).unwrap_err();
        assert_eq!(why.reason(), Reason::VersionMismatch);
    }
    assert_eq!(edited.hash, None);
    // Adding to it makes nothing seen either.
    let added = calls.append("f", "fourth\n").unwrap().receipt;
    assert_eq!(added.labels, [Label::Rebased]);
    assert!(calls.write("f", lost).is_err());
    // Having read it does.
    assert!(calls.read("f").contains("somebody's save"));
    let edited = calls.edit("f", "1st", "first").unwrap().receipt;
    assert!(edited.labels.is_empty() && edited.hash.is_some());
    calls.write("f", "all of it\n").unwrap();
}
