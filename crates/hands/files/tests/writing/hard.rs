//! The hard cases: each has its rule, its label and its test.

use std::fs;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;

use portcullis_files::{Cas, Label, WriteOptions};
use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World, is_superuser};

use crate::support::{Calls, block_on, is_clean, snapshot, world};

#[test]
fn a_hard_link_is_broken_and_its_twin_keeps_the_old_bytes() {
    let world = world("f = one\n twin <=> f");
    let calls = Calls::of(&world);
    let done = calls.write("f", "two").unwrap();
    assert_eq!(done.receipt.labels, [Label::LinkBroken]);
    assert_eq!(
        (calls.read("f"), calls.read("twin")),
        ("two".into(), "one".into())
    );
    // Permission bits would change under every name.
    let world = crate::support::world("f = one\n twin <=> f");
    let why = Calls::of(&world).chmod("f", 0o600).unwrap_err();
    assert_eq!(why.reason(), Reason::Hardlink);
}

#[test]
fn a_hard_link_is_refused_where_the_root_refuses_them() {
    let world = World::workspace()
        .writable()
        .policy(|policy| policy.hardlinks = portcullis_policy::Hardlinks::Reject)
        .over(Scratch::of("f = one\n twin <=> f"));
    let calls = Calls::of(&world);
    assert_eq!(
        calls.write("f", "two").unwrap_err().reason(),
        Reason::Hardlink
    );
    assert_eq!(
        calls.edit("f", "one", "two").unwrap_err().reason(),
        Reason::Hardlink
    );
}

#[test]
fn a_late_write_of_a_program_that_had_it_open_goes_to_the_kept_copy_and_undo_says_so() {
    let world = world("f = one");
    let path = world.scratch.root().join("f");
    let mut editor = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let calls = Calls::of(&world);
    let done = calls.write("f", "two").unwrap();
    assert_eq!(done.receipt.labels, [Label::OpenWriter]);
    editor.write_all(b"late").unwrap();
    assert_eq!(calls.read("f"), "two");
    let id = done.receipt.undo.unwrap();
    let why = block_on(calls.0.undo_one(&id)).unwrap_err();
    assert_eq!(why.reason(), Reason::ChangedSince);
    let kept = calls.0.undo_content(&id, 100).unwrap().unwrap();
    assert_eq!(kept, b"late", "what it wrote is not lost");
    editor.rewind().unwrap();
    let mut bytes = String::new();
    editor.read_to_string(&mut bytes).unwrap();
    assert_eq!(bytes, "late");
}

#[test]
fn a_directory_where_a_file_was_and_a_file_where_a_directory_was_are_refused() {
    let world = world("d/x = y\n f = z");
    let calls = Calls::of(&world);
    assert_eq!(
        calls.write("d", "x").unwrap_err().reason(),
        Reason::IsDirectory
    );
    assert_eq!(
        calls.mkdir("f").unwrap_err().reason(),
        Reason::AlreadyExists
    );
    assert_eq!(
        calls.write("f/x", "x").unwrap_err().reason(),
        Reason::NotDirectory
    );
    assert_eq!(snapshot(&world.scratch.root()).len(), 3);
}

#[test]
fn a_read_only_file_is_not_replaced_unless_told() {
    let world = world("f = one");
    world.scratch.chmod("f", 0o444);
    let calls = Calls::of(&world);
    assert_eq!(
        calls.write("f", "two").unwrap_err().reason(),
        Reason::ReadOnly
    );
    let told = WriteOptions {
        read_only_too: true,
        ..WriteOptions::default()
    };
    calls.write_with("f", "two", &told).unwrap();
    let mode = fs::metadata(world.scratch.root().join("f")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o444);
    assert!(calls.undo_all().is_empty());
    assert_eq!(calls.read("f"), "one");
}

