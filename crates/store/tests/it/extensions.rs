//! Extensions: what they ask for, who approves it, and what they then are.

use portcullis_proto::{Access, Principal, RootKind, Scope, ScopeSet};
use portcullis_store::{Extension, ExtensionState, Store, Trouble};

use crate::kit::{Dir, NOW, raw};

const READS: &str = "filesystem:workspace:read";
const WRITES: &str = "filesystem:workspace:write";
const STORAGE: &str = "filesystem:extension-storage:readwrite";
const READ: ScopeSet = ScopeSet::of(&[Scope::FsRead]);
const BOTH: ScopeSet = ScopeSet::of(&[Scope::FsRead, Scope::FsWrite]);

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn with_users(dir: &Dir) -> Store {
    let store = Store::new(dir.path());
    for name in ["ada", "bob"] {
        store.add_user(name, BOTH, NOW).unwrap();
    }
    store
}

fn register(store: &Store, list: &[&str]) -> ExtensionState {
    store
        .register_extension("notes", "bob", &strings(list), NOW)
        .unwrap()
        .state
}

fn approve(store: &Store, list: &[&str]) {
    assert!(
        store
            .approve_extension("notes", "bob", &strings(list))
            .unwrap()
    );
}

#[test]
fn it_waits_for_its_owner_who_approves_what_was_shown() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let asked = strings(&[STORAGE, READS, READS]);
    let made = store
        .register_extension("notes", "bob", &asked, NOW)
        .unwrap();
    assert_eq!(
        made,
        Extension {
            id: "notes".to_owned(),
            owner: Some("bob".to_owned()),
            permissions: strings(&[STORAGE, READS]),
            state: ExtensionState::Pending,
            created_at: NOW,
        }
    );
    assert_eq!(store.extensions(Some("bob")).unwrap(), [made]);
    assert_eq!(store.extensions(Some("ada")).unwrap(), []);
    let token = store.create_extension_token("notes", "bob", NOW);
    assert_eq!(token.unwrap_err().trouble(), Trouble::Refused);
    // Nobody else's to approve, and not for what it did not ask.
    assert!(!store.approve_extension("notes", "ada", &asked).unwrap());
    assert!(!store.approve_extension("none", "bob", &asked).unwrap());
    let error = store
        .approve_extension("notes", "bob", &strings(&[READS]))
        .unwrap_err();
    assert_eq!(error.trouble(), Trouble::Refused);
    assert_eq!(
        store.extensions(None).unwrap()[0].state,
        ExtensionState::Pending
    );
    assert!(store.approve_extension("notes", "bob", &asked).unwrap());
    assert_eq!(
        store.extensions(None).unwrap()[0].state,
        ExtensionState::Approved
    );
}

#[test]
fn an_unknown_permission_and_an_id_that_is_a_path_are_refused() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let try_one = |id: &str, list: &[String]| {
        store
            .register_extension(id, "bob", list, NOW)
            .map_err(|error| error.trouble())
    };
    for bad in [
        "filesystem:home:read",
        "network:all",
        "",
        "filesystem:workspace:read x",
    ] {
        let list = strings(&[READS, bad]);
        assert_eq!(try_one("notes", &list), Err(Trouble::Invalid), "{bad}");
    }
    for bad in ["", ".", "..", "-x", "a/b", "a_b", "A", &"a".repeat(65)] {
        assert_eq!(try_one(bad, &[]), Err(Trouble::Invalid), "{bad}");
    }
    let unowned = store.register_extension("notes", "eve", &[], NOW);
    assert_eq!(unowned.unwrap_err().trouble(), Trouble::Missing);
    assert_eq!(store.extensions(None).unwrap(), []);
}

#[test]
fn more_than_was_approved_waits_again_and_less_does_not() {
    let dir = Dir::new();
    let store = with_users(&dir);
    assert_eq!(register(&store, &[READS, STORAGE]), ExtensionState::Pending);
    approve(&store, &[READS, STORAGE]);
    for same_or_less in [
        &[READS, STORAGE][..],
        &[STORAGE, READS],
        &["filesystem:workspace:list", STORAGE],
    ] {
        assert_eq!(register(&store, same_or_less), ExtensionState::Approved);
    }
    // What it gave up has to be asked for again.
    assert_eq!(register(&store, &[READS, STORAGE]), ExtensionState::Pending);
    approve(&store, &[READS, STORAGE]);
    assert_eq!(
        register(&store, &[READS, WRITES, STORAGE]),
        ExtensionState::Pending
    );
    // While it waits, less is still not approved.
    assert_eq!(register(&store, &[READS]), ExtensionState::Pending);
}

#[test]
fn an_id_belongs_to_who_registered_it_first() {
    let dir = Dir::new();
    let store = with_users(&dir);
    register(&store, &[READS]);
    let taken = |store: &Store| {
        store
            .register_extension("notes", "ada", &[], NOW)
            .map(|_| ())
            .map_err(|error| error.trouble())
    };
    assert_eq!(taken(&store), Err(Trouble::Taken));
    // The files of an extension are found by its id: not when the owner goes,
    // nor for the next one of that name.
    assert!(store.remove_user("bob").unwrap());
    assert_eq!(taken(&store), Err(Trouble::Taken));
    store.add_user("bob", BOTH, NOW).unwrap();
    let again = store.register_extension("notes", "bob", &[], NOW);
    assert_eq!(again.unwrap_err().trouble(), Trouble::Taken);
    let left = store.extensions(None).unwrap();
    assert_eq!(
        (left[0].owner.as_deref(), left[0].state),
        (None, ExtensionState::Revoked)
    );
    assert_eq!(store.remove_extension("notes", Some("ada")).unwrap(), None);
    assert!(store.remove_extension("notes", None).unwrap().is_some());
    assert_eq!(taken(&store), Ok(()));
}

