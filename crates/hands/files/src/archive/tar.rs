//! Reading a tar, block by block.
//!
//! A tar has no directory: whoever loses count of its blocks reads an entry's
//! content as headers, and two readers then see two archives. So an entry has
//! one size, whatever headers tell it; extension headers are read, bounded and
//! never chained; and behind the end there are zeros, to the last byte.

use super::limits::MAX_ENTRY;
use super::manifest::{Builder, ItemKind, Told};
use super::pax::Pax;
use super::source::Pace;
use super::stream::Input;
use super::why::{Refused, Stop, Why};

/// Everything in a tar is padded to this.
pub(super) const BLOCK: usize = 512;

/// Whether `start` is the first block of a tar.
pub(super) fn begins(start: &[u8]) -> bool {
    match <&[u8; BLOCK]>::try_from(start) {
        Ok(block) => is_zero(block) || sum_is_right(block),
        Err(_) => false,
    }
}

/// One entry's header, with its extensions applied.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: Result<ItemKind, Why>,
    pub(super) size: u64,
    pub(super) executable: bool,
}

/// A tar under way.
pub(super) struct Tar<'a> {
    input: Input<'a>,
    pace: Pace<'a>,
    /// Content of the current entry that was not read, and its padding.
    left: u64,
    padding: u64,
    buffer: Vec<u8>,
    /// Bytes of extension headers since the start.
    pub(super) extended: u64,
    /// Whether anything of it was a tar's so far.
    begun: bool,
}

/// Reads the manifest of a tar.
pub(super) fn read<'a>(
    input: Input<'a>,
    pace: Pace<'a>,
    builder: &mut Builder,
) -> Result<(), Stop> {
    let mut tar = Tar::new(input, pace);
    let mut charged = 0;
    while let Some(entry) = tar.next()? {
        builder.charge(tar.extended - charged)?;
        charged = tar.extended;
        builder.add(Told {
            name: &entry.name,
            kind: entry.kind,
            size: entry.size,
            packed: None,
            executable: entry.executable,
            data: None,
        })?;
    }
    Ok(())
}

/// What extension headers said of the entry that follows.
#[derive(Debug, Default)]
struct Ahead {
    long_name: Option<Vec<u8>>,
    long_link: bool,
    pax: Option<Pax>,
}

impl<'a> Tar<'a> {
    pub(super) fn new(input: Input<'a>, pace: Pace<'a>) -> Self {
        Self {
            input,
            pace,
            left: 0,
            padding: 0,
            buffer: vec![0; 64 * 1024],
            extended: 0,
            begun: false,
        }
    }

