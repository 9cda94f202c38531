//! What an extension reaches: the workspace as far as was approved, its own
//! storage, its scratch; and nothing of another's, however it is named.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_testkit::promised;
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::extensions::{BOTH, READS, STORAGE, approve, register, step};
use crate::isolation::cookie;
use crate::world::{Running, World};

/// Within which a revocation holds.
const PROMISED: Duration = Duration::from_millis(100);
/// Longer than a loaded machine keeps a thread waiting.
const PATIENCE: Duration = portcullis_testkit::PATIENCE;

/// Registered, approved and given its token, over HTTP, by `user` in person.
fn admitted(server: &Running, cookie: &str, id: &str, permissions: &[&str]) -> String {
    server
        .ask(&register(id, permissions).cookie(cookie))
        .expect(200);
    let mut shown = permissions.to_vec();
    shown.sort_unstable();
    server.ask(&approve(id, &shown).cookie(cookie)).expect(200);
    let made = server.ask(&step(id, "token").cookie(cookie)).expect(200);
    made.json()["token"].as_str().unwrap().to_owned()
}

/// A write in the root that `place` names, which is empty for the workspace.
fn write(place: &str, path: &str, content: &str) -> Ask {
    Ask::post(
        &format!("{place}/file/write"),
        &json!({"path": path, "content": content, "mode": "create"}),
    )
}

fn read(place: &str, path: &str) -> Ask {
    Ask::get(&format!("{place}/file?path={path}"))
}

const OWN: &str = "/workspaces/extension-storage";
const SCRATCH: &str = "/workspaces/temp";

fn workspaces(server: &Running, token: &str) -> Vec<Value> {
    let ask = Ask::get("/capabilities").bearer(token);
    let told = server.ask(&ask).expect(200).json();
    told["workspaces"].as_array().unwrap().clone()
}

/// The directories of a kind there are in our own state.
fn dirs(world: &World, kind: &str) -> Vec<PathBuf> {
    let Ok(all) = std::fs::read_dir(world.data.path().join(kind)) else {
        return Vec::new();
    };
    all.map(|entry| entry.unwrap().path()).collect()
}

/// That the reply says on what it was settled.
#[track_caller]
fn settled(answer: Answer, policy: &str) -> Answer {
    let said = answer.header("portcullis-policy");
    assert_eq!(said, Some(policy), "{}", answer.text());
    assert!(answer.header("portcullis-request-id").is_some());
    answer
}

#[test]
fn an_extension_reaches_what_was_approved_and_its_own_files() {
    let world = World::new(Mode::Allow);
    let bob = cookie(&world, "bob");
    let server = world.start();
    let reader = admitted(&server, &bob, "reader", &[READS, STORAGE]);
    let writer = admitted(&server, &bob, "writer", &[BOTH]);
    let keeper = admitted(&server, &bob, "keeper", &[STORAGE]);

    let kinds = |token: &str| -> Vec<String> {
        let all = workspaces(&server, token);
        let mut kinds: Vec<String> = all
            .iter()
            .map(|one| one["kind"].as_str().unwrap().to_owned())
            .collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&reader), ["extension-storage", "temp", "workspace"]);
    assert_eq!(kinds(&keeper), ["extension-storage", "temp"]);
    // No path of our own state is told.
    let told = json!(workspaces(&server, &reader)).to_string();
    assert!(
        !told.contains(world.data.path().to_str().unwrap()),
        "{told}"
    );

    let ask = |ask: Ask, token: &str, status: u16| server.ask(&ask.bearer(token)).expect(status);
    let notes = ask(read("", "notes.txt"), &reader, 200);
    settled(notes, "mode:filesystemRead=allow");
    let refused = ask(write("", "r.txt", "x"), &reader, 403);
    assert_eq!(refused.json()["reason"], "no_grant");
    settled(refused, "grant:none");
    ask(write("", "w.txt", "x"), &writer, 201);
    assert!(!world.scratch.at("r.txt").exists());
    // Named or not, the workspace is not there for who has none: its own is.
    let nothing = ask(read("", "notes.txt"), &keeper, 404);
    assert_eq!(nothing.json()["reason"], "not_found");
    let there = world.scratch.root();
    let there = there.to_str().unwrap().replace('/', "%2F");
    ask(
        read(&format!("/workspaces/{there}"), "notes.txt"),
        &keeper,
        400,
    );
    ask(read("", &format!("{there}%2Fnotes.txt")), &keeper, 400);

    for (place, kind) in [(OWN, "extensions"), (SCRATCH, "temp")] {
        for token in [&reader, &writer, &keeper] {
            ask(write(place, "mine.txt", kind), token, 201);
            assert_eq!(
                ask(read(place, "mine.txt"), token, 200).json()["content"],
                kind
            );
        }
        let made = dirs(&world, kind);
        assert_eq!(made.len(), 3);
        for dir in made {
            let mode = dir.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{kind}");
        }
    }
    // A person has no such roots, and no way into theirs.
    let person = world.token("bob", &[Scope::FsRead]);
    std::thread::sleep(PROMISED * 2);
    ask(read(OWN, "mine.txt"), &person, 400);
}

