//! Edits: what is found, what is refused, and that nothing else changes.

use proptest::prelude::*;

use super::*;

fn edit(old: &str, new: &str) -> Edit {
    Edit {
        old: old.to_owned(),
        new: new.to_owned(),
        all: false,
    }
}

fn every(old: &str, new: &str) -> Edit {
    Edit {
        all: true,
        ..edit(old, new)
    }
}

fn planned(file: &[u8], edits: &[Edit]) -> Result<Planned, Failure> {
    plan(file, edits, EncodingChoice::Detect, PROBE_BYTES_MCP)
}

fn planned_as(file: &[u8], edits: &[Edit], label: &str) -> Result<Planned, Failure> {
    plan(file, edits, named(label), PROBE_BYTES_MCP)
}

#[track_caller]
fn check(file: &str, edits: &[Edit], want: &str) {
    let plan = planned(file.as_bytes(), edits).unwrap();
    let result = apply(file.as_bytes(), &plan.splices);
    assert_eq!(String::from_utf8(result).unwrap(), want, "{file:?}");
}

#[track_caller]
fn refuses(file: &[u8], edits: &[Edit], reason: Reason, part: &str) {
    refuses_failure(planned(file, edits).unwrap_err(), reason, part);
}

#[track_caller]
fn refuses_failure(failure: Failure, reason: Reason, part: &str) {
    assert_eq!(failure.reason(), reason, "{failure}");
    let said = format!("{failure} {}", failure.next_step().unwrap_or_default());
    assert!(said.contains(part), "{said}");
}

#[test]
fn when_the_text_is_there_once_then_it_is_replaced() {
    check("one two three", &[edit("two", "2")], "one 2 three");
    check("a\nb\nc", &[edit("b\n", "")], "a\nc");
    check("\u{feff}a", &[edit("a", "b")], "\u{feff}b");
    check("x", &[edit("x", "")], "");
}

#[test]
fn when_a_splice_is_planned_then_its_line_is_told() {
    let plan = planned(b"a\r\nb\rc\nd", &[edit("d", "x"), edit("b", "y")]).unwrap();
    let lines: Vec<_> = plan.splices.iter().map(|s| (s.at, s.first_line)).collect();
    assert_eq!(lines, [(3, 2), (7, 4)]);
}

#[test]
fn when_the_file_has_crlf_then_lf_in_the_text_stands_for_it() {
    check(
        "a\r\nb\r\nc\r\n",
        &[edit("a\nb\n", "x\ny\nz\n")],
        "x\r\ny\r\nz\r\nc\r\n",
    );
    check("a\r\nb\r\n", &[edit("a", "a\nz")], "a\r\nz\r\nb\r\n");
    check("a\r\nb", &[edit("b", "b\nc")], "a\r\nb\r\nc");
    check("a\r\nb\r\n", &[edit("\nb", "\nc")], "a\r\nc\r\n");
    check(
        "a\r\nb\r\n",
        &[edit("\n", "\n\n")].map(|mut e| {
            e.all = true;
            e
        }),
        "a\r\n\r\nb\r\n\r\n",
    );
    check("a\rb\rc", &[edit("a\nb", "x\ny")], "x\ry\rc");
}

#[test]
fn when_line_ends_are_given_exactly_then_they_are_written_exactly() {
    check("a\r\nb\r\n", &[edit("a\r\nb", "a\nb")], "a\nb\r\n");
    check("a\nb\n", &[edit("a\nb", "a\r\nb")], "a\r\nb\n");
}

#[test]
fn when_line_ends_are_mixed_then_the_exact_place_is_taken_and_else_its_own_ending() {
    // Both would do; one is exact.
    check(
        "a\r\nb\r\na\nb\n",
        &[edit("a\nb", "x\ny")],
        "a\r\nb\r\nx\ny\n",
    );
    // Within one place the first line end decides.
    check(
        "p\na\r\nb\nc\n",
        &[edit("a\nb\nc", "x\ny\nz")],
        "p\nx\r\ny\r\nz\n",
    );
    // All means all of them, each with its own.
    check(
        "a\r\nb\r\na\nb\n",
        &[every("a\nb", "x\ny")],
        "x\r\ny\r\nx\ny\n",
    );
    check("a\nb\r\nc", &[edit("c", "c\nd")], "a\nb\r\nc\nd");
    check("a\r\nb\r\nc", &[edit("c", "c\nd")], "a\r\nb\r\nc\r\nd");
}

