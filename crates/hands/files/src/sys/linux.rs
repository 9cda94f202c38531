//! Linux: one `openat2` that resolves and checks, or a labelled walk without it.
//!
//! Every open says CLOEXEC, NOFOLLOW, NONBLOCK and NOCTTY: nothing leaks into a
//! child, a pipe never hangs us, a terminal never becomes ours. O_TRUNC and
//! O_CREAT are never said here.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use portcullis_policy::Symlinks;
use portcullis_proto::RelPath;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat, openat2, readlinkat, statx,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// Never out of the root, through no link, no magic link, onto no other mount.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

const ALWAYS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// `flags` and what every open says. A handle that opens nothing (O_PATH) can
/// neither block nor take a terminal, and `openat2` refuses to be told so.
fn always(flags: OFlags) -> OFlags {
    if flags.contains(OFlags::PATH) {
        flags | OFlags::CLOEXEC
    } else {
        flags | ALWAYS
    }
}

/// How often an unrelated rename may disturb a resolution before we say so.
const TRIES: usize = 8;

/// Opens `path` under `root` in one system call.
pub(crate) fn open_whole(
    root: BorrowedFd<'_>,
    path: &RelPath,
    flags: OFlags,
    symlinks: Symlinks,
    cross_mounts: bool,
) -> Result<OwnedFd, Errno> {
    let mut resolve = BENEATH;
    let mut flags = always(flags);
    match symlinks {
        Symlinks::Reject => flags |= OFlags::NOFOLLOW,
        Symlinks::AllowInRoot => resolve.remove(ResolveFlags::NO_SYMLINKS),
    }
    if cross_mounts {
        resolve.remove(ResolveFlags::NO_XDEV);
    }
    again(|| openat2(root, path.shown(), flags, Mode::empty(), resolve))
}

/// Opens the entry `name` of the directory `parent`: one component, all checks.
pub(crate) fn open_child<P: Arg + Copy>(
    parent: BorrowedFd<'_>,
    name: P,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    again(|| {
        openat2(
            parent,
            name,
            always(flags) | OFlags::NOFOLLOW,
            Mode::empty(),
            BENEATH,
        )
    })
}

/// Opens `path` under `root` component by component, for kernels without
/// `openat2`. Each step refuses links and other mounts on its own, but nothing
/// makes the steps one: the result is labelled `best_effort`.
pub(crate) fn open_walk(
    root: BorrowedFd<'_>,
    root_mount: u64,
    path: &RelPath,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    let mut at = openat(
        root,
        ".",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    if parts.peek().is_none() {
        return openat(&at, ".", always(flags), Mode::empty());
    }
    while let Some(name) = parts.next() {
        let last = parts.peek().is_none();
        let step = if last {
            always(flags)
        } else {
            OFlags::PATH | OFlags::CLOEXEC
        };
        let next = openat(&at, name, step | OFlags::NOFOLLOW, Mode::empty())?;
        let seen = statx(
            &next,
            "",
            AtFlags::EMPTY_PATH,
            StatxFlags::TYPE | StatxFlags::MNT_ID,
        )?;
        // O_PATH|O_NOFOLLOW opens a link itself instead of refusing it.
        if crate::meta::entity(rustix::fs::FileType::from_raw_mode(seen.stx_mode.into()))
            == portcullis_proto::Entity::Symlink
        {
            return Err(Errno::LOOP);
        }
        if seen.stx_mnt_id != root_mount {
            return Err(Errno::XDEV);
        }
        at = next;
    }
    Ok(at)
}

/// Metadata of the entry `name` of `parent`, without opening or following it.
pub(crate) fn child_meta<P: Arg>(parent: BorrowedFd<'_>, name: P) -> Result<Statx, Errno> {
    statx(
        parent,
        name,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
    )
}

/// The path the kernel has for a handle right now, for re-judging where a
/// link led. `None` when the thing has no name any more.
pub(crate) fn where_is(handle: BorrowedFd<'_>) -> Option<String> {
    use std::os::fd::AsRawFd as _;
    let link = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    readlinkat(CWD, link, Vec::new())
        .ok()
        .and_then(|path| path.into_string().ok())
        .filter(|path| !path.ends_with(" (deleted)"))
}

/// Whether the name a handle was opened by still stands. The kernel marks the
/// path of an unlinked or replaced one as deleted, for good.
pub(crate) fn is_named(handle: BorrowedFd<'_>, path: &RelPath) -> bool {
    use std::os::fd::AsRawFd as _;
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let Some(name) = path.name() else {
        return false;
    };
    readlinkat(CWD, link, Vec::new()).is_ok_and(|place| {
        place.to_bytes().rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes())
    })
}

/// A buffer for reading directories: what one `getdents64` fills at most.
pub(crate) fn list_buffer() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); 32 * 1024]
}

fn again(mut open: impl FnMut() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let mut result = open();
    for _ in 1..TRIES {
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
        result = open();
    }
    result
}
