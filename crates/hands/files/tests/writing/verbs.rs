//! Each verb, its defaults, and what it refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use portcullis_files::{Expect, Label, WriteMode, WriteOptions};
use portcullis_proto::{Outcome, Phase, Reason};

use crate::support::{Calls, anyway, block_on, create, is_clean, snapshot, stays, world};

fn mode(world: &portcullis_testkit::World, path: &str) -> u32 {
    let path = world.scratch.root().join(path);
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_new_file_is_private_and_its_parents_are_made() {
    let world = world("");
    let calls = Calls::of(&world);
    let done = calls.write("a/b/c.txt", "hello\n").unwrap();
    assert!(done.receipt.created);
    assert_eq!(done.receipt.bytes, Some(6));
    assert_eq!(calls.read("a/b/c.txt"), "hello\n");
    assert_eq!(mode(&world, "a/b/c.txt"), 0o600);
    assert_eq!(mode(&world, "a/b"), 0o700);
    assert!(done.diff.unwrap().text.contains("+hello"));
    let options = WriteOptions {
        permissions: Some(0o755),
        ..WriteOptions::default()
    };
    calls.write_with("run.sh", "x", &options).unwrap();
    assert_eq!(mode(&world, "run.sh"), 0o755);
    assert!(is_clean(&world.scratch.root()));
}

#[test]
fn a_new_directory_may_hold_a_name_that_is_also_above_it() {
    let world = world("a.txt = above");
    let calls = Calls::of(&world);
    calls.write("new/a.txt", "below").unwrap();
    calls.copy("a.txt", "other/deep/a.txt").unwrap();
    calls.mkdir("more/a.txt").unwrap();
    assert_eq!(calls.read("a.txt"), "above");
    assert_eq!(calls.read("new/a.txt"), "below");
    assert_eq!(calls.read("other/deep/a.txt"), "above");
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_diff_is_told() {
    let world = world("f = one\n");
    world.scratch.chmod("f", 0o640);
    let calls = Calls::of(&world);
    let done = calls.write("f", "two\n").unwrap();
    assert!(!done.receipt.created);
    assert_eq!(mode(&world, "f"), 0o640);
    let diff = done.diff.unwrap();
    assert!(
        diff.text.contains("-one") && diff.text.contains("+two"),
        "{}",
        diff.text
    );
    assert_eq!((diff.added, diff.removed), (1, 1));
    assert!(done.receipt.undo.is_some());
    assert!(done.receipt.labels.is_empty(), "{:?}", done.receipt.labels);
}

#[test]
fn create_refuses_what_is_there_and_replace_what_is_not() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    let why = calls.write_with("f", "two", &create()).unwrap_err();
    assert_eq!(why.reason(), Reason::AlreadyExists);
    assert_eq!(calls.read("f"), "one");
    let replace = WriteOptions {
        mode: WriteMode::Replace,
        ..WriteOptions::default()
    };
    let why = calls.write_with("g", "two", &replace).unwrap_err();
    assert_eq!(why.reason(), Reason::NotFound);
    assert!(!world.scratch.root().join("g").exists());
}

#[test]
fn what_fails_leaves_no_parents_behind() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    // Nothing was expected to be there, and nothing is.
    let stale = WriteOptions {
        expect: Expect::Version("v1-0-0-0-0".into()),
        ..WriteOptions::default()
    };
    let why = calls.write_with("a/b/c", "x", &stale).unwrap_err();
    assert_eq!(why.reason(), Reason::VersionMismatch);
    assert_eq!(snapshot(&world.scratch.root()).len(), 1);
}

#[test]
fn an_edit_changes_its_place_and_a_refusal_changes_nothing() {
    let world = world("");
    fs::write(
        world.scratch.root().join("f"),
        "a = 1\r\nb = 2\r\nb = 2\r\n",
    )
    .unwrap();
    let calls = Calls::of(&world);
    calls.edit("f", "a = 1", "a = 9").unwrap();
    assert_eq!(calls.read("f"), "a = 9\r\nb = 2\r\nb = 2\r\n");
    let why = calls.edit("f", "b = 2", "b = 3").unwrap_err();
    assert_eq!(why.reason(), Reason::AmbiguousText);
    let why = calls.edit("f", "c", "d").unwrap_err();
    assert_eq!(why.reason(), Reason::TextNotFound);
    assert_eq!(calls.read("f"), "a = 9\r\nb = 2\r\nb = 2\r\n");
}

#[test]
fn append_adds_to_the_end_or_makes_the_file() {
    let world = world("");
    let calls = Calls::of(&world);
    calls.append("log", "one\n").unwrap();
    calls.append("log", "two\n").unwrap();
    assert_eq!(calls.read("log"), "one\ntwo\n");
}

#[test]
fn mkdir_is_idempotent_and_a_file_in_the_way_is_told() {
    let world = world("f = x");
    let calls = Calls::of(&world);
    assert!(calls.mkdir("a/b/c").unwrap().created);
    assert!(!calls.mkdir("a/b/c").unwrap().created);
    assert_eq!(mode(&world, "a/b/c"), 0o700);
    assert_eq!(
        calls.mkdir("f").unwrap_err().reason(),
        Reason::AlreadyExists
    );
}

