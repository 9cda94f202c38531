//! What lists leave out: the built-in exclusions, and what ignore files name.
//!
//! Ignore files are read through the same strict opens as everything else,
//! afresh for every deed: what they say now is what holds. One that a rule
//! denies, or that is another's file linked in, is not read: a reply may quote
//! the line that matched.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use portcullis_policy::{Admit, Terms};
use portcullis_proto::{Entity, RelPath};
use rustix::fs::{OFlags, fstat};

use crate::ignores::{IgnoreKind, IgnoreLayer, IgnoreStack, MAX_IGNORE_BYTES, is_excluded_dir};
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
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut dir = RelPath::root();
        let mut stack = with_layers(root, &IgnoreStack::new(), root.top(), &dir, terms);
        let mut above: Option<OwnedFd> = None;
        for name in path.components() {
            let parent = above.as_ref().map_or(root.top(), OwnedFd::as_fd);
            let (Ok(handle), Ok(next)) =
                (root.open_child(parent, &dir, name, flags), dir.join(name))
            else {
                break;
            };
            dir = next;
            stack = with_layers(root, &stack, handle.as_fd(), &dir, terms);
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

    /// The ignore file that names the file at `path`, as people write it down.
    pub(crate) fn named_by(&self, path: &RelPath) -> Option<String> {
        let Self::By(stack) = self else { return None };
        let matched = stack.matched(path, false)?;
        let file = matched.dir.join(matched.kind.file_name()).ok()?;
        Some(format!("{file}: {}", matched.pattern))
    }
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
        if let Some(content) = read_small(root, dir, path, kind.file_name(), terms) {
            stack = stack.with(IgnoreLayer::parse(path.clone(), kind, &content));
        }
    }
    stack
}

/// The content of a small regular file in `dir`; `None` when there is none, or
/// it is a link, a pipe or anything else that is not read here.
fn read_small(
    root: &Root,
    dir: BorrowedFd<'_>,
    path: &RelPath,
    name: &str,
    terms: &Terms,
) -> Option<Vec<u8>> {
    let at = path.join(name).ok()?;
    if terms.admits(&at, Entity::File) != Admit::Yes {
        return None;
    }
    // Most directories have none, and looking is cheaper than opening in vain.
    sys::child_meta(dir, name).ok()?;
    let handle = root.open_child(dir, path, name, OFlags::RDONLY).ok()?;
    let meta = Meta::of_stat(&fstat(&handle).ok()?);
    let named = || sys::is_named(handle.as_fd(), &at);
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
    Some(content)
}
