//! Machines that are lent, their keys, and the calls that are under way to them.

use portcullis_proto::ScopeSet;
use portcullis_store::{Lent, LinkKeyKind, Paired, Store, Trouble};

use crate::kit::{Dir, NOW, raw};

const MINUTES_5: u64 = 5 * 60 * 1000;

const LAPTOP: Lent<'_> = Lent {
    named: None,
    host: "ada@laptop",
    root: "/home/ada/work",
    surface: "[\"read_file\"]",
};

fn place() -> (Dir, Store) {
    let dir = Dir::in_memory();
    let store = Store::new(dir.path());
    for name in ["ada", "bob"] {
        store.add_user(name, ScopeSet::ALL, NOW).unwrap();
    }
    (dir, store)
}

fn pair(store: &Store, user: &str, lent: Lent<'_>) -> Paired {
    let pairing = store.create_pairing(user, NOW).unwrap();
    store
        .pair(pairing.token.expose(), lent, NOW)
        .unwrap()
        .unwrap()
}

#[test]
fn a_pairing_token_counts_once_and_for_five_minutes() {
    let (_dir, store) = place();
    let pairing = store.create_pairing("ada", NOW).unwrap();
    let token = pairing.token.expose();
    assert!(token.starts_with("gw_") && token.len() == 35, "{token}");
    assert_eq!(pairing.expires_at, NOW + MINUTES_5);
    let known = store.link_key(token, NOW).unwrap().unwrap();
    assert_eq!((known.user.as_str(), known.machine), ("ada", None));
    assert_eq!(known.kind, LinkKeyKind::Pairing);
    assert_eq!(store.link_key(token, NOW + MINUTES_5).unwrap(), None);
    assert!(
        store
            .pair(token, LAPTOP, NOW + MINUTES_5)
            .unwrap()
            .is_none()
    );

    let pairing = store.create_pairing("ada", NOW).unwrap();
    let token = pairing.token.expose();
    let paired = store.pair(token, LAPTOP, NOW).unwrap().unwrap();
    assert!(
        store.pair(token, LAPTOP, NOW).unwrap().is_none(),
        "used twice"
    );
    assert_eq!(store.link_key(token, NOW).unwrap(), None);
    assert_eq!(paired.machine.name, "laptop");
    assert!(paired.machine.id.starts_with("m_"), "{}", paired.machine.id);
}

#[test]
fn a_session_key_is_its_machines_until_it_is_ended_and_outlives_a_restart() {
    let (dir, store) = place();
    let paired = pair(&store, "ada", LAPTOP);
    let key = paired.session.expose();
    assert!(key.starts_with("sess_") && key.len() == 37, "{key}");
    let again = Store::new(dir.path());
    let known = again.link_key(key, NOW + 10 * MINUTES_5).unwrap().unwrap();
    assert_eq!(known.kind, LinkKeyKind::Session);
    assert_eq!(known.machine.as_deref(), Some(paired.machine.id.as_str()));
    assert!(
        again.pair(key, LAPTOP, NOW).unwrap().is_none(),
        "no pairing"
    );
    assert!(again.link_key(key, NOW).unwrap().is_some(), "still there");

    let before = store.version().unwrap();
    assert!(store.end_link_session(&paired.machine.id).unwrap());
    assert_ne!(store.version().unwrap(), before, "running servers look");
    assert_eq!(store.link_key(key, NOW).unwrap(), None);
    let left = store.machines(Some("ada")).unwrap();
    assert_eq!(left.len(), 1);
    assert!(!left[0].paired);
}

#[test]
fn no_secret_of_a_link_is_in_the_database() {
    let (dir, store) = place();
    let waiting = store.create_pairing("bob", NOW).unwrap();
    let paired = pair(&store, "ada", LAPTOP);
    drop(store);
    let dump = raw(&dir)
        .query_row(
            "SELECT group_concat(quote(digest)) FROM link_keys",
            [],
            |row| row.get::<_, String>(0),
        )
        .unwrap();
    for secret in [waiting.token.expose(), paired.session.expose()] {
        let bytes = std::fs::read(dir.db()).unwrap();
        assert!(!dump.contains(secret));
        assert!(
            !bytes
                .windows(secret.len())
                .any(|at| at == secret.as_bytes())
        );
    }
}

#[test]
fn the_same_machine_is_paired_again_and_another_gets_a_name_of_its_own() {
    let (_dir, store) = place();
    let first = pair(&store, "ada", LAPTOP);
    let wider = Lent {
        surface: "[\"read_file\",\"delete\"]",
        ..LAPTOP
    };
    let second = pair(&store, "ada", wider);
    assert_eq!(second.machine.id, first.machine.id);
    assert_eq!(second.machine.surface, wider.surface, "pinned anew");
    assert_eq!(store.link_key(first.session.expose(), NOW).unwrap(), None);

    let elsewhere = Lent {
        root: "/srv",
        ..LAPTOP
    };
    assert_eq!(pair(&store, "ada", elsewhere).machine.name, "laptop-2");
    let of_bob = pair(&store, "bob", LAPTOP);
    assert_eq!(of_bob.machine.name, "laptop");
    assert_ne!(of_bob.machine.id, first.machine.id);

    let named = Lent {
        named: Some("Work"),
        ..LAPTOP
    };
    let work = pair(&store, "ada", named);
    assert_eq!(work.machine.name, "work");
    let moved = Lent {
        root: "/elsewhere",
        ..named
    };
    assert_eq!(pair(&store, "ada", moved).machine.id, work.machine.id);
    assert_eq!(store.machines(Some("ada")).unwrap().len(), 3);
    assert_eq!(store.machines(None).unwrap().len(), 4);
}

