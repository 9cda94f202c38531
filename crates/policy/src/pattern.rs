//! Path patterns, in the grammar people know from `.gitignore`.
//!
//! A pattern with no `/` matches a name at any depth; a leading `/` (or any
//! other `/`) ties it to the root. `*` and `?` stay inside one component, `**`
//! crosses them. What a pattern matches, everything below it matches too:
//! a rule about a directory covers its subtree, also the parts that do not
//! exist yet.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use portcullis_proto::RelPath;

/// A pattern that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a path pattern: {}", self.pattern, self.why)
    }
}

impl std::error::Error for BadPattern {}

/// Patterns compiled together; remembers which one matched.
#[derive(Clone, Debug)]
pub struct PatternSet {
    globs: GlobSet,
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// The directory the pattern is certain to stay below.
    literal_prefix: RelPath,
    /// Whether something below the prefix may have to be entered to reach a match.
    reaches_deeper: bool,
    /// Whether it matches by name wherever the name stands.
    floats: bool,
}

impl PatternSet {
    /// No pattern: matches nothing.
    pub fn none() -> Self {
        Self {
            globs: GlobSet::empty(),
            patterns: Vec::new(),
        }
    }

    /// Compiles `patterns`; positions in the slice are what [`Self::find`] returns.
    pub fn compile<S: AsRef<str>>(patterns: &[S]) -> Result<Self, BadPattern> {
        let mut globs = GlobSetBuilder::new();
        let mut parsed = Vec::with_capacity(patterns.len());
        for written in patterns {
            let written = written.as_ref();
            let bad = |why: String| BadPattern {
                pattern: written.to_owned(),
                why,
            };
            let anchored = anchored_form(written).map_err(|why| bad(why.to_owned()))?;
            // Two globs each, the thing itself and what is below it, so that the
            // index of a match is twice the index of its pattern.
            for glob in [anchored.clone(), below(&anchored)] {
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build()
                    .map_err(|error| bad(error.kind().to_string()))?;
                globs.add(glob);
            }
            parsed.push(shape(&anchored));
        }
        let globs = globs.build().map_err(|error| BadPattern {
            pattern: String::new(),
            why: error.kind().to_string(),
        })?;
        Ok(Self {
            globs,
            patterns: parsed,
        })
    }

    /// The pattern that matches `path` and what is below it, and nothing beside
    /// it: every character is taken literally, the backslash too.
    pub fn exact(path: &RelPath) -> String {
        format!("/{}", globset::escape(path.as_str()).replace('\\', "\\\\"))
    }

    /// The path that [`Self::exact`] made `pattern` of; nothing for any other.
    pub fn exactly(pattern: &str) -> Option<RelPath> {
        let mut path = String::with_capacity(pattern.len());
        let mut rest = pattern.strip_prefix('/')?.chars();
        while let Some(next) = rest.next() {
            path.push(match next {
                '[' => {
                    let meant = rest.next()?;
                    (rest.next()? == ']').then_some(meant)?
                }
                '\\' => rest.next()?,
                plain => plain,
            });
        }
        let path = RelPath::parse(&path).ok()?;
        (Self::exact(&path) == pattern).then_some(path)
    }

    /// Whether there is no pattern at all.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The first pattern that covers `path`, by its position.
    pub fn find(&self, path: &RelPath) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        self.globs
            .matches(path.as_str())
            .first()
            .map(|index| index / 2)
    }

    /// Whether any pattern covers `path`.
    pub fn covers(&self, path: &RelPath) -> bool {
        !self.is_empty() && self.globs.is_match(path.as_str())
    }

    /// Whether a directory at `path` may have to be entered to reach a match.
    pub fn may_lead_to(&self, path: &RelPath) -> bool {
        self.patterns.iter().any(|pattern| pattern.leads_to(path))
    }

    /// Whether something below a directory at `path` is matched because of where
    /// it stands: moved away with the directory, it would no longer be.
    pub(crate) fn holds_below(&self, path: &RelPath) -> bool {
        self.patterns
            .iter()
            .any(|pattern| !pattern.floats && pattern.leads_to(path))
    }
}

impl Pattern {
    fn leads_to(&self, path: &RelPath) -> bool {
        self.literal_prefix.is_under(path)
            || (self.reaches_deeper && path.is_under(&self.literal_prefix))
    }
}

/// What matches everything below what `anchored` matches.
fn below(anchored: &str) -> String {
    if anchored.ends_with("/**") || anchored == "**" {
        anchored.to_owned()
    } else {
        format!("{anchored}/**")
    }
}

