//! A daemon that says too much: it is bounded, and nobody else is hurt by it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_proto::{Mode, Scope};
use portcullis_testkit::promised;
use serde_json::{Value, json};

use crate::client::{Ask, Event};
use crate::daemon::{Daemon, REST, call, id, init_of_ours, next_call, result, text};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];
/// The largest body of a reply, and what pieces of one machine's replies come to at most.
const MAX_MESSAGE: usize = 16 << 20;
const MAX_GATHERED: usize = 4 * MAX_MESSAGE;
/// How large a piece is here.
const PIECE: usize = 1 << 20;
/// For how long it floods at least, and until all it tries was tried so often. How
/// long that takes is the machine's affair, up to what is no speed at all.
const FLOOD: Duration = Duration::from_secs(4);
const OFTEN: usize = 5;
const LONGEST: Duration = Duration::from_mins(4);
/// Who sends replies of 16 MiB, and how many calls they are replies to.
const GREEDY: usize = 8;
/// How long the call of somebody else may take meanwhile. Unoptimised, and with two
/// processors for both ends of the flood.
const SERVED: Duration = Duration::from_secs(3);
/// The same where the machine has other things to do: so many times as long as one
/// large reply takes there to be refused, with nobody else asking.
const SERVED_WITHIN: u32 = 20;
/// What the flood may make this process hold, server and daemons together. Bodies of one
/// person have 64 MiB, pieces of one machine 64 MiB, and what is parsed of a body is
/// some times as large while it is looked at; without a bound the eight greedy ones alone
/// would hold 128 MiB of bodies, and pieces would go on for ever.
const MAX_GROWTH_KIB: u64 = 448 * 1024;

/// How much memory this process has at most had since `forget_peak`, in KiB.
pub(crate) fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// From now on, the peak is that of what comes.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Posts a body that is not copied for it; the status.
fn post(server: &Running, key: &str, path: &str, body: &[u8]) -> io::Result<u16> {
    let ask = Ask::new("POST", &format!("{REST}{path}"))
        .header("X-Gateway-Key", key)
        .header("Content-Type", "application/json")
        .header("Content-Length", body.len().to_string());
    let mut connection = server.connect();
    connection.try_send(&ask.wire(server.address))?;
    // Who is answered before it has said all may be cut off; the answer is there.
    let said = connection.try_send(body);
    connection
        .answer()
        .map(|answer| answer.status)
        .or_else(|error| said.and(Err(error)))
}

/// The largest reply, and no result, so that its call waits on and the next can be
/// sent.
fn huge() -> Vec<u8> {
    let mut huge = br#"{"result":{"content":""#.to_vec();
    huge.resize(MAX_MESSAGE - 3, b'z');
    huge.extend(br#""}}"#);
    huge
}

/// How long a call of somebody else may take on this machine as it is now.
fn served_within(his: &Daemon<'_>, waiting: &Event, huge: &[u8]) -> Duration {
    let alone = Instant::now();
    let path = format!("/response/{}", id(waiting));
    assert_eq!(post(his.server, &his.key, &path, huge).unwrap(), 400);
    promised(SERVED.max(alone.elapsed() * SERVED_WITHIN))
}

/// What the daemon of one person has to do with it, and what it came to.
#[derive(Default)]
struct Counted {
    over: AtomicBool,
    unknown: AtomicUsize,
    others: AtomicUsize,
    told: AtomicUsize,
    inits: AtomicUsize,
    paced: AtomicUsize,
    greedy: AtomicUsize,
}

impl Counted {
    /// How often each was tried.
    fn tried(&self) -> [usize; 5] {
        let inits = count(&self.inits) + count(&self.paced);
        [
            count(&self.unknown),
            count(&self.others),
            count(&self.told),
            inits,
            count(&self.greedy),
        ]
    }

    fn until_over(&self, mut act: impl FnMut()) {
        while !self.over.load(Ordering::Relaxed) {
            act();
        }
    }
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Relaxed)
}

