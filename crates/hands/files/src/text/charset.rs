//! Encodings by name, and decoding that never hides damage.

use std::fmt;

use encoding_rs::{DecoderResult, EncoderResult, Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};
use portcullis_proto::{Failure, Reason};

use super::breaks::{LineEnding, Unit};

/// An encoding that can be read in windows.
///
/// Proves: a character's bytes can be told without what came before its line.
/// ISO-2022-JP, which shifts state across lines, is therefore none of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

/// What to do with bytes that are no character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMalformed {
    /// Refuse the page and say where they are.
    Refuse,
    /// Put U+FFFD in their place and count them.
    Replace,
}

/// Where, in the bytes given, the first malformed sequence starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) at: usize,
}

/// The first character of a text that an encoding cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unencodable {
    /// Where it stands, in bytes of the text.
    pub(super) at: usize,
    pub(super) character: char,
}

impl Charset {
    /// UTF-8.
    pub const UTF_8: Self = Self(UTF_8);
    /// UTF-16, the small byte first.
    pub const UTF_16LE: Self = Self(UTF_16LE);
    /// UTF-16, the large byte first.
    pub const UTF_16BE: Self = Self(UTF_16BE);

    /// The encoding a caller names, by any label of the WHATWG list.
    pub fn for_label(label: &str) -> Result<Self, Failure> {
        Encoding::for_label_no_replacement(label.as_bytes())
            .and_then(Self::windowed)
            .ok_or_else(|| {
                // The label is the caller's own; it is shown short and escaped.
                let shown: String = label.chars().take(40).collect();
                Failure::new(
                    Reason::BadEncoding,
                    format!("No encoding {shown:?} is read here."),
                )
                .hint("Name one such as utf-8, utf-16le, windows-1252, shift_jis or gb18030, or none to have it detected.")
            })
    }

    /// `encoding`, unless it shifts state across lines.
    pub(super) fn windowed(encoding: &'static Encoding) -> Option<Self> {
        (encoding != ISO_2022_JP).then_some(Self(encoding))
    }

    /// The name to report, in lower case: `utf-8`, `utf-16le`, `windows-1252`.
    pub fn label(self) -> String {
        self.0.name().to_ascii_lowercase()
    }

    /// How the lines of `head`, the start of a text, end.
    pub(crate) fn line_ending(self, head: &[u8]) -> LineEnding {
        LineEnding::of(head, self.unit())
    }

    pub(super) fn unit(self) -> Unit {
        if self == Self::UTF_16LE {
            Unit::Utf16Le
        } else if self == Self::UTF_16BE {
            Unit::Utf16Be
        } else {
            Unit::Byte
        }
    }

    /// Whether a character's start can be told from the bytes around it.
    pub(super) fn synchronises(self) -> bool {
        self == Self::UTF_8 || self.unit() != Unit::Byte
    }

    /// How many bytes of a file surely decode into at most `room` bytes.
    pub(super) fn surely_fits(self, room: usize, on_malformed: OnMalformed) -> usize {
        if self == Self::UTF_8 && on_malformed == OnMalformed::Refuse {
            return room;
        }
        // One byte becomes at most three: a legacy letter, or U+FFFD.
        room / 3
    }

