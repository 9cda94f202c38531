//! Listing one directory: sorted, paged, with metadata where asked for.
//!
//! A page costs memory for the page, whatever the directory holds: the names
//! that come before the cursor or behind the page are looked at and let go.

use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::os::fd::AsFd;

use portcullis_gate::{Deed, Permit, Settled};
use portcullis_policy::Containment;
use portcullis_proto::{Counts, Entity, Facts, Failure, Reason, RelPath, Verb};

use super::pinned::Pinned;
use super::{Key, admitted};
use crate::dirs::Name;
use crate::hiding::Hiding;
use crate::kept::each_kept_name;
use crate::meta::Meta;
use crate::sys;

/// A directory, pinned, about to be listed.
#[derive(Debug)]
pub struct Listing(pub(crate) Pinned);

impl Deed for Listing {
    type Key = Key;

    fn facts(&self) -> Facts {
        self.0.facts(Verb::List)
    }
}

/// Which entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Files and directories and whatever else.
    All,
    /// Files only.
    Files,
    /// Directories only.
    Directories,
}

impl Want {
    pub(crate) fn takes(self, entity: Entity) -> bool {
        match self {
            Self::All => true,
            Self::Files => entity == Entity::File,
            Self::Directories => entity == Entity::Directory,
        }
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Directories first, then by name.
    DirectoriesFirst,
    /// By name alone.
    Name,
}

/// What to list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Which entries.
    pub want: Want,
    /// In which order.
    pub order: Order,
    /// How many at most.
    pub max: usize,
    /// Go on behind this cursor, which the page before returned.
    pub after: Option<String>,
    /// With size, times and mode.
    pub metadata: bool,
    /// With what ignore files and the built-in exclusions hide.
    pub include_ignored: bool,
    /// With a mark on what they would have hidden.
    pub mark_ignored: bool,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its path in the root; `None` when no path can ask for it.
    pub path: Option<RelPath>,
    /// What it is.
    pub entity: Entity,
    /// What is known of it, where asked for and not another mount's.
    pub meta: Option<Meta>,
    /// Whether it would have been hidden, where marks were asked for.
    pub ignored: bool,
}

/// A page of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The directory.
    pub path: RelPath,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// Whether everything that may be shown was looked at.
    pub complete: bool,
    /// What was left out.
    pub counts: Counts,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// Whether it comes behind the directories, and its name as on disk: what two
/// entries cannot share.
type SortKey = (bool, Vec<u8>);

/// How long a listing may take. A page is the first of all names, so half a
/// directory is no page: what takes longer is refused.
const MAX_US: u64 = 20_000_000;

fn late() -> Failure {
    Failure::from(Reason::Deadline)
        .hint("List it with includeIgnored, or find what you need with a pattern.")
}

/// Lists.
pub(crate) fn list(permit: Permit<Listing>, request: &ListRequest) -> Result<Listed, Failure> {
    permit.spend(Key::turn(), |Listing(listing), terms, live| {
        let after = request.after.as_deref().map(parse_cursor).transpose()?;
        let hiding = if request.include_ignored {
            Hiding::nothing()
        } else {
            Hiding::at(&listing.root, &listing.path, terms)
        };
        let mut counts = Counts::default();
        let mut page = Page::Open(Vec::new());
        // A page of nothing could not say where the next one begins.
        let max = request.max.max(1);
        let mut more = false;
        let mut seen = 0u64;
        let look_every = hiding.look_every();
        let deadline = live.monotonic_us().saturating_add(MAX_US);
        let dir = listing.handle.as_fd();
        each_kept_name(&listing.root, dir, &listing.path, |name| {
            seen += 1;
            if seen.is_multiple_of(look_every) {
                live.still()?;
                if live.monotonic_us() >= deadline {
                    return Err(late());
                }
            }
            if !request.want.takes(name.entity)
                || !admitted(terms, &listing.path, &name, &mut counts)
            {
                return Ok(());
            }
            if name
                .path
                .as_ref()
                .is_some_and(|path| hiding.hides(path, name.entity))
            {
                counts.ignored += 1;
                return Ok(());
            }
            let kept = Kept::new(request.order, name);
            let after = after.as_ref().map(|(behind, name)| (*behind, &name[..]));
            if after.is_some_and(|after| kept.key() <= after) {
                return Ok(());
            }
            more |= page.take(kept, max);
            Ok(())
        })?;
        let sorted = page.into_sorted();
        let mut next = more
            .then(|| sorted.last().map(|kept| cursor(kept.key())))
            .flatten();
        let mut entries: Vec<Entry> = sorted
            .into_iter()
            .map(|kept| with_meta(&listing, kept.name, request.metadata))
            .collect();
        if request.mark_ignored && request.include_ignored {
            let hiding = Hiding::at(&listing.root, &listing.path, terms);
            for entry in &mut entries {
                let path = entry.path.as_ref();
                entry.ignored = path.is_some_and(|path| hiding.marks(path, entry.entity));
            }
        }
        // Last of all: what was read of a directory moved away meanwhile, names
        // and metadata, is dropped.
        if !listing.root.is_still(&listing.path, &listing.meta) {
            counts.moved = 1;
            entries.clear();
            next = None;
        }
        counts.entries = entries.len() as u64;
        let listed = Listed {
            path: listing.path,
            entries,
            next,
            complete: counts.moved == 0,
            counts,
            containment: listing.root.containment(),
        };
        Ok((listed, Settled::counts(counts)))
    })
}

