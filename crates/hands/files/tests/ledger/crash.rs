//! What survives kill -9 and a full disk: a child of this very binary writes,
//! and tells each line it was promised before it is killed.

use std::collections::HashSet;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use portcullis_files::{AuditLog, Filter, LedgerOptions, PrivateDir, recover_torn};

use crate::support::{Data, append, quiet};

/// Names the data directory to a child; without it the child's test does nothing.
const DATA: &str = "PORTCULLIS_TEST_DATA";

/// Not a test of its own: the process that the tests below start.
#[test]
fn child_that_writes_and_tells() {
    let Some(path) = std::env::var_os(DATA) else {
        return;
    };
    let dir = PrivateDir::open_or_create(path.as_ref()).unwrap();
    let options = LedgerOptions {
        head_every: Duration::from_millis(1),
        lines_per_head: 50,
        ..LedgerOptions::default()
    };
    let clock = std::sync::Arc::new(crate::support::RealClock::new());
    let ledger = portcullis_files::FileLedger::open(&dir, clock, options).unwrap();
    let tell = |bytes: &[u8]| rustix::io::write(rustix::stdio::stderr(), bytes).unwrap();
    tell(ledger.chain().as_bytes());
    for n in 0.. {
        if append(&ledger, n).is_err() {
            // Once down, it stays down.
            for again in 0..10 {
                append(&ledger, n + again).unwrap_err();
            }
            tell(&u64::MAX.to_le_bytes());
            return;
        }
        tell(&n.to_le_bytes());
    }
}

fn child(program: &mut Command, data: &Data) -> std::process::Child {
    program
        .env(DATA, &data.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

const ARGUMENTS: [&str; 4] = [
    "--exact",
    "crash::child_that_writes_and_tells",
    "--nocapture",
    "--test-threads=1",
];

/// What a child told: its chain, and how many lines it was promised.
fn told(bytes: &[u8]) -> (String, Vec<u64>) {
    let (chain, acks) = bytes.split_at_checked(30).unwrap_or((bytes, &[]));
    let acks = acks
        .chunks_exact(8)
        .map(|ack| u64::from_le_bytes(ack.try_into().unwrap()))
        .collect();
    (String::from_utf8(chain.to_vec()).unwrap(), acks)
}

/// The numbers of the requests that stand in a chain.
fn recorded(log: &AuditLog, chain: &str) -> HashSet<u64> {
    log.records(Filter::default())
        .unwrap()
        .filter_map(Result::ok)
        .filter(|record| record.chain == chain)
        .filter_map(|record| record.request_id?.strip_prefix('r')?.parse().ok())
        .collect()
}

#[test]
fn no_promised_line_is_missing_after_kill_9() {
    let kills: u64 = std::env::var("PORTCULLIS_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(50);
    let this = std::env::current_exe().unwrap();
    let mut promised = 0;
    let mut torn = 0;
    // A new directory now and then, so that reading it back stays quick.
    for round in 0..kills.div_ceil(50) {
        let data = Data::new();
        for kill in 0..(kills - round * 50).min(50) {
            let mut child = child(Command::new(&this).args(ARGUMENTS), &data);
            let mut pipe = child.stderr.take().unwrap();
            // Killed after some number of promises, in the middle of anything.
            let mut bytes = vec![0; 30 + 8 * usize::try_from(1 + kill * 37 % 900).unwrap()];
            pipe.read_exact(&mut bytes).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            pipe.read_to_end(&mut bytes).unwrap();
            let (chain, acks) = told(&bytes);
            let kept = recorded(&data.log(), &chain);
            for n in &acks {
                assert!(kept.contains(n), "line {n} was promised and is missing");
            }
            promised += acks.len();
        }
        recover_torn(&data.dir, 0).unwrap();
        let found = data.verify();
        assert!(found.is_sound(), "{:?}", found.problems);
        torn += found.recovered;
    }
    assert!(promised > 50);
    eprintln!("{kills} kills, {promised} promised lines, 0 missing, {torn} torn and mended");
}

#[test]
fn a_full_disk_seals_the_ledger_and_every_promise_is_kept() {
    let data = Data::new();
    data.closed_chain(1);
    // A file may not grow over 20 KiB: the last write is cut short, as on a
    // full disk, whoever runs this. The signal that would come is ignored.
    let script = "trap '' XFSZ; ulimit -f 40; exec \"$0\" \"$@\"";
    let this = std::env::current_exe().unwrap();
    let child = child(
        Command::new("sh")
            .args(["-c", script])
            .arg(this)
            .args(ARGUMENTS),
        &data,
    );
    let (chain, mut acks) = told(&child.wait_with_output().unwrap().stderr);
    assert_eq!(
        acks.pop(),
        Some(u64::MAX),
        "the child saw the ledger go down"
    );
    let log = data.log();
    let kept = recorded(&log, &chain);
    assert!(acks.len() > 10, "{} lines were promised", acks.len());
    assert!(acks.iter().all(|n| kept.contains(n)));
    assert_eq!(kept.len(), acks.len(), "nothing was written after the seal");

    let before = log.verify().unwrap();
    assert!(before.is_sound(), "{:?}", before.problems);
    assert!(before.unsigned_tail.iter().any(|tail| tail.torn));
    let mended = recover_torn(&data.dir, 0).unwrap().mended;
    assert_eq!(mended, [chain]);
    let after = log.verify().unwrap();
    assert!(after.is_sound(), "{:?}", after.problems);
}

#[test]
fn a_ledger_that_cannot_start_says_so_without_a_path() {
    let data = Data::new();
    data.closed_chain(1);
    std::fs::write(data.audit().join("key"), "short").unwrap();
    let clock = std::sync::Arc::new(crate::support::RealClock::new());
    let failure = portcullis_files::FileLedger::open(&data.dir, clock, quiet()).unwrap_err();
    assert!(!failure.message().contains('/'), "{failure}");
    assert!(failure.cause().unwrap().contains("audit/key"));
}
