//! What a file is, from its first bytes: binary or text, and in which encoding.
//!
//! A byte order mark decides; else text that is UTF-8, or UTF-8 with damage, is
//! UTF-8; only what is neither is guessed at, and then the page says so.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use portcullis_proto::{Failure, Reason};

use super::breaks::Unit;
use super::charset::{Charset, utf8_start};
use super::request::EncodingChoice;

/// How many first bytes the binary probe looks at over MCP and the gateway.
pub const PROBE_BYTES_MCP: usize = 8 * 1024;
/// How many first bytes the binary probe looks at over REST.
pub const PROBE_BYTES_REST: usize = 4096;

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sniffed {
    /// The encoding to decode with.
    pub charset: Charset,
    /// How many bytes the byte order mark takes; 0 when there is none.
    pub bom_bytes: usize,
    /// Whether the encoding was guessed from statistics.
    pub detected: bool,
}

/// Whether `head` looks binary: a NUL, or control characters for more than
/// three bytes in ten. A Unicode byte order mark makes it text.
pub fn looks_binary(head: &[u8]) -> bool {
    if bom(head).is_some() {
        return false;
    }
    if memchr::memchr(0, head).is_some() {
        return true;
    }
    controls(head) * 10 > head.len() * 3
}

/// How many control characters that text does not have are in `head`. Counted
/// in bytes, a count at a time that fits one, so that the machine looks at many
/// of them at once: every read of text goes through here.
fn controls(head: &[u8]) -> usize {
    let control = |byte: &u8| u8::from(matches!(*byte, 1..=8 | 14..=31));
    head.chunks(usize::from(u8::MAX))
        .map(|chunk| usize::from(chunk.iter().map(control).sum::<u8>()))
        .sum()
}

/// Decides the encoding of a file that starts with `head`.
///
/// `complete` says whether `head` is the whole file: a character cut by its
/// end is damage only then. `probe_bytes` is how much of it the binary probe
/// looks at; 0 switches the probe off.
pub fn sniff(
    head: &[u8],
    complete: bool,
    choice: EncodingChoice,
    probe_bytes: usize,
) -> Result<Sniffed, Failure> {
    if head.starts_with(&[0xff, 0xfe, 0, 0]) || head.starts_with(&[0, 0, 0xfe, 0xff]) {
        return Err(Failure::new(
            Reason::BadEncoding,
            "The file starts with the byte order mark of UTF-32, which is not read as text.",
        )
        .hint("Read it as bytes."));
    }
    let bom = bom(head);
    match choice {
        EncodingChoice::Named(named) => {
            if let Some((marked, _)) = bom
                && marked != named
            {
                return Err(Failure::new(
                    Reason::BadEncoding,
                    format!("The file starts with the byte order mark of {marked}, so it is not {named}."),
                )
                .hint(format!("Name {marked}, or no encoding.")));
            }
            if named.unit() == Unit::Byte {
                probe(head, probe_bytes)?;
            }
            Ok(Sniffed {
                charset: named,
                bom_bytes: bom.map_or(0, |(_, bytes)| bytes),
                detected: false,
            })
        }
        EncodingChoice::Detect => {
            if let Some((charset, bom_bytes)) = bom {
                return Ok(Sniffed {
                    charset,
                    bom_bytes,
                    detected: false,
                });
            }
            probe(head, probe_bytes)?;
            let charset = if is_mostly_utf8(head, complete) {
                Charset::UTF_8
            } else {
                guess(head, complete)
            };
            Ok(Sniffed {
                charset,
                bom_bytes: 0,
                detected: charset != Charset::UTF_8,
            })
        }
    }
}

/// The likeliest legacy encoding of `bytes`, which are not UTF-8.
pub(super) fn guess(bytes: &[u8], complete: bool) -> Charset {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, complete);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    // The detector was told to leave out the one that is not windowed.
    Charset::windowed(encoding).unwrap_or(Charset::UTF_8)
}

fn bom(head: &[u8]) -> Option<(Charset, usize)> {
    if head.starts_with(&[0xef, 0xbb, 0xbf]) {
        Some((Charset::UTF_8, 3))
    } else if head.starts_with(&[0xff, 0xfe]) {
        Some((Charset::UTF_16LE, 2))
    } else if head.starts_with(&[0xfe, 0xff]) {
        Some((Charset::UTF_16BE, 2))
    } else {
        None
    }
}

fn probe(head: &[u8], probe_bytes: usize) -> Result<(), Failure> {
    if !looks_binary(&head[..head.len().min(probe_bytes)]) {
        return Ok(());
    }
    Err(Failure::from(Reason::Binary)
        .hint("Read it as bytes, or name its encoding if it is UTF-16 without a byte order mark."))
}

/// Whether `head` is UTF-8, or has more characters of UTF-8 than damage.
///
/// Accented letters of a legacy encoding hardly ever fall into UTF-8's
/// pattern, so a few damaged bytes do not turn a UTF-8 file into a legacy one:
/// they are reported where they stand.
fn is_mostly_utf8(head: &[u8], complete: bool) -> bool {
    let head = match (complete, head.len().checked_sub(1)) {
        // The last character may be cut by the end of the sample.
        (false, Some(last)) => &head[..utf8_start(head, last)],
        (true, _) | (false, None) => head,
    };
    if std::str::from_utf8(head).is_ok() {
        return true;
    }
    let (mut sound, mut damaged) = (0usize, 0usize);
    for chunk in head.utf8_chunks() {
        sound += chunk
            .valid()
            .bytes()
            .filter(|byte| byte & 0xc0 == 0xc0)
            .count();
        damaged += usize::from(!chunk.invalid().is_empty());
    }
    sound > damaged
}
