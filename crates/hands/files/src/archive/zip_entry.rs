//! One entry of a zip, told twice: in the directory and before its bytes.

use super::source::{Record, Source};
use super::why::{Refused, Stop, Why};

const CENTRAL: &[u8] = b"PK\x01\x02";
const CENTRAL_SIZE: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_SIZE: usize = 30;
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
/// A value that stands in the 64-bit extension instead.
const WIDE: u32 = 0xffff_ffff;

/// The sizes and sum follow the bytes.
const LATER: u16 = 1 << 3;
/// Encrypted, in one of the ways there are; or a patch of another file.
const CLOSED: u16 = 1 | 1 << 6 | 1 << 13;
const PATCH: u16 = 1 << 5;

/// An entry, as the directory tells it.
#[derive(Debug)]
pub(super) struct Central<'a> {
    pub(super) name: &'a [u8],
    flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) external: u32,
}

impl<'a> Central<'a> {
    /// The entry at `at`, and how long its record is.
    pub(super) fn parse(records: &'a [u8], at: usize) -> Result<(Self, usize), Stop> {
        let record = Record(records.get(at..).unwrap_or_default());
        let head = Record(record.part(0, CENTRAL_SIZE)?);
        if !head.0.starts_with(CENTRAL) {
            return Err(Why::Disagrees.into());
        }
        let name_length = usize::from(head.u16(28)?);
        let extra_length = usize::from(head.u16(30)?);
        let comment_length = usize::from(head.u16(32)?);
        let name = record.part(CENTRAL_SIZE, name_length)?;
        let extra = record.part(CENTRAL_SIZE + name_length, extra_length)?;
        record.part(CENTRAL_SIZE + name_length + extra_length, comment_length)?;
        let (packed, size, offset) = (head.u32(20)?, head.u32(24)?, head.u32(42)?);
        let extra = Extra::parse(extra)?;
        let mut wide = Wide::new(extra.wide);
        let entry = Self {
            name,
            flags: head.u16(8)?,
            method: head.u16(10)?,
            crc: head.u32(16)?,
            size: wide.take(size)?,
            packed: wide.take(packed)?,
            offset: wide.take(offset)?,
            external: head.u32(38)?,
        };
        wide.ends(&[entry.size, entry.packed, entry.offset])?;
        if head.u16(34)? != 0 {
            return Err(Why::ManyDisks.into());
        }
        extra.names(name)?;
        let length = CENTRAL_SIZE + name_length + extra_length + comment_length;
        Ok((entry, length))
    }

    /// Whether its bytes can be unpacked at all.
    pub(super) fn unpackable(&self) -> Result<(), Why> {
        if self.flags & CLOSED != 0 {
            return Err(Why::Encrypted);
        }
        if self.flags & PATCH != 0 || !matches!(self.method, 0 | 8) {
            return Err(Why::Method);
        }
        if self.method == 0 && self.size != self.packed {
            return Err(Why::WrongSize);
        }
        Ok(())
    }

    fn wrong(&self, why: Why) -> Stop {
        Stop::Refused(Refused::entry(self.name, why))
    }
}

