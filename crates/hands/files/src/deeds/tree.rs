//! A shallow tree: breadth first, so that the top is covered before the depth,
//! and each child under its own parent.

use std::os::fd::{AsFd, BorrowedFd};

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_policy::{Containment, PatternSet, Symlinks, Terms};
use portcullis_proto::{Counts, Entity, Facts, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;

use super::pinned::Pinned;
use super::{Key, admitted};
use crate::dirs::{Name, each_name};
use crate::hiding::Hiding;
use crate::meta::Meta;
use crate::sys;

/// A directory, pinned, about to be shown as a tree.
#[derive(Debug)]
pub struct Treeing(pub(crate) Pinned);

impl Deed for Treeing {
    type Key = Key;

    fn facts(&self) -> Facts {
        self.0.facts(Verb::Tree)
    }
}

/// What to show.
#[derive(Clone, Debug)]
pub struct TreeRequest {
    /// How deep.
    pub max_depth: usize,
    /// How many entries at most.
    pub max_entries: usize,
    /// Patterns of what to leave out besides.
    pub exclude: Vec<String>,
    /// With what ignore files and the built-in exclusions hide.
    pub include_ignored: bool,
    /// With the size of each file.
    pub sizes: bool,
    /// How long it may take before it returns what it has.
    pub patience_us: u64,
}

impl TreeRequest {
    /// The scan of a whole project that is handed over when a machine connects:
    /// eight deep, 10,000 entries, the top before the depth.
    pub fn scan() -> Self {
        Self {
            max_depth: 8,
            max_entries: 10_000,
            exclude: Vec::new(),
            include_ignored: false,
            sizes: true,
            patience_us: 20_000_000,
        }
    }
}

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// Its name.
    pub name: String,
    /// Its path in the root; `None` when no path can ask for it.
    pub path: Option<RelPath>,
    /// What it is.
    pub entity: Entity,
    /// Its size, where it is a file and sizes were asked for.
    pub size: Option<u64>,
    /// What is below it, as far as shown.
    pub children: Vec<TreeNode>,
    /// Whether something below it is not shown for depth or number.
    pub cut: bool,
}

/// A tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Of which directory.
    pub path: RelPath,
    /// What is in it.
    pub children: Vec<TreeNode>,
    /// Whether everything down to the depth is shown.
    pub complete: bool,
    /// What was left out.
    pub counts: Counts,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// A name, with its size where that was asked for.
type Measured = (Name, Option<u64>);

/// A node while the tree grows: its children are found later, by its number.
struct Growing {
    name: Name,
    size: Option<u64>,
    parent: Option<usize>,
    depth: usize,
    cut: bool,
}

/// How many patterns a tree can leave out, and the longest of them.
const MAX_EXCLUDES: usize = 128;
const MAX_PATTERN: usize = 1024;
/// All of them together: compiled, a byte takes a kilobyte, and an agent can ask
/// for many trees at once.
const MAX_EXCLUDE_BYTES: usize = 8 * 1024;

fn excluded(request: &TreeRequest) -> Result<PatternSet, Failure> {
    let long = |pattern: &String| pattern.len() > MAX_PATTERN;
    let bytes: usize = request.exclude.iter().map(String::len).sum();
    if request.exclude.len() > MAX_EXCLUDES
        || bytes > MAX_EXCLUDE_BYTES
        || request.exclude.iter().any(long)
    {
        return Err(Failure::new(
            Reason::BadGlob,
            "There are more than 128 patterns, one is longer than 1,024 bytes, or they are longer than 8 KiB together.",
        )
        .hint("Leave out less, or ask for a directory further down."));
    }
    PatternSet::compile(&request.exclude)
        .map_err(|bad| Failure::new(Reason::BadGlob, bad.to_string()))
}

/// Shows the tree.
pub(crate) fn tree(permit: Permit<Treeing>, request: &TreeRequest) -> Result<Tree, Failure> {
    permit.spend(Key::turn(), |Treeing(treeing), terms, live| {
        let exclude = excluded(request)?;
        let deadline = live.monotonic_us().saturating_add(request.patience_us);
        let mut counts = Counts::default();
        let mut nodes: Vec<Growing> = Vec::new();
        let mut complete = true;
        // Breadth first: the next directory to read is the next node in order.
        let mut next = None;
        loop {
            live.still()?;
            if live.monotonic_us() >= deadline {
                complete = false;
                break;
            }
            let (path, depth) = match next {
                None => (treeing.path.clone(), 0),
                Some(at) => match nodes.get(at) {
                    Some(Growing {
                        name:
                            Name {
                                path: Some(path),
                                entity: Entity::Directory,
                                ..
                            },
                        depth,
                        ..
                    }) => (path.clone(), *depth),
                    Some(_) => {
                        next = Some(at + 1);
                        continue;
                    }
                    None => break,
                },
            };
            if depth < request.max_depth {
                let room = request.max_entries.saturating_sub(nodes.len());
                let found = children(
                    &treeing,
                    terms,
                    next.map(|_| &path),
                    &Wanted {
                        request,
                        exclude: &exclude,
                        live,
                        deadline_us: deadline,
                    },
                    &mut counts,
                );
                match found {
                    Ok(Some(mut names)) => {
                        let cut = names.len() > room;
                        names.truncate(room);
                        if cut {
                            complete = false;
                            mark_cut(&mut nodes, next);
                        }
                        nodes.extend(names.into_iter().map(|(name, size)| Growing {
                            size,
                            parent: next,
                            depth: depth + 1,
                            // What no path can ask for cannot be entered either.
                            cut: name.entity == Entity::Directory && name.path.is_none(),
                            name,
                        }));
                    }
                    Ok(None) => complete = false,
                    Err(failure) if next.is_none() => return Err(failure),
                    Err(failure) => {
                        // Passed over; what ends the deed itself ends the tree.
                        live.still()?;
                        complete &= failure.reason() == Reason::NotFound;
                    }
                }
            } else {
                mark_cut(&mut nodes, next);
            }
            next = Some(next.map_or(0, |at| at + 1));
        }
        counts.entries = nodes.len() as u64;
        let tree = Tree {
            path: treeing.path.clone(),
            children: assemble(nodes),
            complete: complete && counts.moved == 0,
            counts,
            containment: treeing.root.containment(),
        };
        Ok((tree, Settled::counts(counts)))
    })
}

