//! Where displaced files are kept, on mounts of every kind.

use std::fs;

use portcullis_files::{Label, UndoPlace};
use portcullis_testkit::{Scratch, World, is_superuser};

use crate::support::{Calls, is_clean, snapshot, world};

#[test]
fn on_the_data_directorys_mount_it_is_in_the_data_directory() {
    let world = world("f = one");
    let calls = Calls::of(&world);
    calls.write("f", "two").unwrap();
    assert_eq!(
        calls.0.undo_place().unwrap(),
        Some(UndoPlace::DataDirectory)
    );
}

/// A root that is on a mount of its own: a tmpfs over the whole root.
fn on_its_own_mount() -> Option<World> {
    if !is_superuser() {
        eprintln!("skipped: mounting needs the superuser");
        return None;
    }
    let scratch = Scratch::of("");
    scratch.tmpfs(".");
    scratch.add("f = one\n d/x = deep");
    Some(World::workspace().writable().over(scratch))
}

#[test]
fn on_a_mount_of_its_own_it_is_in_the_root_out_of_reach_and_out_of_git() {
    let Some(world) = on_its_own_mount() else {
        return;
    };
    let root = world.scratch.root();
    let before = snapshot(&root);
    let calls = Calls::of(&world);
    calls.write("f", "two").unwrap();
    calls.remove("d").unwrap();
    assert_eq!(calls.0.undo_place().unwrap(), Some(UndoPlace::InRoot));
    assert_eq!(
        fs::read_to_string(root.join(".portcullis/.gitignore")).unwrap(),
        "*\n"
    );
    let listed = crate::support::block_on(calls.0.list(
        ".",
        portcullis_files::ListRequest {
            want: portcullis_files::Want::All,
            order: portcullis_files::Order::Name,
            max: 100,
            after: None,
            metadata: false,
            include_ignored: true,
            mark_ignored: false,
        },
    ))
    .unwrap();
    assert_eq!(listed.entries.len(), 1, "{:?}", listed.entries);
    assert!(calls.undo_all().is_empty());
    let mut after = snapshot(&root);
    after.retain(|path, _| !path.starts_with(".portcullis"));
    assert_eq!(after, before);
}

#[test]
fn below_the_top_of_another_mount_it_is_at_that_top() {
    if !is_superuser() {
        eprintln!("skipped: mounting needs the superuser");
        return;
    }
    // The whole scratch root's parent cannot be mounted over; a root inside is.
    let scratch = Scratch::of("../other/");
    scratch.tmpfs("../other");
    let inside = scratch.base().join("other/inside");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("f"), "one").unwrap();
    let world = World::workspace()
        .writable()
        .over_directory(scratch, &inside);
    let calls = Calls::of(&world);
    calls.write("f", "two").unwrap();
    assert_eq!(calls.0.undo_place().unwrap(), Some(UndoPlace::MountTop));
    assert!(calls.undo_all().is_empty());
    assert_eq!(calls.read("f"), "one");
    assert!(is_clean(&inside));
}

#[test]
fn on_an_overlay_files_and_lower_directories_are_kept_and_come_back() {
    if !is_superuser() {
        eprintln!("skipped: mounting needs the superuser");
        return;
    }
    let scratch = Scratch::of("../lower/f = one\n ../lower/d/x = deep\n ../lower/d/y/z = deeper");
    scratch.overlay("../lower", ".");
    let world = World::workspace().writable().over(scratch);
    let root = world.scratch.root();
    let before = snapshot(&root);
    let calls = Calls::of(&world);
    calls.write("f", "two").unwrap();
    let removed = calls.remove("d").unwrap();
    assert_eq!(removed.entries, 4);
    // A directory of the lower layer cannot be renamed: it is copied, and said so.
    let copied = removed.labels.contains(&Label::CopiedForUndo);
    eprintln!("lower directory copied for undo: {copied}");
    assert!(!root.join("d").exists());
    assert!(calls.undo_all().is_empty());
    let mut after = snapshot(&root);
    after.retain(|path, _| !path.starts_with(".portcullis"));
    assert_eq!(after, before);
}