#[test]
fn a_person_lends_so_many_machines_and_no_more() {
    let (_dir, store) = place();
    for n in 0..32 {
        let root = format!("/{n}");
        let lent = Lent {
            root: &root,
            ..LAPTOP
        };
        pair(&store, "ada", lent);
    }
    let pairing = store.create_pairing("ada", NOW).unwrap();
    let more = Lent {
        root: "/more",
        ..LAPTOP
    };
    let full = store.pair(pairing.token.expose(), more, NOW).unwrap_err();
    assert_eq!(full.trouble(), Trouble::Full);
    let names: std::collections::BTreeSet<_> = store
        .machines(Some("ada"))
        .unwrap()
        .into_iter()
        .map(|machine| machine.name)
        .collect();
    assert_eq!(names.len(), 32);
}

#[test]
fn calls_are_numbered_kept_while_they_wait_and_let_go_when_they_end() {
    let (dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let begin = |id: &str, deadline| {
        store
            .begin_link_call(&machine, id, "{\"secret\":1}", deadline, NOW)
            .unwrap()
    };
    assert_eq!(begin("gw_1", NOW + 60_000), 1);
    assert_eq!(begin("gw_2", NOW + 10), 2);
    assert_eq!(begin("gw_3", NOW + 60_000), 3);
    assert!(store.settle_link_call("gw_1", None).unwrap());
    assert!(!store.settle_link_call("gw_1", None).unwrap(), "twice");
    assert!(!store.fail_link_call("gw_unknown").unwrap());

    let again = Store::new(dir.path());
    let waiting = again.waiting_link_calls(&machine, NOW + 10).unwrap();
    let ids: Vec<&str> = waiting
        .iter()
        .map(|call| call.request_id.as_str())
        .collect();
    assert_eq!(ids, ["gw_3"]);
    let next = again.begin_link_call(&machine, "gw_4", "{}", NOW + 60_000, NOW);
    assert_eq!(next.unwrap(), 4, "numbers go on after a restart");
    assert!(again.fail_link_call("gw_4").unwrap());
    let kept: i64 = raw(&dir)
        .query_row(
            "SELECT count(*) FROM link_calls WHERE call LIKE '%secret%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(kept, 2, "what was asked goes with the call");

    for n in 10..600 {
        let id = format!("gw_{n}");
        begin(&id, NOW + 60_000);
        store.fail_link_call(&id).unwrap();
    }
    let rows: i64 = raw(&dir)
        .query_row("SELECT count(*) FROM link_calls", [], |row| row.get(0))
        .unwrap();
    assert!(rows <= 260, "{rows}");
    assert!(store.prune_link_calls(NOW + 20 * 60_000).unwrap() > 200);
    let nobodys = store.begin_link_call("m_nobody", "gw_x", "{}", NOW, NOW);
    assert_eq!(nobodys.unwrap_err().trouble(), Trouble::Missing);
}

#[test]
fn with_a_user_or_a_machine_goes_all_that_was_its() {
    let (dir, store) = place();
    let of_bob = pair(&store, "bob", LAPTOP);
    store.create_pairing("bob", NOW).unwrap();
    store
        .begin_link_call(&of_bob.machine.id, "gw_1", "{}", NOW + 1, NOW)
        .unwrap();
    let of_ada = pair(&store, "ada", LAPTOP);
    assert!(store.remove_user("bob").unwrap());
    assert_eq!(store.link_key(of_bob.session.expose(), NOW).unwrap(), None);
    assert!(!store.remove_machine("laptop", Some("bob")).unwrap());
    assert!(store.remove_machine("laptop", Some("ada")).unwrap());
    assert_eq!(store.link_key(of_ada.session.expose(), NOW).unwrap(), None);
    for table in ["machines", "link_keys", "link_calls"] {
        let rows: i64 = raw(&dir)
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    store.check().unwrap();
}

#[test]
fn what_was_asked_of_one_daemon_is_not_asked_of_the_next() {
    let (_dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let waits = |id| store.link_call_waits(&machine, id, NOW).unwrap();
    let begin = |id| {
        store
            .begin_link_call(&machine, id, "{}", NOW + 60_000, NOW)
            .unwrap()
    };
    begin("gw_1");
    assert!(waits("gw_1"));
    assert_eq!(pair(&store, "ada", LAPTOP).machine.id, machine);
    assert!(!waits("gw_1"), "paired anew");

    begin("gw_2");
    let bobs = pair(&store, "bob", LAPTOP).machine.id;
    assert!(!store.link_call_waits(&bobs, "gw_2", NOW).unwrap());
    assert!(
        !store
            .settle_kept_link_call(&bobs, "gw_2", "{}", NOW)
            .unwrap()
    );
    store.end_link_session(&machine).unwrap();
    assert!(!waits("gw_2"), "ended");
    assert!(
        !store
            .settle_kept_link_call(&machine, "gw_2", "{}", NOW)
            .unwrap()
    );
}

#[test]
fn no_machine_takes_a_name_that_means_something_else() {
    let (_dir, store) = place();
    for (named, want) in [("here", "here-2"), ("ALL", "all-2"), ("there", "there")] {
        let lent = Lent {
            named: Some(named),
            root: named,
            ..LAPTOP
        };
        assert_eq!(pair(&store, "ada", lent).machine.name, want);
    }
}
