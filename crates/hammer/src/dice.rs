//! A small seeded generator for dwell times (splitmix64).
//!
//! Invariant: never used for the marks, which must not be guessable.

/// A stream of numbers that is the same for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `0..bound`; 0 when `bound` is 0. The bias of the remainder does not matter here.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        match mixed.checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }
}
