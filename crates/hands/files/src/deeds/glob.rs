//! Finding names below a directory: one bulk deed, by terms.

use globset::{GlobBuilder, GlobMatcher};
use portcullis_gate::{Deed, Permit, Settled};
use portcullis_policy::Containment;
use portcullis_proto::{Counts, Facts, Failure, Reason, RelPath, Verb};

use super::Key;
use super::list::{Entry, Want};
use super::pinned::Pinned;
use super::walk::{Ended, Go, Walk};

/// A directory, pinned, about to be walked for names.
#[derive(Debug)]
pub struct Searching(pub(crate) Pinned);

impl Deed for Searching {
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

impl GlobRequest {
    fn matcher(&self) -> Result<Option<GlobMatcher>, Failure> {
        let Some(pattern) = &self.pattern else {
            return Ok(None);
        };
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
        GlobBuilder::new(pattern.trim_start_matches("./"))
            .literal_separator(true)
            .build()
            .map(|glob| Some(glob.compile_matcher()))
            .map_err(|error| bad(&error.kind().to_string()))
    }
}

/// Finds.
pub(crate) fn glob(permit: Permit<Searching>, request: &GlobRequest) -> Result<Found, Failure> {
    permit.spend(Key::turn(), |Searching(searching), terms, live| {
        let matcher = request.matcher()?;
        let top = searching.path.clone();
        let mut entries = Vec::new();
        let mut truncated = false;
        let mut walk = Walk {
            root: &searching.root,
            policy: searching.entry.policy(),
            terms,
            live,
            deadline_us: live.monotonic_us().saturating_add(request.patience_us),
            include_ignored: request.include_ignored,
            counts: Counts::default(),
            seen: 0,
        };
        let ended = walk.run(searching.handle, top.clone(), |name| {
            let Some(path) = name.path else { return Go::On };
            let below = below(&top, &path);
            if request.want.takes(name.entity)
                && matcher
                    .as_ref()
                    .is_none_or(|matcher| matcher.is_match(below))
            {
                if entries.len() == request.max {
                    truncated = true;
                    return Go::Stop;
                }
                entries.push(Entry {
                    name: name.shown,
                    path: Some(path),
                    entity: name.entity,
                    meta: None,
                });
            }
            Go::On
        })?;
        let mut counts = walk.counts;
        counts.entries = entries.len() as u64;
        let found = Found {
            path: top,
            entries,
            complete: ended == Ended::Complete && counts.moved == 0 && !truncated,
            truncated,
            counts,
            containment: searching.root.containment(),
        };
        Ok((found, Settled::counts(counts)))
    })
}

fn below<'a>(top: &RelPath, path: &'a RelPath) -> &'a str {
    path.as_str()
        .strip_prefix(top.as_str())
        .map_or(path.as_str(), |rest| rest.trim_start_matches('/'))
}
