//! Machines that are lent, their keys, and the calls that are under way to them.

use portcullis_proto::{Scope, ScopeSet};
use portcullis_store::{
    BegunCall, CallName, CallReply, KeptState, Lent, LinkKeyKind, NewCall, Paired, Store, Trouble,
};

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
    assert!(store.end_link_session(&paired.machine.id, None).unwrap());
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

/// A call to `machine` that nobody gave a name.
fn nameless<'a>(machine: &'a str, request_id: &'a str) -> NewCall<'a> {
    NewCall {
        machine,
        request_id,
        call: "{}",
        deadline: NOW + 60_000,
        sent_to: Some(""),
        named: None,
    }
}

/// The same under a name, as a call of `what`.
fn named<'a>(machine: &'a str, request_id: &'a str, name: u8, what: u8) -> NewCall<'a> {
    let named = CallName {
        name: [name; 32],
        what: [what; 32],
    };
    NewCall {
        named: Some((named, Scope::FsRead)),
        ..nameless(machine, request_id)
    }
}

#[test]
fn only_a_machine_that_has_no_key_is_ended_without_one() {
    let (_dir, store) = place();
    let adopted = store.adopt("ada", LAPTOP, NOW).unwrap().id;
    store.machine_seen(&adopted, NOW).unwrap();
    assert!(store.end_unpaired_link(&adopted).unwrap());
    assert!(!store.machine(&adopted).unwrap().unwrap().linked);
    let paired = pair(&store, "ada", LAPTOP);
    assert_eq!(
        paired.machine.id, adopted,
        "the owner wants this very machine"
    );
    store
        .begin_link_call(nameless(&adopted, "gw_1"), NOW)
        .unwrap();
    assert!(!store.end_unpaired_link(&adopted).unwrap());
    let key = store.link_key(paired.session.expose(), NOW).unwrap();
    assert_eq!(key.unwrap().machine.as_deref(), Some(adopted.as_str()));
    assert!(store.machine(&adopted).unwrap().unwrap().linked);
    assert!(store.link_call_waits(&adopted, "gw_1", NOW).unwrap());
}