#[test]
fn move_makes_parents_overwrites_files_and_never_directories() {
    let world = world("f = one\n g = two\n d/x = deep");
    let calls = Calls::of(&world);
    let moved = calls.rename("f", "new/f").unwrap();
    assert!(moved.created);
    calls.rename("new/f", "g").unwrap();
    assert_eq!(calls.read("g"), "one");
    assert!(!world.scratch.root().join("new/f").exists());
    let why = calls.rename("g", "d").unwrap_err();
    assert_eq!(why.reason(), Reason::AlreadyExists);
    let why = calls.rename("d", "d/inside").unwrap_err();
    assert_eq!(why.reason(), Reason::BadArguments);
    calls.rename("d", "e").unwrap();
    assert_eq!(calls.read("e/x"), "deep");
    let fs = &calls.0;
    let why = block_on(fs.move_to("g", fs, "e/x", &stays())).unwrap_err();
    assert_eq!(why.reason(), Reason::AlreadyExists);
    assert!(is_clean(&world.scratch.root()));
}

#[test]
fn copy_leaves_the_source_and_undo_keeps_what_it_overwrote() {
    let world = world("f = one\n g = two");
    let calls = Calls::of(&world);
    calls.copy("f", "h/i").unwrap();
    calls.copy("f", "g").unwrap();
    for path in ["f", "g", "h/i"] {
        assert_eq!(calls.read(path), "one", "{path}");
    }
    assert!(calls.undo_all().is_empty());
    assert_eq!(calls.read("g"), "two");
}

#[test]
fn remove_takes_files_links_and_trees_and_leaves_what_links_point_to() {
    let world = world("f = one\n d/a/b = two\n d/l -> ../f\n l -> f");
    let calls = Calls::of(&world);
    assert_eq!(calls.remove("d").unwrap().entries, 4);
    assert_eq!(calls.remove("l").unwrap().entries, 1);
    let left: Vec<_> = snapshot(&world.scratch.root()).into_keys().collect();
    assert_eq!(left, ["f"]);
    assert!(calls.undo_all().is_empty());
    assert_eq!(snapshot(&world.scratch.root()).len(), 6);
}

#[test]
fn chmod_changes_bits_by_handle_and_no_others() {
    let world = world("f = x\n d/");
    let calls = Calls::of(&world);
    calls.chmod("f", 0o640).unwrap();
    calls.chmod("d", 0o750).unwrap();
    assert_eq!((mode(&world, "f"), mode(&world, "d")), (0o640, 0o750));
    assert_eq!(
        calls.chmod("f", 0o4755).unwrap_err().reason(),
        Reason::BadArguments
    );
}

#[test]
fn the_root_our_own_state_and_odd_names_are_refused() {
    let world = world("f = x");
    let calls = Calls::of(&world);
    for path in [".", ".portcullis/x", ".portcullis-x.tmp", "a/.PORTCULLIS/b"] {
        let why = calls.write(path, "x").unwrap_err();
        assert_eq!(why.reason(), Reason::ProtectedState, "{path}");
        assert!(calls.remove(path).is_err(), "{path}");
        assert!(calls.rename("f", path).is_err(), "{path}");
    }
    assert_eq!(
        calls.remove(".").unwrap_err().reason(),
        Reason::ProtectedState
    );
    for path in ["con", "a/aux.txt", "x.", "x:y"] {
        let why = calls.write(path, "x").unwrap_err();
        assert_eq!(why.reason(), Reason::BadArguments, "{path}");
    }
    assert_eq!(snapshot(&world.scratch.root()).len(), 1);
}

#[test]
fn an_existing_file_of_an_odd_name_can_be_changed() {
    let world = world("");
    fs::write(world.scratch.root().join("a:b"), "x").unwrap();
    let calls = Calls::of(&world);
    calls.write("a:b", "y").unwrap();
    calls.remove("a:b").unwrap();
    assert!(calls.undo_all().is_empty());
    assert_eq!(calls.read("a:b"), "x");
}

#[test]
fn an_untrusted_root_is_not_changed() {
    let world = world("f = x");
    world
        .authority
        .root(None)
        .unwrap()
        .entry()
        .set_trusted(false);
    let why = Calls::of(&world)
        .write_with("f", "y", &anyway())
        .unwrap_err();
    assert_eq!(why.reason(), Reason::Untrusted);
}

#[test]
fn what_takes_most_of_a_large_file_away_is_asked_about_and_a_small_one_is_not() {
    let world = world("");
    let root = world.scratch.root();
    let large: String = (0..500).map(|n| format!("line {n}, and so on\n")).collect();
    fs::write(root.join("large"), &large).unwrap();
    fs::write(root.join("small"), "a\nb\n").unwrap();
    let calls = Calls::of(&world);
    calls.write("small", "").unwrap();
    let why = calls.write("large", "gone").unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalUnavailable);
    let half = large.get(..large.len() * 3 / 4).unwrap();
    let why = calls.edit("large", half, "").unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalUnavailable);
    assert_eq!(calls.read("large"), large);
    calls.edit("large", "line 0,", "line zero,").unwrap();
}

