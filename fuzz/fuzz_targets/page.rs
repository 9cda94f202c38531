//! Pages of text over arbitrary bytes: within the limits, one after the other
//! without a gap, and the file's own bytes wherever nothing was cut or replaced.
//!
//! Run: `cargo +nightly fuzz run page` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_files::text::{
    Charset, EncodingChoice, Growth, OnMalformed, PageRequest, ReadFrom, Stamp, TextPage, read_page,
};
use portcullis_proto::Reason;

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
        encoding: match head[7] % 8 {
            1 => EncodingChoice::Named(Charset::UTF_8),
            2 => EncodingChoice::Named(Charset::UTF_16LE),
            3 => EncodingChoice::Named(Charset::UTF_16BE),
            _ => EncodingChoice::Detect,
        },
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
    let mut at = None;
    loop {
        let page = match read_page(file, &request) {
            Ok(page) => page,
            Err(failure) => {
                let ours = at.is_none() || failure.reason() != Reason::BadCursor;
                assert!(ours, "our own cursor is refused: {failure:?}");
                return;
            }
        };
        assert!(page.text.len() <= request.max_bytes.max(16));
        check(file, &page, at);
        let Some(cursor) = page.next_cursor else {
            assert_eq!(page.byte_range.end, file.len() as u64, "to the end");
            return;
        };
        assert!(page.byte_range.end > page.byte_range.start, "further");
        at = Some(page.byte_range.end);
        let cursor = cursor.to_string().parse().expect("our own cursor");
        request.from = ReadFrom::Cursor(cursor);
    }
});

/// What a page says of itself is so; the one before it ended at `at`.
fn check(file: &[u8], page: &TextPage, at: Option<u64>) {
    let range = page.byte_range.start as usize..page.byte_range.end as usize;
    let shown = file.get(range.clone()).expect("a part of the file");
    assert!(at.is_none_or(|at| at == page.byte_range.start), "no gap");
    let wide = [Charset::UTF_16LE, Charset::UTF_16BE].contains(&page.encoding);
    if wide {
        return;
    }
    if page.encoding == Charset::UTF_8 && page.replaced == 0 && page.cut_lines.is_empty() {
        assert_eq!(page.text.as_bytes(), shown, "byte for byte");
    }
    if let Some(line) = page.start_line {
        assert_eq!(
            line,
            1 + breaks(&file[..range.start]),
            "the line it begins with"
        );
    }
    if let Some(total) = page.total_lines {
        let open = !file.is_empty() && !matches!(file.last(), Some(b'\n' | b'\r'));
        let bare_mark = page.bom && file.len() == 3;
        let want = breaks(file) + u64::from(open && !bare_mark);
        assert_eq!(total, want, "the lines of the file");
    }
}

/// How many lines end in `part`: by LF, CR LF, or a CR alone.
fn breaks(part: &[u8]) -> u64 {
    let ends = |(i, byte): (usize, &u8)| match byte {
        b'\n' => true,
        b'\r' => part.get(i + 1) != Some(&b'\n'),
        _ => false,
    };
    part.iter().enumerate().filter(|at| ends(*at)).count() as u64
}