fn add(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A piece that is not the last.
fn piece(index: usize, text: &str) -> Vec<u8> {
    let chunk = json!({"chunk": {"index": index, "last": false, "text": text}});
    chunk.to_string().into_bytes()
}

/// Fills all that pieces may come to, and finds that there is no more.
fn fill_pieces(his: &Daemon<'_>, waiting: &[Event]) {
    let text = "p".repeat(PIECE);
    let full = MAX_GATHERED / MAX_MESSAGE;
    let respond = |of: &Event, body: &[u8]| {
        let path = format!("/response/{}", id(of));
        post(his.server, &his.key, &path, body).unwrap()
    };
    for of in &waiting[..full] {
        for index in 0..MAX_MESSAGE / PIECE {
            assert_eq!(respond(of, &piece(index, &text)), 200, "piece {index}");
        }
        // One reply has 16 MiB and no more.
        let over = piece(MAX_MESSAGE / PIECE, "p");
        assert_eq!(respond(of, &over), 400);
    }
    // And all of a machine together have four times that.
    for of in &waiting[full..] {
        assert_eq!(respond(of, &piece(0, "p")), 400);
    }
}

/// Everything a daemon can say too much of, at once.
fn flood<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    his: &'scope Daemon<'scope>,
    (waiting, hers): (&'scope [Event], &'scope str),
    (counted, huge): (&'scope Counted, &'scope [u8]),
) {
    let server = his.server;
    let speak = move |path: &str, body: &[u8]| post(server, &his.key, path, body).unwrap();
    let small: &[u8] = br#"{"result":{"content":[{"type":"text","text":"forged"}]}}"#;
    scope.spawn(move || {
        let body = "x".repeat(1 << 20);
        counted.until_over(|| {
            let name = counted.unknown.load(Ordering::Relaxed);
            let status = speak(&format!("/response/gw_nobody{name}"), body.as_bytes());
            assert_eq!(status, 404);
            add(&counted.unknown);
        });
    });
    scope.spawn(move || {
        let theirs = format!("/response/{hers}");
        let further = br#"{"entries":5,"searched":2,"matches":1}"#;
        counted.until_over(|| {
            for body in [small, br#"{"error":"forged"}"#, &piece(0, "forged")] {
                assert_eq!(speak(&theirs, body), 404);
            }
            assert_eq!(speak(&format!("/progress/{hers}"), further), 404);
            add(&counted.others);
        });
    });
    scope.spawn(move || {
        let further = br#"{"entries":5,"searched":2,"matches":1}"#;
        let own = format!("/progress/{}", id(&waiting[0]));
        counted.until_over(|| {
            assert_eq!(speak(&own, further), 200);
            assert_eq!(speak("/progress/gw_nobody", further), 404);
            let huge = vec![b' '; 64 << 10];
            assert_eq!(speak(&own, &huge), 413);
            add(&counted.told);
        });
    });
    scope.spawn(move || {
        let body = init_of_ours("flood").to_string();
        counted.until_over(|| match speak("/init", body.as_bytes()) {
            200 => add(&counted.inits),
            429 => add(&counted.paced),
            other => panic!("{other}"),
        });
    });
    for of in waiting.iter().rev().take(GREEDY) {
        let path = format!("/response/{}", id(of));
        scope.spawn(move || {
            counted.until_over(|| {
                let status = speak(&path, huge);
                // Nobody gets more room than its own.
                assert!(matches!(status, 400 | 429 | 503), "{status}");
                add(&counted.greedy);
            });
        });
    }
}

#[test]
fn a_daemon_that_floods_is_bounded_and_hurts_nobody_else() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = &world.start();
    let her = Daemon::pair(&world, server, "ada", &init_of_ours("desk"));
    let mut her_events = her.listen();
    let his = Daemon::pair(&world, server, "bob", &init_of_ours("flood"));
    let mut his_events = his.listen();
    let counted = Counted::default();
    let file = json!({"filePath": "a"});
    let calls = MAX_GATHERED / MAX_MESSAGE + 2 + GREEDY;
    let (mut slowest, mut served) = (Duration::ZERO, 0);
    std::thread::scope(|scope| {
        // Of hers, one waits all the time: it is what he would like to answer.
        let slow = scope.spawn(|| call(server, &ada, "read_file", &file));
        let hers = next_call(&mut her_events);
        let his_calls: Vec<_> = (0..calls)
            .map(|_| scope.spawn(|| call(server, &bob, "read_file", &file)))
            .collect();
        let waiting: Vec<Event> = (0..calls).map(|_| next_call(&mut his_events)).collect();
        let huge = huge();
        forget_peak();
        let before = peak_kib();
        let (filled, flooding) = waiting.split_at(calls - GREEDY);
        let most = served_within(&his, &flooding[0], &huge);
        std::thread::scope(|scope| {
            flood(scope, &his, (flooding, id(&hers)), (&counted, &huge));
            scope.spawn(|| fill_pieces(&his, filled));
            let flooding = Instant::now();
            while flooding.elapsed() < FLOOD || counted.tried().iter().any(|tried| *tried < OFTEN) {
                if flooding.elapsed() > LONGEST {
                    break;
                }
                let began = Instant::now();
                let called = scope.spawn(|| call(server, &ada, "read_file", &file));
                her.serve(&mut her_events, "hers");
                assert_eq!(text(&called.join().unwrap()), "hers");
                slowest = slowest.max(began.elapsed());
                served += 1;
            }
            counted.over.store(true, Ordering::Relaxed);
        });
        let growth = peak_kib().saturating_sub(before);
        println!(
            "{served} calls of hers, {slowest:?} at most; {} MiB more",
            growth >> 10
        );
        let tried = counted.tried();
        println!("unknown ids, hers, progress, inits, 16 MiB: {tried:?}");
        assert!(tried.iter().all(|tried| *tried >= OFTEN), "{tried:?}");
        assert!(slowest < most, "{slowest:?}, and {most:?} are enough");
        assert!(growth < MAX_GROWTH_KIB, "{growth} KiB");
        // Nothing he said became of her call.
        her.respond(id(&hers), &result("slowly")).expect(200);
        assert_eq!(text(&slow.join().unwrap()), "slowly");
        // His own wait on, and end as he says.
        for of in flooding {
            his.respond(id(of), &result("his")).expect(200);
        }
        for of in filled {
            let last = json!({"error": "enough"});
            his.respond(id(of), &last).expect(200);
        }
        let ended: Vec<Value> = his_calls
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect();
        assert_eq!(
            ended.iter().filter(|one| text(one) == "his").count(),
            GREEDY
        );
    });
    let accidents = server.answered().into_iter();
    let accidents: Vec<_> = accidents.filter(|(_, status)| *status == 500).collect();
    assert!(accidents.is_empty(), "{accidents:?}");
}

