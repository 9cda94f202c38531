//! Whether a write takes most of a file away, which is worth a second look.

/// The smallest file that counts as large.
pub const LARGE_FILE_BYTES: u64 = 4 * 1024;
/// How much of a large file may go without a word, in percent.
pub const SHRINK_PERCENT: u64 = 40;

/// Whether more than [`SHRINK_PERCENT`] of a file of at least
/// [`LARGE_FILE_BYTES`] goes.
pub fn shrinks(before_len: u64, after_len: u64) -> bool {
    let gone = u128::from(before_len.saturating_sub(after_len));
    before_len >= LARGE_FILE_BYTES
        && gone * 100 > u128::from(before_len) * u128::from(SHRINK_PERCENT)
}
