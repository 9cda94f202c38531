//! Questions raised over HTTP, with everything around them cut, dropped and
//! restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_proto::{Mode, QuestionId, Scope};
use portcullis_store::Stage;
use portcullis_testkit::promised;
use serde_json::{Value, json};

use crate::client::{Answer, Ask, Connection};
use crate::world::{PATIENCE, World, now_ms};

/// How many, where nobody says with PORTCULLIS_QUESTIONS.
const DEFAULT: usize = 120;
const ASKING: usize = 4;
const ANSWERING: usize = 3;
/// One of so many is never answered.
const NEGLECTED: u32 = 12;

fn write(path: &str) -> Ask {
    Ask::post(
        "/file/write",
        &json!({"path": path, "content": "x", "mode": "create"}),
    )
}

/// Chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What came of asking for one file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Came {
    /// It was done, and the question was answered with a yes.
    Done,
    /// It was refused, for this reason.
    Refused(String),
    /// The connection was cut, by us or by a server that was ended.
    Cut,
}

/// What all threads share.
struct Play<'a> {
    world: &'a World,
    /// Where the server listens; nowhere while there is none.
    address: Mutex<SocketAddr>,
    agent: String,
    /// What was answered, and acknowledged: by question.
    said: Mutex<BTreeMap<String, &'static str>>,
    /// What came of each path, and its question where it was told.
    came: Mutex<BTreeMap<String, (Option<String>, Came)>>,
    asked: AtomicUsize,
    ended: AtomicBool,
}

impl Play<'_> {
    fn try_ask(&self, ask: &Ask) -> Option<Answer> {
        let address = *self.address.lock().unwrap();
        let mut connection = Connection::try_open(address).ok()?;
        connection.try_send(&ask.wire(address)).ok()?;
        connection.answer().ok()
    }

    /// Sends it and goes away at once.
    fn ask_and_cut(&self, ask: &Ask) {
        let address = *self.address.lock().unwrap();
        if let Ok(mut connection) = Connection::try_open(address) {
            connection.try_send(&ask.wire(address)).ok();
        }
    }

    /// One question, from raising it to its end.
    fn agent(&self, path: &str, chance: &mut Chance) {
        let ask = write(path).bearer(&self.agent);
        let ask = match chance.below(4) {
            0 => ask.header("Prefer", "wait=1"),
            _ => ask,
        };
        if chance.below(20) == 0 {
            self.ask_and_cut(&ask.header("Prefer", "wait=2"));
            self.note(path, None, Came::Cut);
            return;
        }
        let Some(first) = self.try_ask(&ask) else {
            self.note(path, None, Came::Cut);
            return;
        };
        let body = first.json();
        let Some(id) = body["questionId"].as_str().map(str::to_owned) else {
            self.note(path, None, came(&first));
            return;
        };
        let until = Instant::now() + Duration::from_mins(1);
        let brought = write(path)
            .bearer(&self.agent)
            .header("Portcullis-Question", &id);
        loop {
            assert!(Instant::now() < until, "{id} is settled by nobody");
            std::thread::sleep(Duration::from_millis(20 + chance.below(150)));
            let Some(answer) = self.try_ask(&brought) else {
                // What it brought may be used, or may not.
                let stage = self.world.store.poll(&QuestionId::new(&*id), now_ms());
                if matches!(stage.unwrap(), Stage::Used(_)) {
                    self.note(path, Some(id), Came::Cut);
                    return;
                }
                continue;
            };
            let came = came(&answer);
            if came == Came::Refused("approval_pending".to_owned()) {
                continue;
            }
            if came == Came::Done {
                // Once.
                let again = self.try_ask(&brought);
                if let Some(again) = again {
                    assert_eq!(again.json()["reason"], "answer_used", "{id}");
                }
            }
            self.note(path, Some(id), came);
            return;
        }
    }

    fn note(&self, path: &str, id: Option<String>, came: Came) {
        let told = (id, came);
        assert_eq!(
            self.came.lock().unwrap().insert(path.to_owned(), told),
            None
        );
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// A person, or a program for one: looks, answers, and is cut off at times.
    fn surface(&self, credential: &dyn Fn(Ask) -> Ask, chance: &mut Chance) {
        while !self.ended.load(Ordering::Relaxed) {
            let waiting = if chance.below(3) == 0 {
                self.by_stream(credential)
            } else {
                self.try_ask(&credential(Ask::get("/approvals")))
                    .map(|told| told.json()["approvals"].as_array().unwrap().clone())
                    .unwrap_or_default()
            };
            for question in waiting {
                let id = question["id"].as_str().unwrap();
                // Some nobody ever answers: time does.
                if id.bytes().map(u32::from).sum::<u32>() % NEGLECTED == 0 {
                    continue;
                }
                let decision = if chance.below(2) == 0 {
                    "allow_once"
                } else {
                    "deny_once"
                };
                let ask = Ask::post(&format!("/approvals/{id}"), &json!({"decision": decision}));
                match chance.below(10) {
                    // Looked at, and not answered.
                    0..=2 => {}
                    3 => self.ask_and_cut(&credential(ask)),
                    _ => {
                        let Some(answer) = self.try_ask(&credential(ask)) else {
                            continue;
                        };
                        assert!([200, 409, 410].contains(&answer.status), "{answer:?}");
                        if answer.status == 200 {
                            let said = self.said.lock().unwrap().insert(id.to_owned(), decision);
                            assert_eq!(said, None, "{id} was answered twice");
                        }
                    }
                }
                if chance.below(10) == 0 {
                    break;
                }
            }
            std::thread::sleep(Duration::from_millis(20 + chance.below(60)));
        }
    }

    /// The first question a stream tells of; then the stream is dropped.
    fn by_stream(&self, credential: &dyn Fn(Ask) -> Ask) -> Vec<Value> {
        let address = *self.address.lock().unwrap();
        let Ok(mut connection) = Connection::try_open(address) else {
            return Vec::new();
        };
        let ask = credential(Ask::get("/approvals/events"));
        connection.patient_for(Duration::from_millis(300));
        if connection.try_send(&ask.wire(address)).is_err() || connection.head().is_err() {
            return Vec::new();
        }
        let mut events = connection.events();
        let told = std::iter::from_fn(|| events.next()).find(|event| event.name == "question");
        told.map(|event| event.data).into_iter().collect()
    }
}

