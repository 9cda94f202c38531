//! Users, tokens and sign-ins, and the book that knows them.

use std::sync::Arc;
use std::time::Instant;

use portcullis_proto::{Principal, Scope, ScopeSet};
use portcullis_store::{Credential, Store, Trouble, is_user_name, sign_in_url};

use crate::kit::{Dir, NOW, raw};

const MINUTE: u64 = 60 * 1000;
const DAY: u64 = 24 * 60 * MINUTE;
const READ: ScopeSet = ScopeSet::of(&[Scope::FsRead]);
const BOTH: ScopeSet = ScopeSet::of(&[Scope::FsRead, Scope::FsWrite]);

/// A store with an administrator `ada` and `bob`, who reads and writes.
fn with_users(dir: &Dir) -> Store {
    let store = Store::new(dir.path());
    store.add_user("ada", READ, NOW).unwrap();
    store.add_user("bob", BOTH, NOW).unwrap();
    store
}

/// A cookie of a new sign-in.
fn sign_in(store: &Store, user: &str, now: u64) -> String {
    let link = store.create_sign_in_link(user, now).unwrap();
    let signed = store.use_sign_in_link(link.expose(), now).unwrap().unwrap();
    assert_eq!(signed.user, user);
    signed.cookie.expose().to_owned()
}

#[track_caller]
fn trouble<T: std::fmt::Debug>(result: Result<T, portcullis_store::StoreError>, want: Trouble) {
    let error = result.unwrap_err();
    assert_eq!(error.trouble(), want, "{error:?}");
}

#[test]
fn the_first_user_may_do_everything_and_the_next_what_is_said() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let listed: Vec<_> = store
        .users()
        .unwrap()
        .into_iter()
        .map(|user| (user.name, user.scopes, user.created_at))
        .collect();
    assert_eq!(
        listed,
        [
            ("ada".to_owned(), ScopeSet::ALL, NOW),
            ("bob".to_owned(), BOTH, NOW)
        ]
    );
    trouble(store.add_user("bob", READ, NOW), Trouble::Taken);
    assert!(store.set_user_scopes("bob", READ).unwrap());
    assert!(!store.set_user_scopes("eve", READ).unwrap());
    assert_eq!(Store::new(dir.path()).users().unwrap()[1].scopes, READ);
}

