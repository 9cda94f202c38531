//! Bytes, text and JSON through the gate: windows, limits, growth.

use std::io::Write as _;
use std::sync::Arc;

use portcullis_files::{ByteWindow, TextFrom, TextRequest};
use portcullis_gate::CancelFlag;
use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World, agent};

use crate::attempts::{Reading, block_on, refused, text_all, workspace};

fn limited(limit: u64, literal: &str) -> World {
    World::workspace()
        .policy(|policy| policy.max_file_bytes = limit)
        .over(Scratch::of(literal))
}

#[test]
fn bytes_come_whole_or_as_the_window_asked_for() {
    let world = workspace("f = 0123456789\n empty");
    let fs = world.fs();
    let whole = block_on(fs.read_bytes("f", ByteWindow::Whole)).unwrap();
    assert_eq!(
        (whole.bytes.as_slice(), whole.more),
        (b"0123456789".as_slice(), false)
    );
    for (offset, max, want, more) in [
        (0, 4, "0123", true),
        (4, 100, "456789", false),
        (4, 6, "456789", false),
        (9, 1, "9", false),
        (10, 5, "", false),
        (u64::MAX, 5, "", false),
        (i64::MAX as u64, 5, "", false),
        (i64::MAX as u64 + 1, 5, "", false),
        (0, 0, "", true),
        (0, usize::MAX, "0123456789", false),
    ] {
        let page = block_on(fs.read_bytes("f", ByteWindow::Part { offset, max })).unwrap();
        assert_eq!(page.bytes, want.as_bytes(), "{max} from {offset}");
        assert_eq!(page.more, more, "{max} from {offset}");
    }
    let empty = block_on(fs.read_bytes("empty", ByteWindow::Whole)).unwrap();
    assert!(empty.bytes.is_empty() && !empty.more);
}

#[test]
fn a_file_over_the_limit_is_read_in_windows_only() {
    let world = limited(1000, "");
    world.scratch.file("at", "x".repeat(1000));
    world.scratch.file("over", "y".repeat(1001));
    let fs = world.fs();
    let page = block_on(fs.read_bytes("at", ByteWindow::Whole)).unwrap();
    assert_eq!(page.bytes.len(), 1000);
    refused(
        &world,
        &[Reading::Bytes, Reading::Json],
        "over",
        Reason::TooLarge,
    );
    let window = ByteWindow::Part {
        offset: 1,
        max: 5000,
    };
    let page = block_on(fs.read_bytes("over", window)).unwrap();
    assert_eq!((page.bytes.len(), page.more), (1000, false));
    // Text comes in pages, of a file of any size.
    let reply = block_on(fs.read_text("over", text_all())).unwrap();
    assert_eq!(reply.page.text.len(), 1001);
}