/// Rewrites a pattern so that it is relative to the root and says where it floats.
fn anchored_form(written: &str) -> Result<String, &'static str> {
    let body = written.strip_suffix('/').unwrap_or(written);
    let (tied, body) = match body.strip_prefix('/') {
        Some(rest) => (true, rest),
        None => (body.contains('/'), body),
    };
    if body.is_empty() {
        return Ok("**".to_owned());
    }
    // No path has such a component, so the pattern would never match: a deny
    // that looks like one and is none.
    if body.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it has an empty, `.` or `..` component");
    }
    if body.chars().any(char::is_control) {
        return Err("it holds a control character");
    }
    Ok(if tied || body.starts_with("**/") {
        body.to_owned()
    } else {
        format!("**/{body}")
    })
}

fn shape(anchored: &str) -> Pattern {
    let wild = |part: &str| part.contains(['*', '?', '[', '{', '\\']);
    let parts: Vec<&str> = anchored.split('/').collect();
    let literal: Vec<&str> = parts
        .iter()
        .copied()
        .take_while(|part| !wild(part))
        .collect();
    let rest = parts.len() - literal.len();
    // The last literal component may be the file itself; as a "prefix" it only
    // ever widens what may be entered, never what may be read.
    Pattern {
        literal_prefix: RelPath::parse(&literal.join("/")).unwrap_or_else(|_| RelPath::root()),
        reaches_deeper: rest > 0,
        floats: anchored == "**" || anchored.starts_with("**/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, covered: &[&str], missed: &[&str]) {
        let set = PatternSet::compile(&[pattern]).unwrap();
        for path in covered {
            assert!(
                set.covers(&RelPath::parse(path).unwrap()),
                "{pattern} should cover {path}"
            );
        }
        for path in missed {
            assert!(
                !set.covers(&RelPath::parse(path).unwrap()),
                "{pattern} should miss {path}"
            );
        }
    }

    #[test]
    fn a_bare_name_floats_and_a_slash_ties_it_down() {
        check(
            "*.pem",
            &["a.pem", "x/y/a.pem", "a.pem/below"],
            &["a.pem2", "pem"],
        );
        check(
            "/src",
            &["src", "src/a", "src/a/b"],
            &["x/src", "src2", "src2/a"],
        );
        check("docs/*.md", &["docs/a.md"], &["docs/x/a.md", "x/docs/a.md"]);
        check("**/secrets", &["secrets", "a/secrets/b"], &["a/secretsx"]);
        check("build/", &["build", "x/build/y"], &["builder"]);
        check("/", &["anything", "at/all"], &[]);
    }

    #[test]
    fn an_exact_pattern_takes_every_character_literally() {
        let odd = RelPath::parse("a[b]*{c}/d?.txt").unwrap();
        check(
            &PatternSet::exact(&odd),
            &["a[b]*{c}/d?.txt"],
            &["ab/dx.txt", "a[b]*{c}/dx.txt"],
        );
        for odd in ["a\\b", "a\\", "\\*"] {
            let path = RelPath::parse(odd).unwrap();
            check(&PatternSet::exact(&path), &[odd], &["ab", "a", "x"]);
        }
    }

    #[test]
    fn an_exact_pattern_tells_its_path_and_no_other_does() {
        for path in ["a[b]*{c}/d?.txt", "a\\b", "a\\", "\\*", "plain/x", "", "é"] {
            let path = RelPath::parse(path).unwrap();
            assert_eq!(PatternSet::exactly(&PatternSet::exact(&path)), Some(path));
        }
        for other in [
            "a", "*.pem", "/src/**", "/[ab]", "/a\\b", "/[", "/a/../b", "",
        ] {
            assert_eq!(PatternSet::exactly(other), None, "{other}");
        }
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        for never in ["./secrets", "a//b", "a/./b", "../x", "a/.."] {
            assert!(PatternSet::compile(&[never]).is_err(), "{never}");
        }
    }

    #[test]
    fn directories_on_the_way_to_a_match_may_be_entered() {
        let set = PatternSet::compile(&["/src/**/*.rs", "/docs/guide.md"]).unwrap();
        for (path, want) in [
            ("", true),
            ("src", true),
            ("src/a/b", true),
            ("docs", true),
            ("etc", false),
        ] {
            assert_eq!(
                set.may_lead_to(&RelPath::parse(path).unwrap()),
                want,
                "{path}"
            );
        }
    }
}
