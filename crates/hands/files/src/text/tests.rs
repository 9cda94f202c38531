//! Paging against the plain way: decode the whole, then split it into lines.

use std::cell::Cell;
use std::io;

use super::*;
use portcullis_proto::{Failure, Reason};

mod diff;
mod edit;
mod encode;
mod properties;
mod redact;

const STAMP: Stamp = Stamp {
    dev: 1,
    ino: 2,
    size: 3,
    mtime_ns: 4,
};

fn ask(from: ReadFrom) -> PageRequest {
    PageRequest {
        from,
        max_lines: 1000,
        max_bytes: 256 * 1024,
        max_line_bytes: None,
        encoding: EncodingChoice::Detect,
        on_malformed: OnMalformed::Refuse,
        probe_bytes: PROBE_BYTES_MCP,
        stamp: STAMP,
        growth: Growth::Refuse,
    }
}

fn named(label: &str) -> EncodingChoice {
    EncodingChoice::Named(Charset::for_label(label).unwrap())
}

/// The lines of decoded text, each with its terminator.
fn split(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line.push(c);
        if c == '\n' || (c == '\r' && chars.peek() != Some(&'\n')) {
            lines.push(std::mem::take(&mut line));
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn encode(text: &str, label: &str, bom: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let text = if bom {
        format!("\u{feff}{text}")
    } else {
        text.to_owned()
    };
    match label {
        "utf-16le" => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
        "utf-16be" => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
        label => {
            let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
            let (encoded, _, unmappable) = encoding.encode(&text);
            assert!(!unmappable, "{label} cannot say {text:?}");
            bytes.extend_from_slice(&encoded);
        }
    }
    bytes
}

/// All pages from the first on, following cursors as text.
fn pages(file: &[u8], request: &PageRequest) -> Result<Vec<TextPage>, Failure> {
    let mut pages = vec![read_page(file, request)?];
    while let Some(cursor) = pages.last().and_then(|page| page.next_cursor) {
        let cursor = cursor.to_string().parse()?;
        pages.push(read_page(
            file,
            &PageRequest {
                from: ReadFrom::Cursor(cursor),
                ..request.clone()
            },
        )?);
        assert!(pages.len() <= file.len() + 2, "paging gets nowhere");
    }
    Ok(pages)
}

#[track_caller]
fn refused(file: &[u8], request: &PageRequest, reason: Reason, part: &str) -> Failure {
    let failure = read_page(file, request).unwrap_err();
    assert_eq!(failure.reason(), reason, "{failure}");
    let said = format!("{failure} {}", failure.next_step().unwrap_or_default());
    assert!(said.contains(part), "{said}");
    failure
}

#[test]
fn when_a_line_is_asked_for_then_the_page_starts_there() {
    for (file, line, want, start, total) in [
        ("a\nb\nc\n", 2, "b\nc\n", Some(2), Some(3)),
        ("a\nb\nc", 3, "c", Some(3), Some(3)),
        ("a\nb\nc", 0, "a\nb\nc", Some(1), Some(3)),
        ("a\nb\nc", 4, "", None, Some(3)),
        ("a\nb\nc\n", 9, "", None, Some(3)),
        ("", 1, "", None, Some(0)),
        ("\n", 1, "\n", Some(1), Some(1)),
        ("\r\r\n\n", 3, "\n", Some(3), Some(3)),
        ("a\rb\r\nc\nd", 3, "c\nd", Some(3), Some(4)),
        ("a\r\nb\r\n", 2, "b\r\n", Some(2), Some(2)),
        ("\u{feff}é\nü", 1, "é\nü", Some(1), Some(2)),
    ] {
        let page = read_page(file.as_bytes(), &ask(ReadFrom::Line(line))).unwrap();
        assert_eq!(
            (page.text.as_str(), page.start_line, page.total_lines),
            (want, start, total),
            "{file:?} from line {line}"
        );
        assert!(!page.has_more && page.next_cursor.is_none());
    }
}

#[test]
fn when_the_tail_is_asked_for_then_the_last_lines_come() {
    for (file, count, want) in [
        ("a\nb\nc\n", 1, "c\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc", 9, "a\nb\nc"),
        ("a\nb", 0, ""),
        ("", 3, ""),
        ("a\rb\r", 1, "b\r"),
        ("a\r\nb\r\n", 1, "b\r\n"),
        ("a\r\nb\r\n", 2, "a\r\nb\r\n"),
        ("a\n\n\n", 2, "\n\n"),
    ] {
        let page = read_page(file.as_bytes(), &ask(ReadFrom::Tail(count))).unwrap();
        assert_eq!(page.text, want, "{file:?}, last {count}");
    }
}

#[test]
fn the_page_tells_how_its_lines_and_the_file_end() {
    for (file, ending, newline) in [
        ("a", LineEnding::None, false),
        ("a\n", LineEnding::Lf, true),
        ("a\r\nb\r\n", LineEnding::Crlf, true),
        ("a\rb\r", LineEnding::Cr, true),
        ("a\rb", LineEnding::Cr, false),
        ("a\r\nb\n", LineEnding::Mixed, true),
        ("a\rb\nc", LineEnding::Mixed, false),
        ("", LineEnding::None, false),
    ] {
        let page = read_page(file.as_bytes(), &ask(ReadFrom::Line(1))).unwrap();
        assert_eq!(
            (page.line_ending, page.final_newline),
            (ending, newline),
            "{file:?}"
        );
    }
    // Of the page, and of the head, which need not be the same.
    let page = read_page(b"a\r\nb\nc\n".as_slice(), &ask(ReadFrom::Line(2))).unwrap();
    assert_eq!(
        (page.line_ending, page.head_line_ending),
        (LineEnding::Lf, LineEnding::Mixed)
    );
}

#[test]
fn the_encoding_is_told_and_a_guess_is_called_one() {
    let french = "Où êtes-vous allés cet été ? À la forêt, près du château.\n".repeat(3);
    let russian = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n".repeat(3);
    let japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n".repeat(3);
    let chinese = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。\n".repeat(3);
    for (text, label, bom, detected) in [
        (&french, "utf-8", false, false),
        (&french, "utf-8", true, false),
        (&french, "utf-16le", true, false),
        (&french, "utf-16be", true, false),
        (&french, "windows-1252", false, true),
        (&russian, "windows-1251", false, true),
        (&russian, "koi8-u", false, true),
        (&japanese, "shift_jis", false, true),
        (&japanese, "euc-jp", false, true),
        (&chinese, "gbk", false, true),
    ] {
        let file = encode(text, label, bom);
        let page = read_page(file.as_slice(), &ask(ReadFrom::Line(1))).unwrap();
        assert_eq!(
            (
                page.encoding.label().as_str(),
                page.bom,
                page.detected,
                &page.text
            ),
            (label, bom, detected, text)
        );
    }
}

#[test]
fn utf16_without_a_mark_is_read_only_when_asked_for() {
    let file = encode("a\r\n\u{10a0a}\u{1f600}\nb", "utf-16le", false);
    refused(&file, &ask(ReadFrom::Line(1)), Reason::Binary, "UTF-16");
    let mut request = ask(ReadFrom::Line(2));
    request.encoding = named("utf-16le");
    let page = read_page(file.as_slice(), &request).unwrap();
    assert_eq!(page.text, "\u{10a0a}\u{1f600}\nb");
    assert_eq!(page.line_ending, LineEnding::Lf);
}

#[test]
fn binaries_are_refused_and_the_probe_has_a_size() {
    refused(b"ab\0cd", &ask(ReadFrom::Line(1)), Reason::Binary, "bytes");
    refused(
        b"\x01\x02\x03ab",
        &ask(ReadFrom::Line(1)),
        Reason::Binary,
        "bytes",
    );
    let mut late = vec![b'a'; 5000];
    late.push(0);
    refused(&late, &ask(ReadFrom::Line(1)), Reason::Binary, "");
    let mut request = ask(ReadFrom::Line(1));
    request.probe_bytes = PROBE_BYTES_REST;
    assert_eq!(
        read_page(late.as_slice(), &request).unwrap().text.len(),
        5001
    );
    // Colours in a log are no binary.
    let log = b"\x1b[31mred\x1b[0m and plain text\n".as_slice();
    assert!(read_page(log, &ask(ReadFrom::Line(1))).is_ok());
    refused(
        b"\xff\xfe\0\0a\0\0\0",
        &ask(ReadFrom::Line(1)),
        Reason::BadEncoding,
        "UTF-32",
    );
}

#[test]
fn damage_in_utf8_is_refused_with_its_place_or_replaced_and_counted() {
    let file = b"gr\xc3\xbc\xc3\x9fe\nz\xc3\xa4h \xff\xfe x\n".as_slice();
    let mut request = ask(ReadFrom::Line(1));
    refused(file, &request, Reason::BadEncoding, "offset 13, in line 2");
    // The window decides: a page without the damage is fine.
    request.max_lines = 1;
    assert_eq!(read_page(file, &request).unwrap().text, "grüße\n");
    request.max_lines = 9;
    request.on_malformed = OnMalformed::Replace;
    let page = read_page(file, &request).unwrap();
    assert_eq!(page.text, "grüße\nzäh \u{fffd}\u{fffd} x\n");
    assert_eq!(page.replaced, 2);
}

#[test]
fn a_wrongly_named_encoding_is_refused_with_the_likely_one() {
    let utf8 = "漢字\n".as_bytes();
    let mut request = ask(ReadFrom::Line(1));
    request.encoding = named("euc-jp");
    refused(utf8, &request, Reason::BadEncoding, "looks like utf-8");
    let latin = encode("Où êtes-vous allés cet été ?\n", "windows-1252", false);
    request.encoding = named("utf-8");
    refused(
        &latin,
        &request,
        Reason::BadEncoding,
        "looks like windows-1252",
    );
    let marked = encode("abc", "utf-16be", true);
    request.encoding = named("utf-16le");
    refused(&marked, &request, Reason::BadEncoding, "Name utf-16be");
    for label in ["utf-9", "", "iso-2022-jp", "hz-gb-2312"] {
        let failure = Charset::for_label(label).unwrap_err();
        assert_eq!(failure.reason(), Reason::BadEncoding);
    }
    // A last odd byte is damage, too.
    let odd = b"\xff\xfea\0\n\0b".as_slice();
    refused(
        odd,
        &ask(ReadFrom::Line(1)),
        Reason::BadEncoding,
        "offset 6, in line 2",
    );
    assert_eq!(
        read_page(odd, &ask(ReadFrom::Tail(1)))
            .unwrap_err()
            .reason(),
        Reason::BadEncoding
    );
}

#[test]
fn long_lines_are_cut_and_the_rest_can_be_read_on() {
    let file = format!("short\n{}é{}\r\nlast", "x".repeat(9), "y".repeat(100_000));
    let mut request = ask(ReadFrom::Line(1));
    request.max_line_bytes = Some(10);
    let page = read_page(file.as_bytes(), &request).unwrap();
    assert_eq!(page.text, "short\nxxxxxxxxx\r\nlast");
    assert_eq!((page.lines, page.truncated_lines()), (3, 1));
    assert_eq!(
        page.cut_lines,
        [CutLine {
            index: 1,
            rest_at: 15,
            omitted: 100_002
        }]
    );
    request = ask(ReadFrom::Byte(15));
    request.max_lines = 1;
    let rest = read_page(file.as_bytes(), &request).unwrap();
    assert!(rest.starts_mid_line && rest.text.starts_with("éyyy") && rest.text.ends_with("y\r\n"));
}

#[test]
fn a_byte_inside_a_character_is_that_character() {
    for (label, text) in [
        ("utf-8", "aé漢😀b"),
        ("utf-16le", "aé漢😀b"),
        ("gb18030", "aé漢😀b"),
    ] {
        let file = encode(text, label, false);
        let mut request = ask(ReadFrom::Byte(0));
        request.encoding = named(label);
        for offset in 0..=file.len() as u64 {
            request.from = ReadFrom::Byte(offset);
            let page = read_page(file.as_slice(), &request).unwrap();
            assert!(
                text.ends_with(&page.text),
                "{label} {offset}: {:?}",
                page.text
            );
            assert!(page.byte_range.start <= offset && offset - page.byte_range.start < 4);
        }
    }
}

#[test]
fn cursors_of_another_version_or_made_up_are_refused() {
    let file = "ab\r\ncd\né\n".as_bytes();
    let mut request = ask(ReadFrom::Line(1));
    request.max_lines = 1;
    let cursor = read_page(file, &request).unwrap().next_cursor.unwrap();
    request.from = ReadFrom::Cursor(cursor);
    assert_eq!(read_page(file, &request).unwrap().text, "cd\n");
    request.stamp.mtime_ns += 1;
    refused(file, &request, Reason::VersionMismatch, "changed");
    request.stamp = STAMP;
    for (offset, mid_line) in [(1, false), (3, false), (8, true), (99, true), (5, false)] {
        request.from = ReadFrom::Cursor(Cursor {
            offset,
            mid_line,
            ..cursor
        });
        refused(file, &request, Reason::BadCursor, "cursor");
    }
}

/// Four GiB of numbered lines, made when read; counts what is read.
struct Huge {
    read: Cell<u64>,
    largest: Cell<usize>,
}

impl Huge {
    const LEN: u64 = 4 << 30;
    const fn new() -> Self {
        Self {
            read: Cell::new(0),
            largest: Cell::new(0),
        }
    }
}

impl ReadAt for Huge {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read.set(self.read.get() + buf.len() as u64);
        self.largest.set(self.largest.get().max(buf.len()));
        for (at, byte) in (offset..).zip(buf.iter_mut()) {
            *byte = if at % 16 == 15 {
                b'\n'
            } else {
                b'a' + (at / 16 % 26) as u8
            };
        }
        Ok(buf.len())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(Self::LEN)
    }
}

#[test]
fn ten_lines_from_the_end_of_four_gib_read_less_than_a_mib() {
    let file = Huge::new();
    let page = read_page(&file, &ask(ReadFrom::Tail(10))).unwrap();
    assert_eq!((page.lines, page.has_more), (10, false));
    assert_eq!(page.byte_range, Huge::LEN - 160..Huge::LEN);
    assert!(file.read.get() <= 1 << 20, "{} bytes", file.read.get());
    assert!(file.largest.get() <= 64 * 1024);
}

#[test]
fn a_page_deep_in_a_large_file_costs_a_page() {
    let file = Huge::new();
    let mut request = ask(ReadFrom::Byte(3 << 30));
    request.max_lines = 10;
    let cursor = read_page(&file, &request).unwrap().next_cursor.unwrap();
    file.read.set(0);
    request.from = ReadFrom::Cursor(cursor);
    let page = read_page(&file, &request).unwrap();
    assert_eq!(page.byte_range, (3 << 30) + 160..(3 << 30) + 320);
    assert!(file.read.get() <= 256 * 1024, "{} bytes", file.read.get());
}

/// One line without end, and a file that shrinks, and one that is cancelled.
struct Odd(fn(&mut [u8], u64) -> io::Result<usize>, u64);

impl ReadAt for Odd {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (self.0)(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.1)
    }
}