#[test]
fn calls_are_numbered_kept_while_they_wait_and_let_go_when_they_end() {
    let (dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let begin = |id: &str, deadline| {
        let call = NewCall {
            call: "{\"secret\":1}",
            deadline,
            ..nameless(&machine, id)
        };
        store.begin_link_call(call, NOW).unwrap()
    };
    assert_eq!(begin("gw_1", NOW + 60_000), BegunCall::New(1));
    assert_eq!(begin("gw_2", NOW + 10), BegunCall::New(2));
    assert_eq!(begin("gw_3", NOW + 60_000), BegunCall::New(3));
    assert!(store.settle_link_call("gw_1").unwrap());
    assert!(!store.settle_link_call("gw_1").unwrap(), "twice");
    assert!(!store.fail_link_call("gw_unknown").unwrap());

    let again = Store::new(dir.path());
    let waiting = again.waiting_link_calls(&machine, NOW + 10).unwrap();
    let ids: Vec<&str> = waiting
        .iter()
        .map(|call| call.request_id.as_str())
        .collect();
    assert_eq!(ids, ["gw_3"]);
    let asked = |id| again.waiting_link_call(id).unwrap();
    assert_eq!(asked("gw_3").as_deref(), Some("{\"secret\":1}"));
    assert_eq!(asked("gw_1"), None, "it is answered");
    let next = again.begin_link_call(nameless(&machine, "gw_4"), NOW);
    assert_eq!(
        next.unwrap(),
        BegunCall::New(4),
        "numbers go on after a restart"
    );
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
    let nobodys = store.begin_link_call(nameless("m_nobody", "gw_x"), NOW);
    assert_eq!(nobodys.unwrap_err().trouble(), Trouble::Missing);
}

#[test]
fn with_a_user_or_a_machine_goes_all_that_was_its() {
    let (dir, store) = place();
    let of_bob = pair(&store, "bob", LAPTOP);
    store.create_pairing("bob", NOW).unwrap();
    store
        .begin_link_call(nameless(&of_bob.machine.id, "gw_1"), NOW)
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
    let begin = |id| store.begin_link_call(nameless(&machine, id), NOW).unwrap();
    begin("gw_1");
    assert!(waits("gw_1"));
    assert_eq!(pair(&store, "ada", LAPTOP).machine.id, machine);
    assert!(!waits("gw_1"), "paired anew");

    begin("gw_2");
    let bobs = pair(&store, "bob", LAPTOP).machine.id;
    assert!(!store.link_call_waits(&bobs, "gw_2", NOW).unwrap());
    assert!(
        !store
            .settle_kept_link_call(&bobs, "gw_2", CallReply::Last("{}"), NOW)
            .unwrap()
    );
    store.end_link_session(&machine, None).unwrap();
    assert!(!waits("gw_2"), "ended");
    assert!(
        !store
            .settle_kept_link_call(&machine, "gw_2", CallReply::Last("{}"), NOW)
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
        let first = pair(&store, "ada", lent);
        assert_eq!(first.machine.name, want);
        // It is the same machine when it is paired again, and its old key is gone.
        let again = pair(&store, "ada", lent);
        assert_eq!(again.machine.id, first.machine.id, "{named}");
        let old = store.link_key(first.session.expose(), NOW).unwrap();
        assert_eq!(old, None, "{named}");
    }
}

#[test]
fn a_name_stands_for_one_call_and_for_what_it_came_to() {
    let (dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let begin = |call: NewCall<'_>| store.begin_link_call(call, NOW).unwrap();
    assert_eq!(begin(named(&machine, "gw_1", 1, 7)), BegunCall::New(1));
    let BegunCall::Known(waiting) = begin(named(&machine, "gw_2", 1, 8)) else {
        panic!("the name is taken");
    };
    assert_eq!(
        (waiting.request_id.as_str(), waiting.what, &waiting.state),
        ("gw_1", Some([7; 32]), &KeptState::Waiting)
    );
    assert_eq!(begin(named(&machine, "gw_3", 2, 7)), BegunCall::New(2));
    let settle = |id, reply| store.settle_kept_link_call(&machine, id, reply, NOW);
    assert!(settle("gw_1", CallReply::Last("{\"a\":1}")).unwrap());
    assert!(!settle("gw_1", CallReply::Last("{\"b\":1}")).unwrap());
    store.fail_link_call("gw_3").unwrap();

    // Another process, later.
    let again = Store::new(dir.path());
    let state = |name: u8| {
        let known = again.named_link_call(&[name; 32]).unwrap().unwrap();
        again.link_call(&known.request_id).unwrap().unwrap().state
    };
    assert_eq!(state(1), KeptState::Settled(Some("{\"a\":1}".to_owned())));
    assert_eq!(state(2), KeptState::Failed);
    // However many come after it.
    for n in 0..600 {
        let id = format!("gw_more{n}");
        begin(nameless(&machine, &id));
        store.settle_link_call(&id).unwrap();
    }
    assert_eq!(state(1), KeptState::Settled(Some("{\"a\":1}".to_owned())));
    again.prune_link_calls(NOW + 10 * 60_000).unwrap();
    assert_eq!(state(2), KeptState::Failed, "for ten minutes and its time");
    again.prune_link_calls(NOW + 11 * 60_000).unwrap();
    assert_eq!(again.named_link_call(&[1; 32]).unwrap(), None);
    assert_eq!(kept_bytes(&dir), 0);
}

fn kept_bytes(dir: &Dir) -> i64 {
    raw(dir)
        .query_row("SELECT sum(kept_bytes) FROM machines", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_name_is_free_again_where_nothing_was_done_but_ask() {
    let (_dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    store
        .begin_link_call(named(&machine, "gw_1", 1, 7), NOW)
        .unwrap();
    let asked = CallReply::Question("{\"q\":1}");
    assert!(
        store
            .settle_kept_link_call(&machine, "gw_1", asked, NOW)
            .unwrap()
    );
    assert_eq!(store.named_link_call(&[1; 32]).unwrap(), None);
    // Who waited for it reads it all the same.
    let state = store.link_call("gw_1").unwrap().unwrap().state;
    assert_eq!(state, KeptState::Settled(Some("{\"q\":1}".to_owned())));
    let second = store.begin_link_call(named(&machine, "gw_2", 1, 7), NOW);
    assert_eq!(second.unwrap(), BegunCall::New(2));
}

#[test]
fn replies_are_let_go_before_names_are() {
    let (dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let large = "x".repeat(15 << 20);
    for n in 1..=6 {
        let id = format!("gw_{n}");
        store
            .begin_link_call(named(&machine, &id, n, 7), NOW)
            .unwrap();
        store
            .settle_kept_link_call(&machine, &id, CallReply::Last(&large), NOW)
            .unwrap();
    }
    let state = |name: u8| {
        let known = store.named_link_call(&[name; 32]).unwrap().unwrap();
        store.link_call(&known.request_id).unwrap().unwrap().state
    };
    assert_eq!(state(1), KeptState::Settled(None));
    assert_eq!(state(2), KeptState::Settled(None));
    assert!(matches!(state(3), KeptState::Settled(Some(_))));
    assert!(kept_bytes(&dir) <= 64 << 20);
}

#[test]
fn what_one_daemon_was_sent_ends_with_it_and_what_nobody_was_sent_waits_on() {
    let (_dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    for (id, sent_to) in [("gw_1", Some("a")), ("gw_2", None), ("gw_3", Some("b"))] {
        let call = NewCall {
            sent_to,
            ..nameless(&machine, id)
        };
        store.begin_link_call(call, NOW).unwrap();
    }
    let ended = store.fail_link_calls_of_others(&machine, "b").unwrap();
    assert_eq!(ended, ["gw_1"]);
    store.send_link_calls(&machine, "b").unwrap();
    let waiting = store.waiting_link_calls(&machine, NOW).unwrap();
    let told: Vec<_> = waiting
        .iter()
        .map(|call| (call.request_id.as_str(), call.sent_to.as_deref()))
        .collect();
    assert_eq!(told, [("gw_2", Some("b")), ("gw_3", Some("b"))]);
}

#[test]
fn whether_a_machine_is_linked_outlives_who_wrote_it() {
    let (dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let linked = || {
        Store::new(dir.path())
            .machine(&machine)
            .unwrap()
            .unwrap()
            .linked
    };
    assert!(linked());
    store.machine_gone(&machine).unwrap();
    assert!(!linked());
    store.machine_seen(&machine, NOW).unwrap();
    assert!(linked());
    store.end_link_session(&machine, None).unwrap();
    assert!(!linked());
}

#[test]
fn who_comes_unpaired_takes_no_paired_machines_place() {
    let (_dir, store) = place();
    let paired = pair(&store, "ada", LAPTOP).machine;
    let other = store.adopt("ada", LAPTOP, NOW).unwrap();
    assert_ne!(other.id, paired.id);
    assert_eq!(store.adopt("ada", LAPTOP, NOW).unwrap().id, other.id);
    assert!(store.machine(&paired.id).unwrap().unwrap().paired);
}

#[test]
fn what_was_asked_is_let_go_when_its_time_is_over_and_stays_known_by_its_name() {
    let (dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    let texts = || {
        let conn = rusqlite::Connection::open(dir.db()).unwrap();
        let sql = "SELECT count(*) FROM link_calls WHERE call <> ''";
        conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    store
        .begin_link_call(named(&machine, "gw_1", 1, 1), NOW)
        .unwrap();
    assert_eq!(texts(), 1);
    // The next call of the machine finds that its time is over.
    let later = NOW + 60_001;
    let next = NewCall {
        deadline: later + 60_000,
        ..named(&machine, "gw_2", 2, 2)
    };
    store.begin_link_call(next, later).unwrap();
    assert_eq!(texts(), 1);
    store.prune_link_calls(later + 60_001).unwrap();
    assert_eq!(texts(), 0);
    for name in [1, 2] {
        let known = store.named_link_call(&[name; 32]).unwrap().unwrap();
        assert_eq!(known.state, KeptState::Waiting, "its deadline tells");
    }
}

#[test]
fn who_has_an_old_key_ends_no_session_of_a_later_pairing() {
    let (_dir, store) = place();
    let first = pair(&store, "ada", LAPTOP);
    let second = pair(&store, "ada", LAPTOP);
    let machine = &second.machine.id;
    assert_eq!(&first.machine.id, machine);
    let old = first.session.expose();
    assert!(!store.end_link_session(machine, Some(old)).unwrap());
    let new = second.session.expose();
    assert!(store.link_key(new, NOW).unwrap().is_some());
    assert!(store.end_link_session(machine, Some(new)).unwrap());
    assert!(store.link_key(new, NOW).unwrap().is_none());
}

#[test]
fn a_server_that_starts_ends_what_has_no_name_and_nothing_else() {
    let (_dir, store) = place();
    let machine = pair(&store, "ada", LAPTOP).machine.id;
    store
        .begin_link_call(nameless(&machine, "gw_1"), NOW)
        .unwrap();
    store
        .begin_link_call(named(&machine, "gw_2", 1, 1), NOW)
        .unwrap();
    assert_eq!(store.fail_nameless_link_calls().unwrap(), 1);
    assert!(!store.link_call_waits(&machine, "gw_1", NOW).unwrap());
    assert!(store.link_call_waits(&machine, "gw_2", NOW).unwrap());
}
