//! Text and bytes.

use portcullis_files::ignores::MatchedBy;
use portcullis_files::text::{Charset, LineEnding, TextPage};
use portcullis_files::{
    ByteWindow, Meta, ScopedFs, Snapshot, SnapshotRequest, TextFrom, TextRequest, TextShape, sha256,
};
use portcullis_proto::{Failure, Json, Reason};

use super::cursor::Cursor;
use super::{MAX_SNAPSHOT, MAX_WINDOW, ReadAsk, ending, matched, spelled};
use crate::quoted::Object;
use crate::resource::base64;

pub(super) async fn text(
    scope: &ScopedFs,
    path: &str,
    ask: &ReadAsk,
    cursor: Option<Cursor>,
    refuse: impl Fn(Failure) -> Failure,
) -> Result<Json, Failure> {
    let windowed =
        ask.max_bytes.is_some() || ask.line.is_some() || ask.limit.is_some() || cursor.is_some();
    let from = match &cursor {
        Some(cursor) => TextFrom::Cursor(cursor.inner()),
        None => TextFrom::Line(ask.line.unwrap_or(1)),
    };
    let beyond = windowed.then(|| TextRequest {
        from,
        max_lines: ask.limit.unwrap_or(u64::MAX),
        max_bytes: ask.max_bytes.unwrap_or(MAX_WINDOW),
        max_line_bytes: None,
        encoding: None,
        classify: false,
    });
    let request = SnapshotRequest {
        up_to: MAX_SNAPSHOT,
        beyond,
    };
    let snapshot = scope.read_snapshot(path, request).await?;
    let window = match &snapshot.content {
        Snapshot::Whole { text, shape, .. } => {
            // The file was read, as its line says; that nothing of it is told has
            // a line of its own.
            of_whole(text, *shape, Some(&snapshot.meta), ask, cursor.as_ref()).map_err(refuse)?
        }
        Snapshot::Window(page) => of_large(page, &snapshot.meta, ask),
    };
    let hash = match &snapshot.content {
        Snapshot::Whole { hash, .. } => Some(spelled(hash)),
        Snapshot::Window(_) => None,
    };
    let told = Told {
        path: snapshot.path.shown(),
        size: snapshot.meta.size,
        hash,
        ignored_by: snapshot.ignored_by,
        version: snapshot.meta.version(),
    };
    Ok(written(&told, &window))
}

/// The same reply, made of a file's text alone: what a machine sent that tells no
/// more. The version of such a file is its hash, and it has no cursors.
pub fn whole_text(path: &str, text: &str, ask: &ReadAsk) -> Result<Json, Failure> {
    let hash = spelled(&sha256(text.as_bytes()));
    let size = text.len() as u64;
    let windowed = ask.max_bytes.is_some() || ask.line.is_some() || ask.limit.is_some();
    if size > MAX_SNAPSHOT && !windowed {
        return Err(Failure::new(
            Reason::TooLarge,
            format!("The file has {size} bytes; at most {MAX_SNAPSHOT} are read at once."),
        )
        .hint("Read a part of it: say line and limit."));
    }
    let unmarked = text.strip_prefix('\u{feff}');
    let shape = TextShape {
        charset: Charset::UTF_8,
        bom: unmarked.is_some(),
        line_ending: if text.contains("\r\n") {
            LineEnding::Crlf
        } else {
            LineEnding::Lf
        },
    };
    let window = of_whole(unmarked.unwrap_or(text), shape, None, ask, None)?;
    let path = path.trim_start_matches("./");
    let told = Told {
        path,
        size,
        hash: (size <= MAX_SNAPSHOT).then(|| hash.clone()),
        ignored_by: None,
        version: hash,
    };
    Ok(written(&told, &window))
}

/// What is told of a file beside its text.
struct Told<'a> {
    path: &'a str,
    size: u64,
    hash: Option<String>,
    ignored_by: Option<MatchedBy>,
    version: String,
}

/// What is shown of a text.
struct Window<'a> {
    text: &'a str,
    truncated: bool,
    has_more: bool,
    next: Option<Cursor>,
    total_lines: Option<u64>,
    shape: TextShape,
}

/// A window into a text that is here whole.
fn of_whole<'a>(
    all: &'a str,
    shape: TextShape,
    meta: Option<&Meta>,
    ask: &ReadAsk,
    cursor: Option<&Cursor>,
) -> Result<Window<'a>, Failure> {
    let is_utf8 = shape.charset == Charset::UTF_8;
    let mark = if shape.bom { BOM_BYTES } else { 0 };
    let start = match cursor {
        Some(cursor) => {
            meta.map_or(Ok(()), |meta| cursor.check(meta))?;
            let at = cursor
                .off
                .checked_sub(mark)
                .and_then(|at| usize::try_from(at).ok())
                .filter(|at| is_utf8 && is_line_start(all, *at));
            at.ok_or_else(|| {
                Failure::new(Reason::BadCursor, "The cursor is at no start of a line.")
                    .hint("Pass nextCursor of the last window unchanged, or none.")
            })?
        }
        None => line_start(all, ask.line.unwrap_or(1)),
    };
    let rest = all.get(start..).unwrap_or_default();
    let (lines, after) = match ask.limit {
        Some(limit) => first_lines(rest, limit),
        None => (rest, None),
    };
    let most = ask.max_bytes.unwrap_or(MAX_WINDOW);
    let end = lines.floor_char_boundary(most);
    let text = lines.get(..end).unwrap_or_default();
    let was_cut = text.len() < lines.len();
    // Behind the last newline there is nothing to read.
    let after = after.filter(|after| start + after < all.len());
    let next = after
        .filter(|_| is_utf8 && !was_cut)
        .zip(meta)
        .map(|(after, meta)| Cursor::at(mark + (start + after) as u64, meta));
    Ok(Window {
        text,
        truncated: was_cut || after.is_some(),
        has_more: was_cut || after.is_some(),
        next,
        total_lines: Some(breaks(all) + 1),
        shape,
    })
}

