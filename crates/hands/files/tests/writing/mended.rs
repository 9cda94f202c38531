//! Defects that were found and mended: each test failed before.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use portcullis_files::Leftover;
use portcullis_proto::Reason;

use crate::course::course;
use crate::support::{Calls, block_on, inode, snapshot, world};
use crate::victim::{Mounts, Trial, authority, calls};

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let patience = Instant::now() + portcullis_testkit::PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < patience, "waited for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A move is refused after its rename, and its old name is taken meanwhile: it
/// is not lost track of.
#[test]
fn what_cannot_be_moved_back_is_told_where_it_stands() {
    let course = course(Mounts::One, "move").unwrap();
    let moved = course.find("renameat2", &["\"f\"", "\"h\""]);
    // The look after the rename fails, and the old name is taken by then.
    let look = course.after(moved, Some("statx"));
    let trial = Trial::new("move");
    let inject = [look.inject("error=EIO"), moved.inject("delay_exit=600000")];
    let started = trial.start("move", Some(moved.thread), &inject);
    let root = trial.scratch.root();
    wait_for("the move", || root.join("m/o/h").exists().then_some(()));
    fs::write(root.join("f"), "somebody's").unwrap();
    let told = started.end(&trial).told.unwrap();
    let tree = trial.tree();
    assert_eq!(tree["f"].1, b"somebody's");
    let (stands, _) = tree
        .iter()
        .find(|(_, (_, text))| text == b"one")
        .unwrap_or_else(|| panic!("lost: {tree:?}"));
    assert!(told.starts_with("io_error io\n"), "{told}");
    assert!(
        told.contains(&format!("{stands:?}")),
        "{stands} is not told: {told}"
    );
    assert!(stands.starts_with("f.conflict-"), "{stands}");
}

/// Two saves of an editor that writes in place: one before our swap, and one
/// into what we had put there, before it is taken back.
#[test]
fn a_save_into_what_is_taken_back_is_kept_beside_the_file() {
    let course = course(Mounts::One, "write").unwrap();
    let swap = course.find("renameat2", &["\"f\"", "RENAME_EXCHANGE"]);
    let trial = Trial::new("write");
    let inject = swap.inject("delay_enter=600000:delay_exit=900000");
    let started = trial.start("write", Some(swap.thread), &[inject]);
    let file = trial.scratch.root().join("f");
    let draft = |root: &Path| {
        let tree = snapshot(root);
        tree.iter().any(|(path, (_, text))| {
            path.starts_with(".portcullis") && text == b"ONE, and more of it"
        })
    };
    let root = trial.scratch.root();
    wait_for("the draft", || draft(&root).then_some(()));
    fs::write(&file, "first save").unwrap();
    wait_for("the swap", || {
        (fs::read(&file).unwrap() == b"ONE, and more of it").then_some(())
    });
    // In place: into the very file that was put there.
    fs::write(&file, "second save").unwrap();
    let told = started.end(&trial).told.unwrap();
    let tree = trial.tree();
    assert!(told.starts_with("hash_mismatch version_mismatch"), "{told}");
    assert_eq!(tree["f"].1, b"first save");
    let kept = tree
        .iter()
        .find(|(_, (_, text))| text == b"second save")
        .unwrap_or_else(|| panic!("destroyed: {tree:?}"));
    assert!(kept.0.starts_with("f.conflict-"), "{kept:?}");
    assert!(told.contains(kept.0), "{told}");
}

