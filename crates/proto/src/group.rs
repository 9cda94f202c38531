//! Tool groups and their modes, as seed and settings spell them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a person switches on or off as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Group {
    /// Reading and listing files.
    FilesystemRead,
    /// Changing files.
    FilesystemWrite,
    /// Running commands.
    Shell,
    /// Screen, pointer and keys.
    Computer,
    /// Web pages.
    Browser,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 5] = [
        Self::FilesystemRead,
        Self::FilesystemWrite,
        Self::Shell,
        Self::Computer,
        Self::Browser,
    ];

    /// The group as settings spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FilesystemRead => "filesystemRead",
            Self::FilesystemWrite => "filesystemWrite",
            Self::Shell => "shell",
            Self::Computer => "computer",
            Self::Browser => "browser",
        }
    }

    /// The group as a command-line flag spells it.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::FilesystemRead => "filesystem-read",
            Self::FilesystemWrite => "filesystem-write",
            Self::Shell => "shell",
            Self::Computer => "computer",
            Self::Browser => "browser",
        }
    }

    /// The mode at first start.
    pub const fn recommended(self) -> Mode {
        match self {
            Self::FilesystemRead => Mode::Allow,
            Self::FilesystemWrite | Self::Shell | Self::Browser => Mode::Ask,
            Self::Computer => Mode::Deny,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens when nothing more particular decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The group does not exist for the agent.
    Deny,
    /// A person decides.
    Ask,
    /// It goes ahead.
    Allow,
}

impl Mode {
    /// The mode as settings and flags spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