#[test]
fn when_a_place_would_split_a_line_end_then_it_is_none() {
    check("a\r\nb", &[edit("a\r", "x")], "xb");
    check("a\r\nb", &[edit("\r", " ")], "a b");
    check("a\r\nb", &[edit("\n", " ")], "a b");
}

#[test]
fn when_the_text_is_empty_or_unchanged_then_it_is_refused() {
    refuses(b"a", &[edit("", "x")], Reason::BadArguments, "empty");
    refuses(
        b"a",
        &[edit("a", "a")],
        Reason::BadArguments,
        "nothing would change",
    );
    refuses(
        b"a\r\nb",
        &[edit("a\nb", "a\r\nb")],
        Reason::BadArguments,
        "nothing would change",
    );
    refuses(b"a", &[], Reason::BadArguments, "not 0");
    let many = vec![edit("a", "b"); MAX_EDITS + 1];
    refuses(b"a", &many, Reason::BadArguments, "101");
}

#[test]
fn when_the_text_is_not_there_then_the_nearest_line_is_named() {
    let file = b"fn a() {\n    one();\n    two();\n}\n";
    refuses(
        file,
        &[edit("one();\ntwo();", "x")],
        Reason::TextNotFound,
        "At line 2 the same words",
    );
    refuses(
        file,
        &[edit("one( );", "x")],
        Reason::TextNotFound,
        "At line 2",
    );
    refuses(
        file,
        &[edit("    one();\n    three();", "x")],
        Reason::TextNotFound,
        "begins like line 2, but line 3 differs",
    );
    refuses(
        file,
        &[edit("nothing", "x")],
        Reason::TextNotFound,
        "Read the file again",
    );
    refuses(
        file,
        &[edit("\t\t", "x")],
        Reason::TextNotFound,
        "white space alone",
    );
    refuses(
        b"a\xff",
        &[edit("\u{fffd}", "x")],
        Reason::TextNotFound,
        "U+FFFD",
    );
}

#[test]
fn when_the_text_is_there_more_than_once_then_all_lines_are_named() {
    refuses(
        b"x\ny\nx\nx x\n",
        &[edit("x", "z")],
        Reason::AmbiguousText,
        "4 times, on lines 1, 3, 4.",
    );
    // Places that overlap are two places.
    refuses(
        b"aaa",
        &[edit("aa", "b")],
        Reason::AmbiguousText,
        "2 times, on line 1.",
    );
    let long = "x\n".repeat(250);
    let failure = planned(long.as_bytes(), &[edit("x", "y")]).unwrap_err();
    assert!(failure.message().contains("250 times"), "{failure}");
    assert!(
        failure.message().ends_with("99, 100 and 150 more."),
        "{failure}"
    );
    check("aaa", &[every("aa", "b")], "ba");
    check("x y x", &[every("x", "xx")], "xx y xx");
}

#[test]
fn when_several_edits_are_given_then_each_is_matched_against_the_original() {
    let edits = [edit("a", "b"), edit("b", "a"), edit("c", "cc")];
    check("a b c", &edits, "b a cc");
    let mut turned = edits.clone();
    turned.reverse();
    check("a b c", &turned, "b a cc");
    check("abc", &[edit("a", "1"), edit("bc", "2")], "12");
    refuses(
        b"one two three",
        &[edit("one two", "x"), edit("four", "y")],
        Reason::TextNotFound,
        "Edit 2 of 2: ",
    );
}

#[test]
fn when_edits_overlap_then_both_are_named() {
    refuses(
        b"0\none two three\n",
        &[edit("0", "1"), edit("two three", "y"), edit("one two", "x")],
        Reason::BadArguments,
        "Edit 2 and edit 3 overlap at line 2",
    );
    refuses(
        b"a",
        &[edit("a", "x"), edit("a", "x")],
        Reason::BadArguments,
        "Edit 1 and edit 2 overlap",
    );
}

