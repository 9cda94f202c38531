//! Reading a zip's manifest: every record of it must agree with every other.
//!
//! A zip says what it holds twice: in a directory at its end, and in a header
//! before each entry. Readers differ in which they believe, and what one reader
//! checks another may unpack differently. So the two must say the same, the
//! entries must fill the file without a gap and without sharing a byte, and
//! there is one end.

use super::limits::{MAX_ENTRIES, MAX_METADATA};
use super::manifest::{Builder, Data, ItemKind, Told};
use super::source::{Pace, Record, Source};
use super::why::{Stop, Why};
use super::zip_entry::{Central, check_local};

const END: &[u8] = b"PK\x05\x06";
const END_SIZE: usize = 22;
const LOCATOR: &[u8] = b"PK\x06\x07";
const LOCATOR_SIZE: u64 = 20;
const END64: &[u8] = b"PK\x06\x06";
const END64_SIZE: u64 = 56;
/// The longest comment behind the end.
const MAX_COMMENT: usize = 65_535;

/// Whether the file has the end of a zip.
pub(super) fn ends(source: Source<'_>) -> Result<bool, Stop> {
    Ok(find_end(source)?.is_some())
}

/// Where the directory is, and how many entries it has.
#[derive(Debug)]
struct Directory {
    at: u64,
    size: u64,
    entries: u64,
}

/// Reads the manifest of a zip.
pub(super) fn read(source: Source<'_>, pace: Pace<'_>, builder: &mut Builder) -> Result<(), Stop> {
    let directory = find_directory(source)?;
    if directory.entries > MAX_ENTRIES as u64 {
        return Err(Why::TooManyEntries.into());
    }
    if directory.size > MAX_METADATA {
        return Err(Why::TooMuchMetadata.into());
    }
    let size = usize::try_from(directory.size).map_err(|_| Why::TooMuchMetadata)?;
    let records = source.bytes(directory.at, size)?;
    let mut at = 0;
    let mut taken = Vec::new();
    for _ in 0..directory.entries {
        pace()?;
        let (entry, length) = Central::parse(&records, at)?;
        at += length;
        let local = check_local(source, &entry, directory.at)?;
        taken.push((entry.offset, local.end));
        let (kind, executable) = kind_of(&entry);
        builder.add(Told {
            name: entry.name,
            kind: entry.unpackable().and(kind),
            size: entry.size,
            packed: Some(entry.packed),
            executable,
            data: Some(Data {
                at: local.data,
                deflated: entry.method == 8,
                crc: entry.crc,
            }),
        })?;
    }
    if at != records.len() {
        return Err(Why::Disagrees.into());
    }
    fills(&mut taken, directory.at)
}

/// Whether the entries fill the file up to its directory.
fn fills(taken: &mut [(u64, u64)], directory: u64) -> Result<(), Stop> {
    taken.sort_unstable();
    let mut end = 0;
    for (start, stop) in taken.iter().copied() {
        if start < end {
            return Err(Why::Overlap.into());
        }
        if start > end {
            let before = if end == 0 {
                Why::Prepended
            } else {
                Why::Hidden
            };
            return Err(before.into());
        }
        end = stop;
    }
    match end.cmp(&directory) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Why::Overlap.into()),
        std::cmp::Ordering::Less if end == 0 => Err(Why::Prepended.into()),
        std::cmp::Ordering::Less => Err(Why::Hidden.into()),
    }
}

/// Finds the end record: where it is and its bytes. Whoever reads from behind
/// and whoever reads from the front must find the same one.
fn find_end(source: Source<'_>) -> Result<Option<(u64, Vec<u8>)>, Stop> {
    let size = source.len();
    let most = (END_SIZE + MAX_COMMENT) as u64;
    let from = size.saturating_sub(most);
    let tail = source.bytes(from, usize::try_from(size - from).unwrap_or_default())?;
    let mut found = None;
    let mut any = false;
    for at in memchr::memmem::find_iter(&tail, END) {
        any = true;
        let Ok(comment) = Record(&tail).u16(at + 20) else {
            continue;
        };
        if at + END_SIZE + usize::from(comment) == tail.len() {
            if found.is_some() {
                return Err(Why::TwoEnds.into());
            }
            found = Some(at);
        } else if found.is_some() {
            // In the comment of the end: another end.
            return Err(Why::TwoEnds.into());
        }
    }
    match found {
        Some(at) => {
            let end = tail.get(at..).unwrap_or_default().to_vec();
            Ok(Some((from + at as u64, end)))
        }
        None if any => Err(Why::Trailing.into()),
        None => Ok(None),
    }
}

