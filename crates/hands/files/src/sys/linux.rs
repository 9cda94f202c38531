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
    AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, Statx, StatxFlags, openat, openat2,
    readlinkat, renameat, renameat_with, statx,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::time::{ClockId, clock_gettime};

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
    is_ours: impl Fn(u64) -> bool,
    path: &RelPath,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    if parts.peek().is_none() {
        return again(|| openat(root, ".", always(flags), Mode::empty()));
    }
    let mut at = again(|| {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(root, ".", step, Mode::empty())
    })?;
    while let Some(name) = parts.next() {
        let last = parts.peek().is_none();
        let step = if last {
            always(flags)
        } else {
            OFlags::PATH | OFlags::CLOEXEC
        };
        let next = again(|| openat(&at, name, step | OFlags::NOFOLLOW, Mode::empty()))?;
        let seen = handle_meta(next.as_fd())?;
        // O_PATH|O_NOFOLLOW opens a link itself instead of refusing it.
        if crate::meta::entity(rustix::fs::FileType::from_raw_mode(seen.stx_mode.into()))
            == portcullis_proto::Entity::Symlink
        {
            return Err(Errno::LOOP);
        }
        if !is_ours(mount_of(&seen)) {
            return Err(Errno::XDEV);
        }
        at = next;
    }
    Ok(at)
}

/// Mount ids that are never given out again, from Linux 6.8 on; the older kind
/// is reused as soon as something is unmounted.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

const WANTED: StatxFlags = StatxFlags::BASIC_STATS
    .union(StatxFlags::MNT_ID)
    .union(UNIQUE_MOUNT);

/// Metadata of what a handle holds.
pub(crate) fn handle_meta(handle: BorrowedFd<'_>) -> Result<Statx, Errno> {
    statx(handle, "", AtFlags::EMPTY_PATH, WANTED)
}

/// Metadata of the entry `name` of `parent`, without opening or following it.
pub(crate) fn child_meta<P: Arg>(parent: BorrowedFd<'_>, name: P) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(parent, name, flags, WANTED)
}

/// Which mount it is on. A kernel too old to say (before 5.8) tells the device
/// at least, which changes with every mount but a bind mount.
pub(crate) fn mount_of(seen: &Statx) -> u64 {
    let told = StatxFlags::from_bits_retain(seen.stx_mask);
    if told.intersects(StatxFlags::MNT_ID | UNIQUE_MOUNT) {
        seen.stx_mnt_id
    } else {
        rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor)
    }
}

/// Renames to a name that nothing has. A file system that cannot be told so is
/// looked at first, which is as good for names that only we give.
pub(crate) fn rename_new(
    from: BorrowedFd<'_>,
    name: &str,
    into: BorrowedFd<'_>,
    to: &str,
) -> Result<(), Errno> {
    match renameat_with(from, name, into, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => match child_meta(into, to) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(from, name, into, to),
            Err(errno) => Err(errno),
        },
        done => done,
    }
}

/// The clock the kernel stamps files by, in nanoseconds since 1970.
pub(crate) fn stamping_clock() -> i128 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// A clock that goes on while the machine sleeps and that nobody can set, in
/// nanoseconds since it was started.
pub(crate) fn running_clock() -> i128 {
    let now = clock_gettime(ClockId::Boottime);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
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

/// Whether the name a handle was opened by still stands; what cannot be told is
/// not known to.
pub(crate) fn is_named(handle: BorrowedFd<'_>, path: &RelPath) -> bool {
    still_named(handle, path).unwrap_or(false)
}

/// The same, where a failure is told as one. The kernel marks the path of an
/// unlinked or replaced one as deleted, for good.
pub(crate) fn still_named(handle: BorrowedFd<'_>, path: &RelPath) -> Result<bool, Errno> {
    use std::os::fd::AsRawFd as _;
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let Some(name) = path.name() else {
        return Ok(false);
    };
    let place = readlinkat(CWD, link, Vec::new())?;
    Ok(place.to_bytes().rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes()))
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