#[test]
fn one_extension_never_reaches_anothers_files() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (cookie(&world, "ada"), cookie(&world, "bob"));
    let server = world.start();
    let victim = admitted(&server, &bob, "victim", &[STORAGE]);
    let ask = |ask: Ask, token: &str, status: u16| server.ask(&ask.bearer(token)).expect(status);
    for place in [OWN, SCRATCH] {
        for n in 0..3 {
            ask(
                write(place, &format!("s{n}.txt"), "hidden words"),
                &victim,
                201,
            );
        }
    }
    let homes: Vec<PathBuf> = [dirs(&world, "extensions"), dirs(&world, "temp")].concat();
    assert_eq!(homes.len(), 2);
    let theirs = workspaces(&server, &victim);
    let page = ask(
        Ask::get(&format!("{OWN}/list?path=.&limit=1")),
        &victim,
        200,
    )
    .json();
    let cursor = page["nextCursor"].as_str().expect("a place in its list");
    let undo = ask(Ask::get(&format!("{OWN}/undo")), &victim, 200).json();
    let undo = undo["operations"][0]["id"].as_str().unwrap().to_owned();

    // Another of the same person, and one of another person, with all there is.
    let all = [BOTH, STORAGE, "filesystem:temp:readwrite"];
    let mut tried = 0;
    for (owner, id) in [(&bob, "near"), (&ada, "far")] {
        let thief = admitted(&server, owner, id, &all);
        ask(write(OWN, "own.txt", "own"), &thief, 201);
        let (mut asks, mut planted) = (Vec::new(), 0);
        let mut names: Vec<String> = homes
            .iter()
            .map(|home| home.to_str().unwrap().to_owned())
            .collect();
        for one in &theirs {
            for name in ["id", "root", "cwd"] {
                names.push(one[name].as_str().unwrap().to_owned());
            }
        }
        for name in &names {
            let name = name.replace('/', "%2F");
            for path in ["s0.txt", "own.txt"] {
                asks.push(read(&format!("/workspaces/{name}"), path));
                asks.push(write(&format!("/workspaces/{name}"), path, "stolen"));
            }
        }
        for home in &homes {
            let (absolute, name) = (home.to_str().unwrap(), home.file_name().unwrap());
            let name = name.to_str().unwrap();
            for place in ["", OWN, SCRATCH] {
                let mut ways = vec![
                    format!("{absolute}/s0.txt"),
                    format!("../{name}/s0.txt"),
                    format!("a/../../{name}/s0.txt"),
                    format!("../../extensions/{name}/s0.txt"),
                ];
                if !place.is_empty() {
                    // Planted below.
                    ways.extend(["link/s0.txt".to_owned(), "hard.txt".to_owned()]);
                }
                for way in ways {
                    asks.push(read(place, &way.replace('/', "%2F")));
                    asks.push(write(place, &way, "stolen"));
                    asks.push(Ask::get(&format!("{place}/file/raw?path={way}")));
                    asks.push(Ask::post(
                        &format!("{place}/file/copy"),
                        &json!({"from": way, "to": "copy.txt"}),
                    ));
                }
            }
            // Links that something else planted in what is the thief's own.
            for mine in [dirs(&world, "extensions"), dirs(&world, "temp")].concat() {
                if !homes.contains(&mine) && mine.join("link").symlink_metadata().is_err() {
                    symlink(home, mine.join("link")).unwrap();
                    planted += 1;
                    std::fs::hard_link(home.join("s0.txt"), mine.join("hard.txt")).unwrap();
                }
            }
        }
        assert_eq!(planted, 2, "in its storage and in its scratch");
        asks.push(Ask::post(&format!("{OWN}/undo"), &json!({"id": undo})));
        asks.push(Ask::post("/undo", &json!({"id": undo})));
        tried += asks.len();
        for ask in asks {
            let answer = server.ask(&ask.clone().bearer(&thief));
            assert!(
                (400..500).contains(&answer.status),
                "{ask:?}: {}",
                answer.text()
            );
            assert!(!answer.text().contains("hidden"), "{ask:?}");
        }
        // A place in another's list is a name, and tells nothing of it here.
        let from_there = Ask::get(&format!("{OWN}/list?path=.&limit=9&cursor={cursor}"));
        let told = server.ask(&from_there.bearer(&thief)).text();
        assert!(!told.contains("s1.txt"), "{told}");
        let seen = ask(Ask::get(&format!("{OWN}/list?path=.")), &thief, 200).text();
        assert!(!seen.contains("s1.txt"), "{seen}");
        let seen = ask(Ask::get(&format!("{OWN}/search?query=hidden")), &thief, 200).text();
        assert!(!seen.contains("hidden words"), "{seen}");
    }
    println!("{tried} ways tried");
    for home in &homes {
        for n in 0..3 {
            let kept = std::fs::read_to_string(home.join(format!("s{n}.txt"))).unwrap();
            assert_eq!(kept, "hidden words");
        }
        assert_eq!(std::fs::read_dir(home).unwrap().count(), 3);
    }
}

