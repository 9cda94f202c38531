//! A yes to change a secret is no yes to read it.

use std::sync::Arc;

use portcullis_files::text::{Edit, EncodingChoice};
use portcullis_files::{ByteWindow, WriteOptions};
use portcullis_gate::Decision;
use portcullis_policy::{Effect, Rule};
use portcullis_proto::{Access, AccessSet, Failure, Group, Reason};
use portcullis_testkit::{Scratch, ScriptedApprover, World, WorldBuilder};

use crate::support::{Calls, block_on, in_session};

const TREE: &str = "
    .env = TOKEN=precious
    prod.env = OTHER=precious
    notes.txt = notes
    .aws/credentials = precious
    app/.env = precious
    copy/.env = mine
";

/// A world where writes are allowed, and a person who answers like this.
fn world(answers: impl IntoIterator<Item = Decision>) -> (World, Calls, Arc<ScriptedApprover>) {
    over(World::workspace().writable(), answers)
}

fn over(
    builder: WorldBuilder,
    answers: impl IntoIterator<Item = Decision>,
) -> (World, Calls, Arc<ScriptedApprover>) {
    let world = builder.over(Scratch::of(TREE));
    let person = Arc::new(ScriptedApprover::deciding(answers));
    let calls = Calls(world.fs_for(&in_session("s").asking(person.clone())));
    (world, calls, person)
}

fn rule(group: Group, path: &str) -> Rule {
    Rule {
        effect: Effect::Allow,
        group,
        root: None,
        pattern: format!("/{path}"),
        covers_protected: true,
        exact_path: true,
        source: Arc::from("settings.json:3"),
    }
}

fn writes(path: &str) -> Rule {
    rule(Group::FilesystemWrite, path)
}

#[track_caller]
fn nobody_said(done: Result<impl std::fmt::Debug, Failure>) {
    assert_eq!(done.unwrap_err().reason(), Reason::ApprovalUnavailable);
}

fn readable(calls: &Calls, path: &str) -> bool {
    block_on(calls.0.read_bytes(path, ByteWindow::Whole)).is_ok()
}

#[test]
fn a_yes_kept_for_changing_a_secret_does_not_let_it_be_moved_to_where_it_can_be_read() {
    let (world, calls, person) = world([Decision::AllowSession]);
    calls.append(".env", "\n").unwrap();
    calls.append(".env", "\n").unwrap();
    assert_eq!(person.asked().len(), 1, "the yes was kept");
    for to in ["notes.txt", "new.txt", ".env.example", "sub/plain"] {
        nobody_said(calls.rename(".env", to));
    }
    assert_eq!(person.asked().len(), 5, "each move was asked about");
    assert!(world.scratch.at(".env").exists());
    for question in person.asked().iter().skip(1) {
        assert!(
            !question.offered.contains(&Decision::AllowSession),
            "no answer to it is kept"
        );
    }
}

#[test]
fn a_stored_rule_that_lets_a_secret_be_changed_does_not_let_it_be_moved_out_by_one_move_or_two() {
    let rules = vec![writes(".env"), writes("prod.env"), writes(".aws")];
    let (_world, calls, person) = over(World::workspace().writable().rules(rules), []);
    nobody_said(calls.rename(".env", "notes.txt"));
    // Within the class nothing is told, and the second move is asked about.
    calls.rename(".env", "prod.env").unwrap();
    assert_eq!(person.asked().len(), 1);
    nobody_said(calls.rename("prod.env", "notes.txt"));
    nobody_said(calls.rename(".aws", "x"));
    for path in ["prod.env", ".aws/credentials"] {
        assert!(!readable(&calls, path), "{path}");
    }
}

#[test]
fn one_yes_moves_a_secret_out_and_is_asked_for_once() {
    let (_world, calls, person) = world([Decision::AllowOnce]);
    calls.rename(".env", "notes.txt").unwrap();
    assert_eq!(person.asked().len(), 1);
    assert_eq!(calls.read("notes.txt"), "TOKEN=precious");
}

