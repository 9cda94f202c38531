//! Scopes: what a credential may ask for at all.
//!
//! A scope never allows a deed; it only lets a request come as far as the gate,
//! where grants, modes and rules decide.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Access, AccessSet, Group};

/// One thing a credential may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Look at files.
    FsRead,
    /// Change files.
    FsWrite,
    /// Run commands.
    Shell,
    /// Screen, pointer and keys.
    Screen,
    /// Web pages.
    Browser,
    /// Disposable computers.
    Sandbox,
    /// Answer questions.
    Approve,
    /// Look at the audit.
    Audit,
    /// Users, tokens and the server itself.
    Admin,
}

impl Scope {
    /// Every scope there is.
    pub const ALL: [Self; 9] = [
        Self::FsRead,
        Self::FsWrite,
        Self::Shell,
        Self::Screen,
        Self::Browser,
        Self::Sandbox,
        Self::Approve,
        Self::Audit,
        Self::Admin,
    ];

    /// The scope as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FsRead => "fs:read",
            Self::FsWrite => "fs:write",
            Self::Shell => "shell",
            Self::Screen => "screen",
            Self::Browser => "browser",
            Self::Sandbox => "sandbox",
            Self::Approve => "approve",
            Self::Audit => "audit",
            Self::Admin => "admin",
        }
    }

    /// The scope spelled `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    /// The scope a tool group needs.
    pub const fn of_group(group: Group) -> Self {
        match group {
            Group::FilesystemRead => Self::FsRead,
            Group::FilesystemWrite => Self::FsWrite,
            Group::Shell => Self::Shell,
            Group::Computer => Self::Screen,
            Group::Browser => Self::Browser,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Some scopes. Written as a list with commas: `fs:read,approve`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ScopeSet(u16);

/// A word that is no scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScope(pub String);

impl fmt::Display for BadScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a scope: the scopes are {}",
            self.0,
            Scope::ALL.map(Scope::as_str).join(", ")
        )
    }
}

impl std::error::Error for BadScope {}

impl ScopeSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self::of(&Scope::ALL);

    /// The set of these.
    pub const fn of(list: &[Scope]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// Reads a list with commas. Blanks count for nothing; an empty list is one.
    pub fn parse(list: &str) -> Result<Self, BadScope> {
        list.split([',', ' '])
            .filter(|word| !word.is_empty())
            .try_fold(Self::NONE, |set, word| match Scope::parse(word) {
                Some(scope) => Ok(Self(set.0 | Self::of(&[scope]).0)),
                None => Err(BadScope(word.to_owned())),
            })
    }

    /// Whether `scope` is among them.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & Self::of(&[scope]).0 != 0
    }

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Every one of them.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// What a grant on a root may hold for them.
    pub fn access(self) -> AccessSet {
        let mut access = AccessSet::NONE;
        if self.has(Scope::FsRead) {
            access = access.union(AccessSet::LOOK);
        }
        if self.has(Scope::FsWrite) {
            let changing = [Access::Write, Access::Delete, Access::Move, Access::Archive];
            access = access.union(AccessSet::of(&changing));
        }
        access
    }
}

impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Scope::as_str).collect();
        f.write_str(&words.join(","))
    }
}

impl fmt::Debug for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeSet({self})")
    }
}

impl From<ScopeSet> for String {
    fn from(set: ScopeSet) -> Self {
        set.to_string()
    }
}

impl TryFrom<String> for ScopeSet {
    type Error = BadScope;

    fn try_from(list: String) -> Result<Self, BadScope> {
        Self::parse(&list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        assert_eq!(
            ScopeSet::parse("fs:write, fs:read").unwrap().to_string(),
            "fs:read,fs:write"
        );
        assert_eq!(
            ScopeSet::parse(&ScopeSet::ALL.to_string()),
            Ok(ScopeSet::ALL)
        );
        assert_eq!(ScopeSet::parse(""), Ok(ScopeSet::NONE));
        assert_eq!(
            ScopeSet::parse("fs:read,root"),
            Err(BadScope("root".to_owned()))
        );
    }

    #[test]
    fn a_scope_gives_no_access_that_its_name_does_not_say() {
        let access = |list: &str| ScopeSet::parse(list).unwrap().access();
        assert_eq!(access("fs:read"), AccessSet::LOOK);
        assert!(!access("fs:write").has(Access::Read));
        assert!(!access("fs:read").iter().any(Access::mutates));
        assert_eq!(
            access("shell,screen,browser,sandbox,approve,audit,admin"),
            AccessSet::NONE
        );
    }
}
