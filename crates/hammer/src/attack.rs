//! The closed list of attacks, and how each one is named.
//!
//! Invariant: [`Attack::ALL`] holds every variant once, in the order in which they are run.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// One way to make a path inside the root mean something outside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// The directory that holds the file is exchanged with a symlink to its twin outside.
    Parent,
    /// The directory above that one is exchanged with a symlink.
    Grandparent,
    /// The file itself is exchanged with a symlink to its twin outside.
    Leaf,
    /// The root itself is renamed away, a symlink to the outside takes its name, and back.
    RootRenamed,
    /// The outside directory is bind-mounted over the inside one and lazily unmounted.
    BindMount,
    /// The outside file, owned by another user, is hard-linked over the inside one.
    Hardlink,
}

impl Attack {
    /// Every attack, in running order.
    pub const ALL: [Self; 6] = [
        Self::Parent,
        Self::Grandparent,
        Self::Leaf,
        Self::RootRenamed,
        Self::BindMount,
        Self::Hardlink,
    ];

    /// The name used on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Grandparent => "grandparent",
            Self::Leaf => "leaf",
            Self::RootRenamed => "root-renamed",
            Self::BindMount => "bind-mount",
            Self::Hardlink => "hardlink",
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Attack {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|attack| attack.name() == typed)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|attack| attack.name()).collect();
                format!("no attack is called {typed:?}; known: {}", known.join(", "))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_is_found_by_its_own_name() {
        for attack in Attack::ALL {
            assert_eq!(attack.name().parse(), Ok(attack));
        }
        assert!("sideways".parse::<Attack>().is_err());
    }
}