#[test]
fn a_name_is_plain_and_never_a_path() {
    let store = Store::new("/nonexistent");
    for good in ["a", "0", "ada.l-b_1", &"a".repeat(64)] {
        assert!(is_user_name(good), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        "-a",
        "_a",
        "Ada",
        "a/b",
        "a b",
        "a\u{0}",
        "\u{e9}",
        &"a".repeat(65),
    ] {
        assert!(!is_user_name(bad), "{bad}");
        trouble(store.add_user(bad, READ, NOW), Trouble::Invalid);
    }
}

#[test]
fn the_last_admin_can_neither_go_nor_step_down() {
    let dir = Dir::new();
    let store = with_users(&dir);
    trouble(store.remove_user("ada"), Trouble::Refused);
    trouble(store.set_user_scopes("ada", BOTH), Trouble::Refused);
    assert_eq!(store.users().unwrap()[0].scopes, ScopeSet::ALL);
    assert!(store.remove_user("bob").unwrap());
    assert!(!store.remove_user("bob").unwrap());
    let admin = ScopeSet::of(&[Scope::Admin]);
    store.add_user("eve", admin, NOW).unwrap();
    assert!(store.remove_user("ada").unwrap());
    trouble(store.remove_user("eve"), Trouble::Refused);
    // The next one is not the first.
    assert_eq!(store.add_user("ada", READ, NOW).unwrap().scopes, READ);
}

#[test]
fn of_two_who_remove_each_other_one_stays() {
    for _ in 0..10 {
        let dir = Dir::in_memory();
        let store = with_users(&dir);
        store.set_user_scopes("bob", ScopeSet::ALL).unwrap();
        std::thread::scope(|scope| {
            for name in ["ada", "bob"] {
                let store = Store::new(dir.path());
                scope.spawn(move || store.remove_user(name).ok());
            }
        });
        assert_eq!(store.users().unwrap().len(), 1);
    }
}

#[test]
fn a_token_is_known_by_all_of_it_and_by_nothing_less() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let made = store
        .create_token("bob", "laptop", READ, Some(NOW + DAY), NOW)
        .unwrap();
    let text = made.secret.expose();
    assert_eq!(text.len(), "pcl_".len() + 10 + 1 + 43);
    assert!(text.starts_with(&format!("pcl_{}_", made.id)));
    let book = store.credentials().unwrap();
    let known = Credential {
        principal: Principal::Token {
            user: "bob".into(),
            id: made.id.as_str().into(),
        },
        user: "bob".into(),
        scopes: READ,
        expires_at: Some(NOW + DAY),
    };
    assert_eq!(book.bearer(text, NOW), Some(known));
    // Each character counts.
    for at in 0..text.len() {
        let mut other = text.as_bytes().to_vec();
        other[at] = if other[at] == b'a' { b'b' } else { b'a' };
        let other = String::from_utf8(other).unwrap();
        assert_eq!(book.bearer(&other, NOW), None, "{at}");
    }
    for bad in [
        "",
        "pcl_",
        text.get(..text.len() - 1).unwrap(),
        &format!("{text}="),
        &format!(" {text}"),
        text.get(4..).unwrap(),
        &text.replace("pcl_", "PCL_"),
        &"pcl_\u{e9}".repeat(9),
    ] {
        assert_eq!(book.bearer(bad, NOW), None, "{bad}");
    }
    // A token is no cookie, and a cookie no token.
    assert_eq!(book.cookie(text, NOW), None);
    assert_eq!(book.cookie(text.get(4..).unwrap(), NOW), None);
    let cookie = sign_in(&store, "bob", NOW);
    let book = store.credentials().unwrap();
    assert!(book.cookie(&cookie, NOW).is_some());
    assert_eq!(book.bearer(&format!("pcl_{cookie}"), NOW), None);
}

#[test]
fn an_expired_token_is_refused_listed_and_at_last_forgotten() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let end = NOW + DAY;
    let short = store
        .create_token("bob", "short", READ, Some(end), NOW)
        .unwrap();
    let long = store
        .create_token("bob", "long", READ, None, NOW + 1)
        .unwrap();
    let book = store.credentials().unwrap();
    assert!(book.bearer(short.secret.expose(), end - 1).is_some());
    assert_eq!(book.bearer(short.secret.expose(), end), None);
    assert!(book.bearer(long.secret.expose(), u64::MAX).is_some());
    let principal = |id: &str| Principal::Token {
        user: "bob".into(),
        id: id.into(),
    };
    assert_eq!(book.scopes_of(&principal(&short.id), end - 1), Some(READ));
    assert_eq!(book.scopes_of(&principal(&short.id), end), None);
    // The same id on behalf of somebody else is nobody.
    let claimed = Principal::Token {
        user: "ada".into(),
        id: long.id.as_str().into(),
    };
    assert_eq!(book.scopes_of(&claimed, NOW), None);
    for id in ["", "short", &format!("{}x", long.id)] {
        assert_eq!(book.scopes_of(&principal(id), NOW), None);
    }
    let listed = store.tokens(Some("bob")).unwrap();
    assert!(listed[0].is_expired(end) && !listed[0].is_expired(end - 1));
    assert!(!listed[1].is_expired(u64::MAX));
    let labels = |now: u64| -> Vec<String> {
        store.create_token("ada", "new", READ, None, now).unwrap();
        let listed = store.tokens(Some("bob")).unwrap();
        listed.into_iter().map(|token| token.label).collect()
    };
    assert_eq!(labels(end + 30 * DAY - 1), ["short", "long"]);
    assert_eq!(labels(end + 30 * DAY), ["long"]);
}

