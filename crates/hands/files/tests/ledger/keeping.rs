//! What a ledger keeps: under many threads, over many files, on a full disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_files::{
    AuditLog, Fault, FileLedger, Filter, LedgerOptions, PrivateDir, recover_torn,
};
use portcullis_proto::{Outcome, Verb};
use portcullis_testkit::Scratch;

use crate::support::{Data, RealClock, append, append_with, begin, eventually, lines, quiet};

#[test]
fn eight_threads_write_one_chain() {
    let data = Data::new();
    let ledger = data.ledger(LedgerOptions {
        max_segment: 1 << 20,
        head_every: Duration::from_millis(5),
        ..quiet()
    });
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let ledger = &ledger;
            scope.spawn(move || {
                for n in 0..5000 {
                    append(ledger, thread * 5000 + n).unwrap();
                }
            });
        }
    });
    drop(ledger);
    let found = data.verify();
    assert!(found.is_sound(), "{:?}", found.problems);
    assert_eq!(found.unsigned_tail, []);
    let mut seen = vec![false; 40_000];
    for record in data.log().records(Filter::default()).unwrap() {
        let id = record.unwrap().request_id.unwrap();
        let n: usize = id.trim_start_matches('r').parse().unwrap();
        assert!(!std::mem::replace(&mut seen[n], true), "{id} twice");
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn a_full_segment_is_followed_by_one_that_continues_the_chain() {
    let data = Data::new();
    let ledger = data.ledger(LedgerOptions {
        max_segment: 8192,
        ..quiet()
    });
    let chain = ledger.chain().to_owned();
    for n in 0..200 {
        append(&ledger, n).unwrap();
    }
    drop(ledger);
    assert!(data.verify().is_sound());
    let count = fs::read_dir(data.audit().join(&chain)).unwrap().count();
    assert!(count > 5, "{count} segments");
    let number = |n: usize| u32::try_from(n).unwrap();
    for n in 0..count {
        let len = fs::metadata(data.segment(&chain, number(n))).unwrap().len();
        // A head may still follow the line that just fitted.
        assert!(len <= 8192 + 512, "segment {n} has {len} bytes");
    }

    let aside = data.path.join("aside");
    for n in 0..count {
        let path = data.segment(&chain, number(n));
        fs::rename(&path, &aside).unwrap();
        let problems = data.verify().problems;
        let missing = Fault::MissingSegment;
        assert!(
            problems
                .iter()
                .any(|p| p.what == missing || matches!(p.what, Fault::LostTail { .. })),
            "segment {n} removed: {problems:?}"
        );
        fs::rename(&aside, &path).unwrap();
    }
    assert!(data.verify().is_sound());
}

#[test]
fn the_housekeeper_signs_what_is_new_and_then_rests() {
    let data = Data::new();
    let ledger = data.ledger(LedgerOptions {
        head_every: Duration::from_millis(1),
        ..quiet()
    });
    let path = data.segment(ledger.chain(), 0);
    let signed = |count| {
        move |path: &std::path::Path| {
            let lines = lines(path);
            let heads = lines.iter().filter(|line| is_head(line)).count();
            heads == count && lines.last().is_some_and(|line| is_head(line))
        }
    };
    eventually("the first head", || signed(1)(&path));
    append(&ledger, 0).unwrap();
    eventually("the second head", || signed(2)(&path));
    let before = fs::read(&path).unwrap();
    // Twenty periods: a thread that does not rest would have written again.
    let end = Instant::now() + Duration::from_millis(20);
    while Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(data.verify().unsigned_tail, []);
}

fn is_head(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.ends_with('\n') && text.contains("\"line\":\"head\"")
}

#[test]
fn files_are_closed_to_others_and_one_key_serves_all_chains() {
    let data = Data::new();
    let path = data.closed_chain(1);
    let key = fs::read(data.audit().join("key")).unwrap();
    data.closed_chain(1);
    assert_eq!(fs::read(data.audit().join("key")).unwrap(), key);
    for file in [
        path.as_path(),
        &data.audit().join("key"),
        &data.audit().join("heads.jsonl"),
    ] {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{file:?}");
    }
    assert!(data.verify().is_sound());
}

#[test]
fn many_processes_may_start_at_once_on_a_new_directory() {
    let data = Data::new();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| data.closed_chain(3));
        }
    });
    let found = data.verify();
    assert!(found.is_sound(), "{:?}", found.problems);
    assert_eq!(found.chains, 16);
    let names: Vec<_> = fs::read_dir(data.audit())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with("key."))
        .collect();
    assert_eq!(names.len(), 0, "{names:?}");
}