#[test]
fn its_token_is_the_extension_on_behalf_of_its_owner() {
    let dir = Dir::new();
    let store = with_users(&dir);
    register(&store, &[READS, STORAGE]);
    approve(&store, &[READS, STORAGE]);
    for by in ["ada", "eve"] {
        let error = store.create_extension_token("notes", by, NOW).unwrap_err();
        assert_eq!(error.trouble(), Trouble::Missing, "{by}");
    }
    let made = store.create_extension_token("notes", "bob", NOW).unwrap();
    let book = store.credentials().unwrap();
    let known = book.bearer(made.secret.expose(), NOW).unwrap();
    let principal = Principal::Extension { id: "notes".into() };
    assert_eq!(known.principal, principal);
    assert_eq!(
        (&*known.user, known.scopes, known.expires_at),
        ("bob", BOTH, None)
    );
    assert_eq!(book.scopes_of(&principal, NOW), Some(BOTH));
    let kinds: Vec<_> = book
        .permissions("notes")
        .unwrap()
        .iter()
        .map(|one| (one.kind, one.access.has(Access::Write)))
        .collect();
    assert_eq!(
        kinds,
        [
            (RootKind::ExtensionStorage, true),
            (RootKind::Workspace, false)
        ]
    );
    assert_eq!(book.permissions("other"), None);
    let listed = store.tokens(Some("bob")).unwrap();
    assert_eq!(listed[0].extension.as_deref(), Some("notes"));
}

#[test]
fn its_token_follows_its_permissions_its_owner_and_its_state() {
    let dir = Dir::new();
    let store = with_users(&dir);
    register(&store, &[READS, STORAGE]);
    approve(&store, &[READS, STORAGE]);
    let made = store.create_extension_token("notes", "bob", NOW).unwrap();
    let scopes = || {
        let book = store.credentials().unwrap();
        let known = book.bearer(made.secret.expose(), NOW);
        let principal = Principal::Extension { id: "notes".into() };
        let known = known.map(|known| known.scopes);
        assert_eq!(book.permissions("notes").is_some(), known.is_some());
        assert_eq!(book.scopes_of(&principal, NOW), known);
        known
    };
    assert_eq!(scopes(), Some(BOTH));
    store.set_user_scopes("bob", READ).unwrap();
    assert_eq!(scopes(), Some(READ), "no more than its owner");
    store.set_user_scopes("bob", BOTH).unwrap();
    assert_eq!(register(&store, &[READS]), ExtensionState::Approved);
    assert_eq!(scopes(), Some(READ), "no more than it asks for now");
    assert_eq!(register(&store, &[READS, STORAGE]), ExtensionState::Pending);
    assert_eq!(scopes(), None, "not while it waits");
    approve(&store, &[READS, STORAGE]);
    assert_eq!(scopes(), Some(BOTH));
    assert!(!store.revoke_extension("notes", Some("ada")).unwrap());
    assert!(store.revoke_extension("notes", Some("bob")).unwrap());
    assert_eq!(scopes(), None);
    // A revoked one does not bring itself back, and its tokens never come back.
    assert_eq!(register(&store, &[READS]), ExtensionState::Revoked);
    approve(&store, &[READS]);
    let book = store.credentials().unwrap();
    assert_eq!(book.bearer(made.secret.expose(), NOW), None);
    assert!(book.permissions("notes").is_some());
}

#[test]
fn a_token_left_by_hand_is_not_the_next_extension_of_that_id() {
    let dir = Dir::new();
    let store = with_users(&dir);
    register(&store, &[READS]);
    approve(&store, &[READS]);
    let made = store.create_extension_token("notes", "bob", NOW).unwrap();
    let by_hand = raw(&dir);
    by_hand.pragma_update(None, "foreign_keys", false).unwrap();
    by_hand.execute("DELETE FROM extensions", []).unwrap();
    let known = || {
        let book = store.credentials().unwrap();
        book.bearer(made.secret.expose(), NOW)
    };
    assert_eq!(known(), None);
    store.register_extension("notes", "ada", &[], NOW).unwrap();
    assert!(store.approve_extension("notes", "ada", &[]).unwrap());
    assert_eq!(known(), None);
}

#[test]
fn extensions_are_bounded() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let fill = |from: u32, to: u32, uid: u32| {
        raw(&dir)
            .execute_batch(&format!(
                "INSERT INTO extensions (id, uid, permissions, state, created_at)
                 WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})
                 SELECT 'x' || i, {uid}, '', 'revoked', 0 FROM n"
            ))
            .unwrap();
    };
    let more = |owner: &str| {
        store
            .register_extension("notes", owner, &[], NOW)
            .map(|_| ())
            .map_err(|error| error.trouble())
    };
    fill(1, 100, 2);
    assert_eq!(more("bob"), Err(Trouble::Full));
    assert_eq!(more("ada"), Ok(()));
    assert!(
        store
            .remove_extension("notes", Some("ada"))
            .unwrap()
            .is_some()
    );
    fill(101, 1_000, 2);
    assert_eq!(more("ada"), Err(Trouble::Full));
    let many: Vec<String> = (0..33).map(|at| format!("{READS}{at}")).collect();
    let error = store
        .register_extension("x1", "bob", &many, NOW)
        .unwrap_err();
    assert!(error.message().contains("32"), "{error}");
}
