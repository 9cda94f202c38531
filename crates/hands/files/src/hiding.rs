//! What lists leave out: the built-in exclusions, and what ignore files name.
//!
//! Ignore files are read through the same strict opens as everything else, and
//! looked at afresh for every deed: what they say now is what holds, and what
//! is kept of an earlier look counts only where nothing changed since. One that
//! a rule denies, or that is another's file linked in, is not read: a reply may
//! quote the line that matched.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use portcullis_policy::{Admit, Symlinks, Terms};
use portcullis_proto::{Entity, RelPath};
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::ignores::{
    IgnoreKind, IgnoreLayer, IgnoreStack, MAX_IGNORE_BYTES, MatchedBy, is_excluded_dir,
};
use crate::kept::{KeptFile, Stamp};
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;
use crate::text::ReadAt as _;

/// What is left out of a directory and, extended step by step, of what is below it.
#[derive(Clone, Debug)]
pub(crate) enum Hiding {
    /// Nothing is.
    Nothing,
    /// The built-in exclusions, and what these layers name.
    By(IgnoreStack),
}

impl Hiding {
    pub(crate) fn nothing() -> Self {
        Self::Nothing
    }

    /// After how many names to look whether a deed may go on: sooner where
    /// every name is matched against rules that the tree brings along.
    pub(crate) fn look_every(&self) -> u64 {
        match self {
            Self::By(stack) if !stack.is_empty() => 64,
            Self::By(_) | Self::Nothing => 4096,
        }
    }

    /// What holds for the entries of the directory at `path`: the ignore files
    /// of every directory from the root down to it. No link is on the way.
    pub(crate) fn at(root: &Root, path: &RelPath, terms: &Terms) -> Self {
        if let Some(stack) = unchanged(root, path, terms) {
            return Self::By(stack);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut dir = RelPath::root();
        let mut stack = kept_layers(root, &IgnoreStack::new(), root.top(), &dir, terms);
        let mut above: Option<OwnedFd> = None;
        for name in path.components() {
            let parent = above.as_ref().map_or(root.top(), OwnedFd::as_fd);
            let (Ok(handle), Ok(next)) =
                (root.open_child(parent, &dir, name, flags), dir.join(name))
            else {
                break;
            };
            dir = next;
            stack = kept_layers(root, &stack, handle.as_fd(), &dir, terms);
            above = Some(handle);
        }
        Self::By(stack)
    }

    /// What holds one directory further down, whose handle is `dir`.
    pub(crate) fn below(
        &self,
        root: &Root,
        dir: BorrowedFd<'_>,
        path: &RelPath,
        terms: &Terms,
    ) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::By(stack) => Self::By(with_layers(root, stack, dir, path, terms)),
        }
    }

    /// Whether an entry at `path` is left out. What is above it is not looked
    /// at: a caller who asks for a directory by name gets what is in it.
    pub(crate) fn hides(&self, path: &RelPath, entity: Entity) -> bool {
        match self {
            Self::Nothing => false,
            Self::By(stack) => {
                let directory = entity == Entity::Directory;
                (directory && path.name().is_some_and(is_excluded_dir))
                    || (!stack.is_empty() && stack.matched_entry(path, directory).is_some())
            }
        }
    }

    /// Whether an entry at `path` is left out by itself, or stands below what is.
    pub(crate) fn marks(&self, path: &RelPath, entity: Entity) -> bool {
        match self {
            Self::Nothing => false,
            Self::By(stack) => {
                let directory = entity == Entity::Directory;
                let excluded = |above: RelPath| above.components().any(is_excluded_dir);
                self.hides(path, entity)
                    || path.parent().is_some_and(excluded)
                    || stack.matched(path, directory).is_some()
            }
        }
    }

    /// Whether a rule names the file at `path`, or a directory above it.
    pub(crate) fn named(&self, path: &RelPath) -> Option<MatchedBy> {
        let Self::By(stack) = self else { return None };
        stack.matched(path, false).map(|matched| matched.by)
    }

    /// The ignore file that names the file at `path`, as people write it down.
    pub(crate) fn named_by(&self, path: &RelPath) -> Option<String> {
        let Self::By(stack) = self else { return None };
        let matched = stack.matched(path, false)?;
        let file = matched.dir.join(matched.kind.file_name()).ok()?;
        Some(format!("{file}: {}", matched.pattern))
    }
}

/// How many directories up `unchanged` looks; what is deeper is looked at anew.
const UP: &str = "../../../../../../../../../../../../../../../../";

