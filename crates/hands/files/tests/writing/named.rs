//! Files that the operator named: no agent changes them, by whatever name, and
//! keys are not read.

use std::fs;
use std::os::unix::fs::symlink;

use portcullis_files::{ByteWindow, OperatorRole};
use portcullis_proto::{Failure, Reason};
use portcullis_testkit::{Scratch, World};

use crate::support::{Calls, block_on, snapshot, world};

const TREE: &str = "
    tools/hook.sh = #!/bin/sh
    tls/key.pem = PRIVATE
    notes.txt = notes
    other/x.txt = x
    ";

fn named(scratch: Scratch, hook: &str, key: &str) -> World {
    let (hook, key) = (scratch.at(hook), scratch.at(key));
    World::workspace()
        .writable()
        .named(hook, OperatorRole::Fixed)
        .named(key, OperatorRole::Key)
        .over(scratch)
}

fn read(world: &World, path: &str) -> Result<Vec<u8>, Failure> {
    let scope = world.fs();
    block_on(scope.read_bytes(path, ByteWindow::Whole)).map(|read| read.bytes)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(what: &str, done: Result<T, Failure>) {
    let why = done.expect_err(what);
    assert_eq!(why.reason(), Reason::ProtectedState, "{what}: {why:?}");
}

/// Every change there is to what stands at `path`.
fn try_all(calls: &Calls, path: &str) {
    refused("write", calls.write(path, "mine"));
    refused("append", calls.append(path, "mine"));
    refused("edit", calls.edit(path, "#!", "mine"));
    refused("mkdir", calls.mkdir(path));
    refused("chmod", calls.chmod(path, 0o777));
    refused("remove", calls.remove(path));
    refused("move away", calls.rename(path, "elsewhere"));
    refused("move over", calls.rename("notes.txt", path));
    refused("copy over", calls.copy("notes.txt", path));
}

#[test]
fn no_agent_changes_what_the_operator_named() {
    let world = named(Scratch::of(TREE), "tools/hook.sh", "tls/key.pem");
    let before = snapshot(&world.scratch.root());
    let calls = Calls::of(&world);
    for path in ["tools/hook.sh", "tls/key.pem"] {
        try_all(&calls, path);
    }
    for above in ["tools", "tls"] {
        refused("remove above", calls.remove(above));
        refused("move above", calls.rename(above, "gone"));
        refused("move onto", calls.rename("other", above));
    }
    assert_eq!(snapshot(&world.scratch.root()), before);
    // What is beside it is changed as ever.
    calls.write("tools/notes.txt", "x").unwrap();
    calls.write("tls/notes.txt", "x").unwrap();
}

#[test]
fn a_hook_is_read_and_a_key_is_not_by_any_name() {
    let scratch = Scratch::of(TREE);
    fs::hard_link(scratch.at("tls/key.pem"), scratch.at("alias.txt")).unwrap();
    let world = named(scratch, "tools/hook.sh", "tls/key.pem");
    assert_eq!(read(&world, "tools/hook.sh").unwrap(), b"#!/bin/sh");
    for path in ["tls/key.pem", "alias.txt"] {
        refused(path, read(&world, path));
        let calls = Calls::of(&world);
        refused(path, calls.copy(path, "copied.txt"));
    }
    assert!(!world.scratch.at("copied.txt").exists());
}

#[test]
fn a_key_outside_is_not_read_by_a_hard_link_inside() {
    let scratch = Scratch::of("../keys/key.pem = PRIVATE\n notes.txt = notes");
    fs::hard_link(scratch.at("../keys/key.pem"), scratch.at("alias.txt")).unwrap();
    let world = named(scratch, "../keys/hook.sh", "../keys/key.pem");
    refused("alias", read(&world, "alias.txt"));
    assert!(read(&world, "notes.txt").is_ok());
}

#[test]
fn links_on_the_way_to_a_named_file_are_not_replaced_either() {
    let scratch = Scratch::of(TREE);
    symlink("tools", scratch.at("current")).unwrap();
    symlink("../tls/key.pem", scratch.at("other/key.pem")).unwrap();
    let world = named(scratch, "current/hook.sh", "other/key.pem");
    let calls = Calls::of(&world);
    for path in ["current", "other/key.pem", "tools/hook.sh", "tls/key.pem"] {
        refused(path, calls.write(path, "mine"));
        refused(path, calls.remove(path));
        refused(path, calls.rename(path, "elsewhere"));
        refused(path, calls.rename("notes.txt", path));
    }
    refused("above the link", calls.remove("other"));
    refused("the key", read(&world, "tls/key.pem"));
}

#[test]
fn a_named_file_that_is_not_there_yet_is_put_there_by_no_agent() {
    let scratch = Scratch::of("made/hook.sh = mine\n notes.txt = notes");
    let world = named(scratch, "tools/hook.sh", "tls/key.pem");
    let calls = Calls::of(&world);
    refused("write", calls.write("tools/hook.sh", "mine"));
    refused("move a directory", calls.rename("made", "tools"));
    refused("key", calls.write("tls/key.pem", "mine"));
    calls.mkdir("tools").unwrap();
    refused("move", calls.rename("made/hook.sh", "tools/hook.sh"));
    assert!(!world.scratch.at("tools/hook.sh").exists());
}

#[test]
fn undoing_changes_no_file_the_operator_named() {
    // An agent makes them, and the operator names them after that.
    let world = world("notes.txt = notes");
    let calls = Calls::of(&world);
    calls.write("tools/hook.sh", "first").unwrap();
    calls.write("tools/hook.sh", "second").unwrap();
    calls.write("away/hook.sh", "third").unwrap();
    calls.rename("away", "here").unwrap();
    let World { scratch, .. } = world;
    let world = World::workspace()
        .writable()
        .named(scratch.at("tools/hook.sh"), OperatorRole::Fixed)
        .named(scratch.at("here/hook.sh"), OperatorRole::Fixed)
        .over(scratch);
    let before = snapshot(&world.scratch.root());
    let failed = Calls::of(&world).undo_all();
    assert_eq!(failed.len(), 4, "{failed:?}");
    for (path, why) in failed {
        let want = match path.as_str() {
            // It was moved on since, and would be left alone anyway.
            "away/hook.sh" => Reason::ChangedSince,
            _ => Reason::ProtectedState,
        };
        assert_eq!(why.reason(), want, "{path}: {why:?}");
    }
    assert_eq!(snapshot(&world.scratch.root()), before);
}

#[test]
fn an_argument_counts_where_it_is_a_file() {
    let scratch = Scratch::of(TREE);
    let (file, dir) = (scratch.at("tools/hook.sh"), scratch.at("other"));
    let world = World::workspace()
        .writable()
        .named(file, OperatorRole::Argument)
        .named(dir, OperatorRole::Argument)
        .named(scratch.at("not-there"), OperatorRole::Argument)
        .over(scratch);
    let calls = Calls::of(&world);
    refused("a file", calls.write("tools/hook.sh", "mine"));
    calls.write("other/y.txt", "y").unwrap();
    calls.write("not-there", "x").unwrap();
    let inside: Vec<_> = world.authority.named_inside().collect();
    assert_eq!(inside.len(), 1, "{inside:?}");
}