fn came(answer: &Answer) -> Came {
    match answer.status {
        201 => Came::Done,
        400 | 403 => Came::Refused(answer.json()["reason"].as_str().unwrap_or("?").to_owned()),
        other => panic!("{other}: {}", answer.text()),
    }
}

fn how_many() -> usize {
    match std::env::var("PORTCULLIS_QUESTIONS") {
        Ok(count) => count.parse().expect("PORTCULLIS_QUESTIONS is a number"),
        Err(_) => DEFAULT,
    }
}

#[test]
fn every_question_ends_by_its_deadline_whatever_is_cut() {
    let count = how_many();
    let patience = Duration::from_secs(2);
    let world = World::new(Mode::Ask).patient_for(patience);
    let agent = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let desk = world.token("ada", &[Scope::Approve]);
    let link = world.store.create_sign_in_link("ada", now_ms()).unwrap();
    let person = world
        .store
        .use_sign_in_link(link.expose(), now_ms())
        .unwrap();
    let person = person.unwrap().cookie.expose().to_owned();
    let mut server = world.start();
    let all = Play {
        world: &world,
        address: Mutex::new(server.address),
        agent,
        said: Mutex::default(),
        came: Mutex::default(),
        asked: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
    };
    let seed = now_ms() | 1;
    println!("seed {seed}");
    let began = Instant::now();
    let mut restarts = 0;
    std::thread::scope(|scope| {
        let agents: Vec<_> = (0..ASKING)
            .map(|n| {
                let all = &all;
                scope.spawn(move || {
                    let mut chance = Chance(seed.wrapping_mul(2 * n as u64 + 3));
                    for one in (n..count).step_by(ASKING) {
                        all.agent(&format!("q{one}.txt"), &mut chance);
                    }
                })
            })
            .collect();
        for n in 0..ANSWERING {
            let (all, desk, person) = (&all, &desk, &person);
            scope.spawn(move || {
                let mut chance = Chance(seed.wrapping_mul(2 * n as u64 + 101));
                let bearer = |ask: Ask| ask.bearer(desk);
                let cookie = |ask: Ask| ask.cookie(person);
                let credential: &dyn Fn(Ask) -> Ask = if n == 0 { &cookie } else { &bearer };
                all.surface(credential, &mut chance);
            });
        }
        // The server itself: ended in order, then killed, on and on.
        let every = count / 5 + 1;
        while !agents
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(Duration::from_millis(5));
            if all.asked.load(Ordering::Relaxed) >= every * (restarts + 1) {
                let old = std::mem::replace(&mut server, world.start());
                *all.address.lock().unwrap() = server.address;
                if restarts % 2 == 0 {
                    old.join();
                } else {
                    old.kill();
                }
                restarts += 1;
            }
        }
        all.ended.store(true, Ordering::Relaxed);
    });
    let took = began.elapsed();
    // Those that were cut off end by their deadline, too.
    let patient = Instant::now() + patience + PATIENCE;
    while let Some(waits) = world.store.pending(10, now_ms()).unwrap().pop() {
        assert!(Instant::now() < patient, "one waits for ever: {waits:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(server);
    let tally = judge(&world, &all, count);
    assert!(
        tally.contains_key("Refused(\"approval_timeout\")"),
        "{tally:?}"
    );
    println!("{count} questions in {took:?}, {restarts} restarts");
    assert!(restarts >= 2);
}

/// That what was done is what was said yes to, and that all of it is recorded.
fn judge(world: &World, all: &Play<'_>, count: usize) -> BTreeMap<String, usize> {
    let came = all.came.lock().unwrap().clone();
    let said = all.said.lock().unwrap().clone();
    assert_eq!(came.len(), count);
    let lines = world.closings();
    let recorded: BTreeSet<&str> = lines.iter().filter_map(|l| l.question.as_deref()).collect();
    let yes = |id: &str| match world.store.poll(&QuestionId::new(id), now_ms()).unwrap() {
        Stage::Used(answer) => answer.decision.as_str() == "allow_once",
        Stage::Pending
        | Stage::Answered(_)
        | Stage::Withdrawn
        | Stage::Expired
        | Stage::Unknown => false,
    };
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    for (path, (id, came)) in &came {
        let there = world.scratch.at(path).exists();
        let done: Vec<_> = lines
            .iter()
            .filter(|line| line.relative_path.as_deref() == Some(path))
            .filter(|line| line.outcome.as_deref() == Some("success"))
            .collect();
        assert_eq!(there, done.len() == 1, "{path}: {came:?}, {done:?}");
        if there {
            let by = done[0].question.as_deref().expect("a yes");
            assert!(yes(by), "{path} is there and {by} was not said yes to");
        }
        match came {
            Came::Done => assert!(there, "{path}"),
            Came::Refused(_) => assert!(!there, "{path}: {came:?}"),
            Came::Cut => {}
        }
        *tally.entry(format!("{came:?}")).or_default() += 1;
        let Some(id) = id else { continue };
        assert!(recorded.contains(id.as_str()), "{id} is not on the record");
        // What was answered in time was honoured.
        match (said.get(id).copied(), came) {
            (_, Came::Cut) => {}
            (Some("allow_once"), came) => assert_eq!(*came, Came::Done, "{id}"),
            (Some(_), came) => {
                assert_eq!(*came, Came::Refused("approval_denied".to_owned()), "{id}");
            }
            // An answer that was sent and cut off may count or not; none at all
            // is a no.
            (None, Came::Done) => assert!(yes(id), "{id}"),
            (None, Came::Refused(why)) => assert!(
                ["approval_timeout", "approval_denied"].contains(&why.as_str()),
                "{id}: {why}"
            ),
        }
    }
    for id in said.keys() {
        assert!(
            recorded.contains(id.as_str()),
            "{id} was answered and is not recorded"
        );
    }
    println!("{tally:?}, {} answers acknowledged", said.len());
    tally
}

#[test]
fn a_restart_loses_no_question_and_keeps_no_caller_waiting() {
    let world = World::new(Mode::Ask);
    let agent = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let desk = world.token("ada", &[Scope::Approve]);
    let mut server = world.start();
    let mut ids = BTreeMap::new();
    for n in 0..20 {
        let path = format!("r{n}.txt");
        let told = server.ask(&write(&path).bearer(&agent)).expect(403).json();
        ids.insert(told["questionId"].as_str().unwrap().to_owned(), path);
    }
    // These are waiting when it ends.
    let mut waiting: Vec<_> = (20..23)
        .map(|n| {
            let path = format!("r{n}.txt");
            let ask = write(&path).bearer(&agent).header("Prefer", "wait=50");
            let mut connection = server.connect();
            connection.send(&ask.wire(server.address));
            (connection, path)
        })
        .collect();
    let until = Instant::now() + PATIENCE;
    while world.store.pending(100, now_ms()).unwrap().len() < 23 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    server.ask_to_end();
    for (connection, path) in &mut waiting {
        let told = connection.answer().expect("an answer").expect(403).json();
        assert_eq!(told["reason"], "approval_pending", "{told}");
        ids.insert(
            told["questionId"].as_str().unwrap().to_owned(),
            path.clone(),
        );
    }
    server.join();
    println!("ended after {:?}", began.elapsed());
    assert!(
        began.elapsed() < promised(Duration::from_secs(5)),
        "it waited for who waits"
    );

    let server = world.start();
    let told = server
        .ask(&Ask::get("/approvals").bearer(&desk))
        .expect(200)
        .json();
    let kept: BTreeSet<&str> = told["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(kept, ids.keys().map(String::as_str).collect());
    for (id, path) in &ids {
        let say = Ask::post(
            &format!("/approvals/{id}"),
            &json!({"decision": "allow_once"}),
        );
        server.ask(&say.bearer(&desk)).expect(200);
        let brought = write(path).bearer(&agent).header("Portcullis-Question", id);
        server.ask(&brought).expect(201);
        assert!(world.scratch.at(path).exists());
    }
}

#[test]
fn one_who_floods_the_desk_hides_nobody_elses_questions() {
    let world = World::new(Mode::Ask);
    let agent = world.token("ada", &[Scope::FsRead, Scope::FsWrite]);
    let desk = world.token("ada", &[Scope::Approve]);
    let flood = world.token("bob", &[Scope::FsRead, Scope::FsWrite]);
    let server = world.start();
    let mut connection = server.connect();
    for n in 0..1_001 {
        connection.send(
            &write(&format!("f{n}.txt"))
                .bearer(&flood)
                .wire(server.address),
        );
        assert_eq!(connection.answer().unwrap().status, 403);
    }
    server.ask(&write("a.txt").bearer(&agent)).expect(403);
    let told = server
        .ask(&Ask::get("/approvals").bearer(&desk))
        .expect(200)
        .json();
    assert_eq!(told["approvals"].as_array().unwrap().len(), 1, "{told}");
}
