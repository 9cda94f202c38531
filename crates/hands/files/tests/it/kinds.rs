//! The seven kinds of root: what each gives unasked, and to whom.

use portcullis_gate::{Caller, Grant, GrantSource};
use portcullis_proto::{Access, AccessSet, Outcome, Principal, Reason, RootId, RootKind, Subject};
use portcullis_testkit::{Scratch, World, agent, core, is_superuser, user};

use crate::attempts::{Reading, attempt, block_on, fit_to_be_shown, not_tried, refused};

const TREE: &str = "file.json = {} [600]\n dir/x = y [600]\n dir/ [700]";

fn owner() -> Caller {
    let extension = Principal::Extension { id: "notes".into() };
    Caller::new(Subject::of(extension), "test")
}

fn world(kind: RootKind) -> World {
    World::of_kind(kind)
        .owner(owner().subject.principal.clone())
        .over(Scratch::of(TREE))
}

/// Which of read, list and stat go ahead.
fn reaches(world: &World, caller: &Caller) -> [bool; 3] {
    let fs = world.fs_for(caller);
    [
        (Reading::Bytes, "file.json"),
        (Reading::List, "dir"),
        (Reading::Stat, "file.json"),
    ]
    .map(|(how, path)| match block_on(attempt(&fs, how, path)) {
        Ok(_) => true,
        Err(failure) => {
            assert_eq!(failure.reason(), Reason::NoGrant, "{how:?}: {failure:?}");
            false
        }
    })
}

#[test]
fn each_kind_gives_unasked_what_its_default_says() {
    const ALL: [bool; 3] = [true, true, true];
    const NONE: [bool; 3] = [false, false, false];
    const UNLISTED: [bool; 3] = [true, false, true];
    // kind, agent, user, owner, core
    let table = [
        (RootKind::Workspace, ALL, ALL, ALL, ALL),
        (RootKind::ExtensionStorage, NONE, NONE, ALL, NONE),
        (RootKind::Artifact, ALL, ALL, ALL, ALL),
        (RootKind::Temp, NONE, NONE, ALL, NONE),
        (RootKind::Knowledge, NONE, NONE, ALL, NONE),
        (RootKind::Downloads, ALL, ALL, ALL, ALL),
        (RootKind::Secret, NONE, NONE, UNLISTED, NONE),
    ];
    assert_eq!(table.map(|row| row.0), RootKind::ALL);
    for (kind, for_agent, for_user, for_owner, for_core) in table {
        let world = world(kind);
        assert_eq!(reaches(&world, &agent()), for_agent, "{kind}: agent");
        assert_eq!(reaches(&world, &user()), for_user, "{kind}: user");
        assert_eq!(reaches(&world, &owner()), for_owner, "{kind}: owner");
        assert_eq!(reaches(&world, &core()), for_core, "{kind}: core");
        world.lines.one_each();
    }
}

#[test]
fn a_grant_opens_a_closed_kind_until_it_expires() {
    for kind in RootKind::ALL {
        let world = world(kind);
        let root = RootId::parse("main").unwrap();
        let end = portcullis_gate::Clock::now_ms(&*world.clock) + 1000;
        world.gate.grants().issue(Grant::new(
            agent().subject.principal.clone(),
            root.clone(),
            AccessSet::of(&[Access::Read, Access::List]),
            Some(end),
            GrantSource::UserApproval,
        ));
        let [read, list, _] = reaches(&world, &agent());
        assert!(read, "{kind}");
        // Secrets are never listed, whoever granted it.
        assert_eq!(list, kind != RootKind::Secret, "{kind}");
        let asked = AccessSet::of(&[Access::Read, Access::List]);
        let scope = world
            .authority
            .request_root(&agent(), &root, asked, "to read");
        assert_eq!(scope.is_ok(), kind != RootKind::Secret, "{kind}");
        world.clock.pass(std::time::Duration::from_secs(2));
        let ambient = !matches!(
            kind,
            RootKind::ExtensionStorage | RootKind::Temp | RootKind::Knowledge | RootKind::Secret
        );
        assert_eq!(reaches(&world, &agent())[0], ambient, "{kind}");
    }
}

#[test]
fn a_private_kind_wants_its_files_ours_and_closed_to_others() {
    for kind in RootKind::ALL {
        let private = matches!(
            kind,
            RootKind::ExtensionStorage | RootKind::Temp | RootKind::Secret
        );
        let world = World::of_kind(kind)
            .owner(agent().subject.principal.clone())
            .over(Scratch::of(TREE));
        for mode in [0o604, 0o640, 0o644, 0o601, 0o666] {
            world.scratch.chmod("file.json", mode);
            if private {
                let want = Reason::InsecurePermissions;
                refused(&world, &Reading::OF_FILES, "file.json", want);
            } else {
                block_on(attempt(&world.fs(), Reading::Json, "file.json")).unwrap();
            }
        }
        world.scratch.chmod("file.json", 0o600);
        block_on(attempt(&world.fs(), Reading::Json, "file.json")).unwrap();
        if !is_superuser() {
            not_tried("a private file of somebody else's: needs the superuser");
            continue;
        }
        world.scratch.chown("file.json", 12345);
        if private {
            refused(&world, &Reading::OF_FILES, "file.json", Reason::NotOwned);
        }
    }
}

#[test]
fn a_private_root_open_to_others_is_not_served() {
    for kind in RootKind::ALL {
        let private = matches!(
            kind,
            RootKind::ExtensionStorage | RootKind::Temp | RootKind::Secret
        );
        for mode in [0o755, 0o701, 0o750] {
            let scratch = Scratch::of(TREE);
            scratch.chmod(".", mode);
            let result = World::of_kind(kind).try_over(scratch);
            match result {
                Ok(_) => assert!(!private, "{kind} {mode:o}"),
                Err(failure) => {
                    assert!(private, "{kind} {mode:o}");
                    assert_eq!(failure.reason(), Reason::InsecurePermissions);
                    fit_to_be_shown(&failure);
                }
            }
        }
    }
}

#[test]
fn what_no_grant_covers_is_denied_and_recorded() {
    let world = world(RootKind::Knowledge);
    refused(&world, &Reading::ALL, "file.json", Reason::NoGrant);
    refused(&world, &Reading::ALL, "absent", Reason::NoGrant);
    for line in world.lines.closing() {
        assert_eq!(
            (line.outcome, line.source.as_str()),
            (Outcome::Denied, "grant:none")
        );
    }
}
