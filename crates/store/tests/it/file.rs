//! The file itself: when it is made, who may read it, and what is refused.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use portcullis_gate::Keeper;
use portcullis_policy::Effect;
use portcullis_proto::ScopeSet;
use portcullis_store::{Store, Trouble};

use crate::kit::{Dir, NOW, question, raw, rule};

#[test]
fn nothing_is_opened_or_made_before_something_is_stored() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    assert_eq!(store.load().unwrap(), []);
    assert_eq!(store.version().unwrap(), 0);
    assert!(!store.has_watcher(NOW).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    store.keep(&rule(Effect::Deny, "a")).unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert!(
            ["state.db", "state.db-wal", "state.db-shm"].contains(&&*name),
            "{name}"
        );
        assert_eq!(entry.metadata().unwrap().mode() & 0o7777, 0o600, "{name}");
        assert_eq!(entry.metadata().unwrap().nlink(), 1, "{name}");
    }
    store.check().unwrap();
}

#[test]
fn sixteen_who_start_at_once_share_one_database() {
    for _ in 0..10 {
        let dir = Dir::new();
        std::thread::scope(|scope| {
            for me in 0..16 {
                let store = Store::new(dir.path());
                scope.spawn(move || store.keep(&rule(Effect::Deny, &format!("{me}"))).unwrap());
            }
        });
        assert_eq!(Store::new(dir.path()).load().unwrap().len(), 16);
    }
}

#[track_caller]
fn refused(dir: &Dir, trouble: Trouble, hint: &str) {
    let before = std::fs::read(dir.db()).ok();
    let store = Store::new(dir.path());
    for error in [
        store.load().unwrap_err(),
        store.keep_rule(&rule(Effect::Deny, "z")).unwrap_err(),
        store.version().unwrap_err(),
    ] {
        assert_eq!(error.trouble(), trouble, "{error:?}");
        assert!(error.next_step().unwrap().contains(hint), "{error:?}");
        assert!(!error.message().contains('/'), "{error:?}");
    }
    drop(store);
    assert_eq!(std::fs::read(dir.db()).ok(), before, "nothing was changed");
}

fn with_rules() -> Dir {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    for at in 0..200 {
        let mut one = rule(Effect::Deny, &format!("{at}/{}", "x".repeat(200)));
        one.source = "s".repeat(200).into();
        store.keep(&one).unwrap();
    }
    drop(store);
    assert!(
        !dir.path().join("state.db-wal").exists(),
        "all is in the file"
    );
    dir
}

#[test]
fn a_damaged_database_is_said_and_never_replaced() {
    let dir = with_rules();
    std::fs::write(
        dir.db(),
        "not a database at all, but long enough to look like one",
    )
    .unwrap();
    refused(&dir, Trouble::Damaged, "move `state.db`");

    let dir = with_rules();
    std::fs::write(dir.db(), "").unwrap();
    refused(&dir, Trouble::Damaged, "move `state.db`");

    // The first page is whole, the others are noise.
    let dir = with_rules();
    let mut bytes = std::fs::read(dir.db()).unwrap();
    assert!(bytes.len() > 40_000);
    for byte in bytes.iter_mut().skip(4096) {
        *byte = 0xa5;
    }
    std::fs::write(dir.db(), &bytes).unwrap();
    refused(&dir, Trouble::Damaged, "move `state.db`");

    // Cut off in the middle.
    let dir = with_rules();
    let bytes = std::fs::read(dir.db()).unwrap();
    std::fs::write(dir.db(), &bytes[..bytes.len() / 2 / 4096 * 4096]).unwrap();
    let store = Store::new(dir.path());
    let found = store.check().and_then(|()| store.load().map(|_| ()));
    assert_eq!(found.unwrap_err().trouble(), Trouble::Damaged);
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let dir = with_rules();
    let raw = rusqlite::Connection::open(dir.db()).unwrap();
    let known: i64 = raw
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    let newer = known + 1;
    raw.pragma_update(None, "user_version", newer).unwrap();
    drop(raw);
    refused(&dir, Trouble::Newer, "newer Portcullis");
    let error = Store::new(dir.path()).load().unwrap_err();
    assert_eq!(
        error.message(),
        format!("The state database has schema {newer}; this Portcullis knows up to {known}.")
    );
}

/// The first schema as it was released. Databases out there have it.
const FIRST: &str = include_str!("schema-1.sql");

