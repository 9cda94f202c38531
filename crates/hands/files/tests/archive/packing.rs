//! Packing a directory: what may be read is in it, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use portcullis_files::archive::{PackAs, Packed};
use portcullis_files::{WriteMode, WriteOptions};
use portcullis_gate::Decision;
use portcullis_policy::PatternSet;
use portcullis_proto::{Access, AccessSet, Failure, Mode, Reason};
use portcullis_testkit::{Scratch, ScriptedApprover, World, WorldBuilder, agent};

use crate::support::{block_on, snapshot};

const TREE: &str = "
    src/a.txt = alpha
    src/sub/b.bin = beta
    src/empty/
    src/link -> ../outside
    src/pipe |
    src/.env = CANARY-ENV
    src/keys/server.pem = CANARY-PEM
    src/private/x = CANARY-DENIED
    outside = CANARY-OUTSIDE
";
const CANARY: &[u8] = b"CANARY";

fn builder() -> WorldBuilder {
    World::workspace().writable().policy(|policy| {
        policy.denied = PatternSet::compile(&["**/private/**"]).unwrap();
    })
}

fn pack(world: &World, to: &str, pack_as: PackAs, mode: WriteMode) -> Result<Packed, Failure> {
    let fs = world.fs();
    let options = WriteOptions {
        mode,
        ..WriteOptions::default()
    };
    block_on(fs.create_archive("src", &fs, to, pack_as, false, &options))
}

#[test]
fn an_archive_that_takes_most_of_a_large_file_away_is_asked_about() {
    let large = "a large file, ".repeat(2_000);
    let world_at = |mode| {
        let scratch = Scratch::of(TREE);
        scratch.file("large", &large);
        scratch.file("small", "small");
        builder().writing(mode).over(scratch)
    };
    let world = world_at(Mode::Allow);
    pack(&world, "small", PackAs::Zip, WriteMode::Overwrite).unwrap();
    let before = snapshot(&world.scratch.root());
    let why = pack(&world, "large", PackAs::Zip, WriteMode::Overwrite).unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalUnavailable);
    assert_eq!(snapshot(&world.scratch.root()), before);
    // One question, whatever raised it; and a yes to it is none to the next.
    for mode in [Mode::Allow, Mode::Ask] {
        let world = world_at(mode);
        let asked = Arc::new(ScriptedApprover::deciding([Decision::AllowOnce]));
        let caller = agent().asking(asked.clone());
        let fs = world.fs_for(&caller);
        let options = WriteOptions::default();
        let done = block_on(fs.create_archive("src", &fs, "large", PackAs::Zip, false, &options));
        let undo = done.unwrap().receipt.undo.unwrap();
        let questions = asked.asked();
        assert_eq!(questions.len(), 1, "{mode:?}: {questions:?}");
        if mode == Mode::Allow {
            block_on(world.fs().undo_one(&undo)).unwrap();
            let back = fs::read(world.scratch.at("large")).unwrap();
            assert_eq!(back, large.as_bytes());
        }
    }
}

