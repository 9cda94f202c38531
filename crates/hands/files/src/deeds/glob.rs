//! Finding names below a directory: one bulk deed, by terms.

use globset::{GlobBuilder, GlobMatcher};
use portcullis_gate::{Deed, Permit, Settled};
use portcullis_policy::Containment;
use portcullis_proto::{Counts, Facts, Failure, Reason, RelPath, Verb};

use super::list::{Entry, Want};
use super::pinned::Sighted;
use super::walk::{Dir, Find, Gather, Hidden, Tally, Visit, Walk, Weight};
use super::{Key, below};
use crate::dirs::Name;

/// A directory, looked at and judged, about to be walked for names.
#[derive(Debug)]
pub struct Globbing(pub(crate) Sighted);

impl Deed for Globbing {
    type Key = Key;

    fn facts(&self) -> Facts {
        self.0.facts(Verb::Glob)
    }
}

/// What to find.
#[derive(Clone, Debug)]
pub struct GlobRequest {
    /// A glob on the path below the directory; `None` finds everything. `*`
    /// stays inside one component, `**` crosses them.
    pub pattern: Option<String>,
    /// Which entries.
    pub want: Want,
    /// How many at most.
    pub max: usize,
    /// With what ignore files and the built-in exclusions hide.
    pub include_ignored: bool,
    /// How long it may take before it returns what it has.
    pub patience_us: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Below which directory.
    pub path: RelPath,
    /// The entries, in the order of the walk, which is stable.
    pub entries: Vec<Entry>,
    /// Whether all of the tree was looked at.
    pub complete: bool,
    /// Whether there are more than `max`.
    pub truncated: bool,
    /// What was left out.
    pub counts: Counts,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// The longest pattern.
const MAX_PATTERN: usize = 1024;
/// How deep braces may stand in one another.
const MAX_BRACES: usize = 8;

/// Compiles a glob on paths below a directory.
pub(super) fn compiled(pattern: &str) -> Result<GlobMatcher, Failure> {
    let bad = |why: &str| {
        Failure::new(
            Reason::BadGlob,
            format!("The pattern is not a glob: {why}."),
        )
        .hint("`*` matches inside one name, `**` crosses directories: `**/*.rs`.")
    };
    if pattern.len() > MAX_PATTERN {
        return Err(bad("it is longer than 1,024 bytes"));
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(bad("it must stay below the directory"));
    }
    let mut depth = 0usize;
    for byte in pattern.bytes() {
        depth = match byte {
            b'{' => depth + 1,
            b'}' => depth.saturating_sub(1),
            _ => depth,
        };
        if depth > MAX_BRACES {
            return Err(bad("its braces stand in one another too deeply"));
        }
    }
    GlobBuilder::new(pattern.trim_start_matches("./"))
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| bad(&error.kind().to_string()))
}

/// Finds. `asked_us` is when it was asked for, on the gate's clock: waiting for
/// a turn is part of the time it may take.
pub(crate) fn glob(
    permit: Permit<Globbing>,
    request: &GlobRequest,
    asked_us: u64,
) -> Result<Found, Failure> {
    permit.spend(Key::turn(), |Globbing(globbing), terms, live| {
        let matcher = request.pattern.as_deref().map(compiled).transpose()?;
        let at = globbing.pin(terms)?;
        let walk = Walk {
            root: &at.root,
            policy: at.entry.policy(),
            terms,
            live,
            deadline_us: asked_us.saturating_add(request.patience_us),
            include_ignored: request.include_ignored,
            hidden: Hidden::Shown,
        };
        let finds = Finds {
            walk: &walk,
            want: request.want,
            matcher,
            top: at.path.clone(),
            found: Gather::new(Weight {
                count: request.max,
                bytes: usize::MAX,
            }),
        };
        let tally = walk.run(at.handle, at.path.clone(), &finds)?;
        let (mut entries, truncated) = finds.found.finish();
        entries.truncate(request.max);
        let mut counts = tally.counts;
        counts.entries = entries.len() as u64;
        let found = Found {
            path: at.path,
            entries,
            complete: tally.complete && !truncated,
            truncated,
            counts,
            containment: at.root.containment(),
        };
        Ok((found, Settled::counts(counts)))
    })
}

/// Finds names in what a walk comes across.
struct Finds<'a> {
    walk: &'a Walk<'a>,
    want: Want,
    matcher: Option<GlobMatcher>,
    /// The directory the walk began at.
    top: RelPath,
    found: Gather<Entry>,
}

impl Find for Entry {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn weight(&self) -> Weight {
        Weight { count: 1, bytes: 0 }
    }
}

impl Visit for Finds<'_> {
    // Matching a name takes less than handing it to somebody else.
    const PIECE: usize = usize::MAX;
    type Hand = ();

    fn hand(&self) {}

    fn is_beyond(&self, dir: &RelPath) -> bool {
        self.found.is_beyond(dir)
    }

    fn visit(
        &self,
        (): &mut (),
        dir: &Dir,
        names: Vec<Name>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let fits = |path: &RelPath| {
            let matches = |glob: &GlobMatcher| glob.is_match(below(&self.top, path));
            self.matcher.as_ref().is_none_or(matches)
        };
        let mut found = Vec::new();
        for name in names {
            let Some(path) = name.path else { continue };
            if self.want.takes(name.entity) && fits(&path) {
                found.push(Entry {
                    name: name.shown,
                    path: Some(path),
                    entity: name.entity,
                    meta: None,
                    ignored: false,
                });
            }
        }
        if !found.is_empty() && self.walk.stands(dir, tally) {
            self.found.put(&dir.path, found);
        }
        Ok(())
    }
}
