//! The files of an extension, as the library gives them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use portcullis_files::{ExtensionFs, remove_extension_storage};
use portcullis_gate::{ApprovedExtension, ManifestPermission};
use portcullis_proto::{Access, AccessSet, Reason, RootId};
use portcullis_testkit::{World, core};

use crate::support::{Calls, world};

const LOOK: AccessSet = AccessSet::of(&[Access::Read, Access::List]);
const CHANGE: AccessSet = AccessSet::of(&[Access::Read, Access::Write]);

fn approved(id: &str, permissions: &[&str]) -> ApprovedExtension {
    let digest: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
    ApprovedExtension {
        id: id.into(),
        user: "ada".into(),
        storage: RootId::parse(&format!("storage-{digest:0<32}")).unwrap(),
        permissions: permissions
            .iter()
            .map(|text| ManifestPermission::parse(text).unwrap())
            .collect(),
        most: AccessSet::ALL,
    }
}

fn notes(world: &World, permissions: &[&str]) -> ExtensionFs {
    let approved = approved("notes", permissions);
    world.authority.extension(&approved).unwrap()
}

#[test]
fn an_extension_gets_its_roots_as_far_as_was_approved() {
    let world = world("a.txt = words");
    let files = notes(&world, &["filesystem:workspace:read"]);
    let me = files.caller("test");
    let workspace = Calls(files.workspace(&me, LOOK, "index files").unwrap());
    assert_eq!(workspace.read("a.txt"), "words");
    let why = workspace.write("b.txt", "x").unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
    let before = world.lines.all().len();
    let why = files.workspace(&me, CHANGE, "change files").unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
    assert_eq!(world.lines.all().len(), before + 1, "a refusal is recorded");

    let storage = Calls(files.extension_storage(&me, CHANGE, "cache").unwrap());
    storage.write("deep/cached", "mine").unwrap();
    assert_eq!(storage.read("deep/cached"), "mine");
    let scratch = Calls(files.temp(&me, "render").unwrap());
    scratch.write("draft", "mine").unwrap();
    for root in [&storage.0, &scratch.0] {
        let dir = root.declared().root().host_path().to_owned();
        let mode = fs::metadata(dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    // Core and the agent's own authority have no such roots.
    for root in [&storage.0, &scratch.0] {
        let id = root.declared().entry().id();
        let why = world.authority.scope(&core(), Some(id)).unwrap_err();
        assert_eq!(why.reason(), Reason::UnknownRoot);
    }
    // One that asked for no workspace has none.
    let keeper = approved("keeper", &["filesystem:extension-storage:readwrite"]);
    let keeper = world.authority.extension(&keeper).unwrap();
    let why = keeper.workspace(&keeper.caller("test"), LOOK, "look");
    assert_eq!(why.unwrap_err().reason(), Reason::NoGrant);
}

#[test]
fn another_extension_has_neither_a_name_nor_a_grant_for_them() {
    let world = world("");
    let files = notes(&world, &[]);
    let me = files.caller("test");
    let storage = files.extension_storage(&me, CHANGE, "cache").unwrap();
    Calls(storage.clone()).write("secret", "mine").unwrap();
    let other = world
        .authority
        .extension(&approved(
            "other",
            &["filesystem:extension-storage:readwrite"],
        ))
        .unwrap();
    let thief = other.caller("test");
    let id = storage.declared().entry().id();
    let why = other.authority().scope(&thief, Some(id)).unwrap_err();
    assert_eq!(why.reason(), Reason::UnknownRoot);
    let inside = storage.declared().root().host_path().join("secret");
    let why = other.authority().locate(None, inside.to_str().unwrap());
    assert_eq!(why.unwrap_err().reason(), Reason::OutsideRoots);
    // Even through the very scope, another principal has no grant.
    let why = files.extension_storage(&thief, LOOK, "steal").unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
    let why = files.authority().scope(&thief, Some(id)).unwrap();
    let why = crate::support::block_on(why.stat("secret")).unwrap_err();
    assert_eq!(why.reason(), Reason::NoGrant);
}

#[test]
fn an_approval_is_no_trust() {
    let world = world("");
    let files = notes(&world, &["filesystem:workspace:readwrite"]);
    let me = files.caller("test");
    let workspace = Calls(files.workspace(&me, CHANGE, "edit").unwrap());
    workspace.write("a.txt", "x").unwrap();
    let entry = workspace.0.declared().entry();
    entry.set_trusted(false);
    let why = workspace.write("b.txt", "x").unwrap_err();
    assert_eq!(why.reason(), Reason::Untrusted);
}

#[test]
fn what_it_was_granted_ends_with_it_and_its_scratch_goes() {
    let world = world("a.txt = words");
    let approved = approved("notes", &["filesystem:workspace:read"]);
    let files = world.authority.extension(&approved).unwrap();
    let me = files.caller("test");
    let storage = Calls(files.extension_storage(&me, CHANGE, "cache").unwrap());
    storage.write("kept", "mine").unwrap();
    let scratch = Calls(files.temp(&me, "render").unwrap());
    scratch.write("draft", "mine").unwrap();
    let gone = scratch.0.declared().root().host_path().to_owned();
    files.end();
    for calls in [&storage, &scratch] {
        let why = calls.write("late", "x").unwrap_err();
        assert_eq!(why.reason(), Reason::NoGrant);
    }
    assert!(gone.exists());
    drop(files);
    assert!(!gone.exists());
    // Its storage is there for the next life, until it is removed.
    let again = world.authority.extension(&approved).unwrap();
    let storage = again.extension_storage(&again.caller("test"), CHANGE, "cache");
    let storage = Calls(storage.unwrap());
    assert_eq!(storage.read("kept"), "mine");
    storage.write("kept", "overwritten").unwrap();
    drop(again);
    let path = world.scratch.base().join("data");
    let data = portcullis_files::PrivateDir::open_or_create(&path).unwrap();
    let entries = |name: &str| fs::read_dir(path.join(name)).unwrap().count();
    assert_eq!((entries("extensions"), entries("undo")), (1, 1));
    remove_extension_storage(&data, &approved.storage).unwrap();
    remove_extension_storage(&data, &approved.storage).unwrap();
    // Nor is what it overwrote kept for who gets its inode next.
    assert_eq!((entries("extensions"), entries("undo")), (0, 0));
    // What a crash left of a removal goes at the next start.
    fs::create_dir_all(path.join("extensions/gone-1/deep")).unwrap();
    fs::set_permissions(
        path.join("extensions/gone-1"),
        fs::Permissions::from_mode(0o700),
    )
    .unwrap();
    world.authority.recover(&data, false).unwrap();
    assert_eq!(entries("extensions"), 0);
    let again = world.authority.extension(&approved).unwrap();
    let storage = again.extension_storage(&again.caller("test"), CHANGE, "cache");
    let why = crate::support::block_on(storage.unwrap().stat("kept"));
    assert_eq!(why.unwrap_err().reason(), Reason::NotFound);
}
