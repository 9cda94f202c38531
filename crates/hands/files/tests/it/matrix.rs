//! The static attack matrix: every verb against everything that can be planted.

use std::os::unix::ffi::OsStrExt as _;

use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World, is_superuser};

use crate::attempts::{Reading, allowed, block_on, list_all, not_tried, refused, workspace};

const TREE: &str = "
    inside.txt = inside
    inside.json = {\"in\": \"side\"}
    dir/below.json = {\"in\": \"side\"}
    ../out/canary.txt = CANARY
    ../out/canary.json = {\"canary\": \"CANARY\"}
    ../root_evil/canary.txt = CANARY
    leaf -> ../out/canary.json
    parent -> ../out
    inner -> inside.json
    innerdir -> dir
    dangling -> nowhere
    loop -> loop
";

/// Every verb of the hand, tried on both resolvers.
fn worlds() -> [World; 2] {
    [
        workspace(TREE),
        World::workspace().best_effort().over(Scratch::of(TREE)),
    ]
}

#[test]
fn what_leads_out_by_its_words_is_refused_by_every_verb() {
    for world in worlds() {
        for path in [
            "..",
            "../out/canary.txt",
            "dir/../../out/canary.txt",
            "dir/..",
            "inner/../inside.txt",
            "../root_evil/canary.txt",
            "/etc/passwd",
            "/",
            "//etc/passwd",
        ] {
            refused(&world, &Reading::ALL, path, Reason::Escape);
        }
        for path in ["a\0b", "inside.txt\0", "a\nb", "\u{202e}txt", "\u{7f}"] {
            refused(&world, &Reading::ALL, path, Reason::BadName);
        }
        // Each refusal is in the audit, with what was alleged.
        assert!(world.lines.closing().iter().all(|l| l.alleged.is_some()));
        world.lines.one_each();
    }
}

#[test]
fn a_path_longer_than_the_kernel_takes_is_refused_unopened() {
    for world in worlds() {
        let long = "x".repeat(256);
        let deep = "y/".repeat(2048) + "z";
        let many = "y/".repeat(257);
        for path in [&long, &deep, &many] {
            refused(&world, &Reading::ALL, path, Reason::NameTooLong);
        }
        assert!(world.lines.closing().iter().all(|l| l.path.is_none()));
    }
}

#[test]
fn the_longest_names_and_paths_the_kernel_takes_are_read() {
    let name = "n".repeat(255);
    for best_effort in [false, true] {
        let scratch = Scratch::of("");
        // 16 directories of 251 bytes, and a name that fills the path up to 4,095.
        let dir = vec!["d".repeat(251); 16].join("/");
        let mut place = scratch.root();
        std::fs::write(place.join(&name), "long name").unwrap();
        let start = std::env::current_dir().unwrap();
        // By hand: with the scratch directory in front the path is too long.
        let handle = dir.split('/').fold(
            rustix::fs::open(&place, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap(),
            |at, part| {
                rustix::fs::mkdirat(&at, part, 0o700.into()).unwrap();
                place.push(part);
                rustix::fs::openat(
                    &at,
                    part,
                    rustix::fs::OFlags::PATH,
                    rustix::fs::Mode::empty(),
                )
                .unwrap()
            },
        );
        let leaf = "l".repeat(4095 - dir.len() - 1);
        let file = rustix::fs::openat(
            &handle,
            &leaf,
            rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
            0o600.into(),
        )
        .unwrap();
        rustix::io::write(&file, b"deep").unwrap();
        assert_eq!(start, std::env::current_dir().unwrap());
        let mut builder = World::workspace();
        if best_effort {
            builder = builder.best_effort();
        }
        let world = builder.over(scratch);
        let path = format!("{dir}/{leaf}");
        assert_eq!(path.len(), 4095);
        allowed(&world, &[Reading::Bytes, Reading::Text], &path, "deep");
        allowed(&world, &[Reading::Bytes], &name, "long name");
        allowed(&world, &[Reading::List, Reading::Tree], ".", &name);
        allowed(&world, &[Reading::Glob], &dir, &leaf);
    }
}

#[test]
fn a_link_that_leads_out_is_refused_as_leaf_and_as_parent() {
    for world in worlds() {
        refused(&world, &Reading::ALL, "leaf", Reason::Symlink);
        refused(&world, &Reading::ALL, "parent", Reason::Symlink);
        for path in ["parent/canary.txt", "parent/canary.json", "parent/absent"] {
            refused(&world, &Reading::ALL, path, Reason::Symlink);
        }
        refused(&world, &Reading::ALL, "dangling", Reason::Symlink);
        refused(&world, &Reading::ALL, "loop", Reason::Symlink);
        refused(&world, &Reading::ALL, "loop/x", Reason::Symlink);
    }
}

#[test]
fn a_trailing_slash_does_not_follow_a_link() {
    for world in worlds() {
        for link in ["leaf", "parent", "inner", "innerdir", "dangling"] {
            for tail in ["/", "//", "/.", "/./", "///.//"] {
                let path = format!("{link}{tail}");
                refused(&world, &Reading::ALL, &path, Reason::Symlink);
            }
        }
    }
}

#[test]
fn a_link_inside_is_refused_unless_the_root_allows_it() {
    for world in worlds() {
        refused(&world, &Reading::ALL, "inner", Reason::Symlink);
        refused(&world, &Reading::ALL, "innerdir", Reason::Symlink);
        refused(
            &world,
            &Reading::ALL,
            "innerdir/below.json",
            Reason::Symlink,
        );
    }
}

#[test]
fn links_are_shown_as_links_and_never_entered() {
    for world in worlds() {
        let fs = world.fs();
        let listed = block_on(fs.list(".", list_all())).unwrap();
        let links: Vec<_> = listed
            .entries
            .iter()
            .filter(|entry| entry.entity == portcullis_proto::Entity::Symlink)
            .map(|entry| entry.name.as_str())
            .collect();
        let want = ["dangling", "inner", "innerdir", "leaf", "loop", "parent"];
        assert_eq!(links, want);
        for how in Reading::OF_DIRECTORIES {
            let got = block_on(crate::attempts::attempt(&fs, how, ".")).unwrap();
            assert!(!got.text.contains("canary"), "{how:?}: {}", got.text);
        }
    }
}

#[test]
fn a_hard_link_is_judged_by_the_kind_of_root() {
    use portcullis_proto::RootKind;
    let tree = "../out/own.json = {\"linked\": 1} [600]\n twin.json <=> ../out/own.json";
    for kind in RootKind::ALL {
        let builder =
            World::of_kind(kind).owner(portcullis_testkit::agent().subject.principal.clone());
        let world = builder.over(Scratch::of(tree));
        if kind == RootKind::Workspace {
            allowed(&world, &Reading::OF_FILES, "twin.json", "linked");
        } else {
            refused(&world, &Reading::OF_FILES, "twin.json", Reason::Hardlink);
        }
    }
    if !is_superuser() {
        not_tried("a hard link to somebody else's file: needs the superuser");
        return;
    }
    let world = workspace(tree);
    world.scratch.chown("../out/own.json", 12345);
    refused(&world, &Reading::OF_FILES, "twin.json", Reason::Hardlink);
    // Somebody else's file that stands here alone is read.
    world.scratch.add("alone.json = {\"alone\": 1}");
    world.scratch.chown("alone.json", 12345);
    allowed(&world, &Reading::OF_FILES, "alone.json", "alone");
}

#[test]
fn a_pipe_never_hangs_a_read() {
    for best_effort in [false, true] {
        let builder = World::workspace();
        let scratch = Scratch::of("pipe |\n .gitignore |\n sub/.portcullisignore |");
        let world = if best_effort {
            builder.best_effort().over(scratch)
        } else {
            builder.over(scratch)
        };
        refused(&world, &Reading::OF_FILES, "pipe", Reason::SpecialFile);
        refused(
            &world,
            &Reading::OF_DIRECTORIES,
            "pipe",
            Reason::NotDirectory,
        );
        allowed(&world, &[Reading::Stat], "pipe", "Special");
        // An ignore file that is a pipe is none.
        allowed(&world, &Reading::OF_DIRECTORIES, ".", "pipe");
    }
}

#[test]
fn a_socket_is_never_read() {
    let world = workspace("");
    let _socket = std::os::unix::net::UnixListener::bind(world.scratch.at("sock")).unwrap();
    refused(&world, &Reading::OF_FILES, "sock", Reason::SpecialFile);
    refused(
        &world,
        &Reading::OF_DIRECTORIES,
        "sock",
        Reason::NotDirectory,
    );
    allowed(&world, &[Reading::Stat], "sock", "Special");
}

#[test]
fn a_device_is_never_read() {
    let world = workspace("");
    if !world.scratch.device("zero") {
        return not_tried("a device in the root: this kernel or user cannot make one");
    }
    let fs = world.fs();
    for how in Reading::OF_FILES {
        let failure = block_on(crate::attempts::attempt_soon(&fs, how, "zero")).unwrap_err();
        // Where the scratch directory is mounted without devices, the kernel says no first.
        assert!(
            matches!(failure.reason(), Reason::SpecialFile | Reason::Os),
            "{failure:?}"
        );
    }
    allowed(&world, &[Reading::Stat], "zero", "Special");
}

#[test]
fn a_directory_is_no_file_and_a_file_no_directory() {
    for world in worlds() {
        refused(&world, &Reading::OF_FILES, "dir", Reason::IsDirectory);
        refused(&world, &Reading::OF_FILES, ".", Reason::IsDirectory);
        refused(
            &world,
            &Reading::OF_DIRECTORIES,
            "inside.txt",
            Reason::NotDirectory,
        );
        let not_there = [Reading::Bytes, Reading::Text, Reading::Json, Reading::Stat];
        refused(&world, &not_there, "inside.txt/x", Reason::NotFound);
        refused(&world, &Reading::ALL, "absent", Reason::NotFound);
        refused(&world, &Reading::ALL, "dir/absent/deeper", Reason::NotFound);
    }
}

#[test]
fn what_is_closed_to_us_is_the_operating_systems_no() {
    if is_superuser() {
        return not_tried("files closed to us: nothing is closed to the superuser");
    }
    let world = workspace("closed.txt = x [000]\n closed/x = y\n closed/ [000]");
    refused(&world, &Reading::OF_FILES, "closed.txt", Reason::Os);
    refused(&world, &Reading::OF_DIRECTORIES, "closed", Reason::Os);
    refused(&world, &[Reading::Stat], "closed/x", Reason::Os);
    world.scratch.chmod("closed", 0o700);
}

#[test]
fn names_that_are_no_text_are_listed_and_cannot_be_asked_for() {
    let world = workspace("plain.txt = x");
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::write(world.scratch.root().join(odd), "x").unwrap();
    std::fs::create_dir(
        world
            .scratch
            .root()
            .join(std::ffi::OsStr::from_bytes(b"d\xff")),
    )
    .unwrap();
    std::fs::write(world.scratch.root().join("new\nline"), "x").unwrap();
    let listed = block_on(world.fs().list(".", list_all())).unwrap();
    let names: Vec<_> = listed
        .entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.path.is_some()))
        .collect();
    assert_eq!(
        names,
        [
            ("caf\u{fffd}.txt", false),
            ("d\u{fffd}", false),
            ("new\nline", false),
            ("plain.txt", true)
        ]
    );
    refused(&world, &Reading::ALL, "caf\u{fffd}.txt", Reason::NotFound);
    refused(&world, &Reading::ALL, "new\nline", Reason::BadName);
    // A directory nobody can name is shown, and what is below it is not.
    let tree = block_on(world.fs().tree(".", crate::attempts::tree_all())).unwrap();
    let odd = tree
        .children
        .iter()
        .find(|node| node.name == "d\u{fffd}")
        .unwrap();
    assert!(odd.cut && odd.children.is_empty());
}

#[test]
fn a_rule_is_not_stepped_around_by_one_odd_byte() {
    use portcullis_policy::PatternSet;
    let world = World::workspace()
        .policy(|policy| policy.denied = PatternSet::compile(&["*.pem2"]).unwrap())
        .over(Scratch::of("ok.txt = x"));
    let odd = std::ffi::OsStr::from_bytes(b"k\xe9y.pem2");
    std::fs::write(world.scratch.root().join(odd), "x").unwrap();
    let listed = block_on(world.fs().list(".", list_all())).unwrap();
    assert_eq!(listed.entries.len(), 1, "{:?}", listed.entries);
    assert_eq!(listed.counts.denied, 1);
}
