//! What ends a line: LF, CR LF, or a CR alone.
//!
//! One rule for every file, whatever its endings, so that a line number means
//! the same on every page. No multi-byte encoding we decode uses the bytes of
//! CR or LF inside a character, so lines are found without decoding.

/// How wide one code unit is, which is how line ends are stepped over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// One byte: UTF-8 and every legacy encoding.
    Byte,
    /// Two bytes, the small one first.
    Utf16Le,
    /// Two bytes, the large one first.
    Utf16Be,
}

impl Unit {
    /// The width in bytes.
    pub(super) const fn width(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// The unit at `at`, when it is there in full.
    pub(super) fn get(self, block: &[u8], at: usize) -> Option<u16> {
        match self {
            Self::Byte => block.get(at).map(|&byte| u16::from(byte)),
            Self::Utf16Le => Some(u16::from_le_bytes([*block.get(at)?, *block.get(at + 1)?])),
            Self::Utf16Be => Some(u16::from_be_bytes([*block.get(at)?, *block.get(at + 1)?])),
        }
    }
}

/// A unit that ends a line, or half of what does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// Line feed.
    Lf,
    /// Carriage return.
    Cr,
}

impl Break {
    const fn of(unit: u16) -> Option<Self> {
        match unit {
            0x0a => Some(Self::Lf),
            0x0d => Some(Self::Cr),
            _ => None,
        }
    }
}

/// The first CR or LF in `block`, which starts on a unit.
pub(super) fn next_break(block: &[u8], unit: Unit) -> Option<(usize, Break)> {
    match unit {
        Unit::Byte => {
            let at = memchr::memchr2(b'\n', b'\r', block)?;
            Break::of(u16::from(block[at])).map(|found| (at, found))
        }
        Unit::Utf16Le | Unit::Utf16Be => (0..block.len())
            .step_by(2)
            .find_map(|at| Some((at, Break::of(unit.get(block, at)?)?))),
    }
}

/// The last CR or LF in `block`, which starts on a unit.
pub(super) fn last_break(block: &[u8], unit: Unit) -> Option<(usize, Break)> {
    match unit {
        Unit::Byte => {
            let at = memchr::memrchr2(b'\n', b'\r', block)?;
            Break::of(u16::from(block[at])).map(|found| (at, found))
        }
        Unit::Utf16Le | Unit::Utf16Be => (0..block.len())
            .step_by(2)
            .rev()
            .find_map(|at| Some((at, Break::of(unit.get(block, at)?)?))),
    }
}

/// What ended one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminator {
    Lf,
    Crlf,
    Cr,
}

impl Terminator {
    /// The terminator as decoded text.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::Crlf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// The first line end in `block`, which starts on a unit and goes on to the end
/// of the file.
pub(super) fn next_terminator(block: &[u8], unit: Unit) -> Option<(usize, Terminator)> {
    let (at, found) = next_break(block, unit)?;
    let terminator = match (found, unit.get(block, at + unit.width())) {
        (Break::Lf, _) => Terminator::Lf,
        (Break::Cr, Some(0x0a)) => Terminator::Crlf,
        (Break::Cr, _) => Terminator::Cr,
    };
    Some((at, terminator))
}

/// Line numbers of places in one text, asked for in ascending order.
pub(super) struct LineCounter<'a> {
    text: &'a [u8],
    unit: Unit,
    line: u64,
    /// Where the next line starts; `None` in the last one.
    next: Option<usize>,
}

impl<'a> LineCounter<'a> {
    /// Starts at the first byte of `text`, which is in line 1.
    pub(super) fn new(text: &'a [u8], unit: Unit) -> Self {
        Self {
            text,
            unit,
            line: 1,
            next: line_after(text, 0, unit),
        }
    }

    /// The line the byte at `to` is in. What ends a line belongs to it.
    pub(super) fn line_at(&mut self, to: usize) -> u64 {
        while let Some(next) = self.next
            && next <= to
        {
            self.line += 1;
            self.next = line_after(self.text, next, self.unit);
        }
        self.line
    }
}

/// Where the line after the one at `at` starts, when that one is ended.
fn line_after(text: &[u8], at: usize, unit: Unit) -> Option<usize> {
    let (found, terminator) = next_terminator(text.get(at..)?, unit)?;
    Some(at + found + terminator.as_str().len() * unit.width())
}

/// How the lines of some text end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// No line ends.
    None,
    /// LF throughout.
    Lf,
    /// CR LF throughout.
    Crlf,
    /// CR throughout.
    Cr,
    /// More than one of them.
    Mixed,
}

impl LineEnding {
    /// The name a surface shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lf => "lf",
            Self::Crlf => "crlf",
            Self::Cr => "cr",
            Self::Mixed => "mixed",
        }
    }

    /// The ending of text that so far had `self` and now has `next` as well.
    pub(super) fn and(self, next: Terminator) -> Self {
        let next = match next {
            Terminator::Lf => Self::Lf,
            Terminator::Crlf => Self::Crlf,
            Terminator::Cr => Self::Cr,
        };
        if self == Self::None || self == next {
            next
        } else {
            Self::Mixed
        }
    }

    /// How the lines in `block` end. A CR that closes the block is passed over,
    /// because what follows it is not known.
    pub(super) fn of(mut block: &[u8], unit: Unit) -> Self {
        // Most text has no CR at all, and then one look tells.
        if unit == Unit::Byte && memchr::memchr(b'\r', block).is_none() {
            return match memchr::memchr(b'\n', block) {
                Some(_) => Self::Lf,
                None => Self::None,
            };
        }
        let mut ending = Self::None;
        while let Some((at, found)) = next_break(block, unit) {
            let after = at + unit.width();
            let terminator = match (found, unit.get(block, after)) {
                (Break::Lf, _) => Terminator::Lf,
                (Break::Cr, Some(0x0a)) => Terminator::Crlf,
                (Break::Cr, Some(_)) => Terminator::Cr,
                (Break::Cr, None) => break,
            };
            ending = ending.and(terminator);
            let length = terminator.as_str().len() * unit.width();
            block = &block[at + length..];
        }
        ending
    }
}
