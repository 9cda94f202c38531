//! Refused gateway keys, timed over the wire, told apart by no statistic.
//!
//! An address may be wrong 30 times a minute, so each block of measures has an address
//! of its own and one connection, which is kept: as many of each kind, in an order made
//! by chance. Within a block it is chance alone which measure is of which kind, so the
//! ranks of two kinds have a distribution that is known, whatever else the machine
//! does meanwhile: Mann and Whitney's U of each block, summed (van Elteren).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use portcullis_proto::Mode;
use portcullis_store::Lent;

use crate::client::{Answer, Ask, Connection};
use crate::daemon::{Daemon, REST, init, pairing};
use crate::world::{Running, World, now_ms};

/// Refused keys of one address that are told so within a minute.
const TOLD: usize = 30;
/// What is refused: a wrong key, a used, a revoked, an expired one, and none.
const REFUSED: usize = 5;
/// Measures of each kind in a block, and blocks: 600 measures of each kind.
const EACH: usize = TOLD / REFUSED;
const BLOCKS: u16 = 100;
/// Two kinds are told apart where the statistic is beyond this: 4.3e-6 for chance to
/// come to, either way, and less than 1e-4 for any of ten pairs on two routes.
const BEYOND: f64 = 4.6;
/// The difference that is planted, and has to be found.
const PLANTED: f64 = 1.2;
/// How often it is measured before it is said to have failed.
const ROUNDS: usize = 3;

/// What one block took, in seconds, of each kind.
type Block = [Vec<f64>; REFUSED];

/// Numbers by chance; which ones is told, so that they can be had again.
struct Chance(u64);

impl Chance {
    fn below(&mut self, many: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % many
    }

    fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// How far apart two kinds are, in standard deviations of what chance does: above
/// nought where `one` takes longer.
fn apart<'a>(pairs: impl Iterator<Item = (&'a [f64], &'a [f64])>) -> f64 {
    let (mut excess, mut variance) = (0.0, 0.0);
    for (one, other) in pairs {
        let wins = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        let u: f64 = wins
            .map(|(a, b)| match a.total_cmp(b) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })
            .sum();
        let count = |some: &[f64]| f64::from(u32::try_from(some.len()).unwrap());
        let (n, m) = (count(one), count(other));
        excess += u - n * m / 2.0;
        variance += n * m * (n + m + 1.0) / 12.0;
    }
    excess / variance.sqrt()
}

/// Everything in an answer but its date and what the request is called.
fn shown(answer: &Answer) -> String {
    let mut fields: Vec<String> = answer
        .fields()
        .iter()
        .filter(|(name, _)| name != "date" && name != "x-request-id")
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    fields.sort();
    format!(
        "{}\n{}\n{}",
        answer.status,
        fields.join("\n"),
        answer.text()
    )
}

/// One kind after the other, in random order, from one address after the other.
fn measured(
    server: &Running,
    (asks, first): (&[Vec<u8>; REFUSED], &[u8]),
    chance: &mut Chance,
    round: u8,
) -> Vec<Block> {
    let mut order: Vec<usize> = (0..REFUSED).flat_map(|kind| [kind; EACH]).collect();
    let mut refusal = None;
    let mut blocks = Vec::new();
    for block in 0..BLOCKS {
        let [high, low] = block.to_be_bytes();
        let from = IpAddr::V4(Ipv4Addr::new(127, round, high, low + 1));
        let mut connection = Connection::open_from(from, server.address);
        let mut took = Block::default();
        // The first one of a connection is not like the others, and does not count: a good
        // key is nobody's guess.
        connection.send(first);
        connection.answer().unwrap();
        chance.shuffle(&mut order);
        for kind in &order {
            let began = Instant::now();
            connection.send(&asks[*kind]);
            let answer = connection.answer().unwrap();
            took[*kind].push(began.elapsed().as_secs_f64());
            let now = shown(&answer);
            assert!(now.contains("Invalid gateway key"), "{now}");
            assert_eq!(refusal.get_or_insert(now.clone()), &now, "kind {kind}");
        }
        blocks.push(took);
    }
    blocks
}

/// Whether no two refused kinds can be told apart, and a difference that is planted can.
fn judged(what: &str, blocks: &[Block]) -> Result<(), String> {
    let between = |one: usize, other: usize| {
        let pairs = blocks.iter().map(|block| (&*block[one], &*block[other]));
        apart(pairs)
    };
    let mut most = 0.0_f64;
    for one in 0..REFUSED {
        for other in one + 1..REFUSED {
            most = most.max(between(one, other).abs());
        }
    }
    let mut all: Vec<f64> = blocks.iter().flat_map(|block| block[0].clone()).collect();
    all.sort_by(f64::total_cmp);
    let added = all[all.len() / 2] * (PLANTED - 1.0);
    let planted: Vec<Vec<f64>> = blocks
        .iter()
        .map(|block| block[1].iter().map(|took| took + added).collect())
        .collect();
    let pairs = planted.iter().zip(blocks);
    let planted = apart(pairs.map(|(planted, block)| (&**planted, &*block[0])));
    let told = format!(
        "{what}: {:.0} µs; refused keys at most {most:.1} apart, planted {planted:.1}",
        all[all.len() / 2] * 1e6
    );
    println!("{told}");
    if most < BEYOND && planted > BEYOND {
        Ok(())
    } else {
        Err(told)
    }
}

#[test]
fn no_statistic_tells_refused_keys_apart_by_their_time_over_the_wire() {
    let world = World::new(Mode::Allow);
    let store = &world.store;
    let lent = Lent {
        named: None,
        host: "ada@laptop",
        root: "/home/ada/work",
        surface: "{}",
    };
    let used = pairing(&world, "ada");
    let paired = store.pair(&used, lent, now_ms()).unwrap().unwrap();
    let revoked = paired.session.expose().to_owned();
    assert!(store.end_link_session(&paired.machine.id, None).unwrap());
    let expired = store
        .create_pairing("bob", now_ms() - 10 * 60 * 1000)
        .unwrap();
    let wrong = format!("gw_{}", "x".repeat(32));
    let server = world.start();
    let good = pairing(&world, "ada");
    let keys = [
        Some(wrong.as_str()),
        Some(&used),
        Some(&revoked),
        Some(expired.token.expose()),
        None,
    ];
    let seed = now_ms() | 1;
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let routes = [
        // No init, so that a good key is not used up by it; the others are not looked at.
        ("init", Ask::post(&format!("{REST}/init"), &init()["tools"])),
        ("events", Ask::get(&format!("{REST}/events"))),
    ];
    let mut rounds = 1..;
    for (name, ask) in routes {
        let with = |key: Option<&str>| {
            let ask = ask.clone();
            let ask = match key {
                Some(key) => ask.header("X-Gateway-Key", key),
                None => ask,
            };
            ask.wire(server.address)
        };
        let (asks, first) = (keys.map(with), with(Some(&good)));
        let mut told = Vec::new();
        let kept = (0..ROUNDS).any(|_| {
            let round = rounds.next().unwrap();
            let blocks = measured(&server, (&asks, &first), &mut chance, round);
            judged(name, &blocks).map_err(|why| told.push(why)).is_ok()
        });
        assert!(kept, "{told:#?}");
    }
    // It was good, and is so still.
    Daemon::with(&server, &good).init(&init()).expect(200);
}