    /// The next entry; what is left of the one before is passed over. `None`
    /// at the end, after which there was nothing more.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Stop> {
        self.pass_over()?;
        let mut ahead = Ahead::default();
        loop {
            (self.pace)()?;
            let Some(block) = self.header()? else {
                return Err(Why::Truncated.into());
            };
            if is_zero(&block) {
                if ahead.long_name.is_some() || ahead.long_link || ahead.pax.is_some() {
                    return Err(Why::Truncated.into());
                }
                self.ends()?;
                return Ok(None);
            }
            if !sum_is_right(&block) {
                return Err(if self.begun {
                    Why::Checksum
                } else {
                    Why::NotAnArchive
                }
                .into());
            }
            self.begun = true;
            let header = Header(&block);
            let size = number(header.field(124, 12))?;
            match header.kind() {
                b'x' => {
                    let pax = Pax::parse(&self.extension(size)?)?;
                    if ahead.pax.replace(pax).is_some() {
                        return Err(Why::Disagrees.into());
                    }
                }
                // What holds for every entry may say nothing of any.
                b'g' => Pax::parse(&self.extension(size)?)?.is_only_a_comment()?,
                b'L' => {
                    let name = self.extension(size)?;
                    let name = name.strip_suffix(b"\0").unwrap_or(&name).to_vec();
                    if ahead.long_name.replace(name).is_some() {
                        return Err(Why::Disagrees.into());
                    }
                }
                b'K' => {
                    self.extension(size)?;
                    if std::mem::replace(&mut ahead.long_link, true) {
                        return Err(Why::Disagrees.into());
                    }
                }
                _ => return self.entry(&header, size, ahead).map(Some),
            }
        }
    }

    fn entry(&mut self, header: &Header<'_>, size: u64, ahead: Ahead) -> Result<Entry, Stop> {
        let pax = ahead.pax.unwrap_or_default();
        let name = match (ahead.long_name, pax.path) {
            (Some(long), Some(path)) if long != path => return Err(Why::Disagrees.into()),
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => header.name()?,
        };
        let wrong = |why| Stop::Refused(Refused::entry(&name, why));
        if pax.size.is_some_and(|told| told != size) {
            return Err(wrong(Why::SizeDisagrees));
        }
        let slash = name.ends_with(b"/");
        let kind = match header.kind() {
            _ if pax.sparse => Err(Why::Sparse),
            b'\0' if slash => Ok(ItemKind::Directory),
            b'0' if slash => Err(Why::FileAndDirectory),
            b'0' | b'\0' => Ok(ItemKind::File),
            b'5' => Ok(ItemKind::Directory),
            b'1' => Err(Why::Hardlink),
            b'2' => Err(Why::Symlink),
            b'3' | b'4' | b'6' => Err(Why::Special),
            b'S' => Err(Why::Sparse),
            _ => Err(Why::UnknownType),
        };
        // How much follows such a header is told differently by each reader.
        match kind {
            Ok(ItemKind::Directory) if size > 0 => return Err(wrong(Why::SizeOfDirectory)),
            Err(why) if size > 0 => return Err(wrong(why)),
            Ok(_) | Err(_) => {}
        }
        if size > MAX_ENTRY {
            return Err(wrong(Why::EntryTooLarge));
        }
        let mode = number(header.field(100, 8)).unwrap_or_default();
        self.left = size;
        self.padding = padding(size);
        Ok(Entry {
            kind,
            size,
            executable: mode & 0o111 != 0,
            name,
        })
    }

    /// Some of the current entry's content; none when there is no more.
    pub(super) fn content(&mut self) -> Result<&[u8], Stop> {
        (self.pace)()?;
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = most.min(self.buffer.len());
        if most == 0 {
            return Ok(&[]);
        }
        let buffer = self.buffer.get_mut(..most).unwrap_or_default();
        let got = self.input.read(buffer)?;
        if got == 0 {
            return Err(Why::Truncated.into());
        }
        self.left -= got as u64;
        Ok(self.buffer.get(..got).unwrap_or_default())
    }

    fn pass_over(&mut self) -> Result<(), Stop> {
        let mut left = self.left + self.padding;
        (self.left, self.padding) = (0, 0);
        while left > 0 {
            (self.pace)()?;
            let passed = self.input.skip(left, &mut self.buffer)?;
            if passed == 0 {
                return Err(Why::Truncated.into());
            }
            left -= passed;
        }
        Ok(())
    }

    /// The next header. What is too short for a first one is no tar.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, Stop> {
        match self.block() {
            Ok(None)
            | Err(Stop::Refused(Refused {
                why: Why::Truncated,
                ..
            })) if !self.begun => Err(Why::NotAnArchive.into()),
            other => other,
        }
    }

    /// All of a block; `None` at the end of the input.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Stop> {
        let mut block = [0; BLOCK];
        let mut got = 0;
        while got < BLOCK {
            match self.input.read(block.get_mut(got..).unwrap_or_default())? {
                0 if got == 0 => return Ok(None),
                0 => return Err(Why::Truncated.into()),
                more => got += more,
            }
        }
        Ok(Some(block))
    }

    /// The content of an extension header.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Stop> {
        if size > super::limits::MAX_RECORD {
            return Err(Why::TooMuchMetadata.into());
        }
        self.extended += size + BLOCK as u64;
        if self.extended > super::limits::MAX_METADATA {
            return Err(Why::TooMuchMetadata.into());
        }
        let whole = size + padding(size);
        let mut bytes = Vec::with_capacity(usize::try_from(whole).unwrap_or_default());
        while (bytes.len() as u64) < whole {
            let block = self.block()?.ok_or(Why::Truncated)?;
            bytes.extend_from_slice(&block);
        }
        bytes.truncate(usize::try_from(size).unwrap_or_default());
        Ok(bytes)
    }

    /// Behind the first zero block there is another, and zeros to the end.
    fn ends(&mut self) -> Result<(), Stop> {
        let Some(second) = self.block()? else {
            return Err(Why::Truncated.into());
        };
        if !is_zero(&second) {
            return Err(Why::Trailing.into());
        }
        loop {
            (self.pace)()?;
            let got = self.input.read(&mut self.buffer)?;
            if got == 0 {
                return self.input.finish();
            }
            let read = self.buffer.get(..got).unwrap_or_default();
            if read.iter().any(|byte| *byte != 0) {
                return Err(Why::Trailing.into());
            }
        }
    }
}

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

/// Whether the header's sum is that of its bytes, its own field as blanks.
fn sum_is_right(block: &[u8; BLOCK]) -> bool {
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            u64::from(if (148..156).contains(&at) {
                b' '
            } else {
                *byte
            })
        })
        .sum();
    number(Header(block).field(148, 8)).is_ok_and(|told| told == sum)
}

#[derive(Debug)]
struct Header<'a>(&'a [u8; BLOCK]);

impl Header<'_> {
    fn field(&self, at: usize, length: usize) -> &[u8] {
        self.0.get(at..at + length).unwrap_or_default()
    }

    fn kind(&self) -> u8 {
        self.field(156, 1).first().copied().unwrap_or_default()
    }

    /// The name in the header itself: of POSIX in two parts, elsewhere in one.
    fn name(&self) -> Result<Vec<u8>, Stop> {
        let name = until_nul(self.field(0, 100));
        let is_posix = self.field(257, 6) == b"ustar\0";
        if !is_posix {
            return Ok(name.to_vec());
        }
        // star keeps times at the end of the same field, and says so here.
        if self.field(508, 4) == b"tar\0" {
            return Err(Why::Dialect.into());
        }
        let prefix = until_nul(self.field(345, 155));
        if prefix.is_empty() {
            return Ok(name.to_vec());
        }
        Ok([prefix, name].join(&b'/'))
    }
}

fn until_nul(field: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, field).unwrap_or(field.len());
    field.get(..end).unwrap_or_default()
}

/// A number in a header: octal digits between blanks, or binary behind a mark.
fn number(field: &[u8]) -> Result<u64, Stop> {
    if let Some((0x80, rest)) = field.split_first() {
        let (high, low) = rest
            .split_at_checked(rest.len().saturating_sub(8))
            .ok_or(Why::Damaged)?;
        if high.iter().any(|byte| *byte != 0) {
            return Err(Why::EntryTooLarge.into());
        }
        return Ok(low.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
    }
    let digits = until_nul(field).trim_ascii();
    let mut all = 0u64;
    for digit in digits {
        if !(b'0'..=b'7').contains(digit) {
            return Err(Why::Damaged.into());
        }
        all = all << 3 | u64::from(digit - b'0');
    }
    Ok(all)
}