#[test]
fn what_makes_no_token_is_refused_and_leaves_nothing() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let try_one = |user: &str, label: &str, scopes: ScopeSet, end: Option<u64>| {
        store.create_token(user, label, scopes, end, NOW)
    };
    trouble(try_one("eve", "", READ, None), Trouble::Missing);
    trouble(try_one("../eve", "", READ, None), Trouble::Missing);
    trouble(try_one("bob", "", ScopeSet::NONE, None), Trouble::Invalid);
    trouble(try_one("bob", "", READ, Some(NOW)), Trouble::Invalid);
    trouble(try_one("bob", "a\nb", READ, None), Trouble::Invalid);
    trouble(
        try_one("bob", &"x".repeat(129), READ, None),
        Trouble::Invalid,
    );
    // Not even for later: what bob is given then was not meant for it.
    let error = try_one("bob", "", ScopeSet::ALL, None).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Refused);
    assert!(error.message().contains("admin"), "{error}");
    assert_eq!(store.tokens(None).unwrap(), []);
}

#[test]
fn a_token_is_for_no_more_than_its_user_is_now() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let made = store.create_token("bob", "", BOTH, None, NOW).unwrap();
    let now_for = || {
        let book = store.credentials().unwrap();
        let known = book.bearer(made.secret.expose(), NOW).unwrap();
        assert_eq!(book.scopes_of(&known.principal, NOW), Some(known.scopes));
        known.scopes
    };
    assert_eq!(now_for(), BOTH);
    store.set_user_scopes("bob", READ).unwrap();
    assert_eq!(now_for(), READ);
    store.set_user_scopes("bob", ScopeSet::ALL).unwrap();
    assert_eq!(now_for(), BOTH);
    assert_eq!(store.tokens(None).unwrap()[0].scopes, BOTH);
}

#[test]
fn a_token_is_revoked_by_its_user_or_by_an_admin() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let made = store.create_token("bob", "", READ, None, NOW).unwrap();
    assert!(!store.revoke_token(&made.id, Some("ada")).unwrap());
    assert!(!store.revoke_token(&made.id, Some("eve")).unwrap());
    assert!(!store.revoke_token("aaaaaaaaaa", None).unwrap());
    let book = store.credentials().unwrap();
    let known = book.bearer(made.secret.expose(), NOW).unwrap();
    let elsewhere = Store::new(dir.path());
    assert!(elsewhere.revoke_token(&made.id, Some("bob")).unwrap());
    assert_ne!(store.version().unwrap(), book.version());
    let book = store.credentials().unwrap();
    assert_eq!(store.version().unwrap(), book.version());
    assert_eq!(book.bearer(made.secret.expose(), NOW), None);
    assert_eq!(book.scopes_of(&known.principal, NOW), None);
    let made = store.create_token("bob", "", READ, None, NOW).unwrap();
    assert!(store.revoke_token(&made.id, None).unwrap());
    assert_eq!(store.tokens(None).unwrap(), []);
}

#[test]
fn a_link_signs_in_once_and_for_five_minutes() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let link = store.create_sign_in_link("bob", NOW).unwrap();
    assert_eq!(
        sign_in_url("http://127.0.0.1:7654/", &link),
        format!("http://127.0.0.1:7654/sign-in#{}", link.expose())
    );
    let text = link.expose();
    for bad in [
        "",
        "pcs_",
        text.get(4..).unwrap(),
        text.get(..text.len() - 1).unwrap(),
        &format!("{text}a"),
    ] {
        assert!(store.use_sign_in_link(bad, NOW).unwrap().is_none(), "{bad}");
    }
    let signed = store
        .use_sign_in_link(text, NOW + 5 * MINUTE - 1)
        .unwrap()
        .unwrap();
    assert_eq!(signed.user, "bob");
    assert_eq!(signed.expires_at, NOW + 5 * MINUTE - 1 + 30 * DAY);
    assert!(store.use_sign_in_link(text, NOW).unwrap().is_none());
    let book = store.credentials().unwrap();
    let cookie = signed.cookie.expose();
    let user: Arc<str> = "bob".into();
    let known = Credential {
        principal: Principal::User {
            id: Arc::clone(&user),
        },
        user,
        scopes: BOTH,
        expires_at: Some(signed.expires_at),
    };
    assert_eq!(book.cookie(cookie, NOW), Some(known));
    assert!(book.cookie(cookie, signed.expires_at - 1).is_some());
    assert_eq!(book.cookie(cookie, signed.expires_at), None);
    let late = store.create_sign_in_link("bob", NOW).unwrap();
    let used = store.use_sign_in_link(late.expose(), NOW + 5 * MINUTE);
    assert!(used.unwrap().is_none());
    // Tried too late, it is used up: a clock that is set back brings nothing back.
    assert!(
        store
            .use_sign_in_link(late.expose(), NOW)
            .unwrap()
            .is_none()
    );
    trouble(store.create_sign_in_link("eve", NOW), Trouble::Missing);
}

