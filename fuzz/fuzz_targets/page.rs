//! Pages of text over arbitrary bytes: no panic, within the limits, and always further.
//!
//! Run: `cargo +nightly fuzz run page` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_files::text::{
    EncodingChoice, Growth, OnMalformed, PageRequest, ReadFrom, Stamp, read_page,
};

fuzz_target!(|data: &[u8]| {
    let Some((head, file)) = data.split_at_checked(8) else {
        return;
    };
    let from = match head[0] % 3 {
        0 => ReadFrom::Line(u64::from(head[1])),
        1 => ReadFrom::Tail(u64::from(head[1])),
        _ => ReadFrom::Byte(u64::from(head[1])),
    };
    let mut request = PageRequest {
        from,
        max_lines: u64::from(head[2]),
        max_bytes: usize::from(head[3]),
        max_line_bytes: (head[4] > 0).then(|| usize::from(head[4])),
        encoding: EncodingChoice::Detect,
        on_malformed: if head[5] & 1 == 0 {
            OnMalformed::Refuse
        } else {
            OnMalformed::Replace
        },
        probe_bytes: usize::from(head[6]),
        stamp: Stamp {
            dev: 1,
            ino: 2,
            size: file.len() as u64,
            mtime_ns: 3,
        },
        growth: Growth::Allow,
    };
    let mut at = 0;
    while let Ok(page) = read_page(file, &request) {
        // A cut line may add a mark of its own; otherwise the limit holds.
        assert!(page.text.len() <= request.max_bytes.max(16));
        assert!(page.byte_range.start <= page.byte_range.end);
        assert!(page.byte_range.end <= file.len() as u64);
        let Some(cursor) = page.next_cursor else {
            return;
        };
        assert!(page.byte_range.end > at, "every page gets somewhere");
        at = page.byte_range.end;
        let cursor = cursor.to_string().parse().expect("our own cursor");
        request.from = ReadFrom::Cursor(cursor);
    }
});
