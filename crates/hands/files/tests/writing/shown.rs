//! What the reply of a change tells: nothing that a read would not.

use std::fs;

use portcullis_files::{Expect, MoveOptions, Resolver, WriteOptions};
use portcullis_gate::{Hook, HookCall, HookSay, RootSpec};
use portcullis_policy::{Hardlinks, RootPolicy};
use portcullis_proto::{Access, AccessSet, Reason, RootId, RootKind};
use portcullis_testkit::{Scratch, World};

use crate::support::{Calls, block_on, world};

#[test]
fn moves_copies_and_removals_tell_what_changed() {
    let world = world("f = one\n g = two\n d/x = deep");
    let calls = Calls::of(&world);
    let fs = &calls.0;
    let copied = calls.copy("f", "g").unwrap().diff.unwrap();
    assert!(copied.text.contains("-two\n") && copied.text.contains("+one\n"));
    let moved = block_on(fs.move_to("d", fs, "e", &crate::support::stays())).unwrap();
    let diff = moved.diff.unwrap();
    assert_eq!(
        (diff.text.as_str(), diff.added, diff.removed),
        ("rename from d\nrename to e\n", 0, 0)
    );
    let moved = block_on(fs.move_to("e/x", fs, "g", &MoveOptions::default())).unwrap();
    let diff = moved.diff.unwrap();
    assert!(diff.text.starts_with("rename from e/x\nrename to g\n---"));
    assert_eq!((diff.added, diff.removed), (1, 1));
    let gone = calls.remove("g").unwrap().diff.unwrap();
    assert!(gone.text.contains("-deep"));
}

#[test]
fn another_name_of_a_file_that_may_not_be_read_is_not_told_by_removing_or_moving_it() {
    let world = World::workspace()
        .writable()
        .policy(|policy| policy.hardlinks = Hardlinks::Reject)
        .over(Scratch::of("../out/key = precious\n f = mine"));
    let out = world.scratch.base().join("out/key");
    let calls = Calls::of(&world);
    for round in ["delete", "move"] {
        fs::hard_link(&out, world.scratch.root().join("x")).unwrap();
        let diff = if round == "delete" {
            calls.remove("x").unwrap().diff
        } else {
            let fs = &calls.0;
            let moved = block_on(fs.move_to("x", fs, "f", &MoveOptions::default()));
            moved.unwrap().diff
        };
        let told = diff.map(|diff| diff.text).unwrap_or_default();
        assert!(!told.contains("precious"), "{round}: {told}");
    }
}

#[test]
fn what_may_not_be_read_does_not_become_readable_in_another_root() {
    let scratch = Scratch::of("../out/key = precious\n ../other/");
    let (out, other) = (scratch.base().join("out/key"), scratch.base().join("other"));
    let mut world = World::workspace()
        .writable()
        .policy(|policy| policy.hardlinks = Hardlinks::Reject)
        .over(scratch);
    let id = RootId::parse("other").unwrap();
    let mut policy = RootPolicy::of(RootKind::Workspace);
    policy.ambient = AccessSet::ALL;
    let spec = RootSpec {
        id: id.clone(),
        kind: RootKind::Workspace,
        display_name: None,
        policy,
        owner: None,
        trusted: true,
    };
    world
        .authority
        .declare(spec, &other, Resolver::Best)
        .unwrap();
    fs::hard_link(&out, world.scratch.root().join("x")).unwrap();
    let caller = crate::support::in_session("s");
    let from = world.fs_for(&caller);
    let to = world.authority.scope(&caller, Some(&id)).unwrap();
    let why = block_on(from.move_to("x", &to, "y", &MoveOptions::default())).unwrap_err();
    assert_eq!(why.reason(), Reason::Hardlink);
    assert!(!other.join("y").exists() && world.scratch.root().join("x").exists());
}

#[test]
fn whoever_may_write_and_not_read_is_told_no_hash_and_can_try_none_out() {
    let world = World::workspace()
        .writable()
        .policy(|policy| {
            policy.ambient = AccessSet::ALL.without(AccessSet::of(&[Access::Read]));
        })
        .over(Scratch::of("f = pin 1234"));
    let calls = Calls::of(&world);
    let done = calls.append("f", "more").unwrap();
    assert_eq!((done.receipt.hash, done.diff), (None, None));
    assert_eq!(done.receipt.version.split('-').count(), 5);
    let guess = Expect::Hash(portcullis_proto::Digest([1; 32]));
    let options = WriteOptions {
        expect: guess.clone(),
        ..WriteOptions::default()
    };
    let why = block_on(calls.0.append("f", String::new(), &options)).unwrap_err();
    assert_eq!(why.reason(), Reason::BadArguments);
    let why = block_on(calls.0.remove("f", &guess)).unwrap_err();
    assert_eq!(why.reason(), Reason::BadArguments);
    // What it got back is still good for its next change.
    let options = WriteOptions {
        expect: Expect::Version(done.receipt.version),
        ..WriteOptions::default()
    };
    block_on(calls.0.append("f", "x".into(), &options)).unwrap();
}

/// Minds nothing.
struct Passes;

impl Hook for Passes {
    fn id(&self) -> &'static str {
        "passes"
    }

    fn before<'a>(
        &'a self,
        _call: &'a HookCall,
    ) -> std::pin::Pin<Box<dyn Future<Output = HookSay> + Send + 'a>> {
        Box::pin(std::future::ready(HookSay::Pass))
    }
}

#[test]
fn where_hooks_are_asked_about_reads_no_change_shows_content() {
    let world = World::workspace()
        .writable()
        .hook(Passes)
        .over(Scratch::of("f = one"));
    let calls = Calls::of(&world);
    let changed = calls.write("f", "two").unwrap();
    assert!(changed.diff.is_none() && changed.receipt.hash.is_none());
    assert!(calls.remove("f").unwrap().diff.is_none());
}