#[test]
fn of_eight_threads_one_uses_a_link() {
    let dir = Dir::new();
    let store = with_users(&dir);
    for _ in 0..10 {
        let link = store.create_sign_in_link("bob", NOW).unwrap();
        let signed = std::thread::scope(|scope| {
            let racing: Vec<_> = (0..8)
                .map(|_| {
                    let (store, link) = (Store::new(dir.path()), &link);
                    scope.spawn(move || store.use_sign_in_link(link.expose(), NOW).unwrap())
                })
                .collect();
            racing
                .into_iter()
                .filter_map(|one| one.join().unwrap())
                .count()
        });
        assert_eq!(signed, 1);
    }
}

#[test]
fn only_the_whole_cookie_signs_out() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let (here, there) = (sign_in(&store, "bob", NOW), sign_in(&store, "bob", NOW));
    let mixed = format!("{}{}", here.get(..11).unwrap(), there.get(11..).unwrap());
    for bad in ["", here.get(..10).unwrap(), here.get(..11).unwrap(), &mixed] {
        assert!(!store.sign_out(bad).unwrap(), "{bad}");
    }
    assert!(store.sign_out(&here).unwrap());
    assert!(!store.sign_out(&here).unwrap());
    let book = store.credentials().unwrap();
    assert_eq!(book.cookie(&here, NOW), None);
    assert!(book.cookie(&there, NOW).is_some());
}

#[test]
fn the_oldest_sign_in_and_the_oldest_link_make_room() {
    let dir = Dir::in_memory();
    let store = with_users(&dir);
    let of_ada = sign_in(&store, "ada", NOW);
    let cookies: Vec<_> = (0..33).map(|_| sign_in(&store, "bob", NOW)).collect();
    let book = store.credentials().unwrap();
    assert_eq!(book.cookie(&cookies[0], NOW), None);
    for cookie in &cookies[1..] {
        assert!(book.cookie(cookie, NOW).is_some());
    }
    assert!(book.cookie(&of_ada, NOW).is_some());
    let links: Vec<_> = (0..9)
        .map(|_| store.create_sign_in_link("bob", NOW).unwrap())
        .collect();
    let used = |at: usize| store.use_sign_in_link(links[at].expose(), NOW).unwrap();
    assert!(used(0).is_none());
    assert!(used(1).is_some() && used(8).is_some());
}