#[test]
fn whoever_may_both_read_and_change_a_secret_moves_and_edits_it_unasked() {
    let rules = vec![writes(".env"), rule(Group::FilesystemRead, ".env")];
    let (_world, calls, person) = over(World::workspace().writable().rules(rules), []);
    calls.edit(".env", "TOKEN", "KEY").unwrap();
    calls.rename(".env", "notes.txt").unwrap();
    assert!(person.asked().is_empty());
}

#[test]
fn a_yes_to_read_one_secret_does_not_read_another_that_was_moved_there() {
    let rules = vec![
        writes(".env"),
        writes("prod.env"),
        rule(Group::FilesystemRead, "prod.env"),
        rule(Group::FilesystemRead, "copy/.env"),
    ];
    let (_world, calls, _person) = over(World::workspace().writable().rules(rules), []);
    nobody_said(calls.rename(".env", "prod.env"));
    // With the directory around it, neither.
    calls.rename("copy", "away").unwrap();
    nobody_said(calls.rename("app", "copy"));
    assert!(!readable(&calls, "copy/.env"));
}

#[test]
fn whoever_may_not_read_takes_no_secret_out_of_its_class_even_with_a_yes() {
    let builder = World::workspace().writable().policy(|policy| {
        policy.ambient = AccessSet::ALL.without(AccessSet::of(&[Access::Read]));
    });
    let (world, calls, person) = over(builder, [Decision::AllowOnce; 8]);
    for (from, to) in [(".env", "notes.txt"), (".aws", "x"), ("app/.env", "plain")] {
        let why = calls.rename(from, to).unwrap_err();
        assert_eq!(why.reason(), Reason::NoGrant, "{from}");
    }
    let why = calls.edit(".env", "TOKEN", "x").unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
    assert!(person.asked().is_empty());
    world.scratch.add("up/.ssh/id_rsa = precious");
    let why = calls.rename("up/.ssh", "up/x").unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
}

#[test]
fn undoing_a_move_takes_no_secret_out_of_its_class() {
    let rules = vec![writes("late.env")];
    let (world, calls, person) = over(World::workspace().writable().rules(rules), []);
    calls.rename("notes.txt", "late.env").unwrap();
    // The person puts a secret into it, in place.
    std::fs::write(world.scratch.at("late.env"), "precious").unwrap();
    let entries = calls.0.undo_entries().unwrap();
    nobody_said(block_on(calls.0.undo_one(&entries[0].id)));
    assert_eq!(person.asked().len(), 1);
}

#[test]
fn an_edit_of_a_secret_compares_it_and_a_yes_kept_for_changing_it_does_not_cover_that() {
    let (_world, calls, person) = world([Decision::AllowSession, Decision::AllowOnce]);
    calls.append(".env", "\n").unwrap();
    calls.edit(".env", "TOKEN", "KEY").unwrap();
    assert_eq!(person.asked().len(), 2);
    nobody_said(calls.edit(".env", "KEY", "TOKEN"));
    let offered = &person.asked()[1].offered;
    assert!(!offered.contains(&Decision::AllowSession));
}

/// What a caller is told of a failure.
fn told(why: &Failure) -> (Reason, String, Option<String>) {
    (
        why.reason(),
        why.message().to_owned(),
        why.next_step().map(str::to_owned),
    )
}

fn edit(old: &str, new: &str, all: bool) -> Edit {
    Edit {
        old: old.into(),
        new: new.into(),
        all,
    }
}

/// Tries edits that fail for every reason there is.
#[track_caller]
fn failed_edits_are_alike(calls: &Calls, path: &str, text: &str) {
    let tries = [
        vec![edit("absent", "x", false)],
        // Which of several failed would tell one letter after the other.
        vec![edit(text, "x", false), edit("absent", "x", false)],
        vec![edit("absent", "x", false), edit(text, "x", false)],
        vec![edit("twice", "x", false)],
        vec![edit(text, text, false)],
        vec![edit(text, "x", false), edit(text, "y", false)],
        vec![edit("\u{3bb}", "x", false)],
    ];
    let mut replies: Vec<_> = Vec::new();
    for edits in tries {
        let options = WriteOptions::default();
        let done = calls.0.edit(path, edits, EncodingChoice::Detect, &options);
        replies.push(told(&block_on(done).unwrap_err()));
    }
    let first = &replies[0];
    assert!(replies.iter().all(|reply| reply == first), "{replies:#?}");
}