/// What holds at `path` by what is kept, if not one directory on the way and
/// not one ignore file in them changed.
///
/// `path` is opened strictly, and `..` is no link: what is compared are the
/// directories it really stands in.
fn unchanged(root: &Root, path: &RelPath, terms: &Terms) -> Option<IgnoreStack> {
    let dirs = root.kept.as_ref()?.down_to(path)?;
    let opened = if path.is_root() {
        None
    } else {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let opened = sys::open_whole(root.top(), path, flags, Symlinks::Reject, false);
        Some(opened.ok()?)
    };
    let bottom = opened.as_ref().map_or(root.top(), OwnedFd::as_fd);
    let stamp = |place: &str| sys::child_meta(bottom, place).map(|seen| Stamp::of(&seen));
    let mut stack = IgnoreStack::new();
    for (dir, up) in dirs.iter().zip((0..dirs.len()).rev()) {
        let up = UP.get(..up * "../".len())?;
        if stamp(if up.is_empty() { "." } else { up }) != Ok(dir.stamp) {
            return None;
        }
        for file in &dir.files {
            if stack.is_full() {
                break;
            }
            if terms.admits(&file.path, Entity::File) != Admit::Yes {
                continue;
            }
            if stamp(&format!("{up}{}", file.kind.file_name())) != Ok(file.stamp) {
                return None;
            }
            // Its name stands: it has been found by it.
            if file.meta.admits_links(terms.hardlinks(), || true) {
                stack = stack.with(Arc::clone(&file.layer));
            }
        }
    }
    Some(stack)
}

/// Adds the ignore files of the directory behind `dir`, and keeps what they say.
fn kept_layers(
    root: &Root,
    above: &IgnoreStack,
    dir: BorrowedFd<'_>,
    path: &RelPath,
    terms: &Terms,
) -> IgnoreStack {
    let Some(kept) = &root.kept else {
        return with_layers(root, above, dir, path, terms);
    };
    // Taken first: what changes while the files are read changes it.
    let Ok(seen) = sys::child_meta(dir, ".") else {
        return with_layers(root, above, dir, path, terms);
    };
    let mut look = kept.look(Stamp::of(&seen));
    let mut whole = true;
    let mut stack = above.clone();
    for kind in IgnoreKind::ALL {
        if stack.is_full() {
            whole = false;
            break;
        }
        match read_small(root, dir, path, kind.file_name(), terms) {
            Small::Absent => {}
            Small::Passed => whole = false,
            Small::Read(read) => {
                let layer = Arc::new(IgnoreLayer::parse(path.clone(), kind, &read.content));
                stack = stack.with(Arc::clone(&layer));
                whole &= read.stamp.is_of(&read.meta);
                look.files.push(Arc::new(KeptFile {
                    path: read.path,
                    kind,
                    stamp: read.stamp,
                    meta: read.meta,
                    layer,
                }));
            }
        }
    }
    if whole {
        kept.keep(path, look);
    }
    stack
}

/// Adds the ignore files of the directory behind `dir`, if it has any.
fn with_layers(
    root: &Root,
    stack: &IgnoreStack,
    dir: BorrowedFd<'_>,
    path: &RelPath,
    terms: &Terms,
) -> IgnoreStack {
    let mut stack = stack.clone();
    for kind in IgnoreKind::ALL {
        if stack.is_full() {
            break;
        }
        if let Small::Read(read) = read_small(root, dir, path, kind.file_name(), terms) {
            stack = stack.with(IgnoreLayer::parse(path.clone(), kind, &read.content));
        }
    }
    stack
}

/// What stands at the name of an ignore file.
#[expect(
    clippy::large_enum_variant,
    reason = "it is looked at once, on the stack, and never kept"
)]
enum Small {
    /// Nothing does.
    Absent,
    /// Something that is not read: denied, a link, a pipe, or another's.
    Passed,
    /// A small regular file.
    Read(Read),
}

/// A small file that was read.
struct Read {
    path: RelPath,
    /// Of what stood at its name before it was opened.
    stamp: Stamp,
    /// Of the handle it was read from.
    meta: Meta,
    content: Vec<u8>,
}

/// Reads a small regular file in `dir`.
fn read_small(
    root: &Root,
    dir: BorrowedFd<'_>,
    path: &RelPath,
    name: &str,
    terms: &Terms,
) -> Small {
    let Ok(at) = path.join(name) else {
        return Small::Passed;
    };
    if terms.admits(&at, Entity::File) != Admit::Yes {
        return Small::Passed;
    }
    // Most directories have none, and looking is cheaper than opening in vain.
    let stamp = match sys::child_meta(dir, name) {
        Ok(seen) => Stamp::of(&seen),
        Err(Errno::NOENT) => return Small::Absent,
        Err(_) => return Small::Passed,
    };
    opened(root, dir, path, name, terms, &at).map_or(Small::Passed, |(meta, content)| {
        Small::Read(Read {
            path: at,
            stamp,
            meta,
            content,
        })
    })
}

fn opened(
    root: &Root,
    dir: BorrowedFd<'_>,
    path: &RelPath,
    name: &str,
    terms: &Terms,
    at: &RelPath,
) -> Option<(Meta, Vec<u8>)> {
    let handle = root.open_child(dir, path, name, OFlags::RDONLY).ok()?;
    let meta = Meta::of_stat(&fstat(&handle).ok()?);
    let named = || sys::is_named(handle.as_fd(), at);
    if meta.entity != Entity::File || !meta.admits_links(terms.hardlinks(), named) {
        return None;
    }
    let size = usize::try_from(meta.size).ok()?.min(MAX_IGNORE_BYTES);
    let mut content = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match handle.read_at(&mut content[filled..], filled as u64) {
            Ok(count) if count > 0 => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    content.truncate(filled);
    Some((meta, content))
}

#[cfg(test)]
mod tests;