/// A window into a text that is larger.
fn of_large<'a>(page: &'a TextPage, meta: &Meta, ask: &ReadAsk) -> Window<'a> {
    let by_lines = ask.limit.is_some_and(|limit| page.lines >= limit) && page.has_more;
    let text = if by_lines && !page.ends_mid_line {
        page.text.strip_suffix('\n').unwrap_or(&page.text)
    } else {
        &page.text
    };
    // A page is never so small as a caller may ask.
    let most = ask.max_bytes.unwrap_or(MAX_WINDOW);
    let shown = text.get(..text.floor_char_boundary(most)).unwrap_or(text);
    let was_cut = shown.len() < text.len() || page.ends_mid_line || (page.has_more && !by_lines);
    let next = page
        .next_cursor
        .as_ref()
        .filter(|_| page.encoding == Charset::UTF_8 && !was_cut)
        .and_then(|cursor| Cursor::of_inner(&cursor.to_string(), meta));
    Window {
        text: shown,
        truncated: true,
        has_more: page.has_more || shown.len() < text.len(),
        next,
        total_lines: page
            .total_lines
            .filter(|_| !page.has_more)
            .map(|lines| lines + u64::from(page.final_newline)),
        shape: TextShape {
            charset: page.encoding,
            bom: page.bom,
            line_ending: page.line_ending,
        },
    }
}

/// A byte order mark, as a file has it in UTF-8.
const BOM_BYTES: u64 = 3;

fn breaks(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

fn is_line_start(text: &str, at: usize) -> bool {
    at == 0 || (at <= text.len() && text.as_bytes().get(at - 1) == Some(&b'\n'))
}

/// Where line `number` begins; the end, where there are fewer.
fn line_start(text: &str, number: u64) -> usize {
    let Some(before) = number.checked_sub(2) else {
        return 0;
    };
    let nth = usize::try_from(before).unwrap_or(usize::MAX);
    text.match_indices('\n')
        .nth(nth)
        .map_or(text.len(), |(at, _)| at + 1)
}

/// The first `limit` lines, without what ends the last, and where the next
/// begins if there is one.
fn first_lines(text: &str, limit: u64) -> (&str, Option<usize>) {
    let nth = usize::try_from(limit.saturating_sub(1)).unwrap_or(usize::MAX);
    match text.match_indices('\n').nth(nth) {
        Some((at, _)) => (text.get(..at).unwrap_or_default(), Some(at + 1)),
        None => (text, None),
    }
}

fn written(told: &Told<'_>, window: &Window<'_>) -> Json {
    // Room for a line end in every sixteen bytes.
    let mut out = String::with_capacity(window.text.len() + window.text.len() / 16 + 1024);
    let mut object = Object::begin(&mut out);
    object
        .word("kind", "file")
        .text("path", told.path)
        .text("content", window.text)
        .text("encoding", &window.shape.charset.label())
        .flag("bom", window.shape.bom)
        .word("lineEnding", ending(window.shape.line_ending))
        .number("sizeBytes", told.size)
        .number("returnedBytes", window.text.len() as u64)
        .flag("truncated", window.truncated);
    if let Some(hash) = &told.hash {
        object.text("hash", hash);
    }
    object
        .word_or_null("matchedIgnore", matched(told.ignored_by))
        .number_or_null("originalLineCount", window.total_lines);
    match &window.next {
        Some(next) => object.text("nextCursor", &next.spelled()),
        None => object.null("nextCursor"),
    };
    object.flag("hasMore", window.has_more);
    object.text("version", &told.version);
    object.end();
    Json::vouched(out)
}

pub(super) async fn bytes(
    scope: &ScopedFs,
    path: &str,
    offset: u64,
    max: usize,
) -> Result<Json, Failure> {
    let page = scope
        .read_bytes(path, ByteWindow::Part { offset, max })
        .await?;
    let Meta { size, .. } = page.meta;
    let whole = offset == 0 && page.bytes.len() as u64 == size;
    let mut out = String::with_capacity(page.bytes.len() * 4 / 3 + 512);
    let mut object = Object::begin(&mut out);
    object
        .word("kind", "file_bytes")
        .text("path", page.path.shown())
        .number("offset", offset)
        .number("sizeBytes", size)
        .number("returnedBytes", page.bytes.len() as u64)
        .flag("truncated", !whole)
        .text("contentBase64", &base64(&page.bytes));
    if whole {
        object.text("hash", &spelled(&sha256(&page.bytes)));
    }
    object.text("version", &page.meta.version());
    object.end();
    Ok(Json::vouched(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_where_a_newline_stands() {
        let text = "a\nb\r\nc\n";
        assert_eq!(first_lines(text, 2), ("a\nb\r", Some(5)));
        assert_eq!(first_lines(text, 3), ("a\nb\r\nc", Some(7)));
        assert_eq!(first_lines(text, 4), (text, None));
        assert_eq!(line_start(text, 1), 0);
        assert_eq!(line_start(text, 3), 5);
        assert_eq!(line_start(text, 4), 7);
        assert_eq!(line_start(text, 9), 7);
        for (at, want) in [(0, true), (1, false), (2, true), (7, true), (8, false)] {
            assert_eq!(is_line_start(text, at), want, "{at}");
        }
    }
}