    /// Appends `bytes`, decoded to their end, to `out`; counts replacements.
    pub(super) fn decode(
        self,
        bytes: &[u8],
        out: &mut String,
        on_malformed: OnMalformed,
    ) -> Result<u64, Malformed> {
        if self == Self::UTF_8
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            out.push_str(text);
            return Ok(0);
        }
        self.decode_slowly(bytes, out, on_malformed, Ends::Here)
    }

    /// The bytes of `text`: those, and only those, that decode into it again.
    ///
    /// Some encoders of the WHATWG list fold a character into another one
    /// (Shift_JIS writes U+00A5 as a backslash); here that is no encoding of it.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, Unencodable> {
        match self.unit() {
            Unit::Utf16Le => return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Unit::Utf16Be => return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Unit::Byte if self == Self::UTF_8 => return Ok(text.as_bytes().to_vec()),
            Unit::Byte => {}
        }
        let mut encoder = self.0.new_encoder();
        let mut bytes = Vec::with_capacity(text.len() + 16);
        let mut at = 0;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let (result, read) =
                encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
            at += read;
            match result {
                EncoderResult::InputEmpty => break,
                EncoderResult::OutputFull => bytes.reserve(rest.len() + 16),
                EncoderResult::Unmappable(character) => {
                    return Err(Unencodable {
                        at: at.saturating_sub(character.len_utf8()),
                        character,
                    });
                }
            }
        }
        let mut again = String::with_capacity(text.len());
        // A replacement shows in the comparison, like any other difference.
        let _ = self.decode(&bytes, &mut again, OnMalformed::Replace);
        let folded = text
            .char_indices()
            .zip(again.chars().map(Some).chain(std::iter::repeat(None)))
            .find(|((_, wanted), got)| Some(*wanted) != *got);
        match folded {
            Some(((at, character), _)) => Err(Unencodable { at, character }),
            None => Ok(bytes),
        }
    }

    /// Whether a character may take more bytes than one unit, and its start
    /// cannot be told from the bytes around it.
    pub(super) fn needs_walking(self) -> bool {
        !self.synchronises() && !self.0.is_single_byte()
    }

    /// How many bytes the first character of `bytes` takes, or the damage that
    /// stands there; for the encodings that [need walking](Self::needs_walking).
    pub(super) fn first_length(self, bytes: &[u8]) -> usize {
        if bytes.first().is_none_or(u8::is_ascii) {
            return bytes.len().min(1);
        }
        let mut decoder = self.0.new_decoder_without_bom_handling();
        let mut out = [0; 32];
        for (index, byte) in bytes.iter().take(4).enumerate() {
            let (result, _, written) = decoder.decode_to_utf8_without_replacement(
                std::slice::from_ref(byte),
                &mut out,
                false,
            );
            match result {
                DecoderResult::Malformed(length, _) => return usize::from(length).max(1),
                DecoderResult::InputEmpty | DecoderResult::OutputFull if written > 0 => {
                    return index + 1;
                }
                DecoderResult::InputEmpty | DecoderResult::OutputFull => {}
            }
        }
        bytes.len().min(4)
    }

    fn decode_slowly(
        self,
        bytes: &[u8],
        out: &mut String,
        on_malformed: OnMalformed,
        ends: Ends,
    ) -> Result<u64, Malformed> {
        let mut decoder = self.0.new_decoder_without_bom_handling();
        let (mut at, mut replaced) = (0, 0);
        loop {
            let rest = &bytes[at..];
            out.reserve(
                decoder
                    .max_utf8_buffer_length_without_replacement(rest.len())
                    .unwrap_or(rest.len()),
            );
            let (result, read) =
                decoder.decode_to_string_without_replacement(rest, out, ends == Ends::Here);
            at += read;
            match (result, on_malformed) {
                (DecoderResult::InputEmpty, _) => return Ok(replaced),
                (DecoderResult::OutputFull, _) => {}
                (DecoderResult::Malformed(length, after), OnMalformed::Refuse) => {
                    let back = usize::from(length) + usize::from(after);
                    return Err(Malformed {
                        at: at.saturating_sub(back),
                    });
                }
                (DecoderResult::Malformed(..), OnMalformed::Replace) => {
                    out.push('\u{fffd}');
                    replaced += 1;
                }
            }
        }
    }

    /// The longest prefix of `bytes` that ends between two characters.
    /// `bytes` starts on one, and may end inside one.
    pub(super) fn clean_prefix(self, bytes: &[u8]) -> usize {
        if self.0.is_single_byte() {
            return bytes.len();
        }
        // For the encodings that synchronise themselves the last bytes suffice.
        let from = match self.unit() {
            Unit::Byte if self == Self::UTF_8 => utf8_start(bytes, bytes.len().saturating_sub(4)),
            Unit::Byte => 0,
            // Asked of the decoder, half a unit behind half a pair would count
            // as one damage with it, and the prefix would end inside the unit.
            unit @ (Unit::Utf16Le | Unit::Utf16Be) => {
                let whole = bytes.len() / 2 * 2;
                let last = whole.checked_sub(2).and_then(|at| unit.get(bytes, at));
                let is_open = last.is_some_and(|last| last & 0xfc00 == 0xd800);
                return if is_open { whole - 2 } else { whole };
            }
        };
        // No character has more than four bytes. What is left open at the end
        // is asked of the decoder: closing the input before it adds no damage.
        let bytes_from = &bytes[from..];
        let damage = |bytes: &[u8], ends| {
            self.decode_slowly(bytes, &mut String::new(), OnMalformed::Replace, ends)
        };
        let settled = damage(bytes_from, Ends::Later);
        (0..bytes_from.len().min(4))
            .map(|open| bytes_from.len() - open)
            .find(|&to| damage(&bytes_from[..to], Ends::Here) == settled)
            .map_or(bytes.len(), |to| from + to)
    }
}

/// Whether the bytes given are all there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Here,
    Later,
}

/// The start of the UTF-8 character that the byte at `at` belongs to.
pub(super) fn utf8_start(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&at| bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80))
        .unwrap_or(at)
}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

impl fmt::Debug for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charset({self})")
    }
}
