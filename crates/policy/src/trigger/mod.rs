//! What would run a file, decided by where it stands.
//!
//! Some places are read by a program that nobody told to run what is in them:
//! git before a commit, a shell that starts, an editor that opens a folder.
//! Whoever writes there decides what runs later. What a person runs on purpose,
//! a Makefile or a test, is source and stands in no table; the line between the
//! two is drawn in `docs/decisions/013-what-runs-unasked.md`.

mod home;
mod project;

use std::borrow::Cow;
use std::sync::LazyLock;

use portcullis_proto::{Facts, RelPath, Verb};

use self::home::HOME;
use self::project::PROJECT;
use crate::Class;

/// A row of the table: what would run a file, in the words that stand behind its
/// path in a question, and where such files stand. A place is a path of names,
/// at any depth, and what stands below it; `*` begins or ends a name.
type Row = (&'static str, &'static [&'static str]);

/// What would run a file, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// In words for a person, about the file: "git runs it before every commit".
    pub runs: &'static str,
    /// How many directories stand above the outermost place it stands in: it is
    /// run for whoever works in the last of them.
    above: usize,
}

impl Trigger {
    /// What would run `path`, or what stands below it; `None` where nothing
    /// does unasked.
    pub fn of(path: &RelPath) -> Option<Self> {
        let names: Vec<Cow<'_, str>> = path.components().map(folded).collect();
        let mut best: Option<(usize, &Place)> = None;
        let mut outermost = None;
        for (above, first) in names.iter().enumerate() {
            let below = names.get(above + 1..).unwrap_or_default();
            let same_length = INDEX.by_length.get(first.len());
            for place in same_length.into_iter().flatten().chain(&INDEX.wild) {
                if !place.holds(first, below) {
                    continue;
                }
                outermost.get_or_insert(above);
                // The place that says most is told; of two that say as much, the first.
                let says =
                    |(above, place): (usize, &Place)| (above + place.rest.len(), place.says());
                if best.is_none_or(|best| says((above, place)) > says(best)) {
                    best = Some((above, place));
                }
            }
        }
        let (_, place) = best?;
        Some(Self {
            runs: place.runs,
            above: outermost?,
        })
    }
}

/// Each path a deed changes that something would run, and what would.
pub fn triggers(facts: &Facts) -> Vec<(&RelPath, &'static str)> {
    let mut found: Vec<(&RelPath, &'static str)> = Vec::new();
    if facts.verb == Verb::Mkdir {
        return found;
    }
    let changed = facts.resources.iter().filter(|one| one.access.mutates());
    // What is named below is in the root of what is changed.
    let below = changed.clone().next_back();
    let below = facts.below.iter().filter_map(|path| Some((below?, path)));
    for (one, path) in changed.map(|one| (one, &one.path)).chain(below) {
        if let Some(trigger) = Trigger::of(&one.classed(path))
            && !found.iter().any(|(known, _)| *known == path)
        {
            found.push((path, trigger.runs));
        }
    }
    found
}

/// Whether what stands at `below` in a directory is protected the same when the
/// directory is moved from `from` to `to`: of the same class, and run by the
/// same program for whoever works in the same directory, which moves too. A
/// `.vscode` that comes up from a vendored tree is not: it is run for others.
pub fn moves_along(from: &RelPath, to: &RelPath, below: &str) -> bool {
    let at = |above: &RelPath| RelPath::parse(&format!("{}/{below}", above.as_str())).ok();
    let class = |path: Option<&RelPath>| path.and_then(Class::of_change);
    let trigger = |path: Option<&RelPath>| path.and_then(Trigger::of);
    let (here, there) = (at(from), at(to));
    class(here.as_ref()) == class(there.as_ref())
        && match (trigger(here.as_ref()), trigger(there.as_ref())) {
            (None, None) => true,
            (Some(here), Some(there)) => {
                here.runs == there.runs
                    && here.above >= from.components().count()
                    && there.above >= to.components().count()
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
}

/// One place of the table, taken apart.
struct Place {
    /// The first name; may begin or end in `*`.
    first: &'static str,
    /// The names below it.
    rest: Vec<&'static str>,
    runs: &'static str,
}

impl Place {
    /// How much it says of one name: all of it, or its beginning or end.
    fn says(&self) -> (usize, bool) {
        let last = self.rest.last().unwrap_or(&self.first);
        let wild = last.starts_with('*') || last.ends_with('*');
        (self.rest.len(), !wild)
    }

    /// Whether a path that goes on like this stands there or below.
    fn holds(&self, first: &str, below: &[Cow<'_, str>]) -> bool {
        is(self.first, first)
            && self.rest.len() <= below.len()
            && self
                .rest
                .iter()
                .zip(below)
                .all(|(part, name)| is(part, name))
    }
}

/// The table, ready to be looked up: every component of every path that is
/// changed is held against it.
struct Index {
    /// Places whose first name is plain, by the length of that name.
    by_length: Vec<Vec<Place>>,
    /// Those whose first name is not.
    wild: Vec<Place>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index {
        by_length: Vec::new(),
        wild: Vec::new(),
    };
    for (runs, places) in PROJECT.iter().chain(HOME) {
        for place in *places {
            let mut names = place.split('/');
            let first = names.next().unwrap_or_default();
            let place = Place {
                first,
                rest: names.collect(),
                runs,
            };
            if first.starts_with('*') || first.ends_with('*') {
                index.wild.push(place);
                continue;
            }
            let longest = index.by_length.len().max(first.len() + 1);
            index.by_length.resize_with(longest, Vec::new);
            if let Some(bucket) = index.by_length.get_mut(first.len()) {
                bucket.push(place);
            }
        }
    }
    index
});

/// Whether `name` stands in a place of the table as it is.
pub(crate) fn is_of_the_table(name: &str) -> bool {
    let name = &*folded(name);
    let mut places = INDEX.by_length.iter().flatten();
    places.any(|place| {
        let mut names = std::iter::once(&place.first).chain(&place.rest);
        names.any(|part| part.eq_ignore_ascii_case(name))
    })
}

/// Whether `name` is what `part` of a place says, ASCII case aside.
fn is(part: &str, name: &str) -> bool {
    let tail = |end: &str| {
        let from = name.len().checked_sub(end.len());
        from.is_some_and(|from| {
            let tail = name.as_bytes().get(from..).unwrap_or_default();
            tail.eq_ignore_ascii_case(end.as_bytes())
        })
    };
    let head = |start: &str| {
        let head = name.as_bytes().get(..start.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
    };
    match (part.strip_prefix('*'), part.strip_suffix('*')) {
        (Some(end), _) => tail(end),
        (None, Some(start)) => head(start),
        (None, None) => part.eq_ignore_ascii_case(name),
    }
}

/// A name as the most forgiving file system takes it: one that folds case folds
/// the long s and the Kelvin sign too, and one drops what cannot be seen.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return Cow::Borrowed(name);
    }
    let seen =
        |c: &char| !matches!(*c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other,
    };
    Cow::Owned(name.chars().filter(seen).map(fold).collect())
}

#[cfg(test)]
mod tests;
