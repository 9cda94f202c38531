//! Nothing an agent does pushes out of undo what it displaced before.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use portcullis_files::PrivateDir;
use portcullis_gate::Decision;
use portcullis_proto::{Failure, Reason, Verb};
use portcullis_testkit::{Scratch, ScriptedApprover, World, user};

use crate::support::{Calls, block_on, in_session, world};

const GIB: u64 = 1024 * 1024 * 1024;

/// The one store of a world.
fn store(world: &World) -> PathBuf {
    let stores = fs::read_dir(world.scratch.base().join("data/undo")).unwrap();
    stores.map(|store| store.unwrap().path()).next().unwrap()
}

/// Copies the entry `id` under `count` other names, with what it displaced.
fn repeat(world: &World, id: &str, count: usize) {
    let store = store(world);
    let told = fs::read_to_string(store.join(format!("{id}.json"))).unwrap();
    let kept = store.join(format!("{id}.pre"));
    for n in 0..count {
        let other = format!("{id}x{n}_1");
        fs::write(
            store.join(format!("{other}.json")),
            told.replace(id, &other),
        )
        .unwrap();
        if kept.exists() {
            fs::copy(&kept, store.join(format!("{other}.pre"))).unwrap();
        }
    }
}

/// The same tree, served by a process that has just started.
fn restarted(world: World) -> World {
    let World { scratch, .. } = world;
    let data = PrivateDir::open_or_create(&scratch.base().join("data")).unwrap();
    let world = World::workspace().writable().keeping_in(data).over(scratch);
    // Worlds of one process name their requests alike: these are past the first.
    let calls = Calls::of(&world);
    for _ in 0..100 {
        let _looked = block_on(calls.0.stat("."));
    }
    world
}

/// A file of so many bytes that takes no room on the disk.
fn large(world: &World, name: &str, bytes: u64) {
    let file = fs::File::create(world.scratch.root().join(name)).unwrap();
    file.set_len(bytes).unwrap();
}

fn undo(calls: &Calls, id: &str) -> Result<(), Failure> {
    block_on(calls.0.undo_one(id)).map(drop)
}

fn asking(world: &World, decisions: usize) -> (Calls, Arc<ScriptedApprover>) {
    let decisions = std::iter::repeat_n(Decision::AllowOnce, decisions);
    let person = Arc::new(ScriptedApprover::deciding(decisions));
    let caller = in_session("s").asking(person.clone());
    (Calls(world.fs_for(&caller)), person)
}

#[test]
fn what_was_removed_stays_in_undo_whatever_is_made_after_it() {
    let world = world("x = precious");
    let calls = Calls::of(&world);
    let removed = calls.remove("x").unwrap().undo.unwrap();
    let made = calls.mkdir("made").unwrap().undo.unwrap();
    repeat(&world, &made, 11_300);
    let world = restarted(world);
    let calls = Calls::of(&world);
    calls.mkdir("more").unwrap();
    let entries = calls.0.undo_entries().unwrap();
    let made = entries.iter().filter(|entry| entry.verb == Verb::Mkdir);
    assert!(made.count() <= 10_001, "what displaced nothing is bounded");
    undo(&calls, &removed).unwrap();
    assert_eq!(calls.read("x"), "precious");
}

#[test]
fn what_was_displaced_stays_in_undo_however_often_something_else_is_overwritten() {
    let world = world("x = precious\n y = one\n m = moved\n b = bits");
    let calls = Calls::of(&world);
    let removed = calls.remove("x").unwrap().undo.unwrap();
    let moved = calls.rename("m", "n").unwrap().undo.unwrap();
    let bits = calls.chmod("b", 0o640).unwrap().undo.unwrap();
    let overwritten = calls.write("y", "two").unwrap().receipt.undo.unwrap();
    repeat(&world, &overwritten, 10_500);
    let world = restarted(world);
    let calls = Calls::of(&world);
    calls.write("y", "three").unwrap();
    for id in [&removed, &moved, &bits] {
        undo(&calls, id).unwrap();
    }
    assert_eq!(calls.read("x"), "precious");
    assert_eq!(calls.read("m"), "moved");
}

