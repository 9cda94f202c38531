//! Whatever is done to a log before its last head, verifying finds it.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ed25519_dalek::{Signer as _, SigningKey};
use portcullis_files::{Fault, LedgerOptions};
use sha2::{Digest as _, Sha256};

use crate::support::{Data, append, lines, quiet};

#[test]
fn an_untouched_log_is_sound_and_wholly_signed() {
    let data = Data::new();
    data.closed_chain(20);
    data.closed_chain(0);
    let found = data.verify();
    assert!(found.is_sound(), "{:?}", found.problems);
    assert_eq!((found.chains, found.lines, found.heads), (2, 24, 2));
    assert_eq!(found.unsigned_tail, []);
}

/// Flips bits one by one, in place, and expects each to be found out.
fn check_flips(data: &Data, path: &Path, bytes: Range<usize>, bits: Range<u32>) {
    let whole = fs::read(path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    for at in bytes {
        for bit in bits.clone() {
            let flipped = whole[at] ^ (1 << bit);
            file.write_all_at(&[flipped], at as u64).unwrap();
            let found = data.verify();
            assert!(
                !found.is_sound(),
                "byte {at}: {:?} became {:?}",
                char::from(whole[at]),
                char::from(flipped)
            );
        }
        file.write_all_at(&whole[at..=at], at as u64).unwrap();
    }
    assert_eq!(fs::read(path).unwrap(), whole);
}

#[test]
fn every_flipped_bit_of_every_byte_is_found() {
    let data = Data::new();
    let path = data.closed_chain(3);
    let len = fs::read(&path).unwrap().len();
    check_flips(&data, &path, 0..len, 0..8);
    assert!(data.verify().is_sound());
}

#[test]
fn a_flip_is_found_even_without_the_file_of_heads() {
    let data = Data::new();
    let path = data.closed_chain(3);
    fs::remove_file(data.audit().join("heads.jsonl")).unwrap();
    let len = fs::read(&path).unwrap().len();
    // All but the last newline, without which the head counts as unfinished.
    check_flips(&data, &path, 0..len - 1, 0..3);
}

#[test]
fn a_flip_in_the_file_of_heads_is_found_where_it_tells_a_chains_last_head() {
    let data = Data::new();
    data.closed_chain(3);
    let path = data.audit().join("heads.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    // From the chain's name on; before that, it is no head any more.
    let from = whole.find("\"chain\":\"").unwrap() + 9;
    check_flips(&data, &path, from..whole.len() - 4, 0..3);
}

/// Writes `lines` in place of the log and expects it to be found out.
#[track_caller]
fn check_found(data: &Data, path: &Path, lines: &[&[u8]], what: &str) {
    fs::write(path, lines.concat()).unwrap();
    assert!(!data.verify().is_sound(), "{what}");
}

#[test]
fn every_line_dropped_doubled_or_swapped_is_found() {
    let data = Data::new();
    let path = data.closed_chain(10);
    let whole = lines(&path);
    let whole: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
    for i in 0..whole.len() {
        let mut dropped = whole.clone();
        dropped.remove(i);
        check_found(&data, &path, &dropped, &format!("line {i} dropped"));
        for j in 0..=whole.len() {
            let mut inserted = whole.clone();
            inserted.insert(j, whole[i]);
            // A copy of the last head after itself changes nothing it vouches for,
            // but it is no line of the chain either.
            check_found(&data, &path, &inserted, &format!("line {i} again at {j}"));
        }
        for j in i + 1..whole.len() {
            let mut swapped = whole.clone();
            swapped.swap(i, j);
            check_found(
                &data,
                &path,
                &swapped,
                &format!("lines {i} and {j} swapped"),
            );
        }
    }
    for garbage in [&b"\n"[..], b"{}\n", b"x\n", b"\0\n"] {
        for j in 0..=whole.len() {
            let mut inserted = whole.clone();
            inserted.insert(j, garbage);
            check_found(&data, &path, &inserted, &format!("{garbage:?} at {j}"));
        }
    }
}

#[test]
fn one_change_is_one_problem_and_its_place_is_told() {
    let data = Data::new();
    let path = data.closed_chain(10);
    let mut changed = lines(&path);
    let at = changed[5].len() - 10;
    changed[5][at] ^= 1;
    fs::write(&path, changed.concat()).unwrap();
    let problems = data.verify().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!((problems[0].segment, problems[0].line), (0, 7));
    assert_eq!(problems[0].what, Fault::BrokenLink);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Rewrites a log as somebody without our key can: all hashes fit again.
fn forge(lines: &[Vec<u8>], key: &SigningKey) -> Vec<u8> {
    let mut prev = "0".repeat(64);
    let mut forged = Vec::new();
    for line in lines {
        let text = std::str::from_utf8(line).unwrap();
        let (front, rest) = text.split_once("\"prev\":\"").unwrap();
        let rest = rest.split_at(64).1;
        let mut text = format!("{front}\"prev\":\"{prev}{rest}");
        if let Some((signed, _)) = text.split_once(",\"sig\":") {
            let message = [b"portcullis audit head 1\0", signed.as_bytes()].concat();
            let sig = hex(&key.sign(&message).to_bytes());
            text = format!("{signed},\"sig\":\"{sig}\"}}\n");
        }
        prev = hex(&Sha256::digest(text.as_bytes()));
        forged.extend_from_slice(text.as_bytes());
    }
    forged
}

#[test]
fn a_log_rewritten_and_signed_by_another_key_is_found() {
    let data = Data::new();
    let path = data.closed_chain(10);
    let mut changed = lines(&path);
    let own: [u8; 32] = fs::read(data.audit().join("key"))
        .unwrap()
        .try_into()
        .unwrap();
    let own = SigningKey::from_bytes(&own);
    assert_eq!(
        forge(&changed, &own),
        fs::read(&path).unwrap(),
        "the forger writes as we do"
    );

    changed.remove(4);
    for line in &mut changed[4..] {
        // Renumbered, so that nothing seems to be missing.
        let text = String::from_utf8(line.clone()).unwrap();
        let (n, rest) = text.split_at(5).1.split_once(',').unwrap();
        *line = format!("{{\"n\":{},{rest}", n.parse::<u64>().unwrap() - 1).into_bytes();
    }
    let foreign = SigningKey::from_bytes(&[7; 32]);
    let heads = data.audit().join("heads.jsonl");
    for with_heads in [true, false] {
        if !with_heads {
            fs::remove_file(&heads).unwrap();
        }
        fs::write(&path, forge(&changed, &foreign)).unwrap();
        let found = data.verify();
        let faults: Vec<_> = found.problems.iter().map(|p| &p.what).collect();
        assert!(faults.contains(&&Fault::BadSignature), "{faults:?}");
        assert_eq!(found.unsigned_tail[0].lines, 11, "nothing of it is signed");

        // The first line can name the foreign key, which is not the audit's.
        let mut named = changed.clone();
        let public = hex(foreign.verifying_key().as_bytes());
        let text = String::from_utf8(named[0].clone()).unwrap();
        let (front, _) = text.split_once("\"key\":").unwrap();
        named[0] = format!("{front}\"key\":\"{public}\"}}\n").into_bytes();
        fs::write(&path, forge(&named, &foreign)).unwrap();
        let faults: Vec<_> = data.verify().problems.into_iter().map(|p| p.what).collect();
        assert!(faults.contains(&Fault::WrongKey), "{faults:?}");
    }
}

#[test]
fn a_lost_tail_a_lost_file_and_a_lost_chain_are_found_by_the_file_of_heads() {
    let data = Data::new();
    let path = data.closed_chain(10);
    let whole = lines(&path);
    for keep in 0..whole.len() {
        fs::write(&path, whole[..keep].concat()).unwrap();
        let problems = data.verify().problems;
        assert_eq!(problems.len(), 1, "{keep} lines kept: {problems:?}");
        let lost = Fault::LostTail {
            have: keep as u64,
            signed: 12,
        };
        assert_eq!(problems[0].what, lost);
    }
    fs::remove_file(&path).unwrap();
    assert!(!data.verify().is_sound());
    fs::remove_dir(path.parent().unwrap()).unwrap();
    assert_eq!(data.verify().problems[0].what, Fault::MissingChain);
}

#[test]
fn a_head_kept_elsewhere_finds_what_the_directory_no_longer_tells() {
    let data = Data::new();
    let path = data.closed_chain(10);
    let heads = data.audit().join("heads.jsonl");
    let kept = fs::read_to_string(&heads).unwrap();
    fs::write(&heads, "").unwrap();
    let whole = lines(&path);
    fs::write(&path, whole[..5].concat()).unwrap();
    let found = data.verify();
    assert!(found.is_sound());
    assert_eq!(found.unsigned_tail[0].lines, 5, "but nobody vouches for it");
    let found = data
        .log()
        .verify_against(std::slice::from_ref(&kept))
        .unwrap();
    assert!(!found.is_sound());
    let forged = kept.replace("\"closed\":true", "\"closed\":false");
    let found = data.log().verify_against(&[forged]).unwrap();
    assert_eq!(found.problems[0].what, Fault::BadSignature);
}

#[test]
fn the_tail_after_the_last_head_is_told_as_unsigned() {
    let data = Data::new();
    let options = LedgerOptions {
        lines_per_head: 10,
        ..quiet()
    };
    let ledger = data.ledger(options);
    for n in 0..25 {
        append(&ledger, n).unwrap();
    }
    let found = data.verify();
    assert!(found.is_sound(), "{:?}", found.problems);
    let tail = &found.unsigned_tail[0];
    // Heads follow line 10 and line 20; the start line counts.
    assert_eq!((tail.lines, tail.live, tail.torn), (6, true, false));
    drop(ledger);
    assert_eq!(data.verify().unsigned_tail, []);
}

#[test]
fn two_chains_that_change_places_are_found() {
    let data = Data::new();
    let (a, b) = (data.closed_chain(3), data.closed_chain(3));
    let aside = data.path.join("aside");
    fs::rename(&a, &aside).unwrap();
    fs::rename(&b, &a).unwrap();
    fs::rename(&aside, &b).unwrap();
    fs::remove_file(data.audit().join("heads.jsonl")).unwrap();
    let faults: Vec<_> = data.verify().problems.into_iter().map(|p| p.what).collect();
    assert!(faults.contains(&Fault::ForeignChain), "{faults:?}");
}

#[test]
fn without_the_key_the_log_is_not_called_sound() {
    let data = Data::new();
    data.closed_chain(3);
    fs::remove_file(data.audit().join("key")).unwrap();
    assert_eq!(data.verify().problems[0].what, Fault::NoKey);
}

#[test]
fn r007_a_copy_of_a_head_that_was_torn_by_a_kill_and_ended_later_is_no_forgery() {
    let data = Data::new();
    data.closed_chain(3);
    let heads = data.audit().join("heads.jsonl");
    let whole = fs::read(&heads).unwrap();
    for kept in 90..whole.len() - 1 {
        let mut torn = whole[..kept].to_vec();
        torn.push(b'\n');
        fs::write(&heads, torn).unwrap();
        let found = data.verify();
        assert!(found.is_sound(), "{kept} bytes kept: {:?}", found.problems);
    }
}