/// The two extensions that say something again.
#[derive(Debug, Default)]
struct Extra<'a> {
    /// Sizes and offset, in 64 bits.
    wide: Option<&'a [u8]>,
    /// The name, in Unicode.
    name: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    fn parse(mut bytes: &'a [u8]) -> Result<Self, Stop> {
        let mut extra = Self::default();
        // Less than a header is padding, which some writers leave.
        while bytes.len() >= 4 {
            let head = Record(bytes);
            let (id, length) = (head.u16(0)?, usize::from(head.u16(2)?));
            let Ok(data) = head.part(4, length) else {
                return Err(Why::Damaged.into());
            };
            let slot = match id {
                0x0001 => Some(&mut extra.wide),
                0x7075 => Some(&mut extra.name),
                _ => None,
            };
            if let Some(slot) = slot
                && slot.replace(data).is_some()
            {
                return Err(Why::Disagrees.into());
            }
            bytes = bytes.get(4 + length..).unwrap_or_default();
        }
        Ok(extra)
    }

    /// Whether it has no other name than `name`.
    fn names(&self, name: &[u8]) -> Result<(), Stop> {
        let unicode = self.name.map(|data| data.get(5..).unwrap_or_default());
        match unicode {
            Some(other) if other != name => {
                Err(Stop::Refused(Refused::entry(name, Why::Disagrees)))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Values of the 64-bit extension, in the order of the fields they stand for.
#[derive(Debug)]
struct Wide<'a> {
    data: Option<&'a [u8]>,
    at: usize,
}

impl<'a> Wide<'a> {
    fn new(data: Option<&'a [u8]>) -> Self {
        Self { data, at: 0 }
    }

    fn take(&mut self, narrow: u32) -> Result<u64, Stop> {
        if narrow != WIDE {
            return Ok(u64::from(narrow));
        }
        let data = self.data.ok_or(Why::Zip64)?;
        let wide = Record(data).u64(self.at).map_err(|_| Why::Zip64)?;
        self.at += 8;
        Ok(wide)
    }

    /// What stands there without need must say the same, for whoever reads it.
    fn ends(&self, fields: &[u64]) -> Result<(), Stop> {
        let Some(data) = self.data else { return Ok(()) };
        if self.at == data.len() || (self.at > 0 && self.at + 4 == data.len()) {
            return Ok(());
        }
        if self.at > 0 {
            return Err(Why::Zip64.into());
        }
        for (field, told) in fields.iter().zip(data.chunks(8)) {
            if told != field.to_le_bytes() {
                return Err(Why::Zip64.into());
            }
        }
        Ok(())
    }
}

/// Where an entry's bytes are, and where the entry ends.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) data: u64,
    pub(super) end: u64,
}

/// Reads what stands before an entry's bytes and behind them, and holds it to
/// what the directory says. All of it must end before `limit`.
pub(super) fn check_local(
    source: Source<'_>,
    entry: &Central<'_>,
    limit: u64,
) -> Result<Local, Stop> {
    let wrong = |why| entry.wrong(why);
    let before = |end: Option<u64>| end.filter(|end| *end <= limit);
    let start = entry.offset;
    before(start.checked_add(LOCAL_SIZE as u64)).ok_or_else(|| wrong(Why::Disagrees))?;
    // Most names are short: one read gets all of it.
    let mut buffer = [0; LOCAL_SIZE + 256];
    let got = source.read_at(&mut buffer, start)?;
    let head = Record(buffer.get(..got).unwrap_or_default());
    if !head.0.starts_with(LOCAL) {
        return Err(wrong(Why::Disagrees));
    }
    let name_length = usize::from(head.u16(26)?);
    let extra_length = usize::from(head.u16(28)?);
    let rest = name_length + extra_length;
    let longer;
    let rest = if let Ok(rest) = head.part(LOCAL_SIZE, rest) {
        rest
    } else {
        longer = source.bytes(start + LOCAL_SIZE as u64, rest)?;
        &longer
    };
    let (name, extra) = rest.split_at_checked(name_length).ok_or(Why::Truncated)?;
    if name != entry.name || head.u16(6)? != entry.flags || head.u16(8)? != entry.method {
        return Err(wrong(Why::Disagrees));
    }
    let extra = Extra::parse(extra)?;
    extra.names(name)?;
    let mut wide = Wide::new(extra.wide);
    let size = wide.take(head.u32(22)?)?;
    let packed = wide.take(head.u32(18)?)?;
    let crc = head.u32(14)?;
    let later = entry.flags & LATER != 0;
    let is_wide = extra.wide.is_some();
    // What follows later is zero here, or known already and right.
    let agrees = |told: u64, right: u64| told == right || (later && told == 0);
    if !agrees(u64::from(crc), u64::from(entry.crc))
        || !agrees(packed, entry.packed)
        || !agrees(size, entry.size)
    {
        return Err(wrong(Why::Disagrees));
    }
    if !later {
        wide.ends(&[size, packed])?;
    }
    let data = start + (LOCAL_SIZE + rest.len()) as u64;
    let end = before(data.checked_add(entry.packed)).ok_or_else(|| wrong(Why::Overlap))?;
    let end = if later {
        end + descriptor(source, entry, end, is_wide)?
    } else {
        end
    };
    before(Some(end)).ok_or_else(|| wrong(Why::Overlap))?;
    Ok(Local { data, end })
}

/// How long what follows the bytes is. It may begin with its signature or not,
/// and has the sizes in 64 bits where the entry has.
fn descriptor(
    source: Source<'_>,
    entry: &Central<'_>,
    at: u64,
    is_wide: bool,
) -> Result<u64, Stop> {
    let mut buffer = [0; 24];
    let got = source.read_at(&mut buffer, at)?;
    let bytes = buffer.get(..got).unwrap_or_default();
    let mut wants = Vec::with_capacity(24);
    for wide in [is_wide, !is_wide] {
        for signature in [DESCRIPTOR, &[]] {
            wants.clear();
            wants.extend_from_slice(signature);
            wants.extend_from_slice(&entry.crc.to_le_bytes());
            for size in [entry.packed, entry.size] {
                let size = size.to_le_bytes();
                wants.extend_from_slice(size.get(..if wide { 8 } else { 4 }).unwrap_or_default());
            }
            if bytes.starts_with(&wants) {
                return Ok(wants.len() as u64);
            }
        }
    }
    Err(entry.wrong(Why::Disagrees))
}
