//! Unpacking, as a change like any other: judged, recorded, undone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_gate::Decision;
use portcullis_policy::PatternSet;
use portcullis_proto::{Access, AccessSet, Mode, Outcome, Reason, SessionId, Verb};
use portcullis_testkit::{Scratch, ScriptedApprover, World, agent};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::craft_tar;
use crate::craft_zip::{ZipEntry, deflated, file, with_mode, zip};
use crate::support::{block_on, extract, snapshot, world_with};

#[test]
fn an_archive_becomes_a_directory_that_only_its_owner_reads() {
    let archive = zip(&[
        with_mode("./d/", "", 0o040_755),
        deflated("d/a.txt", "hello"),
        with_mode("run", "#!", 0o104_755),
    ]);
    let world = world_with(&archive);
    let done = extract(&world, "new/dir").unwrap();
    assert_eq!((done.entries, done.bytes), (3, 7));
    assert_eq!(done.receipt.path.as_str(), "new/dir");
    assert!(done.receipt.labels.is_empty(), "{:?}", done.receipt.labels);
    let mode = |path| {
        fs::metadata(world.scratch.at(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(mode("new/dir"), 0o700);
    assert_eq!(mode("new/dir/d"), 0o700);
    assert_eq!(mode("new/dir/d/a.txt"), 0o600);
    // The x bit is kept, and no bit that runs it as somebody else.
    assert_eq!(mode("new/dir/run"), 0o700);
    assert_eq!(
        fs::read(world.scratch.at("new/dir/d/a.txt")).unwrap(),
        b"hello"
    );
}

#[test]
fn what_stands_there_is_left_alone() {
    let world = world_with(&zip(&[file("a", "x")]));
    for there in ["keep", "a.bin"] {
        let why = extract(&world, there).unwrap_err();
        assert_eq!(why.reason(), Reason::AlreadyExists, "{there}");
    }
    fs::create_dir(world.scratch.at("empty")).unwrap();
    let why = extract(&world, "empty").unwrap_err();
    assert_eq!(why.reason(), Reason::AlreadyExists);
}

#[test]
fn undone_it_is_gone_with_the_directories_made_for_it() {
    let world = world_with(&zip(&[file("d/a", "x"), file("b", "y")]));
    let before = snapshot(&world.scratch.root());
    let done = extract(&world, "new/dir").unwrap();
    let id = done.receipt.undo.unwrap();
    let redone = block_on(world.fs().undo_one(&id)).unwrap();
    assert_eq!(snapshot(&world.scratch.root()), before);
    block_on(world.fs().undo_one(&redone.redo.unwrap())).unwrap();
    assert_eq!(fs::read(world.scratch.at("new/dir/d/a")).unwrap(), b"x");
}

#[test]
fn what_somebody_changed_in_it_since_is_not_undone() {
    let plant: [fn(&World); 3] = [
        |world| fs::write(world.scratch.at("dir/d/new"), "mine").unwrap(),
        |world| fs::write(world.scratch.at("dir/d/a"), "longer").unwrap(),
        |world| fs::remove_file(world.scratch.at("dir/b")).unwrap(),
    ];
    for plant in plant {
        let world = world_with(&zip(&[file("d/a", "x"), file("b", "y")]));
        let id = extract(&world, "dir").unwrap().receipt.undo.unwrap();
        plant(&world);
        let now = snapshot(&world.scratch.root());
        let why = block_on(world.fs().undo_one(&id)).unwrap_err();
        assert_eq!(why.reason(), Reason::ChangedSince);
        assert_eq!(snapshot(&world.scratch.root()), now);
    }
}

#[test]
fn what_runs_by_itself_or_is_secret_is_asked_about_once_for_all_of_it() {
    for name in [
        ".git/hooks/pre-commit",
        ".env",
        "sub/.github/workflows/ci.yml",
    ] {
        let archive = zip(&[file("plain", "x"), file(name, "y")]);
        // Nobody can be asked: nothing happens.
        let world = world_with(&archive);
        let before = snapshot(&world.scratch.root());
        let why = extract(&world, "d").unwrap_err();
        assert_eq!(why.reason(), Reason::ApprovalUnavailable, "{name}");
        assert_eq!(snapshot(&world.scratch.root()), before);
        // A person says yes, wherever unpacking is asked about anyway, too.
        for (mode, decision, wants) in [
            (Mode::Allow, Decision::AllowOnce, true),
            (Mode::Ask, Decision::AllowOnce, true),
            (Mode::Allow, Decision::DenyOnce, false),
            (Mode::Ask, Decision::DenyOnce, false),
            // The next archive is another one.
            (Mode::Ask, Decision::AllowSession, false),
        ] {
            let scratch = Scratch::of("keep = kept");
            scratch.file("a.bin", &archive);
            let world = World::workspace().writable().writing(mode).over(scratch);
            let asked = Arc::new(ScriptedApprover::deciding([decision]));
            let session = agent().in_session(SessionId::new("s"));
            let fs = world.fs_for(&session.asking(asked.clone()));
            let done = block_on(fs.extract_archive("a.bin", &fs, "d"));
            assert_eq!(done.is_ok(), wants, "{name} {mode:?}: {done:?}");
            assert_eq!(world.scratch.at("d").exists(), wants, "{name}");
            assert_eq!(asked.asked().len(), 1, "{name}");
        }
    }
}

#[test]
fn what_is_wrong_with_an_archive_is_not_told_before_somebody_said_yes() {
    for (decision, reason) in [
        (Decision::DenyOnce, Reason::ApprovalDenied),
        (Decision::AllowOnce, Reason::Escape),
    ] {
        let scratch = Scratch::of("keep = kept");
        scratch.file("a.bin", zip(&[file("../evil", "x"), file(".env", "y")]));
        let world = World::workspace()
            .writable()
            .writing(Mode::Ask)
            .over(scratch);
        let asked = Arc::new(ScriptedApprover::deciding([decision]));
        let fs = world.fs_for(&agent().asking(asked.clone()));
        let why = block_on(fs.extract_archive("a.bin", &fs, "d")).unwrap_err();
        assert_eq!(why.reason(), reason);
        assert_eq!(asked.asked().len(), 1);
    }
}

#[test]
fn what_a_rule_denies_keeps_all_of_it_out() {
    let scratch = Scratch::of("keep = kept");
    scratch.file(
        "a.bin",
        zip(&[file("ok", "x"), file("sub/private/key", "y")]),
    );
    let world = World::workspace()
        .writable()
        .policy(|policy| policy.denied = PatternSet::compile(&["**/private/**"]).unwrap())
        .over(scratch);
    let before = snapshot(&world.scratch.root());
    let why = extract(&world, "d").unwrap_err();
    assert_eq!(why.reason(), Reason::DeniedByRule);
    assert_eq!(snapshot(&world.scratch.root()), before);
}

#[test]
fn it_takes_a_grant_to_archive_and_one_to_write() {
    for missing in [Access::Archive, Access::Write, Access::Read] {
        let scratch = Scratch::of("keep = kept");
        scratch.file("a.bin", zip(&[file("a", "x")]));
        let world = World::workspace()
            .writable()
            .policy(|policy| policy.ambient = AccessSet::ALL.without(AccessSet::of(&[missing])))
            .over(scratch);
        let why = extract(&world, "d").unwrap_err();
        assert_eq!(why.reason(), Reason::NoGrant, "{missing:?}");
    }
}

#[test]
fn every_unpacking_is_on_record_with_its_archive() {
    let world = world_with(&zip(&[file("a", "x")]));
    extract(&world, "d").unwrap();
    let line = world.lines.last();
    assert_eq!(line.outcome, Outcome::Success);
    assert_eq!(
        (line.verb, line.path.as_deref()),
        (Verb::Extract, Some("d"))
    );
    assert_eq!((line.bytes, line.counts.unwrap().entries), (Some(1), 1));
    assert!(line.json.contains("a.bin"), "{}", line.json);
}

#[test]
fn inspecting_tells_everything_and_changes_nothing() {
    let world = world_with(&zip(&[
        deflated("a", "aaaa"),
        file("../evil", "x"),
        ZipEntry {
            flags: 1,
            ..file("locked", "x")
        },
        with_mode("d/", "", 0o040_755),
    ]));
    let before = snapshot(&world.scratch.root());
    let inspected = block_on(world.fs().inspect_archive("a.bin")).unwrap();
    let manifest = inspected.manifest;
    assert_eq!(manifest.format.unwrap().as_str(), "zip");
    assert_eq!(
        (manifest.entries, manifest.bytes, manifest.complete),
        (4, 4, true)
    );
    let names: Vec<&str> = manifest
        .items
        .iter()
        .map(|item| item.path.as_str())
        .collect();
    assert_eq!(names, ["a", "d"]);
    let refused: Vec<(Option<&str>, &str)> = manifest
        .refused
        .iter()
        .map(|refused| (refused.entry.as_deref(), refused.why.as_str()))
        .collect();
    assert_eq!(
        refused,
        [(Some("../evil"), "parent"), (Some("locked"), "encrypted")]
    );
    assert_eq!(snapshot(&world.scratch.root()), before);
}

#[test]
fn on_a_full_disk_nothing_is_left() {
    let scratch = Scratch::of("small/");
    if !scratch.tmpfs_of("small", 4 * 1024) {
        eprintln!("not tried: no file system can be mounted here");
        return;
    }
    let parts: Vec<Vec<u8>> = (0..60)
        .map(|n| craft_tar::entry(format!("f{n}").as_bytes(), b'0', &vec![b'x'; 100_000]))
        .collect();
    scratch.file("a.bin", craft_tar::tar(&parts));
    let root = scratch.root();
    let world = World::workspace()
        .writable()
        .policy(|policy| policy.mounts = vec![portcullis_proto::RelPath::parse("small").unwrap()])
        .over(scratch);
    let before: Vec<String> = snapshot(&root).into_keys().collect();
    let why = extract(&world, "small/new/d").unwrap_err();
    assert_eq!(why.reason(), Reason::NoSpace);
    let after: Vec<String> = snapshot(&root).into_keys().collect();
    assert_eq!(before, after);
}

#[test]
fn a_swapped_parent_leads_nothing_outside() {
    let scratch = Scratch::in_memory("../out/keep = precious");
    let (root, out) = (scratch.root(), scratch.base().join("out"));
    fs::create_dir_all(root.join("a/b")).unwrap();
    std::os::unix::fs::symlink(&out, root.join("wrong")).unwrap();
    scratch.file("a.bin", zip(&[file("d/x", "x"), file("y", "y")]));
    let world = World::workspace().writable().over(scratch);
    let stop = AtomicBool::new(false);
    let (mut made, tries) = (0, 400);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let (door, wrong) = (root.join("a/b"), root.join("wrong"));
                if renameat_with(CWD, &door, CWD, &wrong, RenameFlags::EXCHANGE).is_ok() {
                    swaps += 1;
                }
            }
            if swaps % 2 == 1 {
                let (door, wrong) = (root.join("a/b"), root.join("wrong"));
                renameat_with(CWD, door, CWD, wrong, RenameFlags::EXCHANGE).unwrap();
            }
            swaps
        });
        for n in 0..tries {
            made += u32::from(extract(&world, &format!("a/b/n{n}")).is_ok());
        }
        stop.store(true, Ordering::Relaxed);
        assert!(swapper.join().unwrap() > 100);
    });
    let outside: Vec<String> = snapshot(&out).into_keys().collect();
    assert_eq!(outside, ["keep"]);
    let left = snapshot(&root)
        .into_keys()
        .filter(|path| path.contains(".portcullis"))
        .count();
    assert_eq!(left, 0);
    let there = fs::read_dir(root.join("a/b")).unwrap().count();
    assert_eq!(there, made as usize, "all of it, or nothing");
}