/// Until `token` is refused, from now.
fn refused_after(server: &Running, token: &str) -> Duration {
    let since = Instant::now();
    let ask = read(OWN, "mine.txt").bearer(token);
    while server.ask(&ask).status == 200 {
        assert!(since.elapsed() < PATIENCE, "it is let in still");
    }
    since.elapsed()
}

/// What was used goes beside the answers, in a moment.
#[track_caller]
fn wait_for_scratch(world: &World, left: usize) {
    let since = Instant::now();
    while dirs(world, "temp").len() != left {
        assert!(since.elapsed() < PATIENCE, "{:?}", dirs(world, "temp"));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_an_extension_had_ends_with_it() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (cookie(&world, "ada"), cookie(&world, "bob"));
    let server = world.start();
    let ask = |ask: Ask, token: &str, status: u16| server.ask(&ask.bearer(token)).expect(status);
    let token = admitted(&server, &bob, "notes", &[BOTH]);
    ask(write(OWN, "mine.txt", "kept"), &token, 201);
    ask(write(SCRATCH, "mine.txt", "scratch"), &token, 201);

    // It asks for less, and has less from then on; its scratch begins anew.
    ask(register("notes", &[READS, STORAGE]), &token, 200);
    let shown = approve("notes", &[STORAGE, READS]);
    server.ask(&shown.clone().cookie(&bob)).expect(200);
    ask(write("", "late.txt", "x"), &token, 403);
    ask(read(OWN, "mine.txt"), &token, 200);
    ask(read(SCRATCH, "mine.txt"), &token, 404);
    wait_for_scratch(&world, 1);

    // Revoked by another process: its credential, and what it had.
    assert!(world.store.revoke_extension("notes", None).unwrap());
    refused_after(&server, &token);
    wait_for_scratch(&world, 0);
    server.ask(&shown.cookie(&bob)).expect(200);
    let made = server.ask(&step("notes", "token").cookie(&bob)).expect(200);
    let again = made.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(
        ask(read(OWN, "mine.txt"), &again, 200).json()["content"],
        "kept"
    );

    // Removed with its files: who takes the name next inherits nothing.
    let gone = Ask::new("DELETE", "/extensions/notes").cookie(&bob);
    server.ask(&gone).expect(200);
    assert_eq!(dirs(&world, "extensions"), Vec::<PathBuf>::new());
    let next = admitted(&server, &ada, "notes", &[STORAGE]);
    ask(read(OWN, "mine.txt"), &next, 404);
    ask(write(SCRATCH, "last.txt", "x"), &next, 201);
    server.join();
    wait_for_scratch(&world, 0);
}

#[test]
fn an_extension_revoked_by_another_process_is_refused_within_100_ms() {
    let world = World::new(Mode::Allow);
    let bob = cookie(&world, "bob");
    let server = world.start();
    let took = (0..5).map(|n| {
        let id = format!("notes-{n}");
        let token = admitted(&server, &bob, &id, &[STORAGE]);
        let own = write(OWN, "mine.txt", "kept").bearer(&token);
        server.ask(&own).expect(201);
        assert!(world.store.revoke_extension(&id, None).unwrap());
        refused_after(&server, &token)
    });
    // The best of five: other tests run beside this one.
    let took = took.min().unwrap();
    assert!(took < promised(PROMISED), "{took:?}");
}

#[test]
fn an_extensions_questions_and_lines_are_its_owners() {
    let world = World::new(Mode::Ask);
    let (ada, bob) = (cookie(&world, "ada"), cookie(&world, "bob"));
    let server = world.start();
    let token = admitted(&server, &bob, "notes", &[BOTH]);
    let deed = write("", "made.txt", "x").bearer(&token);
    let told = server.ask(&deed).expect(403).json();
    assert_eq!(told["reason"], "approval_pending", "{told}");
    let id = told["questionId"].as_str().unwrap();
    let waiting = |cookie: &str| {
        let ask = Ask::get("/approvals").cookie(cookie);
        server.ask(&ask).expect(200).json()["approvals"].clone()
    };
    assert_eq!(waiting(&ada), json!([]));
    assert_eq!(waiting(&bob)[0]["id"], id);
    assert_eq!(waiting(&bob)[0]["subject"], "extension:bob/notes");
    let yes = Ask::post(
        &format!("/approvals/{id}"),
        &json!({"decision": "allow_once"}),
    );
    server.ask(&yes.clone().cookie(&ada)).expect(404);
    server.ask(&yes.clone().bearer(&token)).expect(403);
    server.ask(&yes.cookie(&bob)).expect(200);
    let brought = deed.header("Portcullis-Question", id);
    server.ask(&brought).expect(201);
    let lines = |cookie: &str| {
        let ask = Ask::get("/audit?path=made.txt").cookie(cookie);
        server.ask(&ask).expect(200).json()["lines"].clone()
    };
    assert_eq!(lines(&ada), json!([]));
    let his = lines(&bob);
    let subject = json!({"type": "extension", "id": "notes", "user": "bob"});
    assert_eq!(his[0]["subject"], subject, "{his}");
    // And he takes back what it did.
    let done = server
        .ask(&Ask::get("/undo").cookie(&bob))
        .expect(200)
        .json();
    let undo = Ask::post("/undo", &json!({"id": done["operations"][0]["id"]}));
    server.ask(&undo.cookie(&bob)).expect(403);
    let none = server
        .ask(&Ask::get("/undo").cookie(&ada))
        .expect(200)
        .json();
    assert_eq!(none["operations"], json!([]));
}
