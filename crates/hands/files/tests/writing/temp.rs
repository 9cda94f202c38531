//! Private workspaces, and files copied in from elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use portcullis_files::{Leftover, PrivateDir, TempWorkspace, WriteOptions};
use portcullis_proto::{Phase, Reason, RootKind, Verb};
use portcullis_testkit::{World, agent, core};

use crate::support::{Calls, block_on, world};

/// Where a world of its own keeps its state.
fn data_of(world: &World) -> PathBuf {
    world.scratch.base().join("data")
}

fn made(data: &Path) -> Vec<PathBuf> {
    let dir = fs::read_dir(data.join("temp")).unwrap();
    dir.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_private_workspace_is_closed_to_others_recorded_and_gone_with_its_owner() {
    let world = world("");
    let temp = block_on(world.authority.create_temp_workspace(&agent())).unwrap();
    let dirs = made(&data_of(&world));
    assert_eq!(dirs.len(), 1);
    let mode = fs::metadata(&dirs[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let calls = Calls((*temp).clone());
    calls.write("a/b", "mine").unwrap();
    assert_eq!(calls.read("a/b"), "mine");
    assert_eq!(temp.declared().entry().kind(), RootKind::Temp);
    let lines = world.lines.all();
    assert!(
        lines
            .iter()
            .any(|line| line.verb == Verb::Mkdir && line.phase != Phase::Opening)
    );
    drop(temp);
    assert!(made(&data_of(&world)).is_empty());
    // Whoever kept a scope of it reaches nothing.
    let why = calls.write("c", "late").unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
}

#[test]
fn nobody_else_reaches_a_private_workspace() {
    let world = world("");
    let temp = block_on(world.authority.create_temp_workspace(&agent())).unwrap();
    let id = temp.declared().entry().id().clone();
    let why = world.authority.scope(&core(), Some(&id)).unwrap_err();
    assert_eq!(why.reason(), Reason::UnknownRoot);
    let inside = made(&data_of(&world))[0].join("x");
    let why = world.authority.locate(None, inside.to_str().unwrap());
    assert_eq!(why.unwrap_err().reason(), Reason::OutsideRoots);
}

#[test]
fn where_writing_is_off_none_is_made() {
    let world = World::workspace()
        .writable()
        .writing(portcullis_proto::Mode::Deny)
        .over(portcullis_testkit::Scratch::of(""));
    let why = block_on(world.authority.create_temp_workspace(&agent())).unwrap_err();
    assert_eq!(why.reason(), Reason::DeniedByMode);
    assert!(made(&data_of(&world)).is_empty());
}

/// Makes two and is killed: run by the test below in a process of its own.
#[test]
fn child_that_makes_two_and_waits() {
    let Some(data) = std::env::var_os("PORTCULLIS_TEMP_OF").map(PathBuf::from) else {
        return;
    };
    let world = world_over(&data);
    let make = || block_on(world.authority.create_temp_workspace(&agent())).unwrap();
    let both: Vec<TempWorkspace> = vec![make(), make()];
    Calls((*both[0]).clone()).write("deep/f", "x").unwrap();
    fs::write(data.join("ready"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_mins(1));
}

fn world_over(data: &Path) -> World {
    World::workspace()
        .writable()
        .keeping_in(PrivateDir::open_or_create(data).unwrap())
        .over(portcullis_testkit::Scratch::of(""))
}

#[test]
fn after_a_kill_the_next_start_removes_what_has_no_owner_and_nothing_else() {
    let scratch = portcullis_testkit::Scratch::of("");
    let data = scratch.base().join("data");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "temp::child_that_makes_two_and_waits"])
        .env("PORTCULLIS_TEMP_OF", &data)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + portcullis_testkit::PATIENCE;
    while !data.join("ready").exists() {
        assert!(std::time::Instant::now() < until, "the child never came up");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let world = world_over(&data);
    let mine = block_on(world.authority.create_temp_workspace(&agent())).unwrap();
    assert_eq!(made(&data).len(), 3);
    let state = PrivateDir::open_or_create(&data).unwrap();
    // Its owner lives: nothing is swept.
    assert!(world.authority.recover(&state, false).unwrap().is_empty());
    assert_eq!(made(&data).len(), 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let would = world.authority.recover(&state, true).unwrap();
    assert_eq!((would.len(), made(&data).len()), (2, 3));
    let did = world.authority.recover(&state, false).unwrap();
    assert!(did.iter().all(|one| one.found == Leftover::Abandoned));
    assert_eq!((did.len(), made(&data).len()), (2, 1));
    Calls((*mine).clone()).write("still", "here").unwrap();
}

#[test]
fn core_copies_in_any_file_of_the_host_and_nobody_else_does() {
    let world = world("../out/f = outside\n ../out/l -> f");
    let out = world.scratch.base().join("out");
    let source = out.join("f");
    let options = WriteOptions::default();
    let copy = |caller, from: &Path| {
        let to = world.fs_for(&caller);
        let from = from.to_str().unwrap();
        block_on(world.authority.copy_in(&to, "in/f", from, &options))
    };
    // The same answer whether it is there or not.
    for named in [&source, &out.join("no"), &data_of(&world)] {
        let why = copy(agent(), named).unwrap_err();
        assert_eq!(why.reason(), Reason::OutsideRoots);
    }
    assert!(!world.scratch.root().join("in").exists());
    fs::write(data_of(&world).join("own"), "state").unwrap();
    let done = copy(core(), &source).unwrap();
    // Where it came from is on record.
    let named = source.to_str().unwrap();
    let lines = world.lines.all();
    assert!(
        lines
            .iter()
            .any(|line| line.alleged.as_deref() == Some(named))
    );
    assert!(done.receipt.created);
    assert_eq!(Calls::of(&world).read("in/f"), "outside");
    for (bad, reason) in [
        (out.join("l"), Reason::Symlink),
        (out.clone(), Reason::IsDirectory),
        (out.join("no"), Reason::NotFound),
        (PathBuf::from("/dev/zero"), Reason::SpecialFile),
        (PathBuf::from("/proc/self/status"), Reason::SpecialFile),
        (data_of(&world).join("own"), Reason::ProtectedState),
        (PathBuf::from("relative"), Reason::BadArguments),
    ] {
        assert_eq!(copy(core(), &bad).unwrap_err().reason(), reason, "{bad:?}");
    }
    assert_eq!(Calls::of(&world).read("in/f"), "outside");
}

#[test]
fn a_file_of_a_root_is_copied_in_by_whoever_may_read_it_there() {
    let world = world("f = one\n .env = SECRET=1");
    let options = WriteOptions::default();
    let to = world.fs_for(&agent());
    let from = world.scratch.root().join("f");
    let copied = world
        .authority
        .copy_in(&to, "g", from.to_str().unwrap(), &options);
    block_on(copied).unwrap();
    assert_eq!(Calls::of(&world).read("g"), "one");
    // No detour leads around the question.
    let (plain, detour) = (".env", "../root/.env");
    for (caller, secret, reason) in [
        (agent(), plain, Reason::ApprovalUnavailable),
        (agent(), detour, Reason::Escape),
        (core(), detour, Reason::ApprovalUnavailable),
    ] {
        let to = world.fs_for(&caller);
        let secret = world.scratch.root().join(secret);
        let secret = secret.to_str().unwrap();
        let copied = world.authority.copy_in(&to, "h", secret, &options);
        let why = block_on(copied).unwrap_err();
        assert_eq!(why.reason(), reason, "{secret}");
    }
    assert!(!world.scratch.root().join("h").exists());
}