#[test]
fn what_may_be_read_comes_back_and_no_secret_is_in_it() {
    for pack_as in [PackAs::Zip, PackAs::TarGz] {
        let world = builder().over(Scratch::of(TREE));
        fs::set_permissions(
            world.scratch.at("src/a.txt"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let packed = pack(&world, "made/a.arc", pack_as, WriteMode::Create).unwrap();
        assert_eq!(
            (packed.counts.secret, packed.counts.denied, packed.special),
            (2, 1, 2)
        );
        assert!(packed.complete);
        let fs = world.fs();
        block_on(fs.extract_archive("made/a.arc", &fs, "got")).unwrap();
        let got = snapshot(&world.scratch.at("got"));
        let names: Vec<&str> = got.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["a.txt", "empty", "keys", "private", "sub", "sub/b.bin"]
        );
        assert_eq!(got["a.txt"], (0o100_700, Some(b"alpha".to_vec())));
        assert_eq!(got["sub/b.bin"], (0o100_600, Some(b"beta".to_vec())));
        let mut all: Vec<u8> = got
            .values()
            .filter_map(|(_, content)| content.clone())
            .flatten()
            .collect();
        all.extend(fs::read(world.scratch.at("made/a.arc")).unwrap());
        assert!(!all.windows(CANARY.len()).any(|part| part == CANARY));
        for line in world.lines.all() {
            assert!(!line.json.contains("CANARY"), "{}", line.json);
        }
    }
}

#[test]
fn other_tools_unpack_what_is_packed() {
    let world = builder().over(Scratch::of(TREE));
    let long = format!("src/{}/{}", "d".repeat(120), "\u{65e5}".repeat(40));
    world.scratch.file(&long, "long");
    pack(&world, "a.zip", PackAs::Zip, WriteMode::Create).unwrap();
    pack(&world, "a.tgz", PackAs::TarGz, WriteMode::Create).unwrap();
    let base = world.scratch.base().to_owned();
    let (zip, tgz) = (world.scratch.at("a.zip"), world.scratch.at("a.tgz"));
    let (zip, tgz) = (zip.to_str().unwrap(), tgz.to_str().unwrap());
    let ways: [&[&str]; 5] = [
        &["unzip", "-q", zip],
        &["7z", "x", "-bso0", zip],
        &["bsdtar", "-xf", zip],
        &["tar", "-xf", tgz],
        &["python3", "-m", "zipfile", "-e", zip, "."],
    ];
    for (n, way) in ways.iter().enumerate() {
        let dir = base.join(format!("way{n}"));
        fs::create_dir(&dir).unwrap();
        let status = Command::new(way[0])
            .args(&way[1..])
            .current_dir(&dir)
            .env("LC_ALL", "C.UTF-8")
            .status()
            .unwrap();
        assert!(status.success(), "{way:?}");
        assert_eq!(fs::read(dir.join("a.txt")).unwrap(), b"alpha", "{way:?}");
        assert_eq!(fs::read(dir.join("sub/b.bin")).unwrap(), b"beta", "{way:?}");
        assert!(dir.join("empty").is_dir(), "{way:?}");
        let long = dir.join(long.strip_prefix("src/").unwrap());
        assert_eq!(fs::read(long).unwrap(), b"long", "{way:?}");
    }
}

#[test]
fn the_same_tree_makes_the_same_bytes() {
    for pack_as in [PackAs::Zip, PackAs::TarGz] {
        let hash = || {
            let world = builder().over(Scratch::of(TREE));
            pack(&world, "a", pack_as, WriteMode::Create)
                .unwrap()
                .receipt
                .hash
        };
        assert_eq!(hash(), hash());
    }
}

#[test]
fn an_archive_is_replaced_only_when_asked_and_is_not_in_itself() {
    let world = builder().over(Scratch::of(TREE));
    pack(&world, "src/a.zip", PackAs::Zip, WriteMode::Create).unwrap();
    let first = fs::read(world.scratch.at("src/a.zip")).unwrap();
    let why = pack(&world, "src/a.zip", PackAs::Zip, WriteMode::Create).unwrap_err();
    assert_eq!(why.reason(), Reason::AlreadyExists);
    let again = pack(&world, "src/a.zip", PackAs::Zip, WriteMode::Overwrite).unwrap();
    assert_eq!(fs::read(world.scratch.at("src/a.zip")).unwrap(), first);
    fs::write(world.scratch.at("src/a.txt"), "changed").unwrap();
    let third = pack(&world, "src/a.zip", PackAs::Zip, WriteMode::Overwrite).unwrap();
    assert_ne!(fs::read(world.scratch.at("src/a.zip")).unwrap(), first);
    block_on(world.fs().undo_one(&third.receipt.undo.unwrap())).unwrap();
    assert_eq!(fs::read(world.scratch.at("src/a.zip")).unwrap(), first);
    assert_eq!(again.entries, third.entries);
}

#[test]
fn it_takes_a_grant_to_archive_one_to_read_and_one_to_write() {
    for missing in [Access::Archive, Access::Read, Access::List, Access::Write] {
        let world = World::workspace()
            .writable()
            .policy(|policy| policy.ambient = AccessSet::ALL.without(AccessSet::of(&[missing])))
            .over(Scratch::of(TREE));
        let before = snapshot(&world.scratch.root());
        let why = pack(&world, "a.zip", PackAs::Zip, WriteMode::Create).unwrap_err();
        assert_eq!(why.reason(), Reason::NoGrant, "{missing:?}");
        assert_eq!(snapshot(&world.scratch.root()), before);
    }
}

#[test]
fn where_reading_is_asked_about_packing_is_too() {
    let world = builder().reading(Mode::Ask).over(Scratch::of(TREE));
    let why = pack(&world, "a.zip", PackAs::Zip, WriteMode::Create).unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalUnavailable);
    let world = builder().reading(Mode::Deny).over(Scratch::of(TREE));
    let why = pack(&world, "a.zip", PackAs::Zip, WriteMode::Create).unwrap_err();
    assert_eq!(why.reason(), Reason::DeniedByMode);
}

#[test]
fn with_allowed_globs_only_what_they_name_is_packed() {
    let world = World::workspace()
        .writable()
        .policy(|policy| {
            policy.allowed = PatternSet::compile(&["src/**/*.txt", "made/**"]).unwrap();
        })
        .over(Scratch::of(TREE));
    pack(&world, "made/a.zip", PackAs::Zip, WriteMode::Create).unwrap();
    let inspected = block_on(world.fs().inspect_archive("made/a.zip")).unwrap();
    let files: Vec<&str> = inspected
        .manifest
        .items
        .iter()
        .map(|item| item.path.as_str())
        .filter(|path| path.contains('.'))
        .collect();
    assert_eq!(files, ["a.txt"]);
}
