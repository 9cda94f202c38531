//! Finding lines in files: one bulk deed, by terms.
//!
//! A walk by directory handles opens the files, ripgrep's engine searches what
//! is open: it never sees a path. A file that a rule denies or that is secret
//! is not opened, and counted. The audit gets counts and a digest of the query;
//! what was found is in no line of it.

mod lines;
mod query;
mod visit;

use portcullis_gate::{Deed, Permit, Settled};
use portcullis_policy::Containment;
use portcullis_proto::{Access, Counts, Digest, Entity, Facts, Failure, RelPath, Verb};

use super::Key;
use super::pinned::{Pinned, Sighted};
use super::walk::{Gather, Hidden, Tally, Visit as _, Walk, Weight};
use visit::{Searches, Told};

pub use lines::FoundLine;
pub use query::Case;

/// A directory or file, looked at and judged, about to be searched.
#[derive(Debug)]
pub struct Searching {
    pub(crate) at: Sighted,
    /// Of the query.
    pub(crate) query: Digest,
}

impl Deed for Searching {
    type Key = Key;

    /// A search reads what it finds, and tells what is there: it needs both.
    fn facts(&self) -> Facts {
        let mut facts = self.at.facts(Verb::Search);
        if let Some(first) = facts.resources.first().cloned() {
            facts.resources.push(portcullis_proto::Resource {
                access: Access::List,
                ..first
            });
        }
        facts.shown = Some(self.query);
        facts
    }
}

/// What to search for, and where.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// A regular expression, or the text itself.
    pub query: String,
    /// Whether it is the text itself.
    pub literal: bool,
    /// How letters are compared.
    pub case: Case,
    /// Whether a match may go over several lines.
    pub multiline: bool,
    /// A glob on the files: on the name, or where it has a `/` on the path below
    /// the directory.
    pub files: Option<String>,
    /// How many lines before a match to show.
    pub before: usize,
    /// How many lines after a match to show.
    pub after: usize,
    /// How many matches at most.
    pub max_matches: usize,
    /// How many of one file at most.
    pub max_per_file: usize,
    /// How many bytes of text at most.
    pub max_bytes: usize,
    /// How many bytes of one line at most; more is cut around the match.
    pub max_line_bytes: usize,
    /// With what ignore files and the built-in exclusions hide.
    pub include_ignored: bool,
    /// With names that begin with a dot, or without.
    pub hidden: Hidden,
    /// How long it may take before it returns what it has.
    pub patience_us: u64,
}

/// What was found in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundIn {
    /// Which file.
    pub path: RelPath,
    /// The lines that match, and those around them.
    pub lines: Vec<FoundLine>,
    /// How many matches.
    pub matches: usize,
    /// Whether the file has more than is shown.
    pub more: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLines {
    /// In which directory or file.
    pub path: RelPath,
    /// Files with matches, in the order of the tree: the files of a directory
    /// by name, then its subdirectories.
    pub files: Vec<FoundIn>,
    /// How many matches are shown.
    pub matches: usize,
    /// Whether everything that may be shown was looked at.
    pub complete: bool,
    /// Whether there are more than was asked for.
    pub truncated: bool,
    /// What was left out.
    pub counts: Counts,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// Searches. `asked_us` is when it was asked for, on the gate's clock: waiting
/// for a turn is part of the time it may take.
pub(crate) fn search(
    permit: Permit<Searching>,
    request: &SearchRequest,
    asked_us: u64,
) -> Result<FoundLines, Failure> {
    permit.spend(Key::turn(), |searching, terms, live| {
        let matcher = request.matcher()?;
        let filter = request.filter()?;
        let at = searching.at.pin(terms)?;
        let walk = Walk {
            root: &at.root,
            policy: at.entry.policy(),
            terms,
            live,
            deadline_us: asked_us.saturating_add(request.patience_us),
            include_ignored: request.include_ignored,
            hidden: request.hidden,
        };
        let searches = Searches {
            walk: &walk,
            request,
            matcher,
            filter,
            top: at.path.clone(),
            found: Gather::new(Weight {
                count: request.max_matches,
                bytes: request.max_bytes,
            }),
            told: Told::default(),
        };
        let Pinned {
            handle, path, meta, ..
        } = &at;
        let tally = if meta.entity == Entity::Directory {
            let handle = handle.try_clone().map_err(|e| crate::errno::from_io(&e))?;
            walk.run(handle, path.clone(), &searches)?
        } else {
            let mut tally = Tally::default();
            let found = searches.look(&mut searches.hand(), handle, meta, path, &mut tally)?;
            searches.tell(found.as_ref().map_or(0, |found| found.matches as u64));
            searches
                .found
                .put(&RelPath::root(), found.into_iter().collect());
            tally
        };
        let (mut files, full) = searches.found.finish();
        let trimmed = trim(&mut files, request);
        let matches = files.iter().map(|file| file.matches).sum();
        let mut counts = tally.counts;
        counts.entries = matches as u64;
        let truncated = full || trimmed || files.iter().any(|file| file.more);
        let found = FoundLines {
            path: path.clone(),
            files,
            matches,
            complete: tally.complete && !truncated,
            truncated,
            counts,
            containment: at.root.containment(),
        };
        Ok((found, Settled::counts(counts)))
    })
}

/// Cuts what is more than was asked for; whether anything was.
fn trim(files: &mut Vec<FoundIn>, request: &SearchRequest) -> bool {
    let (mut matches, mut bytes) = (request.max_matches, request.max_bytes);
    let mut trimmed = false;
    for file in files.iter_mut() {
        let mut kept = 0;
        let mut shown = 0;
        for line in &file.lines {
            let is_match = line.column.is_some();
            if (is_match && kept == matches) || line.text.len() > bytes {
                break;
            }
            kept += usize::from(is_match);
            bytes -= line.text.len();
            shown += 1;
        }
        if shown < file.lines.len() {
            trimmed = true;
            file.more = true;
            file.lines.truncate(shown);
            file.matches = kept;
            bytes = 0;
        }
        matches -= kept.min(matches);
    }
    files.retain(|file| file.matches > 0);
    trimmed
}
