//! One ignore file, parsed.

use portcullis_proto::RelPath;

use super::wild::{About, Wild};

/// How much of an ignore file is read; rules after that do not count.
pub const MAX_IGNORE_BYTES: usize = 1024 * 1024;
/// What all ignore files that hold in one directory may cost together. They are
/// the tree's content: whoever wrote it must not decide how long a name takes
/// or how much memory is held. Rules beyond it are left out; they only hide.
pub(super) const MAX_WEIGHT: usize = 64 * 1024;
/// How many bytes that only have to be read weigh as much as one state.
const LIGHT: usize = 64;

/// Whose ignore file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IgnoreKind {
    /// `.gitignore`.
    Git,
    /// `.qwenignore`.
    Qwen,
    /// `.portcullisignore`.
    Portcullis,
}

impl IgnoreKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Git, Self::Qwen, Self::Portcullis];

    /// The name of the file.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Git => ".gitignore",
            Self::Qwen => ".qwenignore",
            Self::Portcullis => ".portcullisignore",
        }
    }

    /// The kind of the ignore file of this name.
    pub fn of_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.file_name() == name)
    }
}

/// What one ignore file says about one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Ignored(&'a str),
    Kept,
}

/// The rules of one ignore file.
#[derive(Clone, Debug)]
pub struct IgnoreLayer {
    kind: IgnoreKind,
    dir: RelPath,
    /// In the order of the file; the last that matches decides.
    rules: Box<[Rule]>,
    weight: usize,
}

/// One line that says something.
#[derive(Clone, Debug)]
struct Rule {
    /// The line, as far as it counts.
    pattern: Box<str>,
    /// Whether it keeps (`!`) instead of ignoring.
    keeps: bool,
    /// Whether it is about directories only (a `/` at its end).
    dirs_only: bool,
    about: About,
    wild: Wild,
}

impl IgnoreLayer {
    /// Parses the ignore file that stands in `dir`.
    ///
    /// Never fails: a line that is no pattern matches nothing, as git has it.
    /// Patterns are bytes and need not be UTF-8; only what is shown of them is.
    pub fn parse(dir: RelPath, kind: IgnoreKind, content: &[u8]) -> Self {
        let content = &content[..content.len().min(MAX_IGNORE_BYTES)];
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        // Even what says nothing has to be read.
        let mut weight = content.len() / LIGHT;
        let rules = content
            .split(|&byte| byte == b'\n')
            .filter_map(|line| {
                let cost = Rule::weight(line);
                // What has no wildcard costs next to nothing, and is heard.
                if cost > 1 && weight + cost > MAX_WEIGHT {
                    return None;
                }
                weight += cost;
                Rule::parse(line)
            })
            .collect();
        Self {
            kind,
            dir,
            rules,
            weight: weight.min(MAX_WEIGHT),
        }
    }

    /// What matching one name against it costs at most, in states.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Whose rules they are.
    pub fn kind(&self) -> IgnoreKind {
        self.kind
    }

    /// The directory they hold in.
    pub fn dir(&self) -> &RelPath {
        &self.dir
    }

    /// What the rules say about `path` itself, its parents aside.
    pub(super) fn says(&self, path: &str, is_dir: bool) -> Option<Said<'_>> {
        let below = match self.dir.as_str() {
            "" => path,
            dir => path.strip_prefix(dir)?.strip_prefix('/')?,
        };
        let name = below.rsplit_once('/').map_or(below, |(_, name)| name);
        let rule = self.rules.iter().rev().find(|rule| {
            (is_dir || !rule.dirs_only)
                && rule.wild.matches(match rule.about {
                    About::Name => name.as_bytes(),
                    About::Path => below.as_bytes(),
                })
        })?;
        Some(if rule.keeps {
            Said::Kept
        } else {
            Said::Ignored(&rule.pattern)
        })
    }
}

impl Rule {
    /// What a line costs: its states where it has wildcards, which every byte
    /// of a name may run through, and next to nothing where it has none.
    fn weight(line: &[u8]) -> usize {
        let wild = line
            .iter()
            .any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
        if line.starts_with(b"#") {
            0
        } else if wild {
            line.len()
        } else {
            usize::from(!line.is_empty())
        }
    }

    /// Reads one line as git does; `None` when it says nothing.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            return None;
        }
        let line = trim(line);
        let (keeps, body) = match line.strip_prefix(b"!") {
            Some(body) => (true, body),
            None => (false, line),
        };
        let (dirs_only, body) = match body.strip_suffix(b"/") {
            Some(body) => (true, body),
            None => (false, body),
        };
        let about = if body.contains(&b'/') {
            About::Path
        } else {
            About::Name
        };
        let body = body.strip_prefix(b"/").unwrap_or(body);
        if body.is_empty() {
            return None;
        }
        Some(Self {
            pattern: String::from_utf8_lossy(line).into(),
            keeps,
            dirs_only,
            about,
            wild: Wild::parse(body, about)?,
        })
    }
}

/// Drops the spaces at the end that no backslash protects.
fn trim(line: &[u8]) -> &[u8] {
    let (mut end, mut escaped) = (0, false);
    for (at, &byte) in line.iter().enumerate() {
        if byte != b' ' || escaped {
            end = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    &line[..end]
}
