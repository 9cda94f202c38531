//! Diffs: what is shown, what is bounded, and what cannot draw.
#![expect(clippy::format_collect, reason = "the plain way to make a long text")]

use proptest::prelude::*;

use super::*;

const ROOM: usize = 64 * 1024;

fn body(before: &str, after: &str) -> String {
    let diff = unified("f", before.as_bytes(), after.as_bytes(), ROOM);
    diff.text
        .strip_prefix("--- a/f\n+++ b/f\n")
        .unwrap_or(&diff.text)
        .to_owned()
}

#[test]
fn when_lines_change_then_they_are_shown_with_three_around() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let want = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
    assert_eq!(body(before, &before.replace('5', "five")), want);
    assert_eq!(body("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
    assert_eq!(body("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
    assert_eq!(
        body("a\n", "a"),
        "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"
    );
    let long: String = (1..=20).map(|n| format!("{n}\n")).collect();
    let two = long.replace("\n3\n", "\nx\n").replace("\n17\n", "\ny\n");
    assert_eq!(body(&long, &two).matches("@@ -").count(), 2);
    assert_eq!(body("a", "a"), "");
}

#[test]
fn when_lines_are_counted_then_all_are() {
    let diff = unified("f", b"a\nb\nc\n", b"a\nx\ny\nc\n", ROOM);
    assert_eq!((diff.added, diff.removed, diff.truncated), (2, 1, false));
    let many = "x\n".repeat(5000);
    let diff = unified("f", b"", many.as_bytes(), 500);
    assert_eq!((diff.added, diff.removed, diff.truncated), (5000, 0, true));
    assert!(diff.text.len() <= 500 && diff.text.ends_with("cut here.]\n"));
}

#[test]
fn when_line_ends_or_encodings_differ_then_it_shows() {
    assert_eq!(body("a\r\n", "a\n"), "@@ -1 +1 @@\n-a\\r\n+a\n");
    assert_eq!(
        body("a\r\nb\r\n", "a\r\nc\r\n"),
        "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    );
    let utf16 = encode("é\n", "utf-16le", true);
    let diff = unified("f", "é\n".as_bytes(), &utf16, ROOM);
    assert!(
        diff.text
            .contains("utf-8 before, utf-16le with a byte order mark after"),
        "{}",
        diff.text
    );
    let other = encode("ü\n", "utf-16le", true);
    assert!(
        unified("f", &utf16, &other, ROOM)
            .text
            .ends_with("-é\n+ü\n")
    );
}

#[test]
fn when_a_side_is_binary_or_huge_then_that_is_said() {
    let diff = unified("f", b"a\0b", b"text", ROOM);
    assert!(diff.text.contains("Binary files differ") && diff.truncated);
    let huge = vec![b'a'; 40 * 1024 * 1024];
    let diff = unified("f", &huge, b"text", ROOM);
    assert!(diff.text.contains("Too large to compare") && diff.truncated);
    let one: String = (0..150_000).map(|n| format!("{n}\n")).collect();
    let other: String = (0..150_000).map(|n| format!("x{n}\n")).collect();
    let diff = unified("f", one.as_bytes(), other.as_bytes(), ROOM);
    assert!(
        diff.text.contains("Too many lines") && diff.truncated,
        "{}",
        diff.text
    );
    assert_eq!((diff.added, diff.removed), (150_000, 150_000));
}

#[test]
fn when_both_sides_are_alike_and_unlike_everywhere_then_it_ends_soon() {
    let one: String = (0..90_000u32)
        .map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761) >> 28))
        .collect();
    let other: String = (0..90_000u32)
        .map(|n| format!("{}\n", n.wrapping_mul(40_503_977) >> 28))
        .collect();
    assert!(unified("f", one.as_bytes(), other.as_bytes(), ROOM).truncated);
}

#[test]
fn when_a_line_or_a_name_holds_controls_then_they_are_spelled_out() {
    let diff = unified(
        "a\x1b[2J\nb",
        b"",
        "\x1b]0;x\x07\t\u{9b}2J\u{202e}\u{feff}é\x08\n".as_bytes(),
        ROOM,
    );
    assert!(
        diff.text.starts_with("--- a/a\\u{1b}[2J\\nb\n"),
        "{}",
        diff.text
    );
    assert!(
        diff.text
            .ends_with("+\\u{1b}]0;x\\u{7}\t\\u{9b}2J\\u{202e}\\u{feff}é\\u{8}\n"),
        "{}",
        diff.text
    );
    let long = "y".repeat(5000);
    let diff = unified("f", b"", long.as_bytes(), ROOM);
    assert!(diff.text.contains("[3000 more bytes]") && diff.truncated);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_diff_draws_or_outgrows_its_room(
        before in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'a')], 0..60),
        after in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'a')], 0..60),
        path in any::<String>(), room in 0usize..400,
    ) {
        let diff = unified(&path, &before, &after, room);
        prop_assert!(diff.text.len() <= room);
        prop_assert!(!diff.text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        prop_assert_eq!(before == after, diff.text.is_empty() && !diff.truncated);
    }

    #[test]
    fn what_is_shown_makes_the_one_out_of_the_other(
        before in "([ab]\n){0,30}", after in "([ab]\n){0,30}",
    ) {
        let diff = unified("f", before.as_bytes(), after.as_bytes(), ROOM);
        let lines: Vec<_> = diff.text.lines().skip(2).filter(|line| !line.starts_with("@@")).collect();
        let side = |mark: char| lines.iter().filter(|line| line.starts_with(mark)).count() as u64;
        prop_assert_eq!((side('+'), side('-')), (diff.added, diff.removed));
        let lengths = before.lines().count() as u64 + diff.added - diff.removed;
        prop_assert_eq!(lengths, after.lines().count() as u64);
    }
}
