//! Roots and mounts: what is pinned, what is crossed, how a caller spells it.

use std::fs;

use portcullis_files::Authority;
use portcullis_policy::RootPolicy;
use portcullis_proto::{AccessSet, Entity, Reason, RelPath, RootId, RootKind};
use portcullis_testkit::{Scratch, World, agent, is_superuser};

use crate::attempts::{
    Reading, allowed, attempt, block_on, fit_to_be_shown, list_all, not_tried, refused, workspace,
};

const MOUNTED: &str = "
    mnt/
    dir/inner/
    plain.json = {\"plain\": 1}
    ../out/canary.json = {\"CANARY\": 1}
    ../out/sub/deeper.json = {\"deeper\": 1}
    ../other/other.json = {\"other\": 1}
";

#[test]
fn a_mount_inside_a_root_is_not_entered() {
    if !is_superuser() {
        return not_tried("a bind mount in the root: needs the superuser");
    }
    for best_effort in [false, true] {
        let mut builder = World::workspace();
        if best_effort {
            builder = builder.best_effort();
        }
        let world = builder.over(Scratch::of(MOUNTED));
        if !(world.scratch.bind("../out", "mnt") && world.scratch.bind("../out", "dir/inner")) {
            return not_tried("a bind mount in the root: this kernel cannot mount");
        }
        for path in [
            "mnt",
            "mnt/canary.json",
            "dir/inner",
            "dir/inner/sub/deeper.json",
        ] {
            refused(&world, &Reading::ALL, path, Reason::MountBoundary);
        }
        // Its name is shown for what it is; what is in it is not.
        let listed = block_on(world.fs().list(".", list_all())).unwrap();
        let mount = listed.entries.iter().find(|e| e.name == "mnt").unwrap();
        assert_eq!((mount.entity, mount.meta), (Entity::Mount, None));
        for how in Reading::OF_DIRECTORIES {
            let got = block_on(attempt(&world.fs(), how, ".")).unwrap();
            assert!(!got.text.contains("canary"), "{how:?}: {}", got.text);
        }
        // And a walk that passed one over does not call itself complete.
        let found = block_on(world.fs().glob(".", crate::attempts::glob_all())).unwrap();
        assert!(!found.complete);
        let tree = block_on(world.fs().tree(".", crate::attempts::tree_all())).unwrap();
        assert!(!tree.complete);
    }
}

#[test]
fn a_mount_the_policy_lists_is_entered_and_no_other() {
    if !is_superuser() {
        return not_tried("a listed mount: needs the superuser");
    }
    for best_effort in [false, true] {
        let scratch = Scratch::of(MOUNTED);
        if !scratch.bind("../out", "mnt") {
            return not_tried("a listed mount: this kernel cannot mount");
        }
        let mut builder = World::workspace()
            .policy(|policy| policy.mounts = vec![RelPath::parse("mnt").unwrap()]);
        if best_effort {
            builder = builder.best_effort();
        }
        let world = builder.over(scratch);
        allowed(&world, &Reading::OF_FILES, "mnt/canary.json", "CANARY");
        allowed(&world, &Reading::OF_DIRECTORIES, "mnt", "canary.json");
        allowed(&world, &Reading::OF_DIRECTORIES, "mnt/sub", "deeper.json");
        allowed(&world, &[Reading::Glob, Reading::Tree], ".", "deeper.json");
        // One mounted later is not listed, neither beside it nor below it.
        assert!(world.scratch.bind("../other", "dir/inner"));
        assert!(world.scratch.bind("../other", "mnt/sub"));
        refused(
            &world,
            &Reading::ALL,
            "dir/inner/other.json",
            Reason::MountBoundary,
        );
        refused(
            &world,
            &Reading::ALL,
            "mnt/sub/other.json",
            Reason::MountBoundary,
        );
        let got = block_on(attempt(&world.fs(), Reading::Glob, ".")).unwrap();
        assert!(!got.text.contains("other.json"), "{}", got.text);
    }
}

#[test]
fn a_window_into_the_kernel_is_no_root() {
    for (path, name) in [("/proc", "proc"), ("/sys", "sysfs"), ("/proc/self", "proc")] {
        if !std::path::Path::new(path).is_dir() {
            not_tried(&format!("{path} as a root: it is not there"));
            continue;
        }
        let policy = RootPolicy::of(RootKind::Workspace);
        let failure =
            portcullis_files::Root::adopt(path.as_ref(), &policy, portcullis_files::Resolver::Best)
                .unwrap_err();
        assert_eq!(failure.reason(), Reason::SpecialFile, "{name}");
        fit_to_be_shown(&failure);
    }
}

#[test]
fn a_root_that_is_no_directory_or_not_there_is_refused() {
    let scratch = Scratch::of("file = x");
    let policy = RootPolicy::of(RootKind::Workspace);
    for (path, want) in [
        ("file", Reason::NotDirectory),
        ("absent", Reason::NotFound),
        ("file/x", Reason::NotFound),
    ] {
        let best = portcullis_files::Resolver::Best;
        let failure = portcullis_files::Root::adopt(&scratch.at(path), &policy, best).unwrap_err();
        assert_eq!(failure.reason(), want, "{path}");
        fit_to_be_shown(&failure);
    }
}

#[test]
fn a_renamed_root_is_still_the_root() {
    let world = workspace("a.json = {\"old\": 1}\n d/b.json = {}");
    fs::rename(world.scratch.root(), world.scratch.base().join("moved")).unwrap();
    allowed(&world, &Reading::OF_FILES, "a.json", "old");
    allowed(&world, &Reading::OF_DIRECTORIES, ".", "a.json");
}

#[test]
fn a_replaced_root_path_retargets_nothing() {
    for follow in [false, true] {
        let world = World::workspace()
            .policy(|policy| {
                if follow {
                    policy.symlinks = portcullis_policy::Symlinks::AllowInRoot;
                }
            })
            .over(Scratch::of(
                "a.json = {\"old\": 1}\n ../fresh/a.json = {\"FRESH\": 1}",
            ));
        fs::rename(world.scratch.root(), world.scratch.base().join("moved")).unwrap();
        fs::rename(world.scratch.base().join("fresh"), world.scratch.root()).unwrap();
        allowed(&world, &Reading::OF_FILES, "a.json", "old");
        // The other way round: a link where the root's path was.
        fs::rename(world.scratch.root(), world.scratch.base().join("fresh")).unwrap();
        std::os::unix::fs::symlink("fresh", world.scratch.root()).unwrap();
        allowed(&world, &Reading::OF_FILES, "a.json", "old");
        fs::remove_file(world.scratch.root()).unwrap();
    }
}

fn spelled() -> (World, Authority) {
    let world = workspace("a.txt = a\n nested/b.txt = b");
    let base = world.scratch.base().to_owned();
    std::os::unix::fs::symlink(world.scratch.root(), base.join("alias")).unwrap();
    let mut authority = Authority::new(world.gate.clone(), Vec::new(), Some(base.clone()));
    for (id, path) in [
        ("main", base.join("alias")),
        ("nested", base.join("root/nested")),
    ] {
        let spec = portcullis_gate::RootSpec {
            id: RootId::parse(id).unwrap(),
            kind: RootKind::Workspace,
            display_name: None,
            policy: RootPolicy::of(RootKind::Workspace),
            owner: None,
            trusted: false,
        };
        let best = portcullis_files::Resolver::Best;
        authority.declare(spec, &path, best).unwrap();
    }
    (world, authority)
}

#[test]
fn a_root_is_found_by_its_spelled_and_its_real_path() {
    let (world, authority) = spelled();
    let base = world.scratch.base().display().to_string();
    for (alleged, want) in [
        (format!("{base}/root/a.txt"), ("main", "a.txt")),
        (format!("{base}/alias/a.txt"), ("main", "a.txt")),
        (format!("{base}/root"), ("main", "")),
        (format!("{base}//root/./a.txt"), ("main", "a.txt")),
        (format!("{base}/root/nested/b.txt"), ("nested", "b.txt")),
        ("~/root/a.txt".to_owned(), ("main", "a.txt")),
        ("~//root/a.txt".to_owned(), ("main", "a.txt")),
        ("a.txt".to_owned(), ("main", "a.txt")),
        ("~a.txt".to_owned(), ("main", "~a.txt")),
    ] {
        let located = authority.locate(None, &alleged).unwrap();
        assert_eq!(
            (located.root.as_str(), located.alleged.as_str()),
            want,
            "{alleged}"
        );
    }
}

#[test]
fn a_sibling_that_begins_like_the_root_is_outside() {
    let (world, authority) = spelled();
    let base = world.scratch.base().display().to_string();
    for alleged in [
        format!("{base}/root_evil/a.txt"),
        format!("{base}/roo"),
        format!("{base}/rootnested/b.txt"),
        base.clone(),
        "/etc/passwd".to_owned(),
        "~".to_owned(),
        "~/".to_owned(),
        "~/root_evil".to_owned(),
        "~//etc/passwd".to_owned(),
    ] {
        let failure = authority.locate(None, &alleged).unwrap_err();
        assert_eq!(failure.reason(), Reason::OutsideRoots, "{alleged}");
        fit_to_be_shown(&failure);
    }
    // A root that was named is the only one looked at.
    let nested = RootId::parse("nested").unwrap();
    let failure = authority
        .locate(Some(&nested), &format!("{base}/root/a.txt"))
        .unwrap_err();
    assert_eq!(failure.reason(), Reason::OutsideRoots);
    // What climbs out again below a root is left for the gate to refuse, and record.
    let located = authority
        .locate(None, &format!("{base}/root/../out"))
        .unwrap();
    assert_eq!(located.alleged, "../out");
}

#[test]
fn our_own_state_is_denied_whatever_the_rules_say() {
    let scratch = Scratch::of("state/audit/log = x\n ok.txt = ok\n .portcullis/x = y");
    std::os::unix::fs::symlink("state", scratch.at("alias")).unwrap();
    // Spelled through a link, and not there yet.
    for own in ["state", "alias", "alias/audit", "state/audit/not-yet"] {
        let scratch = Scratch::of("state/audit/log = x\n ok.txt = ok\n .portcullis/x = y");
        std::os::unix::fs::symlink("state", scratch.at("alias")).unwrap();
        let place = scratch.at(own);
        let world = World::workspace().own_state(place).over(scratch);
        let inside = own.replace("alias", "state");
        refused(&world, &Reading::ALL, &inside, Reason::ProtectedState);
        let below = format!("{inside}/x");
        refused(&world, &Reading::ALL, &below, Reason::ProtectedState);
        refused(&world, &Reading::ALL, ".portcullis", Reason::ProtectedState);
        refused(
            &world,
            &Reading::ALL,
            ".portcullis/x",
            Reason::ProtectedState,
        );
    }
    // A root inside our own state would serve nothing else.
    let place = scratch.base().to_owned();
    let failure = World::workspace()
        .own_state(place)
        .try_over(scratch)
        .unwrap_err();
    assert_eq!(failure.reason(), Reason::ProtectedState);
    fit_to_be_shown(&failure);
}

#[test]
fn an_identifier_is_never_a_path() {
    for name in ["..", ".", "", "a/b", "/etc", "a\0", ".hidden", "a b", "ä"] {
        assert_eq!(RootId::parse(name), None, "{name:?}");
    }
    let world = workspace("");
    let absent = RootId::parse("absent").unwrap();
    let failure = world.authority.scope(&agent(), Some(&absent)).unwrap_err();
    assert_eq!(failure.reason(), Reason::UnknownRoot);
    let reason = "to look around";
    let failure = world
        .authority
        .request_root(&agent(), &absent, AccessSet::LOOK, reason)
        .unwrap_err();
    assert_eq!(failure.reason(), Reason::UnknownRoot);
    assert_eq!(world.lines.last().alleged.as_deref(), Some(reason));
}

#[test]
fn two_roots_do_not_share_a_name() {
    let (world, mut authority) = spelled();
    let spec = portcullis_gate::RootSpec {
        id: RootId::parse("main").unwrap(),
        kind: RootKind::Temp,
        display_name: None,
        policy: RootPolicy::of(RootKind::Temp),
        owner: None,
        trusted: false,
    };
    let best = portcullis_files::Resolver::Best;
    let failure = authority
        .declare(spec, &world.scratch.root(), best)
        .unwrap_err();
    assert_eq!(failure.reason(), Reason::BadArguments);
}