/// Killed in the middle of a write into a file that is itself a mount.
#[test]
fn a_torn_write_in_place_is_finished_and_can_be_undone() {
    let Some(course) = course(Mounts::FileIsMount, "write") else {
        eprintln!("NOT TRIED: a file that is itself a mount, since mounting is refused");
        return;
    };
    // After the bytes, before the old end is cut off: half of each.
    let cut = course.find("ftruncate", &[]);
    let trial = Trial::on(Mounts::FileIsMount, "write").unwrap();
    fs::write(
        trial.scratch.base().join("real"),
        "one, as long as can be, and longer",
    )
    .unwrap();
    let ran = trial.run("write", cut.thread, &[cut.inject("signal=SIGKILL")]);
    assert!(ran.died);
    let torn = fs::read_to_string(trial.scratch.root().join("f")).unwrap();
    let whole = ["one, as long as can be, and longer", "ONE, and more of it"];
    assert_eq!(torn, "ONE, and more of it be, and longer");
    trial.recover();
    let now = fs::read_to_string(trial.scratch.root().join("f")).unwrap();
    assert!(whole.contains(&now.as_str()), "{now}");
    let (authority, _) = authority(trial.scratch.base(), "last");
    assert!(calls(&authority).undo_all().is_empty());
    let now = fs::read_to_string(trial.scratch.root().join("f")).unwrap();
    assert_eq!(now, whole[0]);
}

/// Between the swap and the keeping of what was overwritten, that stands under
/// no name that anybody else writes to.
#[test]
fn what_a_move_overwrites_is_never_under_its_old_name() {
    let course = course(Mounts::One, "move_over").unwrap();
    let swap = course.find("renameat2", &["RENAME_EXCHANGE"]);
    let trial = Trial::new("move_over");
    let inject = swap.inject("delay_exit=600000");
    let started = trial.start("move_over", Some(swap.thread), &[inject]);
    let root = trial.scratch.root();
    wait_for("the swap", || {
        (fs::read(root.join("g")).unwrap() == b"one").then_some(())
    });
    assert!(
        !root.join("f").exists(),
        "what was overwritten is under the old name"
    );
    // Somebody saves under the old name: theirs stays, and is not taken.
    fs::write(root.join("f"), "somebody's").unwrap();
    assert_eq!(started.end(&trial).told.as_deref(), Some("done"));
    let tree = trial.tree();
    assert_eq!(
        (&tree["f"].1[..], &tree["g"].1[..]),
        (&b"somebody's"[..], &b"one"[..])
    );
    let (authority, _) = authority(trial.scratch.base(), "last");
    let calls = calls(&authority);
    let entry = calls.0.undo_entries().unwrap().pop().unwrap();
    assert_eq!(
        calls.0.undo_content(&entry.id, 10).unwrap().unwrap(),
        b"two"
    );
}

#[test]
fn an_overwriting_move_can_be_undone_and_redone_and_undone_again() {
    let world = world("f = one\n g = two");
    let root = world.scratch.root();
    let was = (inode(&root.join("f")), inode(&root.join("g")));
    let calls = Calls::of(&world);
    let mut id = calls.rename("f", "g").unwrap().undo.unwrap();
    for _ in 0..3 {
        id = block_on(calls.0.undo_one(&id)).unwrap().redo.unwrap();
        assert_eq!(
            (calls.read("f"), calls.read("g")),
            ("one".into(), "two".into())
        );
        assert_eq!((inode(&root.join("f")), inode(&root.join("g"))), was);
        id = block_on(calls.0.undo_one(&id)).unwrap().redo.unwrap();
        assert_eq!(calls.read("g"), "one");
        assert!(!root.join("f").exists());
    }
    id = block_on(calls.0.undo_one(&id)).unwrap().redo.unwrap();
    // What came back and was changed since is not displaced.
    fs::write(root.join("g"), "TWO").unwrap();
    let why = block_on(calls.0.undo_one(&id)).unwrap_err();
    assert_eq!(why.reason(), Reason::ChangedSince);
    assert_eq!(
        (calls.read("f"), calls.read("g")),
        ("one".into(), "TWO".into())
    );
}

