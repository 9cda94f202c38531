//! How much of an archive is looked at, and how much may come out of it.

/// The largest archive.
pub const MAX_ARCHIVE: u64 = 256 * 1024 * 1024;
/// The most entries.
pub const MAX_ENTRIES: usize = 10_000;
/// The largest entry, where the root allows as much.
pub const MAX_ENTRY: u64 = 256 * 1024 * 1024;
/// The most bytes of all entries together.
pub const MAX_TOTAL: u64 = 512 * 1024 * 1024;
/// The most components of a name.
pub const MAX_COMPONENTS: usize = 64;
/// The longest extension header of a tar.
pub const MAX_RECORD: u64 = 1024 * 1024;
/// The most bytes of names, of central directories and of extension headers.
pub const MAX_METADATA: u64 = 16 * 1024 * 1024;
/// The most memory a decoder may take for its window, in bytes.
pub const MAX_WINDOW: u64 = 64 * 1024 * 1024;
/// One entry may become so many times its packed size, above [`RATIO_FROM`].
pub const ENTRY_RATIO: u64 = 200;
/// All of them may become so many times the archive's size, above [`RATIO_FROM`].
pub const TOTAL_RATIO: u64 = 100;
/// What is smaller than this is no bomb.
pub const RATIO_FROM: u64 = 1024 * 1024;
/// The most refusals that are told; the first is enough to refuse.
pub const MAX_REFUSED: usize = 100;
/// How long reading or unpacking one archive may take.
pub const PATIENCE_US: u64 = 120_000_000;

/// What a compressed tar may decode to: its entries, and a header and padding
/// for each.
pub(super) fn max_decoded(archive: u64) -> u64 {
    let headers = MAX_ENTRIES as u64 * 2 * 512 + MAX_METADATA;
    let by_ratio = archive.saturating_mul(TOTAL_RATIO).max(RATIO_FROM);
    by_ratio.min(MAX_TOTAL).saturating_add(headers)
}