/// How many look for what waits, and read nothing of it.
const LOOKERS: usize = 100;
/// So that the one before has been brought what waits when the next one looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(40);

#[test]
fn a_daemon_that_looks_for_a_large_call_again_and_again_is_bounded() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (world.token("ada", &AGENT), world.token("bob", &AGENT));
    let server = &world.start();
    let her = Daemon::pair(&world, server, "ada", &init_of_ours("desk"));
    let mut her_events = her.listen();
    let his = Daemon::pair(&world, server, "bob", &init_of_ours("flood"));
    let file = json!({"filePath": "a"});
    let large = json!({"filePath": "a", "content": "w".repeat(4 << 20)});
    let mut events = his.listen();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| call(server, &bob, "write_file", &large));
        let waiting = next_call(&mut events);
        drop(events);
        let most = served_within(&his, &waiting, &huge());
        forget_peak();
        let before = peak_kib();
        let look = his.get("/poll?after=0").wire(server.address);
        let lookers: Vec<_> = (0..LOOKERS)
            .map(|_| {
                let mut connection = server.connect();
                connection.send(&look);
                std::thread::sleep(BETWEEN_LOOKS);
                connection
            })
            .collect();
        for _ in 0..5 {
            let theirs = scope.spawn(|| call(server, &ada, "read_file", &file));
            let began = Instant::now();
            her.serve(&mut her_events, "hers");
            assert_eq!(text(&theirs.join().unwrap()), "hers");
            assert!(began.elapsed() < most, "{:?}", began.elapsed());
        }
        let growth = peak_kib().saturating_sub(before);
        println!("{} MiB more", growth >> 10);
        // One person has room for 64 MiB, and what is read from the disk and written
        // for one look is some times as large as the call. All of them would be 400.
        assert!(growth < 192 * 1024, "{growth} KiB");
        drop(lookers);
        his.respond(id(&waiting), &result("his")).expect(200);
        assert_eq!(text(&called.join().unwrap()), "his");
    });
}

#[test]
fn a_failure_whose_text_is_full_of_values_is_passed_on_as_a_text() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = &world.start();
    let daemon = Daemon::pair(&world, server, "ada", &init_of_ours("desk"));
    let mut events = daemon.listen();
    // In a string, so that nobody counts them; taken apart they would be 512 MiB.
    let many = format!("[{}0]", "0,".repeat(7 << 20));
    let failed = json!({"result": {"content": [{"type": "text", "text": many}], "isError": true}});
    let failed = failed.to_string();
    std::thread::scope(|scope| {
        let file = json!({"filePath": "a"});
        let called = scope.spawn(move || call(server, &token, "read_file", &file));
        let event = next_call(&mut events);
        forget_peak();
        let before = peak_kib();
        let path = format!("/response/{}", id(&event));
        let status = post(server, &daemon.key, &path, failed.as_bytes()).unwrap();
        assert_eq!(status, 200);
        let growth = peak_kib().saturating_sub(before);
        println!("{} MiB more", growth >> 10);
        assert!(growth < 192 * 1024, "{growth} KiB");
        assert_eq!(called.join().unwrap()["isError"], true);
    });
}