#[test]
fn links_pipes_and_paths_through_them_are_not_written() {
    let world = world("f = one\n l -> f\n d/x = y\n k -> d\n p |\n ../out = safe\n o -> ../out");
    let calls = Calls::of(&world);
    for path in ["l", "o", "k/x", "k/new"] {
        assert_eq!(
            calls.write(path, "x").unwrap_err().reason(),
            Reason::Symlink,
            "{path}"
        );
    }
    assert_eq!(
        calls.write("p", "x").unwrap_err().reason(),
        Reason::SpecialFile
    );
    assert_eq!(
        calls.append("o", "x").unwrap_err().reason(),
        Reason::Symlink
    );
    let why = calls.rename("f", "o").unwrap_err();
    assert_eq!(why.reason(), Reason::Symlink);
    let outside = fs::read_to_string(world.scratch.base().join("out")).unwrap();
    assert_eq!(outside, "safe");
}

#[test]
fn attributes_access_lists_and_owners_are_kept() {
    let world = world("f = one");
    let path = world.scratch.root().join("f");
    let set = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(&path, name, value, rustix::fs::XattrFlags::empty()).is_ok()
    };
    let has_attributes = set("user.colour", b"green");
    // rw for the owner, r for user 1234, a mask, nothing for others.
    let list: Vec<u8> = [
        &2u32.to_le_bytes()[..],
        &[1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff],
        &[2, 0, 4, 0, 0xd2, 0x04, 0, 0],
        &[4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
        &[16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
        &[32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ]
    .concat();
    let has_list = set("system.posix_acl_access", &list);
    if is_superuser() {
        std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    let done = Calls::of(&world).write("f", "two").unwrap();
    assert_eq!(done.receipt.labels, []);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (before.uid(), before.gid(), before.mode()),
        (after.uid(), after.gid(), after.mode())
    );
    let get = |name: &str| {
        let mut value = vec![0; 256];
        let len = rustix::fs::getxattr(&path, name, &mut value[..]).unwrap();
        value.truncate(len);
        value
    };
    assert!(has_attributes && has_list, "this file system keeps both");
    assert_eq!(get("user.colour"), b"green");
    assert_eq!(get("system.posix_acl_access"), list);
}

#[test]
fn a_mount_inside_is_not_entered_not_removed_and_what_is_behind_it_stays() {
    if !is_superuser() {
        eprintln!("skipped: mounting needs the superuser");
        return;
    }
    let world = world("d/sub/\n d/f = x\n e/\n ../out/precious = kept");
    let root = world.scratch.root();
    world.scratch.bind("../out", "d/sub");
    let calls = Calls::of(&world);
    assert_eq!(
        calls.remove("d").unwrap_err().reason(),
        Reason::MountBoundary
    );
    assert_eq!(
        calls.remove("d/sub").unwrap_err().reason(),
        Reason::MountBoundary
    );
    assert_eq!(
        calls.write("d/sub/x", "x").unwrap_err().reason(),
        Reason::MountBoundary
    );
    assert_eq!(
        calls.rename("d", "e/d").unwrap_err().reason(),
        Reason::MountBoundary
    );
    assert_eq!(
        fs::read_to_string(root.join("d/sub/precious")).unwrap(),
        "kept"
    );
    assert!(root.join("d/f").exists());
    assert!(is_clean(&root));
}

#[test]
fn a_file_that_is_itself_a_mount_is_written_in_place_where_the_root_lists_it() {
    if !is_superuser() {
        eprintln!("skipped: mounting needs the superuser");
        return;
    }
    let scratch = Scratch::of("f = one\n ../real = old and longer");
    scratch.bind("../real", "f");
    let world = World::workspace()
        .writable()
        .policy(|policy| policy.mounts = vec![portcullis_proto::RelPath::parse("f").unwrap()])
        .over(scratch);
    let calls = Calls::of(&world);
    let done = calls.write("f", "new").unwrap();
    assert_eq!(done.receipt.cas, Cas::Cooperative);
    assert!(
        done.receipt.labels.contains(&Label::InPlace),
        "{:?}",
        done.receipt
    );
    assert!(done.receipt.labels.contains(&Label::CopiedForUndo));
    let real = world.scratch.base().join("real");
    assert_eq!(fs::read_to_string(real).unwrap(), "new");
    assert!(is_clean(&world.scratch.root()));
}