#[test]
fn when_the_encoding_is_multi_byte_then_no_match_starts_inside_a_character() {
    // The second byte of each of these is a backslash, or an ASCII letter.
    for (label, text) in [
        ("shift_jis", "表\\ソ能"),
        ("gbk", "俓\\昞"),
        ("big5", "功\\許蓋"),
        ("gb18030", "俓\\昞"),
    ] {
        let file = encode(text, label, false);
        let plan = planned_as(&file, &[edit("\\", "/")], label).unwrap();
        let result = apply(&file, &plan.splices);
        assert_eq!(
            result,
            encode(&text.replace('\\', "/"), label, false),
            "{label}"
        );
    }
    // Across two characters: the bytes of あ stand in no single place.
    let file = encode("漢字カナ", "shift_jis", false);
    for wrong in ["\u{8fbf}", "h", "J", "\u{ff85}"] {
        let plan = planned_as(&file, &[edit(wrong, "x")], "shift_jis");
        assert!(plan.is_err(), "{wrong}");
    }
}

#[test]
fn when_a_lead_byte_is_damaged_then_what_follows_is_matched_as_it_is_shown() {
    // 0x95 cannot be followed by a line end; the next line is sound.
    let file = b"\x95\nA\\\x95\x5c";
    let plan = planned_as(file, &[edit("\\", "/")], "shift_jis").unwrap();
    assert_eq!(apply(file, &plan.splices), b"\x95\nA/\x95\x5c");
    // A file that begins inside a character has nothing to match there.
    let plan = planned_as(b"\x95\x5c", &[edit("\\", "/")], "shift_jis");
    assert!(plan.is_err());
}

#[test]
fn when_the_file_is_utf_16_then_matches_are_aligned() {
    for (label, bom) in [("utf-16le", true), ("utf-16be", true), ("utf-16le", false)] {
        // U+6100 U+0061 …: the bytes 00 61 also stand at odd offsets.
        let text = "\u{6100}\u{61}\u{6161}a\u{100}b😀\r\nlast";
        let file = encode(text, label, bom);
        let edits = [every("a", "é"), edit("😀\nl", "1\n2")];
        let plan = planned_as(&file, &edits, label).unwrap();
        let want = text.replace('a', "é").replace("😀\r\nl", "1\r\n2");
        // The last word has an a too.
        assert_eq!(
            apply(&file, &plan.splices),
            encode(&want, label, bom),
            "{label}"
        );
        assert_eq!(plan.charset.label(), label);
    }
}

#[test]
fn when_the_encoding_lacks_a_character_then_the_edit_says_which() {
    let file = encode("café crème brûlée à la carte\n", "windows-1252", false);
    refuses(
        &file,
        &[edit("crème", "λ")],
        Reason::BadEncoding,
        "'λ' (U+03BB)",
    );
    refuses(
        &file,
        &[edit("λ", "x")],
        Reason::TextNotFound,
        "windows-1252, which has no 'λ'",
    );
    let plan = planned(&file, &[edit("crème", "œuf €")]).unwrap();
    let want = encode("café œuf € brûlée à la carte\n", "windows-1252", false);
    assert_eq!(apply(&file, &plan.splices), want);
    // An encoder that folds is one that lacks the character.
    let file = encode("漢字\\", "shift_jis", false);
    for (old, new) in [("漢", "¥"), ("漢", "\u{203e}"), ("漢", "\u{2212}")] {
        let failure = planned_as(&file, &[edit(old, new)], "shift_jis").unwrap_err();
        refuses_failure(failure, Reason::BadEncoding, "cannot say");
    }
    let failure = planned_as(&file, &[edit("¥", "x")], "shift_jis").unwrap_err();
    refuses_failure(failure, Reason::TextNotFound, "has no");
}

#[test]
fn when_the_file_is_no_text_then_it_is_not_edited() {
    refuses(b"a\0b", &[edit("a", "b")], Reason::Binary, "");
    refuses(
        b"\xff\xfe\0\0a\0\0\0",
        &[edit("a", "b")],
        Reason::BadEncoding,
        "UTF-32",
    );
    let failure = planned_as(b"\xef\xbb\xbfa", &[edit("a", "b")], "utf-16le").unwrap_err();
    refuses_failure(failure, Reason::BadEncoding, "byte order mark");
}