fn find_directory(source: Source<'_>) -> Result<Directory, Stop> {
    let Some((end_at, end)) = find_end(source)? else {
        return Err(Why::Truncated.into());
    };
    let end = Record(&end);
    let (here, all) = (end.u16(8)?, end.u16(10)?);
    if end.u16(4)? != 0 || end.u16(6)? != 0 || here != all {
        return Err(Why::ManyDisks.into());
    }
    let mut directory = Directory {
        entries: u64::from(all),
        size: u64::from(end.u32(12)?),
        at: u64::from(end.u32(16)?),
    };
    let stop = match find_end64(source, end_at)? {
        Some((at, wide)) => {
            let agrees = |narrow: u64, full: u64, wide: u64| narrow == full || narrow == wide;
            if !agrees(directory.entries, 0xffff, wide.entries)
                || !agrees(directory.size, 0xffff_ffff, wide.size)
                || !agrees(directory.at, 0xffff_ffff, wide.at)
            {
                return Err(Why::Zip64.into());
            }
            directory = wide;
            at
        }
        None => end_at,
    };
    let reaches = directory.at.checked_add(directory.size);
    match reaches {
        Some(reaches) if reaches == stop => Ok(directory),
        // The offsets are right for a file that begins earlier in this one.
        Some(reaches) if reaches < stop => Err(Why::Prepended.into()),
        Some(_) | None => Err(Why::Disagrees.into()),
    }
}

/// The 64-bit end record, which stands right before the other.
fn find_end64(source: Source<'_>, end_at: u64) -> Result<Option<(u64, Directory)>, Stop> {
    let Some(locator_at) = end_at.checked_sub(LOCATOR_SIZE) else {
        return Ok(None);
    };
    let locator = source.bytes(locator_at, 20)?;
    if !locator.starts_with(LOCATOR) {
        return Ok(None);
    }
    let locator = Record(&locator);
    if locator.u32(4)? != 0 || locator.u32(16)? != 1 {
        return Err(Why::ManyDisks.into());
    }
    let at = locator.u64(8)?;
    // Without the extensible part, which nobody writes.
    if at.checked_add(END64_SIZE) != Some(locator_at) {
        return Err(Why::Zip64.into());
    }
    let end = source.bytes(at, 56)?;
    if !end.starts_with(END64) {
        return Err(Why::Zip64.into());
    }
    let end = Record(&end);
    if end.u64(4)? != END64_SIZE - 12 {
        return Err(Why::Zip64.into());
    }
    if end.u32(16)? != 0 || end.u32(20)? != 0 || end.u64(24)? != end.u64(32)? {
        return Err(Why::ManyDisks.into());
    }
    let directory = Directory {
        entries: end.u64(32)?,
        size: end.u64(40)?,
        at: end.u64(48)?,
    };
    Ok(Some((at, directory)))
}

/// What an entry is, by its name and by what a Unix wrote of it.
fn kind_of(entry: &Central<'_>) -> (Result<ItemKind, Why>, bool) {
    let mode = entry.external >> 16;
    let named_directory = entry.name.ends_with(b"/");
    // Some writers leave the type out, and some the whole mode.
    let kind = match mode & 0o170_000 {
        0o120_000 => Err(Why::Symlink),
        0o010_000 | 0o020_000 | 0o060_000 | 0o140_000 => Err(Why::Special),
        0 | 0o040_000 if named_directory => Ok(ItemKind::Directory),
        0 | 0o100_000 if !named_directory => Ok(ItemKind::File),
        0 | 0o040_000 | 0o100_000 => Err(Why::FileAndDirectory),
        _ => Err(Why::UnknownType),
    };
    (kind, mode & 0o111 != 0)
}
