//! Nobody's save is overwritten by a caller that has not seen it.

use std::fs;

use portcullis_files::{Expect, WriteOptions};
use portcullis_proto::{ErrorKind, Reason};

use crate::support::{Calls, in_session, world};

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
