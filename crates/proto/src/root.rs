//! Names for the places an agent may reach into.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a root is for; its default policy follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootKind {
    /// The directory an agent works in.
    Workspace,
    /// One extension's private files.
    ExtensionStorage,
    /// What was made for people to keep.
    Artifact,
    /// Scratch that its owner cleans up.
    Temp,
    /// Notes and documents, by explicit grant only.
    Knowledge,
    /// What came from outside and is not vetted.
    Downloads,
    /// Credentials: opt-in, never listed.
    Secret,
}

impl RootKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Workspace,
        Self::ExtensionStorage,
        Self::Artifact,
        Self::Temp,
        Self::Knowledge,
        Self::Downloads,
        Self::Secret,
    ];

    /// The kind as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::ExtensionStorage => "extension-storage",
            Self::Artifact => "artifact",
            Self::Temp => "temp",
            Self::Knowledge => "knowledge",
            Self::Downloads => "downloads",
            Self::Secret => "secret",
        }
    }

    /// The kind spelled `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for RootKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A root's name: letters, digits, `-`, `_` and `.`, at most 64 bytes, so that
/// it can stand in a URI and is never a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct RootId(Arc<str>);

impl RootId {
    /// Admits a name.
    pub fn parse(name: &str) -> Option<Self> {
        let fits = !name.is_empty()
            && name.len() <= 64
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        fits.then(|| Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RootId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{name:?} cannot name a root: use letters, digits, `-`, `_` and `.`, at most 64"
            ))
        })
    }
}