/// A recovered entry says when the operation began, and the audit of the process
/// that recovered it says what came of it.
#[test]
fn what_is_recovered_is_told_with_its_time_and_in_the_audit() {
    let course = course(Mounts::One, "write").unwrap();
    let swap = course.find("renameat2", &["RENAME_EXCHANGE"]);
    let next = course.after(swap, None);
    let trial = Trial::new("write");
    let start = now_ms();
    std::thread::sleep(Duration::from_millis(30));
    let ran = trial.run("write", next.thread, &[next.inject("signal=SIGKILL")]);
    assert!(ran.died);
    let end = now_ms();
    let found = trial.recover();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].found, found[0].done), (Leftover::Displaced, true));
    let (authority, data) = authority(trial.scratch.base(), "last");
    let entries = calls(&authority).0.undo_entries().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.id == found[0].request)
        .unwrap();
    assert!(entry.recovered);
    assert!(
        (start + 30..=end).contains(&entry.at),
        "{start} {} {end}",
        entry.at
    );
    let log = portcullis_files::AuditLog::open(&data).unwrap();
    let lines: Vec<_> = log
        .records(portcullis_files::Filter::default())
        .unwrap()
        .filter_map(Result::ok)
        .filter(|line| line.request_id.as_deref() == Some(found[0].request.as_str()))
        .collect();
    let closing: Vec<_> = lines
        .iter()
        .filter(|line| line.phase.as_deref() == Some("closing"))
        .collect();
    assert_eq!(closing.len(), 1, "{lines:?}");
    assert_eq!(closing[0].route.as_deref(), Some("recovery"));
    assert_eq!(closing[0].outcome.as_deref(), Some("success"));
    assert_eq!(closing[0].subject, lines[0].subject);
    assert_eq!(closing[0].relative_path.as_deref(), Some("f"));
    assert_ne!(
        closing[0].chain, lines[0].chain,
        "in the chain of whoever recovered it"
    );
    assert!(log.verify().unwrap().is_sound());
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.unwrap().as_millis()).unwrap()
}

/// One operation that cannot be put right is told, and keeps no other back.
#[test]
fn what_cannot_be_recovered_is_told_and_tried_again() {
    let course = course(Mounts::One, "create").unwrap();
    let named = course.find("renameat2", &["\"w\""]);
    let trial = Trial::new("create");
    let ran = trial.run("create", named.thread, &[named.inject("signal=SIGKILL")]);
    assert!(ran.died);
    // A draft that cannot be removed: a directory that lets nothing go.
    let dir = trial.scratch.root().join("n/e");
    let immutable = |on: bool| {
        std::process::Command::new("chattr")
            .arg(if on { "+i" } else { "-i" })
            .arg(&dir)
            .status()
            .is_ok_and(|status| status.success())
    };
    if !immutable(true) {
        eprintln!("NOT TRIED: this file system has no immutable directories");
        return;
    }
    let (first, data) = authority(trial.scratch.base(), "first");
    let found = first.recover(&data, false).unwrap();
    assert!(immutable(false));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].found, Leftover::Stuck);
    assert_eq!(
        found[0].why.as_ref().map(portcullis_proto::Failure::reason),
        Some(Reason::Os)
    );
    drop(first);
    let found = trial.recover();
    assert_eq!(found[0].found, Leftover::Unpublished);
    trial.everything_can_be_undone("create");
}

/// Directories made on the way to a file that never came go; what somebody put
/// there since keeps them.
#[test]
fn directories_made_on_the_way_to_nothing_go_again_unless_they_are_used() {
    let course = course(Mounts::One, "create").unwrap();
    let named = course.find("renameat2", &["\"w\""]);
    for used in [false, true] {
        let trial = Trial::new("create");
        let ran = trial.run("create", named.thread, &[named.inject("signal=SIGKILL")]);
        assert!(ran.died && trial.scratch.root().join("n/e").is_dir());
        if used {
            fs::write(trial.scratch.root().join("n/theirs"), "precious").unwrap();
        }
        trial.recover();
        let tree = trial.tree();
        if used {
            assert_eq!(tree["n/theirs"].1, b"precious");
            assert!(!tree.contains_key("n/e"), "{:?}", tree.keys());
        } else {
            assert_eq!(tree, course.before);
        }
    }
}

/// A directory that is moved is walked when it is judged and when it has landed.
#[test]
fn a_moved_directory_is_walked_twice_and_no_more() {
    let course = course(Mounts::One, "move_tree").unwrap();
    let opened = course
        .steps
        .iter()
        .filter(|step| step.name == "openat2" && step.line.contains("\"y\""))
        .count();
    assert_eq!(opened, 2, "{:#?}", course.steps);
}