#[test]
fn a_large_file_is_read_on_another_thread_and_whole() {
    let world = workspace("");
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    world.scratch.file("big", &content);
    let page = block_on(world.fs().read_bytes("big", ByteWindow::Whole)).unwrap();
    assert!(page.bytes == content);
    let window = ByteWindow::Part {
        offset: 1_500_000,
        max: 1_200_000,
    };
    let page = block_on(world.fs().read_bytes("big", window)).unwrap();
    assert!(page.bytes == content[1_500_000..2_700_000]);
    assert!(page.more);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_given_whole_or_refused() {
    // Appended to all the time, up to four times the limit: what comes back is a
    // prefix that was the whole file at some moment, or a no.
    let world = limited(64 * 1024, "grows = start");
    let path = world.scratch.at("grows");
    let writer = std::thread::spawn(move || {
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        for _ in 0..4096 {
            file.write_all(&[b'x'; 64]).unwrap();
        }
    });
    let mut refusals = 0;
    while !writer.is_finished() {
        match block_on(world.fs().read_bytes("grows", ByteWindow::Whole)) {
            Ok(page) => {
                assert!(page.bytes.len() <= 64 * 1024);
                assert!(page.bytes.starts_with(b"start"));
                // The kernel grows a file page by page, so a write that crosses
                // into the next page may be seen up to there.
                let whole = (page.bytes.len() - 5) % 64 == 0;
                assert!(
                    whole || page.bytes.len() % 4096 == 0,
                    "cut in the middle of a write at {}",
                    page.bytes.len()
                );
            }
            Err(failure) => {
                assert_eq!(failure.reason(), Reason::TooLarge);
                refusals += 1;
            }
        }
    }
    writer.join().unwrap();
    assert!(refusals > 0 || block_on(world.fs().read_bytes("grows", ByteWindow::Whole)).is_err());
}

#[test]
fn a_file_that_lies_about_its_size_is_cut_at_the_limit() {
    // Sparse: it claims a gigabyte and holds none.
    let world = limited(100_000, "");
    let file = std::fs::File::create(world.scratch.at("sparse")).unwrap();
    file.set_len(1 << 30).unwrap();
    refused(
        &world,
        &[Reading::Bytes, Reading::Json],
        "sparse",
        Reason::TooLarge,
    );
    let window = ByteWindow::Part {
        offset: 1 << 29,
        max: usize::MAX,
    };
    let page = block_on(world.fs().read_bytes("sparse", window)).unwrap();
    assert_eq!((page.bytes.len(), page.more), (100_000, true));
    // A file that says it is empty and is not, as windows into the kernel do,
    // cannot be planted here: such a file system is neither a root nor entered.
}

#[test]
fn text_comes_by_lines_from_the_end_and_by_cursor() {
    let world = workspace("");
    let content = (1..=1000).fold(String::new(), |all, n| format!("{all}line {n}\n"));
    world.scratch.file("f", &content);
    let read = |from, max_lines| {
        let request = TextRequest {
            from,
            max_lines,
            ..text_all()
        };
        block_on(world.fs().read_text("f", request)).unwrap().page
    };
    assert_eq!(read(TextFrom::Line(500), 2).text, "line 500\nline 501\n");
    assert_eq!(read(TextFrom::Tail(2), 10).text, "line 999\nline 1000\n");
    assert_eq!(read(TextFrom::Byte(5), 1).text, "1\n");
    assert_eq!(read(TextFrom::Line(2000), 5).text, "");
    assert_eq!(read(TextFrom::Byte(u64::MAX), 5).text, "");
    let mut joined = String::new();
    let mut from = TextFrom::Line(1);
    loop {
        let page = read(from, 37);
        joined.push_str(&page.text);
        match page.next_cursor {
            Some(cursor) => from = TextFrom::Cursor(cursor.to_string()),
            None => break,
        }
    }
    assert_eq!(joined, content);
    for forged in ["", "x", "0:0", "/etc/passwd", "..", &"9".repeat(100)] {
        let request = TextRequest {
            from: TextFrom::Cursor(forged.to_owned()),
            ..text_all()
        };
        let failure = block_on(world.fs().read_text("f", request)).unwrap_err();
        assert_eq!(failure.reason(), Reason::BadCursor, "{forged:?}");
    }
}

#[test]
fn a_cursor_of_one_file_is_none_of_another() {
    let world = workspace("");
    world.scratch.file("a", "one\ntwo\nthree\n");
    world.scratch.file("b", "one\ntwo\nthree\n");
    let request = TextRequest {
        max_lines: 1,
        ..text_all()
    };
    let page = block_on(world.fs().read_text("a", request)).unwrap().page;
    let cursor = page.next_cursor.unwrap().to_string();
    let request = TextRequest {
        from: TextFrom::Cursor(cursor),
        ..text_all()
    };
    let failure = block_on(world.fs().read_text("b", request.clone())).unwrap_err();
    assert_eq!(failure.reason(), Reason::VersionMismatch);
    assert_eq!(
        block_on(world.fs().read_text("a", request))
            .unwrap()
            .page
            .text,
        "two\nthree\n"
    );
}

#[test]
fn binary_and_unknown_encodings_are_named_not_guessed() {
    let world = workspace("utf16 = x");
    world
        .scratch
        .file("bin", b"\x7fELF\0\0\x01\x02\0".repeat(100));
    refused(&world, &[Reading::Text], "bin", Reason::Binary);
    refused(&world, &[Reading::Json], "bin", Reason::BadJson);
    let request = TextRequest {
        encoding: Some("no-such".into()),
        ..text_all()
    };
    let failure = block_on(world.fs().read_text("utf16", request)).unwrap_err();
    assert_eq!(failure.reason(), Reason::BadEncoding);
    world
        .scratch
        .file("odd", b"caf\xe9 au lait, tr\xe8s bien\n");
    let request = TextRequest {
        encoding: Some("utf-8".into()),
        ..text_all()
    };
    let failure = block_on(world.fs().read_text("odd", request)).unwrap_err();
    assert_eq!(failure.reason(), Reason::BadEncoding);
}

#[test]
fn json_is_read_or_its_fault_has_a_place() {
    let world = workspace("good.json = {\"a\": [1, 2]}\n bad.json = {\"a\": }\n empty.json");
    let value = block_on(world.fs().read_json("good.json")).unwrap();
    assert_eq!(value, serde_json::json!({"a": [1, 2]}));
    refused(&world, &[Reading::Json], "bad.json", Reason::BadJson);
    refused(&world, &[Reading::Json], "empty.json", Reason::BadJson);
    world.scratch.file("deep.json", "[".repeat(100_000));
    refused(&world, &[Reading::Json], "deep.json", Reason::BadJson);
    // A large one goes through another thread.
    let list = |length: usize| format!("[{}1]", "1, ".repeat(length - 1));
    world.scratch.file("large.json", list(199_999));
    let value = block_on(world.fs().read_json("large.json")).unwrap();
    assert_eq!(value.as_array().unwrap().len(), 199_999);
    // More values than are read: nothing is built of it.
    world.scratch.file("huge.json", list(200_000));
    refused(&world, &[Reading::Json], "huge.json", Reason::TooLarge);
}

#[test]
fn a_cancelled_scan_of_a_large_file_stops_as_cancelled() {
    let world = workspace("");
    world
        .scratch
        .file("large", "a line of text\n".repeat(1_000_000));
    // Given up while the scan is under way. On a busy machine a scan may be
    // over before the other thread runs at all; then it is tried again.
    for _ in 0..50 {
        let cancel = CancelFlag::new();
        let caller = agent().cancelled_by(cancel.clone());
        let fs = world.fs_for(&caller);
        let request = TextRequest {
            from: TextFrom::Line(999_999),
            ..text_all()
        };
        let settled = world.lines.closing().len();
        let giver = std::thread::spawn({
            let lines = world.lines.clone();
            move || {
                while lines.closing().len() == settled {
                    cancel.cancel();
                    std::thread::yield_now();
                }
            }
        });
        let result = block_on(fs.read_text("large", request));
        giver.join().unwrap();
        if let Err(failure) = result {
            assert_eq!(failure.reason(), Reason::Cancelled);
            return;
        }
    }
    panic!("fifty scans went on to their end though their caller had given up");
}

#[test]
fn a_grant_revoked_during_a_scan_ends_it() {
    let world = workspace("");
    world
        .scratch
        .file("large", "a line of text\n".repeat(400_000));
    let (gate, lines) = (world.gate.clone(), world.lines.clone());
    let hit = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let fs = world.fs();
    gate.grants().revoke(|_| true);
    let request = TextRequest {
        from: TextFrom::Line(399_999),
        ..text_all()
    };
    let failure = block_on(fs.read_text("large", request)).unwrap_err();
    assert_eq!(failure.reason(), Reason::NoGrant);
    assert_eq!(lines.last().reason, Some(Reason::NoGrant));
    // What was revoked does not come back with the next scope.
    let failure = block_on(world.fs().stat("large")).unwrap_err();
    assert_eq!(failure.reason(), Reason::NoGrant);
    assert!(!hit.load(std::sync::atomic::Ordering::Relaxed));
}