#[test]
fn a_removed_user_leaves_nothing_that_lets_anybody_in() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let token = store.create_token("bob", "", READ, None, NOW).unwrap();
    let cookie = sign_in(&store, "bob", NOW);
    let link = store.create_sign_in_link("bob", NOW).unwrap();
    assert!(store.remove_user("bob").unwrap());
    let refused = || {
        let book = store.credentials().unwrap();
        assert_eq!(book.bearer(token.secret.expose(), NOW), None);
        assert_eq!(book.cookie(&cookie, NOW), None);
        assert!(
            store
                .use_sign_in_link(link.expose(), NOW)
                .unwrap()
                .is_none()
        );
    };
    refused();
    let bob = Principal::User { id: "bob".into() };
    assert_eq!(store.credentials().unwrap().scopes_of(&bob, NOW), None);
    // Another bob is somebody else.
    store.add_user("bob", BOTH, NOW).unwrap();
    refused();
    for table in ["tokens", "sign_ins", "sign_in_links"] {
        let left: i64 = raw(&dir)
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[test]
fn a_user_removed_by_hand_leaves_nothing_that_lets_anybody_in() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let token = store.create_token("bob", "", READ, None, NOW).unwrap();
    let cookie = sign_in(&store, "bob", NOW);
    let link = store.create_sign_in_link("bob", NOW).unwrap();
    // As the sqlite3 program does it: it looks after no references.
    let by_hand = raw(&dir);
    by_hand.pragma_update(None, "foreign_keys", false).unwrap();
    by_hand
        .execute("DELETE FROM users WHERE name = 'bob'", [])
        .unwrap();
    store.add_user("bob", BOTH, NOW).unwrap();
    let book = store.credentials().unwrap();
    assert_eq!(book.bearer(token.secret.expose(), NOW), None);
    assert_eq!(book.cookie(&cookie, NOW), None);
    let used = store.use_sign_in_link(link.expose(), NOW);
    assert!(used.unwrap().is_none());
}

#[test]
fn the_version_changes_with_every_account_and_not_with_links() {
    let dir = Dir::new();
    let store = with_users(&dir);
    let other = Store::new(dir.path());
    let mut last = store.version().unwrap();
    let mut changed = |changes: bool, what: &str| {
        let now = other.version().unwrap();
        assert_eq!(now != last, changes, "{what}");
        last = now;
    };
    changed(false, "nothing happened");
    store.add_user("eve", READ, NOW).unwrap();
    changed(true, "a user was added");
    store.set_user_scopes("eve", BOTH).unwrap();
    changed(true, "a user's scopes changed");
    let token = store.create_token("eve", "", READ, None, NOW).unwrap();
    changed(true, "a token was made");
    store.revoke_token(&token.id, None).unwrap();
    changed(true, "a token was revoked");
    let link = store.create_sign_in_link("eve", NOW).unwrap();
    changed(false, "a link was made");
    let signed = store.use_sign_in_link(link.expose(), NOW).unwrap().unwrap();
    changed(true, "somebody signed in");
    store.sign_out(signed.cookie.expose()).unwrap();
    changed(true, "somebody signed out");
    store.register_extension("x", "eve", &[], NOW).unwrap();
    changed(true, "an extension was registered");
    store.register_extension("x", "eve", &[], NOW).unwrap();
    changed(false, "the same was registered");
    store.approve_extension("x", "eve", &[]).unwrap();
    changed(true, "an extension was approved");
    store.revoke_extension("x", None).unwrap();
    changed(true, "an extension was revoked");
    store.remove_user("eve").unwrap();
    changed(true, "a user was removed");
}

#[test]
fn users_and_tokens_are_bounded() {
    let dir = Dir::in_memory();
    let store = with_users(&dir);
    let fill = |count: i64, uid: i64| {
        format!(
            "INSERT INTO tokens (id, uid, label, scopes, digest, created_at)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             SELECT printf('{}%09d', i), {uid}, '', 'fs:read', randomblob(32), 0 FROM n",
            char::from(b"abcdefghijklmnop"[usize::try_from(uid).unwrap()])
        )
    };
    raw(&dir).execute_batch(&fill(999, 2)).unwrap();
    let last = store.create_token("bob", "", READ, None, NOW).unwrap();
    let more = |user: &str| store.create_token(user, "", READ, None, NOW);
    let error = more("bob").unwrap_err();
    assert_eq!(error.trouble(), Trouble::Full);
    assert!(error.next_step().unwrap().contains("token revoke"));
    store.revoke_token(&last.id, None).unwrap();
    more("bob").unwrap();
    more("ada").unwrap();
    for uid in 3..12 {
        let name = format!("u{uid}");
        store.add_user(&name, READ, NOW).unwrap();
        raw(&dir).execute_batch(&fill(999, uid)).unwrap();
    }
    // 1,000 + 1 + 9 * 999 = 9,992.
    for _ in 0..8 {
        more("ada").unwrap();
    }
    trouble(more("ada"), Trouble::Full);
    let start = Instant::now();
    let book = store.credentials().unwrap();
    let loaded = start.elapsed();
    let text = format!("pcl_{}_{}", last.id, "x".repeat(43));
    let start = Instant::now();
    for _ in 0..10_000 {
        assert_eq!(book.bearer(&text, NOW), None);
    }
    println!(
        "a book of 10,000 tokens: loaded in {loaded:?}, 10,000 lookups in {:?}",
        start.elapsed()
    );
    raw(&dir)
        .execute_batch(
            "INSERT INTO users (name, scopes, created_at)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 989)
             SELECT 'x' || i, '', 0 FROM n",
        )
        .unwrap();
    let error = store.add_user("more", READ, NOW).unwrap_err();
    assert_eq!(error.trouble(), Trouble::Full);
    assert_eq!(store.users().unwrap().len(), 1_000);
}

