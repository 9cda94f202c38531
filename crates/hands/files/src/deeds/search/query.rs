//! What to look for: a regular expression or plain text, compiled within limits.
//!
//! Matching takes time linear in the text, whatever the expression; how much
//! for each byte, and how much memory, depends on the expression and is what
//! the limits are for. They are the caller's words, and many callers search at
//! once.

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use portcullis_proto::{Digest, Failure, Reason, RelPath};
use sha2::{Digest as _, Sha256};

use super::SearchRequest;
use crate::deeds::glob::compiled;

/// How letters are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// As they are.
    Sensitive,
    /// Small and capital letters are the same.
    Insensitive,
    /// The same, unless the query has a capital letter.
    Smart,
}

impl Case {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Sensitive => "sensitive",
            Self::Insensitive => "insensitive",
            Self::Smart => "smart",
        }
    }
}

/// The longest query.
const MAX_QUERY: usize = 4096;
/// The largest program an expression may compile to. A large one whose states
/// do not fit the cache is run through all at once for every byte of text, and
/// a whole buffer is searched before anybody looks at the clock.
const MAX_PROGRAM: usize = 512 * 1024;
/// What one worker may keep of an expression's states.
const MAX_STATES: usize = 4 * 1024 * 1024;
/// The longest line, and with `multiline` the largest file: what has longer
/// ones is searched up to there, and counted as not read.
const MAX_HELD: usize = 4 * 1024 * 1024;

impl SearchRequest {
    /// What is looked for, as the audit names it: its digest.
    pub(crate) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let kind = if self.literal { "text" } else { "regex" };
        let span = if self.multiline { "multiline" } else { "line" };
        for part in [
            kind,
            self.case.as_str(),
            span,
            &self.query,
            self.files.as_deref().unwrap_or_default(),
        ] {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        Digest(hash.finalize().into())
    }

    /// Compiles the query.
    pub(super) fn matcher(&self) -> Result<RegexMatcher, Failure> {
        let bad = |why: &'static str| Failure::new(Reason::BadArguments, why);
        if self.query.is_empty() {
            return Err(bad("The query is empty.").hint("Say what to look for."));
        }
        if self.query.len() > MAX_QUERY {
            return Err(bad("The query is longer than 4,096 bytes.")
                .hint("Search for a part of it, and read what is found."));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(self.case == Case::Insensitive)
            .case_smart(self.case == Case::Smart)
            .fixed_strings(self.literal)
            .multi_line(true)
            .octal(false)
            .size_limit(MAX_PROGRAM)
            .dfa_size_limit(MAX_STATES);
        if !self.multiline {
            builder.line_terminator(Some(b'\n'));
        }
        builder.build(&self.query).map_err(|error| {
            // A person's answer is one sentence; the parser draws pictures.
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default();
            let why = why.trim_start_matches("error: ").trim();
            let (what, hint) = if self.literal {
                ("The text cannot be searched for", "Shorten it, or set `multiline` where it has a line break.")
            } else {
                (
                    "The query is not a regular expression that can be used",
                    "Mend it, or set `literal` to search for the text as it is. A line break needs `multiline`.",
                )
            };
            Failure::new(Reason::BadArguments, format!("{what}: {why}.")).hint(hint)
        })
    }

    /// What runs the query over a file.
    pub(super) fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .multi_line(self.multiline)
            .before_context(self.before)
            .after_context(self.after)
            .heap_limit(Some(MAX_HELD))
            // A file that somebody truncates while it is mapped kills us.
            .memory_map(MmapChoice::never())
            .build()
    }

    /// Which files.
    pub(super) fn filter(&self) -> Result<Option<FileFilter>, Failure> {
        let Some(pattern) = &self.files else {
            return Ok(None);
        };
        Ok(Some(FileFilter {
            by_name: !pattern.contains('/'),
            glob: compiled(pattern)?,
        }))
    }
}

/// A glob on files: on the name where it has no `/`, else on the path below the
/// directory.
pub(super) struct FileFilter {
    by_name: bool,
    glob: GlobMatcher,
}

impl FileFilter {
    pub(super) fn takes(&self, below: &str, path: &RelPath) -> bool {
        if self.by_name {
            path.name().is_some_and(|name| self.glob.is_match(name))
        } else {
            self.glob.is_match(below)
        }
    }
}