#[test]
fn every_failed_edit_of_a_file_that_may_not_be_read_gets_the_same_sentence() {
    // A person says yes to each edit, and the agent still learns nothing by it.
    let (first, calls, _) = world([Decision::AllowOnce; 7]);
    first.scratch.file(".env", "precious twice twice");
    failed_edits_are_alike(&calls, ".env", "precious");
    // A token that may write and not read.
    let builder = World::workspace().writable().policy(|policy| {
        policy.ambient = AccessSet::ALL.without(AccessSet::of(&[Access::Read]));
    });
    let (world, calls, _) = over(builder, []);
    world.scratch.file("notes.txt", "note twice twice");
    failed_edits_are_alike(&calls, "notes.txt", "note");
    // Nor whether somebody changed it since, or how it is encoded.
    calls.append("notes.txt", "more").unwrap();
    std::fs::write(world.scratch.at("notes.txt"), b"\xff\xfen\0o\0t\0e\0s\0").unwrap();
    failed_edits_are_alike(&calls, "notes.txt", "note");
    std::fs::write(world.scratch.at("notes.txt"), b"note\0es\xff").unwrap();
    failed_edits_are_alike(&calls, "notes.txt", "note");
}

#[test]
fn a_change_of_a_file_that_may_not_be_read_tells_neither_its_size_nor_how_it_is_written() {
    let builder = World::workspace().writable().policy(|policy| {
        policy.ambient = AccessSet::ALL.without(AccessSet::of(&[Access::Read]));
    });
    let (world, calls, _) = over(builder, []);
    let size = |text: &str| format!("-{:x}-", text.len());
    for name in ["notes.txt", "a.txt"] {
        world.scratch.file(name, "twenty bytes of text");
    }
    let appended = calls.append("notes.txt", "more").unwrap();
    let edited = calls.edit("notes.txt", "twenty", "eighty").unwrap();
    let moved = calls.rename("notes.txt", "moved.txt").unwrap();
    let bits = calls.chmod("moved.txt", 0o640).unwrap();
    for receipt in [&appended.receipt, &edited.receipt, &moved, &bits] {
        assert_eq!(receipt.bytes, None, "{receipt:?}");
        assert_eq!(receipt.hash, None);
        let told = size("twenty bytes of textmore");
        assert!(!receipt.version.contains(&told), "{receipt:?}");
    }
    assert!(appended.text.is_none() && edited.text.is_none());
    assert!(appended.diff.is_none() && edited.diff.is_none());
    // What it brought itself it may be told.
    let made = calls.write("new.txt", "mine").unwrap();
    assert_eq!(made.receipt.bytes, Some(4));
    // The version it got is good for its next change, and for no other file.
    let options = WriteOptions {
        expect: portcullis_files::Expect::Version(bits.version),
        ..WriteOptions::default()
    };
    block_on(calls.0.append("moved.txt", "x".into(), &options)).unwrap();
    let stale = block_on(calls.0.append("moved.txt", "x".into(), &options));
    assert_eq!(stale.unwrap_err().reason(), Reason::VersionMismatch);
}

#[test]
fn what_is_added_to_a_file_that_may_not_be_read_fails_in_one_sentence() {
    let builder = World::workspace().writable().policy(|policy| {
        policy.ambient = AccessSet::ALL.without(AccessSet::of(&[Access::Read]));
        policy.max_file_bytes = 64;
    });
    let (world, calls, _) = over(builder, []);
    // Too large with it, and in an encoding that has no such letter.
    world.scratch.file("large.txt", "x".repeat(60));
    world.scratch.file("legacy.txt", b"caf\xe9 au lait");
    let replies = ["large.txt", "legacy.txt"].map(|path| {
        let why = calls.append(path, "\u{3bb}\u{3bb}\u{3bb}").unwrap_err();
        assert!(!why.message().contains("66"), "{why:?}");
        told(&why)
    });
    assert_eq!(replies[0], replies[1]);
}
