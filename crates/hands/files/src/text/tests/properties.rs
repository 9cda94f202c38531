//! What holds for any text, any encoding and any page size.

use proptest::prelude::*;

use super::*;

/// Text whose characters every encoding in `label` can say.
pub(super) fn sample() -> impl Strategy<Value = (String, &'static str, bool)> {
    let line_end = prop_oneof![
        Just("\n"),
        Just("\r\n"),
        Just("\r"),
        Just("\n\n"),
        Just("\r\r\n")
    ];
    let words = |words: &'static [&'static str]| proptest::sample::select(words);
    let wide = words(&[
        "",
        "a",
        "é",
        "漢字",
        "😀",
        "line ",
        "\u{a0a}",
        "\u{d0d}",
        "ξ",
        "\u{10d0a}",
    ]);
    let latin = words(&["", "a", "é", "ÿ", "ü ", "line ", "€"]);
    let kanji = words(&["", "a", "漢字", "かな", "line ", "表"]);
    let text = |piece: BoxedStrategy<&'static str>| {
        proptest::collection::vec(prop_oneof![3 => piece, 1 => line_end.clone()], 0..60)
            .prop_map(|pieces| pieces.concat())
    };
    prop_oneof![
        (
            text(wide.clone().boxed()),
            prop_oneof![Just("utf-8"), Just("utf-16le"), Just("utf-16be")],
            any::<bool>()
        ),
        (text(wide.boxed()), Just("gb18030"), Just(false)),
        (text(latin.boxed()), Just("windows-1252"), Just(false)),
        (
            text(kanji.boxed()),
            prop_oneof![Just("shift_jis"), Just("euc-jp"), Just("gbk")],
            Just(false)
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_any_size_join_to_the_decoded_file(
        (text, label, bom) in sample(), max_lines in 1u64..8, max_bytes in 1usize..80, first in 1u64..6,
    ) {
        let file = encode(&text, label, bom);
        let mut request = ask(ReadFrom::Line(first));
        request.max_lines = max_lines;
        request.max_bytes = max_bytes;
        request.encoding = named(label);
        let lines = split(&text);
        let pages = pages(&file, &request).unwrap();
        let joined: String = pages.iter().map(|page| page.text.as_str()).collect();
        let skipped = usize::try_from(first).unwrap() - 1;
        prop_assert_eq!(joined, lines.iter().skip(skipped).cloned().collect::<String>());
        let mut at = pages[0].byte_range.start;
        for page in &pages {
            prop_assert!(page.text.len() <= max_bytes.max(16));
            prop_assert!(page.lines <= max_lines);
            prop_assert_eq!(page.byte_range.start, at);
            prop_assert_eq!(page.has_more, page.next_cursor.is_some());
            prop_assert_eq!(page.bom, bom);
            at = page.byte_range.end;
            if let Some(number) = page.start_line {
                let line = &lines[usize::try_from(number).unwrap() - 1];
                let begun = split(&page.text);
                prop_assert!(page.starts_mid_line || line.starts_with(begun[0].as_str()));
                prop_assert!(!page.starts_mid_line || line.ends_with(begun[0].as_str()) || page.ends_mid_line);
            }
        }
        prop_assert_eq!(at, file.len() as u64);
        prop_assert_eq!(pages.last().unwrap().total_lines, Some(lines.len() as u64));
    }

    #[test]
    fn the_tail_is_the_last_lines((text, label, bom) in sample(), count in 0u64..12) {
        let file = encode(&text, label, bom);
        let mut request = ask(ReadFrom::Tail(count));
        request.encoding = named(label);
        let lines = split(&text);
        let skipped = lines.len().saturating_sub(usize::try_from(count).unwrap());
        let page = read_page(file.as_slice(), &request).unwrap();
        prop_assert_eq!(page.text, lines[skipped..].concat());
        prop_assert_eq!(page.final_newline, text.ends_with(['\n', '\r']));
    }

    #[test]
    fn replaced_pages_join_to_the_whole_replaced(
        file in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(0xc3)], 0..80),
        max_bytes in 16usize..60, max_lines in 1u64..4,
    ) {
        let mut request = ask(ReadFrom::Line(1));
        request.probe_bytes = 0;
        request.encoding = named("utf-8");
        request.on_malformed = OnMalformed::Replace;
        request.max_bytes = max_bytes;
        request.max_lines = max_lines;
        prop_assume!(!file.starts_with(&[0xff, 0xfe]) && !file.starts_with(&[0xfe, 0xff]));
        prop_assume!(!file.starts_with(&[0xef, 0xbb, 0xbf]) && !file.starts_with(&[0, 0, 0xfe, 0xff]));
        let pages = pages(&file, &request).unwrap();
        let joined: String = pages.iter().map(|page| page.text.as_str()).collect();
        prop_assert_eq!(joined, String::from_utf8_lossy(&file).into_owned());
    }

    #[test]
    fn nothing_panics_on_any_bytes(
        file in proptest::collection::vec(any::<u8>(), 0..200),
        from in prop_oneof![
            (0u64..9).prop_map(ReadFrom::Line), (0u64..9).prop_map(ReadFrom::Tail), (0u64..300).prop_map(ReadFrom::Byte),
        ],
        max_bytes in 0usize..60,
        cap in proptest::option::of(0usize..20),
        label in proptest::sample::select(&["", "utf-8", "utf-16le", "gb18030", "big5", "shift_jis", "euc-kr", "windows-1252"][..]),
    ) {
        let mut request = ask(from);
        request.max_bytes = max_bytes;
        request.max_line_bytes = cap;
        request.on_malformed = OnMalformed::Replace;
        request.probe_bytes = 0;
        if !label.is_empty() {
            request.encoding = named(label);
        }
        if let Ok(pages) = pages(&file, &request) {
            for page in pages {
                prop_assert!(page.text.len() <= max_bytes.max(16));
            }
        }
    }
}