#[test]
fn what_nobody_understands_fails_the_whole_book() {
    for damage in [
        "UPDATE users SET scopes = 'fs:read,root' WHERE name = 'bob'",
        "UPDATE tokens SET scopes = 'everything'",
        "UPDATE tokens SET id = 'short'",
        "UPDATE sign_ins SET id = 'muchlongerthananid'",
        "UPDATE extensions SET permissions = 'filesystem:home:read', state = 'approved'",
    ] {
        let dir = Dir::new();
        let store = with_users(&dir);
        store.create_token("bob", "", READ, None, NOW).unwrap();
        sign_in(&store, "bob", NOW);
        store.register_extension("x", "bob", &[], NOW).unwrap();
        store.credentials().unwrap();
        assert!(raw(&dir).execute(damage, []).unwrap() > 0);
        trouble(store.credentials(), Trouble::Damaged);
    }
}

#[test]
fn no_secret_is_on_the_disk_or_in_what_is_printed() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let dir = Dir::new();
    let store = with_users(&dir);
    let token = store.create_token("bob", "n", READ, None, NOW).unwrap();
    store.register_extension("x", "bob", &[], NOW).unwrap();
    store.approve_extension("x", "bob", &[]).unwrap();
    let extension = store.create_extension_token("x", "bob", NOW).unwrap();
    let waiting = store.create_sign_in_link("bob", NOW).unwrap();
    let link = store.create_sign_in_link("bob", NOW).unwrap();
    let signed = store.use_sign_in_link(link.expose(), NOW).unwrap().unwrap();
    let printed = format!(
        "{token:?} {extension:?} {waiting:?} {link:?} {signed:?} {:?} {:?}",
        store.credentials().unwrap(),
        store.tokens(None).unwrap()
    );
    let bytes: Vec<u8> = std::fs::read_dir(dir.path())
        .unwrap()
        .flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let on_disk = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(on_disk(token.id.as_bytes()), "the files are the right ones");
    for (what, text) in [
        ("token", token.secret.expose()),
        ("extension's token", extension.secret.expose()),
        ("link", waiting.expose()),
        ("used link", link.expose()),
        ("cookie", signed.cookie.expose()),
    ] {
        let secret = text.get(text.len() - 43..).unwrap();
        let chance = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(secret)
            .unwrap();
        assert!(!on_disk(secret.as_bytes()), "{what}");
        assert!(!on_disk(&chance), "{what}");
        assert!(on_disk(&sha2::Sha256::digest(secret)), "{what}");
        assert!(!printed.contains(secret), "{what}");
    }
}

#[test]
fn with_nothing_stored_nobody_is_known_and_nothing_is_made() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let book = store.credentials().unwrap();
    assert_eq!(book.version(), 0);
    let text = format!("pcl_aaaaaaaaaa_{}", "A".repeat(43));
    assert_eq!(book.bearer(&text, NOW), None);
    assert_eq!(book.cookie(text.get(4..).unwrap(), NOW), None);
    assert_eq!(store.users().unwrap(), []);
    let link = format!("pcs_{}", "A".repeat(43));
    assert!(store.use_sign_in_link(&link, NOW).unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
