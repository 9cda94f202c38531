//! Text on its way into a file, and the word about files that shrink.

use super::super::encode as write;
use super::*;

const KEEP: WriteText = WriteText {
    encoding: WriteEncoding::KeepOrUtf8,
    bom: Bom::Keep,
    line_ending: WriteEnding::Keep,
};

fn as_named(label: &str) -> WriteText {
    WriteText {
        encoding: WriteEncoding::Named(Charset::for_label(label).unwrap()),
        ..KEEP
    }
}

#[track_caller]
fn check(text: &str, options: WriteText, existing: Option<&[u8]>, want: &[u8]) {
    assert_eq!(write(text, options, existing).unwrap(), want, "{text:?}");
}

#[test]
fn when_the_file_is_new_then_the_text_is_written_as_given() {
    check("é\r\nb\nc", KEEP, None, "é\r\nb\nc".as_bytes());
    check("a\r\n", KEEP, Some(b""), b"a\r\n");
    check("a\n", KEEP, Some(b"\0\x01binary\r\n"), b"a\n");
    check("\u{feff}a", KEEP, None, b"\xef\xbb\xbfa");
    assert_eq!(WriteText::default(), KEEP);
}

#[test]
fn when_a_file_is_replaced_then_encoding_mark_and_line_ends_are_kept() {
    check("a\nb\r\n", KEEP, Some(b"x\r\ny\r\n"), b"a\r\nb\r\n");
    check("a\nb\r\n", KEEP, Some(b"x\ny\n"), b"a\nb\n");
    check("a\nb\r\n", KEEP, Some(b"x\ny\r\n"), b"a\nb\r\n");
    check("a\nb", KEEP, Some(b"x\ry\rz"), b"a\rb");
    check("a\n", KEEP, Some(b"\xef\xbb\xbfx"), b"\xef\xbb\xbfa\n");
    check("\u{feff}a", KEEP, Some(b"\xef\xbb\xbfx"), b"\xef\xbb\xbfa");
    for label in ["utf-16le", "utf-16be"] {
        let existing = encode("x\r\ny\r\n", label, true);
        check("é\n", KEEP, Some(&existing), &encode("é\r\n", label, true));
    }
    let latin = encode("café crème brûlée à la carte\n", "windows-1252", false);
    check(
        "œuf\n",
        KEEP,
        Some(&latin),
        &encode("œuf\n", "windows-1252", false),
    );
}

#[test]
fn when_options_are_named_then_they_hold() {
    let crlf = WriteText {
        line_ending: WriteEnding::Crlf,
        ..KEEP
    };
    check("a\nb\r\nc", crlf, Some(b"x\n"), b"a\r\nb\r\nc");
    let lf = WriteText {
        line_ending: WriteEnding::Lf,
        ..KEEP
    };
    check("a\nb\r\nc", lf, None, b"a\nb\nc");
    let yes = WriteText {
        bom: Bom::Yes,
        ..KEEP
    };
    check("a", yes, None, b"\xef\xbb\xbfa");
    check("\u{feff}a", yes, None, b"\xef\xbb\xbfa");
    let no = WriteText {
        bom: Bom::No,
        ..KEEP
    };
    check("\u{feff}a", no, Some(b"\xef\xbb\xbfx"), b"a");
    check(
        "é",
        as_named("utf-8"),
        Some(&encode("x", "utf-16le", true)),
        "é".as_bytes(),
    );
    check(
        "漢",
        as_named("shift_jis"),
        None,
        &encode("漢", "shift_jis", false),
    );
    // Nobody recognises UTF-16 without its mark, so it comes with one.
    check("a", as_named("utf-16be"), None, b"\xfe\xff\0a");
    check("a", as_named("utf-16le"), Some(b"plain"), b"\xff\xfea\0");
    // A file of it that had none keeps having none.
    check("b", as_named("utf-16le"), Some(b"a\0"), b"b\0");
}

#[test]
fn when_the_encoding_lacks_a_character_then_the_first_is_named_with_its_place() {
    for (text, options, existing, part) in [
        (
            "ab\r\ncλd λ",
            as_named("windows-1252"),
            None,
            "'λ' (U+03BB), at line 2 column 2",
        ),
        ("¥", as_named("shift_jis"), None, "line 1 column 1"),
        (
            "a\n\nλ",
            KEEP,
            Some(encode(
                "café crème brûlée à la carte\n",
                "windows-1252",
                false,
            )),
            "windows-1252 has no 'λ' (U+03BB), at line 3 column 1",
        ),
    ] {
        let failure = write(text, options, existing.as_deref()).unwrap_err();
        assert_eq!(failure.reason(), Reason::BadEncoding);
        assert!(failure.message().contains(part), "{failure}");
    }
    let marked = WriteText {
        bom: Bom::Yes,
        ..as_named("windows-1252")
    };
    assert_eq!(
        write("a", marked, None).unwrap_err().reason(),
        Reason::BadArguments
    );
}

#[test]
fn when_more_than_two_fifths_of_a_large_file_go_then_it_shrinks() {
    for (before, after, want) in [
        (10_000, 6000, false),
        (10_000, 5999, true),
        (4096, 0, true),
        (4095, 0, false),
        (4096, 9999, false),
        (0, 0, false),
        (u64::MAX, 0, true),
        (u64::MAX, u64::MAX, false),
    ] {
        assert_eq!(shrinks(before, after), want, "{before} -> {after}");
    }
}
