//! Listing one directory: sorted, paged, with metadata where asked for.
//!
//! A page costs memory for the page, whatever the directory holds: the names
//! that come before the cursor or behind the page are looked at and let go.

use std::collections::BinaryHeap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use portcullis_gate::{Deed, Permit, RootEntry, Settled};
use portcullis_policy::{Containment, Terms};
use portcullis_proto::{Counts, Entity, Facts, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;

use super::{Key, admitted, facts_of};
use crate::dirs::each_name;
use crate::hiding::Hiding;
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;

/// A directory, pinned, about to be listed.
#[derive(Debug)]
pub struct Listing {
    entry: Arc<RootEntry>,
    root: Arc<Root>,
    handle: OwnedFd,
    path: RelPath,
    meta: Meta,
}

impl Listing {
    pub(crate) fn resolve(
        entry: &Arc<RootEntry>,
        root: &Arc<Root>,
        path: &RelPath,
        terms: &Terms,
    ) -> Result<Self, Failure> {
        let opened = root.open(path, OFlags::RDONLY | OFlags::DIRECTORY, terms.symlinks())?;
        opened.meta.admit_private(entry.policy())?;
        Ok(Self {
            entry: Arc::clone(entry),
            root: Arc::clone(root),
            handle: opened.handle,
            path: opened.path,
            meta: opened.meta,
        })
    }

    /// The directory's own size on disk, a hint of how long it takes.
    pub(crate) fn size_hint(&self) -> u64 {
        self.meta.size
    }
}

impl Deed for Listing {
    type Key = Key;

    fn facts(&self) -> Facts {
        facts_of(Verb::List, &self.entry, &self.path, &self.meta)
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

type SortKey = (bool, String);

fn key(order: Order, entity: Entity, name: &str) -> SortKey {
    let behind = match order {
        Order::DirectoriesFirst => entity != Entity::Directory,
        Order::Name => false,
    };
    (behind, name.to_owned())
}

/// Lists.
pub(crate) fn list(permit: Permit<Listing>, request: &ListRequest) -> Result<Listed, Failure> {
    permit.spend(Key::turn(), |listing, terms, live| {
        let after = request.after.as_deref().map(parse_cursor).transpose()?;
        let hiding = if request.include_ignored {
            Hiding::nothing()
        } else {
            Hiding::at(&listing.root, &listing.path, terms.symlinks())
        };
        let mut counts = Counts::default();
        let mut page: BinaryHeap<(SortKey, Entity, Option<RelPath>)> = BinaryHeap::new();
        let mut more = false;
        let mut seen = 0u64;
        each_name(listing.handle.as_fd(), &listing.path, |name| {
            seen += 1;
            if seen.is_multiple_of(4096) {
                live.still()?;
            }
            if !request.want.takes(name.entity) || !admitted(terms, &name, &mut counts) {
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
            let key = key(request.order, name.entity, &name.name);
            if after.as_ref().is_some_and(|after| key <= *after) {
                return Ok(());
            }
            page.push((key, name.entity, name.path));
            if page.len() > request.max {
                page.pop();
                more = true;
            }
            Ok(())
        })?;
        if !listing
            .root
            .is_still(&listing.path, terms.symlinks(), &listing.meta)
        {
            counts.moved = 1;
            page.clear();
            more = false;
        }
        let sorted = page.into_sorted_vec();
        let next = more
            .then(|| sorted.last().map(|(key, _, _)| cursor(key)))
            .flatten();
        let entries: Vec<Entry> = sorted
            .into_iter()
            .map(|((_, name), entity, path)| {
                with_meta(&listing, name, entity, path, request.metadata)
            })
            .collect();
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

fn with_meta(
    listing: &Listing,
    name: String,
    entity: Entity,
    path: Option<RelPath>,
    metadata: bool,
) -> Entry {
    let mut entry = Entry {
        name,
        path,
        entity,
        meta: None,
    };
    if metadata
        && entry.path.is_some()
        && let Ok(stat) = sys::child_meta(listing.handle.as_fd(), entry.name.as_str())
    {
        if listing.root.has_mount(stat.stx_mnt_id) {
            let meta = Meta::of_statx(&stat);
            entry.entity = meta.entity;
            entry.meta = Some(meta);
        } else {
            // Size and times would be those of another file system.
            entry.entity = Entity::Mount;
        }
    }
    entry
}

fn cursor((behind, name): &SortKey) -> String {
    format!("{}:{name}", u8::from(*behind))
}

fn parse_cursor(text: &str) -> Result<SortKey, Failure> {
    match text.split_once(':') {
        Some(("0", name)) => Ok((false, name.to_owned())),
        Some(("1", name)) => Ok((true, name.to_owned())),
        Some(_) | None => Err(Failure::from(Reason::BadCursor)
            .hint("Pass the `nextCursor` of the page before, unchanged.")),
    }
}