#[test]
fn a_torn_last_line_is_kept_ended_and_told() {
    let data = Data::new();
    let path = data.closed_chain(5);
    let whole = lines(&path);
    fs::remove_file(data.audit().join("heads.jsonl")).unwrap();
    // A start, an event, and a head: each kind of line may be the last.
    for last in [0, 4, whole.len() - 1] {
        let base: Vec<u8> = whole[..last].concat();
        for cut in 0..whole[last].len() {
            let torn = [&base, &whole[last][..cut]].concat();
            fs::write(&path, &torn).unwrap();
            let recovery = recover_torn(&data.dir, 1_794_000_000_000).unwrap();
            let mended = usize::from(cut > 0);
            assert_eq!(recovery.mended.len(), mended, "line {last} cut at {cut}");
            let after = fs::read(&path).unwrap();
            assert!(after.starts_with(&torn), "nothing is ever truncated");
            let found = data.verify();
            assert!(
                found.is_sound(),
                "line {last} cut at {cut}: {:?}",
                found.problems
            );
            assert_eq!(found.recovered, u64::from(cut > 0));
            let again = recover_torn(&data.dir, 0).unwrap();
            assert_eq!(again.mended.len(), 0, "line {last} cut at {cut}");
        }
    }
}

#[test]
fn mending_that_was_itself_cut_short_is_mended() {
    let data = Data::new();
    let path = data.closed_chain(5);
    let whole = lines(&path);
    fs::remove_file(data.audit().join("heads.jsonl")).unwrap();
    for cut in [1, 50, 90, 200] {
        let torn = [&whole[..4].concat(), &whole[4][..cut]].concat();
        fs::write(&path, &torn).unwrap();
        recover_torn(&data.dir, 0).unwrap();
        let mended = fs::read(&path).unwrap();
        for second in torn.len()..mended.len() {
            fs::write(&path, &mended[..second]).unwrap();
            recover_torn(&data.dir, 0).unwrap();
            let found = data.verify();
            assert!(
                found.is_sound(),
                "cut at {cut}, then at {second}: {:?}",
                found.problems
            );
            assert!(found.recovered > 0);
        }
    }
}

#[test]
fn a_torn_first_line_of_a_later_segment_is_mended_too() {
    let data = Data::new();
    let ledger = data.ledger(LedgerOptions {
        max_segment: 8192,
        ..quiet()
    });
    let chain = ledger.chain().to_owned();
    for n in 0..30 {
        append(&ledger, n).unwrap();
    }
    drop(ledger);
    fs::remove_file(data.audit().join("heads.jsonl")).unwrap();
    let path = data.segment(&chain, 1);
    for later in 2.. {
        if fs::remove_file(data.segment(&chain, later)).is_err() {
            break;
        }
    }
    for torn in [b"{".to_vec(), b"{\"n\":1".to_vec(), vec![0; 100_000]] {
        fs::write(&path, torn).unwrap();
        recover_torn(&data.dir, 0).unwrap();
        let found = data.verify();
        assert!(found.is_sound(), "{:?}", found.problems);
        assert_eq!(found.recovered, 1);
    }
}

#[test]
fn a_living_chain_is_never_mended() {
    let data = Data::new();
    let ledger = data.ledger(quiet());
    let path = data.segment(ledger.chain(), 0);
    let torn = [fs::read(&path).unwrap(), b"{\"n\":".to_vec()].concat();
    fs::write(&path, &torn).unwrap();
    assert_eq!(recover_torn(&data.dir, 0).unwrap().mended.len(), 0);
    assert_eq!(fs::read(&path).unwrap(), torn);
    assert!(data.log().is_live(ledger.chain()));
    drop(ledger);
}

#[test]
fn the_next_start_mends_what_the_last_process_left() {
    let data = Data::new();
    let path = data.closed_chain(5);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let _ledger = data.ledger(LedgerOptions {
        recover: true,
        ..quiet()
    });
    eventually("the mending", || {
        String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("\"line\":\"recovered\"")
    });
}

#[test]
fn a_disk_that_is_nearly_full_is_left_to_the_audit() {
    let scratch = Scratch::of("../data/");
    if !scratch.tmpfs_of("../data", 2 * 1024) {
        eprintln!("NOT TRIED: a small disk, since mounting is refused");
        return;
    }
    let path = scratch.at("../data/own");
    let dir = PrivateDir::open_or_create(&path).unwrap();
    let ledger = FileLedger::open(&dir, Arc::new(RealClock::new()), quiet()).unwrap();
    begin(&ledger, 1, Verb::Write).unwrap();
    let room = rustix::fs::statvfs(&path).unwrap();
    let room = usize::try_from(room.f_bavail * room.f_frsize).unwrap();
    let ballast = path.join("ballast");
    fs::write(&ballast, vec![0; room - 100 * 1024]).unwrap();
    for n in 2..50 {
        let down = begin(&ledger, n, Verb::Write).unwrap_err();
        assert!(down.0.contains("left on its disk"), "{down}");
        // That it was refused is told; reading goes on, and so does making room.
        append_with(&ledger, n, Verb::Write, Outcome::Failed).unwrap();
        append(&ledger, n).unwrap();
        begin(&ledger, n, Verb::Remove).unwrap();
        // As what is administered is recorded.
        begin(&ledger, n, Verb::Administer).unwrap();
    }
    fs::remove_file(&ballast).unwrap();
    begin(&ledger, 50, Verb::Write).unwrap();
    drop(ledger);
    let found = AuditLog::open(&dir).unwrap().verify().unwrap();
    assert!(found.is_sound(), "{:?}", found.problems);
}
