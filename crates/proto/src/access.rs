//! What a grant can allow.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One way to reach a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// See the bytes.
    Read,
    /// Create or change them.
    Write,
    /// Remove it.
    Delete,
    /// See the names in a directory.
    List,
    /// Give it another name.
    Move,
    /// Pack or unpack.
    Archive,
    /// Be told of changes.
    Watch,
    /// See size, times and type.
    Metadata,
}

impl Access {
    /// Every access there is.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Delete,
        Self::List,
        Self::Move,
        Self::Archive,
        Self::Watch,
        Self::Metadata,
    ];

    /// The access as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Move => "move",
            Self::Archive => "archive",
            Self::Watch => "watch",
            Self::Metadata => "metadata",
        }
    }

    /// The access spelled `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|access| access.as_str() == word)
    }

    /// Whether it changes anything.
    pub const fn mutates(self) -> bool {
        match self {
            Self::Write | Self::Delete | Self::Move => true,
            Self::Read | Self::List | Self::Archive | Self::Watch | Self::Metadata => false,
        }
    }
}

/// A set of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessSet(u8);

impl AccessSet {
    /// No access at all.
    pub const NONE: Self = Self(0);
    /// What looking around needs.
    pub const LOOK: Self = Self::of(&[Access::Read, Access::List, Access::Metadata, Access::Watch]);
    /// Everything.
    pub const ALL: Self = Self::of(&Access::ALL);

    /// The set of these.
    pub const fn of(list: &[Access]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether it holds `access`.
    pub const fn has(self, access: Access) -> bool {
        self.0 & (1 << access as u8) != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// This set without the other's members.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every member of `other` is here.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Its members, in the order of [`Access::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Access> {
        Access::ALL
            .into_iter()
            .filter(move |access| self.has(*access))
    }
}

impl FromIterator<Access> for AccessSet {
    fn from_iter<I: IntoIterator<Item = Access>>(iter: I) -> Self {
        iter.into_iter()
            .fold(Self::NONE, |set, access| set.union(Self::of(&[access])))
    }
}

impl fmt::Debug for AccessSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for AccessSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for AccessSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Access>::deserialize(deserializer).map(|list| list.into_iter().collect())
    }
}
