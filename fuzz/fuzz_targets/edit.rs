//! Edits of arbitrary bytes: no panic, and no byte outside a splice changes.
//!
//! Run: `cargo +nightly fuzz run edit` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_files::text::{
    Charset, Edit, EncodingChoice, Splice, apply, plan, redact, unified,
};

const LABELS: [&str; 8] = [
    "utf-8",
    "utf-16le",
    "utf-16be",
    "shift_jis",
    "gb18030",
    "big5",
    "euc-jp",
    "windows-1252",
];

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, flags, old_len, new_len], rest)) = data.split_first_chunk::<4>()
    else {
        return;
    };
    let take = |length: u8, from: &mut &[u8]| {
        let (taken, left) = from.split_at(usize::from(length).min(from.len()));
        *from = left;
        taken.to_vec()
    };
    let mut rest = rest;
    let old = String::from_utf8_lossy(&take(old_len % 16, &mut rest)).into_owned();
    let new = String::from_utf8_lossy(&take(new_len % 16, &mut rest)).into_owned();
    let base = rest;
    let choice = LABELS
        .get(usize::from(kind) % (LABELS.len() + 1))
        .and_then(|label| Charset::for_label(label).ok())
        .map_or(EncodingChoice::Detect, EncodingChoice::Named);
    let edits = [Edit {
        old,
        new,
        all: flags & 1 == 1,
    }];
    let Ok(planned) = plan(base, &edits, choice, usize::from(flags)) else {
        return;
    };
    untouched(base, &planned.splices);
    let after = apply(base, &planned.splices);
    assert!(unified("f", base, &after, 4096).text.len() <= 4096);
    redact(".env", &String::from_utf8_lossy(base), &[0; 32]);
});

/// Every byte outside the splices is where it was, moved by what came and went.
fn untouched(original: &[u8], splices: &[Splice]) {
    let result = apply(original, splices);
    let (mut from, mut to) = (0, 0);
    for splice in splices {
        assert!(splice.at >= from && splice.removed > 0);
        let kept = splice.at - from;
        assert_eq!(&original[from..splice.at], &result[to..to + kept]);
        from = splice.at + splice.removed;
        to += kept + splice.inserted.len();
    }
    assert_eq!(&original[from..], &result[to..]);
}
