//! Text on its way into a file: which encoding, which line ends, with a byte
//! order mark or without.
//!
//! Unless told otherwise a file keeps all three. What the encoding cannot say
//! is refused, never replaced.

use portcullis_proto::{Failure, Reason};

use super::breaks::{LineEnding, Terminator, Unit};
use super::charset::{Charset, Unencodable};
use super::edit::{end_bare_lines, named};
use super::request::EncodingChoice;
use super::sniff::{PROBE_BYTES_MCP, Sniffed, sniff};

const BOM: char = '\u{feff}';

/// The encoding a text is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEncoding {
    /// That of the file it replaces; UTF-8 for a new one.
    KeepOrUtf8,
    /// This one.
    Named(Charset),
}

/// Whether a byte order mark comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bom {
    /// As in the file replaced. A new file, or one that changes its encoding,
    /// has one if its text brings it or if it is UTF-16, which nobody
    /// recognises without.
    Keep,
    /// Yes.
    Yes,
    /// No.
    No,
}

/// How the lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEnding {
    /// As in the file replaced, if that has one kind of line end; else as given.
    Keep,
    /// All in LF.
    Lf,
    /// All in CR LF.
    Crlf,
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteText {
    /// The encoding.
    pub encoding: WriteEncoding,
    /// The byte order mark.
    pub bom: Bom,
    /// The line ends.
    pub line_ending: WriteEnding,
}

impl Default for WriteText {
    /// What is there is kept.
    fn default() -> Self {
        Self {
            encoding: WriteEncoding::KeepOrUtf8,
            bom: Bom::Keep,
            line_ending: WriteEnding::Keep,
        }
    }
}

/// The bytes of `text`, for a file that so far starts with `existing`.
///
/// A file that was binary or empty, like one that was not there, has nothing
/// to keep.
pub fn encode(text: &str, options: WriteText, existing: Option<&[u8]>) -> Result<Vec<u8>, Failure> {
    encode_in(text, options, existing).map(|(bytes, _)| bytes)
}

/// The same, and the encoding it came to.
pub(crate) fn encode_in(
    text: &str,
    options: WriteText,
    existing: Option<&[u8]>,
) -> Result<(Vec<u8>, Charset), Failure> {
    let kept = existing
        .filter(|head| !head.is_empty())
        .and_then(|head| Kept::of(head, options.encoding));
    let charset = match options.encoding {
        WriteEncoding::Named(named) => named,
        WriteEncoding::KeepOrUtf8 => kept.map_or(Charset::UTF_8, |kept| kept.charset),
    };
    let (text, brings_bom) = match text.strip_prefix(BOM) {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let is_unicode = charset == Charset::UTF_8 || charset.unit() != Unit::Byte;
    let bom = match (options.bom, kept) {
        (Bom::Yes, _) if !is_unicode => {
            return Err(Failure::new(
                Reason::BadArguments,
                format!("A byte order mark belongs to UTF-8 or UTF-16, not to {charset}."),
            ));
        }
        (Bom::Yes, _) => true,
        (Bom::No, _) => false,
        (Bom::Keep, Some(kept)) if kept.charset == charset => kept.bom,
        (Bom::Keep, _) => charset.unit() != Unit::Byte || (brings_bom && is_unicode),
    };
    let terminator = match (options.line_ending, kept.map(|kept| kept.line_ending)) {
        (WriteEnding::Lf, _) | (WriteEnding::Keep, Some(LineEnding::Lf)) => Some(Terminator::Lf),
        (WriteEnding::Crlf, _) | (WriteEnding::Keep, Some(LineEnding::Crlf)) => {
            Some(Terminator::Crlf)
        }
        (WriteEnding::Keep, Some(LineEnding::Cr)) => Some(Terminator::Cr),
        (WriteEnding::Keep, Some(LineEnding::None | LineEnding::Mixed) | None) => None,
    };
    let ended = terminator
        .filter(|_| text.contains('\n'))
        .map(|terminator| end_bare_lines(&text.replace("\r\n", "\n"), terminator));
    let text = ended.as_deref().unwrap_or(text);
    let body = charset
        .encode(text)
        .map_err(|unencodable| cannot_say(text, unencodable, charset, options.encoding))?;
    if !bom {
        return Ok((body, charset));
    }
    // Every encoding that comes here can say it.
    let mut bytes = charset.encode("\u{feff}").unwrap_or_default();
    bytes.extend_from_slice(&body);
    Ok((bytes, charset))
}

/// What a file that is replaced hands on.
#[derive(Clone, Copy)]
struct Kept {
    charset: Charset,
    bom: bool,
    line_ending: LineEnding,
}

impl Kept {
    /// `head` may end inside a character: it is the start of a file.
    fn of(head: &[u8], encoding: WriteEncoding) -> Option<Self> {
        let detected = sniff(head, false, EncodingChoice::Detect, PROBE_BYTES_MCP);
        let Sniffed {
            charset, bom_bytes, ..
        } = match (detected, encoding) {
            (Ok(sniffed), _) => sniffed,
            // UTF-16 without a byte order mark looks binary until it is named.
            (Err(_), WriteEncoding::Named(named)) if named.unit() != Unit::Byte => {
                sniff(head, false, EncodingChoice::Named(named), PROBE_BYTES_MCP).ok()?
            }
            (Err(_), _) => return None,
        };
        Some(Self {
            charset,
            bom: bom_bytes > 0,
            line_ending: LineEnding::of(head.get(bom_bytes..)?, charset.unit()),
        })
    }
}

fn cannot_say(
    text: &str,
    unencodable: Unencodable,
    charset: Charset,
    encoding: WriteEncoding,
) -> Failure {
    let before = text.get(..unencodable.at).unwrap_or_default();
    let line = 1 + before.replace("\r\n", "\n").matches(['\n', '\r']).count();
    let column = 1 + before
        .chars()
        .rev()
        .take_while(|c| !matches!(c, '\n' | '\r'))
        .count();
    let hint = match encoding {
        WriteEncoding::KeepOrUtf8 => {
            format!(
                "The file is {charset}: leave the character out, or name utf-8 to convert the file."
            )
        }
        WriteEncoding::Named(_) => "Leave the character out, or name utf-8.".to_owned(),
    };
    Failure::new(
        Reason::BadEncoding,
        format!(
            "{charset} has no {}, at line {line} column {column} of the text.",
            named(unencodable.character)
        ),
    )
    .hint(hint)
}