fn mark_cut(nodes: &mut [Growing], at: Option<usize>) {
    if let Some(node) = at.and_then(|at| nodes.get_mut(at)) {
        node.cut = true;
    }
}

/// What is wanted of every directory of a tree.
struct Wanted<'a> {
    request: &'a TreeRequest,
    exclude: &'a PatternSet,
    live: &'a Live<'a>,
    deadline_us: u64,
}

/// The names in one directory, directories first; `None` when it was moved away
/// meanwhile. Without `below` it is the top itself, by the handle that was
/// judged; anything further down stands where it was found, and no link is
/// followed to it.
fn children(
    treeing: &Pinned,
    terms: &Terms,
    below: Option<&RelPath>,
    wanted: &Wanted<'_>,
    counts: &mut Counts,
) -> Result<Option<Vec<Measured>>, Failure> {
    let root = &treeing.root;
    let request = wanted.request;
    let opened;
    let (handle, path, meta) = match below {
        None => (treeing.handle.as_fd(), &treeing.path, &treeing.meta),
        Some(path) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            opened = root.open(path, flags, Symlinks::Reject)?;
            opened.meta.admit_private(treeing.entry.policy())?;
            (opened.handle.as_fd(), path, &opened.meta)
        }
    };
    let hiding = if request.include_ignored {
        Hiding::nothing()
    } else {
        Hiding::at(root, path, terms)
    };
    let order = |a: &Name, b: &Name| {
        let key = |name: &Name| name.entity != Entity::Directory;
        key(a).cmp(&key(b)).then_with(|| a.bytes().cmp(b.bytes()))
    };
    // Room for one more than may be shown, so that a cut is seen; the rest of
    // a wide directory is looked at and let go.
    let keep = request.max_entries.saturating_add(1);
    let mut names: Vec<Name> = Vec::new();
    let mut seen = 0u64;
    let look_every = hiding.look_every();
    each_name(handle, path, |name| {
        seen += 1;
        if seen.is_multiple_of(look_every) {
            wanted.live.still()?;
            if wanted.live.monotonic_us() >= wanted.deadline_us {
                return Err(Reason::Deadline.into());
            }
        }
        if !admitted(terms, path, &name, counts) {
            return Ok(());
        }
        if let Some(at) = &name.path
            && (hiding.hides(at, name.entity) || wanted.exclude.covers(at))
        {
            counts.ignored += 1;
            return Ok(());
        }
        names.push(name);
        if names.len() >= keep.saturating_mul(2) {
            names.sort_unstable_by(order);
            names.truncate(keep);
        }
        Ok(())
    })?;
    if !root.is_still(path, meta) {
        counts.moved += 1;
        return Ok(None);
    }
    names.sort_unstable_by(order);
    names.truncate(keep);
    let sized = |name: Name| {
        let size = request.sizes.then(|| size_of(treeing, handle, &name));
        (name, size.flatten())
    };
    Ok(Some(names.into_iter().map(sized).collect()))
}

/// The size of a file, where a listing would tell it: not that of another file
/// system's, and not where a hard link leads that may not be read.
fn size_of(treeing: &Pinned, dir: BorrowedFd<'_>, name: &Name) -> Option<u64> {
    if name.entity != Entity::File || name.path.is_none() {
        return None;
    }
    let stat = sys::child_meta(dir, name.shown.as_str()).ok()?;
    let meta = Meta::of_statx(&stat);
    let is_told = treeing.root.has_mount(sys::mount_of(&stat))
        && meta.entity == Entity::File
        && meta.admits_links(treeing.entry.policy().hardlinks, || true);
    is_told.then_some(meta.size)
}

/// Puts every node under its parent. Children stand behind their parents in the
/// list, so going backwards each node is complete when it is moved.
fn assemble(nodes: Vec<Growing>) -> Vec<TreeNode> {
    let mut done: Vec<Vec<TreeNode>> = Vec::new();
    done.resize_with(nodes.len() + 1, Vec::new);
    for (at, node) in nodes.into_iter().enumerate().rev() {
        let mut children = std::mem::take(&mut done[at + 1]);
        children.reverse();
        let slot = node.parent.map_or(0, |parent| parent + 1);
        done[slot].push(TreeNode {
            name: node.name.shown,
            path: node.name.path,
            entity: node.name.entity,
            size: node.size,
            children,
            cut: node.cut,
        });
    }
    let mut top = done.into_iter().next().unwrap_or_default();
    top.reverse();
    top
}