#[test]
fn when_what_is_young_fills_the_store_a_change_that_displaces_more_asks() {
    let world = world("small = s\n keep = k\n dir/file = x");
    large(&world, "one", GIB + GIB / 2);
    large(&world, "dir/two", GIB);
    let calls = Calls::of(&world);
    let first = calls.remove("one").unwrap().undo.unwrap();
    let refused = |why: Failure| {
        assert_eq!(why.reason(), Reason::ApprovalUnavailable, "{why:?}");
        let hint = why.next_step().unwrap_or_default();
        assert!(hint.contains("portcullis undo prune"), "{why:?}");
    };
    // By whatever verb; what fits, and what displaces nothing, goes on.
    refused(calls.remove("dir").unwrap_err());
    refused(calls.remove("dir/two").unwrap_err());
    refused(calls.rename("small", "dir/two").unwrap_err());
    calls.write("small", "other").unwrap();
    calls.write("new", "made").unwrap();
    calls.mkdir("made").unwrap();
    assert!(world.scratch.root().join("dir/two").exists());
    // The next process knows it too, before its first change.
    let world = restarted(world);
    refused(Calls::of(&world).remove("dir").unwrap_err());
    // With a yes it is done, and what was kept is kept.
    let (calls, person) = asking(&world, 8);
    calls.remove("dir").unwrap();
    let asked = person.asked();
    assert_eq!(asked.len(), 1);
    let sentence = asked[0].sentence();
    assert!(sentence.contains("undo store is full"), "{sentence}");
    assert!(!asked[0].offered.contains(&Decision::AllowSession));
    // By now nothing fits, however small.
    calls.write("keep", "other").unwrap();
    assert_eq!(person.asked().len(), 2);
    let calls = Calls::of(&world);
    refused(calls.write("keep", "more").unwrap_err());
    refused(calls.append("keep", "more").unwrap_err());
    refused(calls.edit("keep", "other", "more").unwrap_err());
    refused(calls.chmod("keep", 0o640).unwrap_err());
    refused(calls.copy("small", "keep").map(drop).unwrap_err());
    refused(calls.rename("keep", "kept").unwrap_err());
    calls.write("newer", "made").unwrap();
    // A person frees it.
    let owner = world.fs_for(&user());
    let held: Vec<String> = owner
        .undo_held()
        .unwrap()
        .into_iter()
        .map(|held| held.id)
        .collect();
    owner.prune_undo(&held).unwrap();
    testkit_until(|| calls.write("keep", "at last").is_ok());
    assert_eq!(undo(&calls, &first).unwrap_err().reason(), Reason::NotFound);
}

fn testkit_until(mut done: impl FnMut() -> bool) {
    portcullis_testkit::until("room in the store", &mut done);
}

#[test]
fn one_that_alone_is_more_than_the_store_holds_asks_and_leaves_room_for_the_rest() {
    let world = world("small = s");
    large(&world, "huge", 3 * GIB);
    let calls = Calls::of(&world);
    let why = calls.remove("huge").unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalUnavailable, "{why:?}");
    let (asked, person) = asking(&world, 1);
    let removed = asked.remove("huge").unwrap().undo.unwrap();
    assert_eq!(person.asked().len(), 1);
    let world = restarted(world);
    let calls = Calls::of(&world);
    calls.write("small", "other").unwrap();
    undo(&calls, &removed).unwrap();
    assert_eq!(
        fs::metadata(world.scratch.root().join("huge"))
            .unwrap()
            .len(),
        3 * GIB
    );
}

#[test]
fn an_agent_does_not_prune_undo() {
    let world = world("x = precious");
    let calls = Calls::of(&world);
    let removed = calls.remove("x").unwrap().undo.unwrap();
    let why = calls
        .0
        .prune_undo(std::slice::from_ref(&removed))
        .unwrap_err();
    assert_eq!(why.kind().as_str(), "permission_denied", "{why:?}");
    undo(&calls, &removed).unwrap();
}

#[test]
fn a_refused_change_makes_no_store() {
    let world = World::workspace()
        .writable()
        .policy(|policy| {
            policy.denied = portcullis_policy::PatternSet::compile(&["secret*"]).unwrap();
        })
        .over(Scratch::of("secret = x"));
    let calls = Calls::of(&world);
    calls.write("secret", "y").unwrap_err();
    assert!(!world.scratch.base().join("data/undo").exists());
}