/// The first names of a directory. Nearly all fit on a page, and their order
/// is not of interest until all are there.
enum Page {
    /// There is room.
    Open(Vec<Kept>),
    /// There is none: the last makes room for what comes before it.
    Full(BinaryHeap<Kept>),
}

impl Page {
    /// Takes `kept`, and says whether there is more than `max` now.
    fn take(&mut self, kept: Kept, max: usize) -> bool {
        match self {
            Self::Open(names) if names.len() < max => {
                names.push(kept);
                false
            }
            Self::Open(names) => {
                *self = Self::Full(std::mem::take(names).into());
                self.take(kept, max)
            }
            Self::Full(names) => {
                if let Some(mut last) = names.peek_mut()
                    && kept < *last
                {
                    *last = kept;
                }
                true
            }
        }
    }

    fn into_sorted(self) -> Vec<Kept> {
        let mut names = match self {
            Self::Open(names) => names,
            Self::Full(names) => names.into_vec(),
        };
        names.sort_unstable();
        names
    }
}

/// A name on the page, in the order of its key.
struct Kept {
    behind: bool,
    name: Name,
}

impl Kept {
    fn new(order: Order, name: Name) -> Self {
        let behind = match order {
            Order::DirectoriesFirst => name.entity != Entity::Directory,
            Order::Name => false,
        };
        Self { behind, name }
    }

    fn key(&self) -> (bool, &[u8]) {
        (self.behind, self.name.bytes())
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Kept {}

fn with_meta(listing: &Pinned, name: Name, metadata: bool) -> Entry {
    let mut entry = Entry {
        name: name.shown,
        path: name.path,
        entity: name.entity,
        meta: None,
        ignored: false,
    };
    if metadata
        && entry.path.is_some()
        && let Ok(stat) = sys::child_meta(listing.handle.as_fd(), entry.name.as_str())
    {
        if listing.root.has_mount(sys::mount_of(&stat)) {
            let meta = Meta::of_statx(&stat);
            entry.entity = meta.entity;
            // What a hard link leads to is told where its bytes would be.
            let hardlinks = listing.entry.policy().hardlinks;
            if meta.entity != Entity::File || meta.admits_links(hardlinks, || true) {
                entry.meta = Some(meta);
            }
        } else {
            // Size and times would be those of another file system.
            entry.entity = Entity::Mount;
        }
    }
    entry
}

/// `0:name`, or `0x:` and the name in hexadecimal where it is no UTF-8.
fn cursor((behind, name): (bool, &[u8])) -> String {
    let behind = u8::from(behind);
    if let Ok(name) = std::str::from_utf8(name) {
        return format!("{behind}:{name}");
    }
    let mut text = format!("{behind}x:");
    for byte in name {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn parse_cursor(text: &str) -> Result<SortKey, Failure> {
    let parsed = text.split_once(':').and_then(|(kind, name)| {
        let plain = || Some(name.as_bytes().to_vec());
        match kind {
            "0" => Some((false, plain()?)),
            "1" => Some((true, plain()?)),
            "0x" => Some((false, from_hex(name)?)),
            "1x" => Some((true, from_hex(name)?)),
            _ => None,
        }
    });
    parsed.ok_or_else(|| {
        Failure::from(Reason::BadCursor)
            .hint("Pass the `nextCursor` of the page before, unchanged.")
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |c: &u8| char::from(*c).to_digit(16);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(nibble(high)? * 16 + nibble(low)?).ok(),
            _ => None,
        })
        .collect()
}
