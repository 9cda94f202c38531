//! Raw windows: some bytes from somewhere, bounded.

use portcullis_proto::Failure;

use super::read_at::{ReadAt, failure, read_full};

/// Reads at most `max` bytes from `offset`; fewer where the file ends.
///
/// The buffer is as large as what is there, never as large as what was asked
/// for, so a caller's huge `max` on a small file costs nothing.
pub fn read_bytes(
    file: &(impl ReadAt + ?Sized),
    offset: u64,
    max: usize,
) -> Result<Vec<u8>, Failure> {
    let there = file.len().map_err(failure)?.saturating_sub(offset);
    let mut bytes = vec![0; usize::try_from(there).unwrap_or(usize::MAX).min(max)];
    let count = read_full(file, &mut bytes, offset)?;
    bytes.truncate(count);
    Ok(bytes)
}