#[test]
fn the_tail_of_a_line_without_end_is_its_last_page() {
    let file = Odd(
        |buf, _| {
            buf.fill(b'x');
            Ok(buf.len())
        },
        4 << 30,
    );
    let page = read_page(&file, &ask(ReadFrom::Tail(10))).unwrap();
    assert!(page.starts_mid_line && !page.has_more);
    assert_eq!(page.text.len(), 256 * 1024);
}

#[test]
fn a_file_that_shrinks_is_changed_and_a_reader_may_stop_the_scan() {
    let shrinking = Odd(|_, _| Ok(0), 100);
    let failure = read_page(&shrinking, &ask(ReadFrom::Line(1))).unwrap_err();
    assert_eq!(failure.reason(), Reason::Changed);
    let cancelled = Odd(
        |_, _| Err(io::Error::other(Failure::from(Reason::Cancelled))),
        9,
    );
    let failure = read_page(&cancelled, &ask(ReadFrom::Line(1))).unwrap_err();
    assert_eq!(failure.reason(), Reason::Cancelled);
    let broken = Odd(|_, _| Err(io::Error::from_raw_os_error(5)), 9);
    let failure = read_page(&broken, &ask(ReadFrom::Line(1))).unwrap_err();
    assert_eq!(failure.reason(), Reason::Io);
}

