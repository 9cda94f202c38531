//! Which of the three a link speaks.

use std::time::Duration;

use crate::bounds::{DEADLINE, SEED_DEADLINE};

/// How a link speaks: chosen by path and by what init negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// As the seed describes it: a tree is uploaded, operations are asked for.
    Seed,
    /// As n8n ships it: tools are offered and called.
    Shipped,
    /// n8n's, with ids, repeats, cancels, progress and pieces.
    Ours,
}

impl Dialect {
    /// How long a call may take.
    pub const fn deadline(self) -> Duration {
        match self {
            Self::Seed => SEED_DEADLINE,
            Self::Shipped | Self::Ours => DEADLINE,
        }
    }

    /// Whether a success stands in `{"data":…}`.
    pub const fn wraps(self) -> bool {
        match self {
            Self::Seed => false,
            Self::Shipped | Self::Ours => true,
        }
    }

    /// Whether events have ids, calls can be sent again, and a cancel is understood.
    pub const fn is_ours(self) -> bool {
        match self {
            Self::Ours => true,
            Self::Seed | Self::Shipped => false,
        }
    }

    /// The dialect as `/status` and the store spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Shipped => "n8n",
            Self::Ours => "portcullis",
        }
    }

    /// What [`Self::as_str`] spelled.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Seed, Self::Shipped, Self::Ours]
            .into_iter()
            .find(|dialect| dialect.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spelled_is_understood() {
        for dialect in [Dialect::Seed, Dialect::Shipped, Dialect::Ours] {
            assert_eq!(Dialect::parse(dialect.as_str()), Some(dialect));
        }
        assert_eq!(Dialect::parse("n8n "), None);
    }
}