#[test]
fn a_diff_never_tells_what_may_not_be_read() {
    use portcullis_policy::{Effect, Rule};
    // Writing to it is allowed by name; reading it is not.
    let rule = Rule {
        effect: Effect::Allow,
        group: portcullis_proto::Group::FilesystemWrite,
        root: None,
        pattern: "/.env".into(),
        covers_protected: true,
        exact_path: false,
        source: "test:1".into(),
    };
    let world = portcullis_testkit::World::workspace()
        .writable()
        .rules(vec![rule])
        .over(portcullis_testkit::Scratch::of(".env = KEY=canary"));
    let done = Calls::of(&world).write(".env", "KEY=other").unwrap();
    assert!(done.diff.is_none());
    assert!(done.receipt.hash.is_none(), "a hash can be guessed at");
}

#[test]
fn each_change_is_opened_staged_and_closed() {
    let world = world("f = one");
    Calls::of(&world).write("f", "two").unwrap();
    let lines = world.lines.all();
    let phases: Vec<_> = lines.iter().map(|line| line.phase).collect();
    assert_eq!(
        phases,
        [Phase::Opening, Phase::Staged, Phase::Staged, Phase::Closing]
    );
    let last = lines.last().unwrap();
    assert_eq!(last.outcome, Outcome::Success);
    assert!(
        last.json.contains("\"hash\""),
        "a mutation tells its content's hash"
    );
}

#[test]
fn what_is_written_without_syncing_says_nothing_else_differently() {
    let world = world("f = one");
    let quick = WriteOptions {
        durable: false,
        ..WriteOptions::default()
    };
    let done = Calls::of(&world).write_with("f", "two", &quick).unwrap();
    assert!(!done.receipt.labels.contains(&Label::NotSynced));
}

#[test]
fn no_move_of_a_directory_brings_anything_into_a_protected_class_or_out_of_one() {
    let world = world("a/hooks/pre-commit = evil\n k/.kube/config = secret\n p/x = y\n p/.env = z");
    let calls = Calls::of(&world);
    for (from, to) in [("a", "sub/.git"), ("k/.kube", "k/plain")] {
        let why = calls.rename(from, to).unwrap_err();
        let asked = matches!(why.reason(), Reason::ApprovalUnavailable);
        assert!(asked, "{from} to {to}: {why:?}");
    }
    // What stays as protected as it was goes along; removing it is asked about.
    calls.rename("p", "q").unwrap();
    assert_eq!(
        calls.remove("q").unwrap_err().reason(),
        Reason::ApprovalUnavailable
    );
    assert!(world.scratch.root().join("a/hooks/pre-commit").exists());
}

#[test]
fn what_a_rule_denies_below_a_directory_keeps_the_directory() {
    use portcullis_policy::{Effect, Rule};
    let rule = Rule {
        effect: Effect::Deny,
        group: portcullis_proto::Group::FilesystemWrite,
        root: None,
        pattern: "*.lock".into(),
        covers_protected: false,
        exact_path: false,
        source: "test:1".into(),
    };
    let world = portcullis_testkit::World::workspace()
        .writable()
        .rules(vec![rule])
        .over(portcullis_testkit::Scratch::of(
            "d/a.lock = x\n d/b = y\n e/c = z",
        ));
    let calls = Calls::of(&world);
    assert_eq!(
        calls.remove("d").unwrap_err().reason(),
        Reason::DeniedByRule
    );
    assert_eq!(
        calls.rename("d", "f").unwrap_err().reason(),
        Reason::DeniedByRule
    );
    calls.remove("e").unwrap();
}

#[test]
fn a_link_is_moved_as_a_link_and_a_move_keeps_to_the_guards_of_a_write() {
    let world = world("f = one\n l -> f\n ro = two\n seen = three");
    world.scratch.chmod("ro", 0o444);
    let calls = Calls::of(&world);
    calls.rename("l", "k").unwrap();
    assert!(world.scratch.root().join("k").is_symlink());
    assert_eq!(
        calls.rename("f", "ro").unwrap_err().reason(),
        Reason::ReadOnly
    );
    calls.read("seen");
    fs::write(world.scratch.root().join("seen"), "person").unwrap();
    assert_eq!(
        calls.rename("f", "seen").unwrap_err().reason(),
        Reason::VersionMismatch
    );
}

#[test]
fn what_was_removed_with_its_directory_may_be_made_again() {
    let world = world("d/a = one");
    let calls = Calls::of(&world);
    calls.read("d/a");
    calls.remove("d").unwrap();
    calls.write("d/a", "two").unwrap();
}

#[test]
fn a_diff_is_shown_only_where_reading_is_allowed_unasked() {
    let world = portcullis_testkit::World::workspace()
        .writable()
        .reading(portcullis_proto::Mode::Ask)
        .over(portcullis_testkit::Scratch::of("f = old"));
    assert!(Calls::of(&world).write("f", "new").unwrap().diff.is_none());
}