#[test]
fn an_opened_file_is_read_at_its_positions() {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        flags,
        Mode::empty(),
    )
    .unwrap();
    let page = read_page(&file, &ask(ReadFrom::Line(2))).unwrap();
    assert!(page.text.starts_with("name = \"portcullis-files\"\n"));
    assert_eq!(page.total_bytes, file.len().unwrap());
}

/// Endings that fall on the borders of blocks, where a CR may wait for its LF.
#[test]
fn line_ends_on_block_borders_are_counted_once() {
    for fill in 65_530..65_540usize {
        for end in ["\n", "\r\n", "\r"] {
            for label in ["utf-8", "utf-16le"] {
                let text = format!(
                    "{}{end}é{end}{}{end}b",
                    "x".repeat(fill),
                    "y".repeat(fill - 4)
                );
                let file = encode(&text, label, false);
                let mut request = ask(ReadFrom::Line(3));
                request.encoding = named(label);
                let lines = split(&text);
                let page = read_page(file.as_slice(), &request).unwrap();
                assert_eq!(page.text, lines[2..].concat());
                assert_eq!(page.total_lines, Some(4));
                request.from = ReadFrom::Tail(2);
                assert_eq!(
                    read_page(file.as_slice(), &request).unwrap().text,
                    lines[2..].concat()
                );
            }
        }
    }
}

#[test]
fn r008_a_page_of_lone_surrogates_ends_on_a_unit() {
    // Found by fuzzing: the cursor stood inside a unit, and was refused.
    let units = [
        0xfeff_u16, 0xbfff, 0xdbfa, 0xfafa, 0xdbdb, 0xdbdb, 0xdbdb, 0xdbe5, 0xe5e5, 0xdbdb, 0xdbdb,
        0xdc01, 0xdbdb, 0xdbdb, 0x0041,
    ];
    for in_bytes in [u16::to_be_bytes, u16::to_le_bytes] {
        let file: Vec<u8> = units.into_iter().flat_map(in_bytes).collect();
        for max_bytes in 16..64 {
            let request = PageRequest {
                max_bytes,
                on_malformed: OnMalformed::Replace,
                ..ask(ReadFrom::Line(1))
            };
            let replaced: u64 = pages(&file, &request)
                .unwrap()
                .iter()
                .map(|page| page.replaced)
                .sum();
            // A pair that was split would count twice.
            assert_eq!(replaced, 8, "{max_bytes}");
        }
    }
}