#[test]
fn a_released_schema_step_never_changes() {
    assert!(include_str!("../../src/schema.rs").contains(FIRST));
}

#[test]
fn a_database_of_the_first_schema_is_brought_up_to_date_with_all_that_is_in_it() {
    let dir = Dir::new();
    let old = raw(&dir);
    std::fs::set_permissions(dir.db(), std::fs::Permissions::from_mode(0o600)).unwrap();
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    old.pragma_update(None, "application_id", 0x5043_4c53)
        .unwrap();
    old.execute_batch(FIRST).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute_batch(
        "INSERT INTO rules (effect, tool_group, root, pattern, covers_protected, source, kept_at)
         VALUES ('deny', 'filesystemRead', 'work', 'a', 0, 'answer:q_1', 1)",
    )
    .unwrap();
    let waits = question("q_old");
    old.execute(
        "INSERT INTO questions (id, state, digest, body, offered, deadline)
         VALUES (?1, 'pending', ?2, ?3, 'allow_once deny_once', ?4)",
        rusqlite::params![
            waits.id.as_str(),
            waits.digest.hex(),
            serde_json::to_string(&waits).unwrap(),
            i64::try_from(waits.deadline).unwrap()
        ],
    )
    .unwrap();
    let version: i64 = old
        .query_row(
            "SELECT value FROM counters WHERE name = 'version'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(old);
    // Eight who start after the upgrade at once, readers and writers.
    std::thread::scope(|scope| {
        for me in 0..8 {
            let store = Store::new(dir.path());
            scope.spawn(move || {
                if me % 2 == 0 {
                    assert!(store.users().unwrap().len() <= 4);
                } else {
                    let name = format!("u{me}");
                    store.add_user(&name, ScopeSet::NONE, NOW).unwrap();
                }
            });
        }
    });
    let store = Store::new(dir.path());
    assert_eq!(store.load().unwrap(), [rule(Effect::Deny, "a")]);
    let now = i64::try_from(store.version().unwrap()).unwrap();
    assert_eq!(now, version + 4, "it went on counting");
    let users = store.users().unwrap();
    assert_eq!(users.len(), 4);
    assert_eq!(users[0].scopes, ScopeSet::ALL);
    let of = |owner: &str| store.pending_of(owner, 10, NOW).unwrap();
    assert_eq!(of("ada"), std::slice::from_ref(&waits));
    assert_eq!(of("bob"), []);
    store.check().unwrap();
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = Dir::new();
    let raw = rusqlite::Connection::open(dir.db()).unwrap();
    raw.execute_batch("CREATE TABLE bookmarks (url TEXT)")
        .unwrap();
    drop(raw);
    std::fs::set_permissions(dir.db(), std::fs::Permissions::from_mode(0o600)).unwrap();
    refused(&dir, Trouble::NotOurs, "another data directory");
}

#[test]
fn a_file_that_others_reach_or_a_link_is_refused() {
    let dir = with_rules();
    std::fs::set_permissions(dir.db(), std::fs::Permissions::from_mode(0o640)).unwrap();
    refused(&dir, Trouble::Unsafe, "chmod 600");

    let real = with_rules();
    let dir = Dir::new();
    symlink(real.db(), dir.db()).unwrap();
    refused(&dir, Trouble::Unsafe, "0600");

    let dir = Dir::new();
    std::fs::create_dir(dir.db()).unwrap();
    refused(&dir, Trouble::Unsafe, "0600");
}

#[test]
fn a_database_that_was_moved_away_is_let_go() {
    let dir = with_rules();
    let store = Store::new(dir.path());
    assert_eq!(store.load().unwrap().len(), 200);
    let before = store.version().unwrap();
    std::fs::rename(dir.db(), dir.path().join("old.db")).unwrap();
    // A log without its database would be played into the next one.
    assert_eq!(store.load().unwrap_err().trouble(), Trouble::Damaged);
    let error = store.keep_rule(&rule(Effect::Deny, "new")).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Damaged);
    for log in ["state.db-wal", "state.db-shm"] {
        std::fs::remove_file(dir.path().join(log)).unwrap();
    }
    assert_eq!(store.load().unwrap(), []);
    assert_eq!(store.version().unwrap(), 0);
    store.keep(&rule(Effect::Deny, "new")).unwrap();
    assert_eq!(store.load().unwrap().len(), 1);
    assert_ne!(store.version().unwrap(), before);
}
