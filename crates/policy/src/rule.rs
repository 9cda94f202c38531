//! Rules: what a person decided once and does not want to be asked again.

use std::fmt;
use std::sync::Arc;

use portcullis_proto::{Group, RelPath, RootId};

use crate::{BadPattern, Class, Modes, PatternSet};

/// Where a decision came from, as the audit and `policy explain` name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Part of Portcullis.
    Builtin(&'static str),
    /// A rule somebody wrote or answered, with its place.
    Rule(Arc<str>),
}

impl Source {
    /// The source as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Builtin(name) => name,
            Self::Rule(name) => name,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Go ahead where the group asks.
    Allow,
    /// Refuse, whatever the mode.
    Deny,
}

impl Effect {
    /// The effect as settings spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// How far an answer that is remembered reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// The path and everything below it.
    Subtree,
    /// The very path: all that a protected class allows.
    ExactPath,
    /// Not at all for a yes: who raised the question raises it every time.
    Never,
}

/// One rule, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Allow or deny.
    pub effect: Effect,
    /// For which group.
    pub group: Group,
    /// In which root; in every root where none is named.
    pub root: Option<RootId>,
    /// Which paths.
    pub pattern: String,
    /// Whether it speaks for protected classes too: only rules about one exact
    /// path do.
    pub covers_protected: bool,
    /// Whether a yes is about the very path, and about nothing below it.
    pub exact_path: bool,
    /// Its place, for people: `settings.json:12`, `answer q_…`.
    pub source: Arc<str>,
}

/// Rules compiled for matching.
#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    patterns: Vec<PatternSet>,
}

impl RuleSet {
    /// No rule.
    pub fn none() -> Self {
        Self {
            rules: Vec::new(),
            patterns: Vec::new(),
        }
    }

    /// Compiles `rules`.
    pub fn compile(rules: Vec<Rule>) -> Result<Self, BadPattern> {
        let patterns = rules
            .iter()
            .map(|rule| PatternSet::compile(&[&rule.pattern]))
            .collect::<Result<_, _>>()?;
        Ok(Self { rules, patterns })
    }

    /// The rules, as written.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// These rules and one more.
    pub fn with(&self, rule: Rule) -> Result<Self, BadPattern> {
        let mut next = self.clone();
        next.patterns.push(PatternSet::compile(&[&rule.pattern])?);
        next.rules.push(rule);
        Ok(next)
    }

    /// The first deny that covers `path`. A path that may not be read may not
    /// be written either, and a directory is not taken away from around one.
    pub(crate) fn denies(
        &self,
        group: Group,
        root: &RootId,
        path: &RelPath,
        takes_directory: bool,
    ) -> Option<&Rule> {
        let wanted = |rule: &Rule| {
            rule.effect == Effect::Deny
                && (rule.group == group
                    || (group == Group::FilesystemWrite && rule.group == Group::FilesystemRead))
        };
        self.first(root, wanted, |_, pattern| {
            pattern.covers(path) || (takes_directory && pattern.holds_below(path))
        })
    }

    /// The first allow that covers `path`; for a path of a protected class only
    /// a rule that names it exactly counts.
    pub(crate) fn allows(
        &self,
        group: Group,
        root: &RootId,
        path: &RelPath,
        class: Option<Class>,
    ) -> Option<&Rule> {
        let wanted = |rule: &Rule| {
            rule.effect == Effect::Allow
                && rule.group == group
                && (class.is_none() || rule.covers_protected)
        };
        self.first(root, wanted, |rule, pattern| {
            let is_exact = || rule.pattern == PatternSet::exact(path);
            let takes_exact = class.is_some() || rule.exact_path;
            pattern.covers(path) && (!takes_exact || is_exact())
        })
    }

    fn first(
        &self,
        root: &RootId,
        wanted: impl Fn(&Rule) -> bool,
        matches: impl Fn(&Rule, &PatternSet) -> bool,
    ) -> Option<&Rule> {
        self.rules
            .iter()
            .zip(&self.patterns)
            .find(|(rule, pattern)| {
                rule.root.as_ref().is_none_or(|named| named == root)
                    && wanted(rule)
                    && matches(rule, pattern)
            })
            .map(|(rule, _)| rule)
    }
}

/// Everything people decided: modes and stored rules.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The mode of each group.
    pub modes: Modes,
    /// Rules that outlive a session.
    pub stored: RuleSet,
}

impl Rules {
    /// These modes and no rule.
    pub fn new(modes: Modes) -> Self {
        Self {
            modes,
            stored: RuleSet::none(),
        }
    }
}