#[test]
fn when_the_result_would_be_without_bound_then_it_is_refused() {
    let file = vec![b'a'; 1024 * 1024];
    let big = "b".repeat(64 * 1024);
    refuses(
        &file,
        &[every("a", &big)],
        Reason::TooLarge,
        "1048576 times",
    );
    let lines = "a\n".repeat(50_000);
    refuses(
        lines.as_bytes(),
        &[every("a", &big)],
        Reason::TooLarge,
        "50000 times",
    );
}

#[test]
fn when_the_text_repeats_itself_then_the_search_stays_linear() {
    let mut file = vec![b'a'; 2 * 1024 * 1024];
    let old = format!("{}b", "a".repeat(1024 * 1024));
    refuses(&file, &[edit(&old, "x")], Reason::TextNotFound, "");
    let half = "a".repeat(1024 * 1024);
    refuses(
        &file,
        &[edit(&half, "x")],
        Reason::AmbiguousText,
        "1048577 times",
    );
    file.push(b'b');
    assert_eq!(planned(&file, &[edit(&old, "x")]).unwrap().splices.len(), 1);
}

/// A file, the text of one of its lines, and where that line is.
#[derive(Clone, Debug)]
struct Sample {
    bytes: Vec<u8>,
    label: &'static str,
    line: String,
    place: std::ops::Range<usize>,
    number: u64,
}

/// Files of any encoding and any line ends, with damage where there can be.
fn files() -> impl Strategy<Value = Sample> {
    let labels: &[(&str, bool)] = &[
        ("utf-8", false),
        ("utf-8", true),
        ("utf-16le", true),
        ("utf-16be", true),
        ("utf-16le", false),
        ("windows-1252", false),
        ("iso-8859-2", false),
        ("gbk", false),
        ("gb18030", false),
        ("shift_jis", false),
        ("euc-jp", false),
        ("big5", false),
        ("euc-kr", false),
    ];
    (
        proptest::sample::select(labels),
        proptest::collection::vec((0usize..6, 0usize..8, 0usize..5), 1..12),
        any::<proptest::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|((label, bom), lines, chosen, final_newline)| {
            let words: &[&str] = match label {
                "windows-1252" | "iso-8859-2" => &["é", "ü x", "\tü", "Ö!", "plain", "ß"],
                "utf-8" | "utf-16le" | "utf-16be" => {
                    &["é", "漢字", "😀", "\u{a0a}\u{d0d}", "plain", "\u{10d0a}"]
                }
                "gbk" | "gb18030" | "big5" => &["功", "許", "中文", "\\", "plain", "能\\"],
                "euc-kr" => &["한글", "가", "x", "\\", "plain", "나\\"],
                _ => &["表", "ソ能", "かな", "\\", "plain", "漢字\\"],
            };
            let chosen = chosen.index(lines.len());
            let mut bytes = encode("", label, bom);
            let (mut line, mut place) = (String::new(), 0..0);
            for (index, (word, damage, ending)) in lines.iter().enumerate() {
                let text = format!("{}-{index}", words[*word]);
                let start = bytes.len();
                bytes.extend(encode(&text, label, false));
                if index == chosen {
                    line = text;
                    place = start..bytes.len();
                } else if !label.starts_with("utf-16") {
                    // Damage, in what is no multi-byte lead of a line end.
                    bytes.extend_from_slice(match damage {
                        0 => b"\xff",
                        1 => b"\xc3",
                        2 => b"\xe2\x82",
                        3 => b" \xf0\x9f ",
                        _ => b"",
                    });
                } else if *damage == 0 {
                    // A lone surrogate.
                    bytes.extend_from_slice(if label == "utf-16le" {
                        b"\x00\xd8"
                    } else {
                        b"\xd8\x00"
                    });
                }
                let last = index + 1 == lines.len();
                if !last || final_newline {
                    let ending = ["\n", "\r\n", "\r\n", "\r", "\n\n"][*ending];
                    bytes.extend(encode(ending, label, false));
                }
            }
            let number = lines[..chosen]
                .iter()
                .map(|(_, _, ending)| if *ending == 4 { 2 } else { 1 })
                .sum::<u64>()
                + 1;
            Sample {
                bytes,
                label,
                line,
                place,
                number,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_line_is_edited_and_every_other_byte_is_the_same(sample in files(), longer in any::<bool>()) {
        let new = if longer { format!("{} and more", sample.line) } else { "x".to_owned() };
        let edits = [edit(&sample.line, &new)];
        // Lines are numbered, but `plain-1` is in `plain-11`.
        let plan = match planned_as(&sample.bytes, &edits, sample.label) {
            Ok(plan) => plan,
            Err(failure) => {
                prop_assert_eq!(failure.reason(), Reason::AmbiguousText);
                return Ok(());
            }
        };
        prop_assert_eq!(plan.splices.len(), 1);
        let splice = &plan.splices[0];
        prop_assert_eq!(splice.at..splice.at + splice.removed, sample.place.clone());
        prop_assert_eq!(splice.first_line, sample.number);
        let result = apply(&sample.bytes, &plan.splices);
        let mut want = sample.bytes[..sample.place.start].to_vec();
        want.extend(encode(&new, sample.label, false));
        want.extend_from_slice(&sample.bytes[sample.place.end..]);
        prop_assert_eq!(result, want);
    }

    #[test]
    fn a_line_added_after_another_ends_as_it_does(sample in files()) {
        let new = format!("{}\nadded", sample.line);
        let Ok(plan) = planned_as(&sample.bytes, &[edit(&sample.line, &new)], sample.label) else {
            return Ok(());
        };
        let result = apply(&sample.bytes, &plan.splices);
        let splice = &plan.splices[0];
        prop_assert_eq!(&result[..splice.at], &sample.bytes[..splice.at]);
        let tail = splice.at + splice.removed;
        prop_assert_eq!(&result[splice.at + splice.inserted.len()..], &sample.bytes[tail..]);
        let rest = &sample.bytes[tail..];
        for ending in ["\r\n", "\n", "\r"] {
            if rest.starts_with(&encode(ending, sample.label, false)) {
                let want = encode(&new.replace('\n', ending), sample.label, false);
                prop_assert_eq!(&splice.inserted, &want);
                break;
            }
        }
    }

    #[test]
    fn what_is_found_is_what_the_decoded_text_has(
        (text, label, bom) in super::properties::sample(), start in 0usize..60, length in 1usize..6,
    ) {
        // Matched as it stands, so that the model is the standard library's.
        let text = text.replace('\r', "") + "end";
        let start = start % text.chars().count();
        let old: String = text.chars().skip(start).take(length).collect();
        let file = encode(&text, label, bom);
        let plan = planned_as(&file, &[every(&old, "<>")], label).unwrap();
        let want = encode(&text.replace(&old, "<>"), label, bom);
        prop_assert_eq!(apply(&file, &plan.splices), want);
    }

    #[test]
    fn any_bytes_and_any_edit_give_a_sound_plan_or_a_refusal(
        file in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0x81)], 0..80),
        old in "[a\n\r\\\\é表]{1,3}", new in "[a\n\r\\\\é表]{0,3}", all in any::<bool>(),
        label in proptest::sample::select(&["", "utf-8", "utf-16le", "gb18030", "big5", "shift_jis", "euc-kr", "euc-jp", "windows-1252"][..]),
    ) {
        let choice = if label.is_empty() { EncodingChoice::Detect } else { named(label) };
        let edits = [Edit { old, new, all }, every("a", "b")];
        for edits in [&edits[..1], &edits[1..], &edits[..]] {
            let Ok(plan) = plan(&file, edits, choice, 0) else { continue };
            let mut free = 0;
            for splice in &plan.splices {
                prop_assert!(splice.at >= free && splice.removed > 0);
                free = splice.at + splice.removed;
                prop_assert!(free <= file.len());
            }
            let result = apply(&file, &plan.splices);
            let grown: usize = plan.splices.iter().map(|s| s.inserted.len()).sum();
            let gone: usize = plan.splices.iter().map(|s| s.removed).sum();
            prop_assert_eq!(result.len(), file.len() + grown - gone);
        }
    }
}
