//! Where a root's displaced files are kept: on its own mount, so that keeping
//! one is a rename and costs no copy.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use portcullis_proto::Failure;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::{Errno, retry_on_intr};
use serde::{Deserialize, Serialize};

use crate::errno::failure;
use crate::meta::Meta;
use crate::private_dir::PrivateDir;
use crate::root::Root;
use crate::sys;

/// Where a store is, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    /// In the data directory, which is on the root's mount.
    DataDirectory,
    /// At the top of the root's mount, as a desktop keeps its trash.
    MountTop,
    /// In the root, under a name no agent reaches.
    InRoot,
    /// In the data directory, on another mount: by copy.
    Copy,
}

impl Where {
    /// As `doctor`, `undo list` and receipts spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DataDirectory => "data_directory",
            Self::MountTop => "mount_top",
            Self::InRoot => "in_root",
            Self::Copy => "copy",
        }
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Where in our own state things are kept for undo.
pub(crate) const UNDO: &str = "undo";

/// The name of the store of the directory with that device and inode.
pub(crate) fn place_name((dev, ino): (u64, u64)) -> String {
    format!("{dev:x}-{ino:x}")
}

/// Opens the store of `root`, making it where it is missing. It is the store of
/// that very directory, whatever name a root of it has.
pub(super) fn open(data: &PrivateDir, root: &Root) -> Result<(OwnedFd, Where), Failure> {
    let name = place_name(root.identity());
    let in_data = || -> Result<OwnedFd, Failure> {
        let dir = data.sub(UNDO)?.sub(&name)?;
        dir.fd()
            .try_clone_to_owned()
            .map_err(|e| crate::errno::from_io(&e))
    };
    let mount = |dir: &OwnedFd| sys::handle_meta(dir.as_fd()).map(|seen| sys::mount_of(&seen));
    let wanted = sys::handle_meta(root.top())
        .map(|seen| sys::mount_of(&seen))
        .map_err(failure)?;
    let at_home = in_data()?;
    if mount(&at_home).map_err(failure)? == wanted {
        return Ok((at_home, Where::DataDirectory));
    }
    let of_user = format!(".portcullis-{}", rustix::process::geteuid().as_raw());
    let at_top = mount_top(root, wanted)
        .and_then(|top| private(&top, &of_user))
        .and_then(|own| private(&own, &name));
    if let Some(dir) = if_usable(at_top)? {
        return Ok((dir, Where::MountTop));
    }
    if let Some(dir) = if_usable(in_root(root))? {
        return Ok((dir, Where::InRoot));
    }
    Ok((at_home, Where::Copy))
}

/// Opens the store of `root` where there is one, in the same order; what cannot
/// be looked at is told when it is opened to be used.
pub(super) fn open_existing(data: &PrivateDir, root: &Root) -> Option<(OwnedFd, Where)> {
    let name = place_name(root.identity());
    let at_home = || {
        let dir = data.existing(UNDO).ok()?.existing(&name).ok()?;
        dir.fd().try_clone_to_owned().ok()
    };
    let mount = |dir| sys::handle_meta(dir).map(|seen| sys::mount_of(&seen)).ok();
    let wanted = mount(root.top())?;
    if mount(data.fd())? == wanted {
        return Some((at_home()?, Where::DataDirectory));
    }
    let of_user = format!(".portcullis-{}", rustix::process::geteuid().as_raw());
    let below = |dir: Result<OwnedFd, Errno>, first: &str, then: &str| {
        let own = admitted(open_directory(dir.ok()?.as_fd(), first)).ok()?;
        admitted(open_directory(own.as_fd(), then)).ok()
    };
    let at_top = below(mount_top(root, wanted), &of_user, &name);
    let in_root = || below(open_directory(root.top(), "."), ".portcullis", UNDO);
    at_top
        .map(|dir| (dir, Where::MountTop))
        .or_else(|| in_root().map(|dir| (dir, Where::InRoot)))
        .or_else(|| at_home().map(|dir| (dir, Where::Copy)))
}

/// A place that cannot hold a store is passed over. One that could not be looked
/// at is told: it may hold the store already, and what were kept elsewhere now
/// would not be found when it can be looked at again.
fn if_usable(dir: Result<OwnedFd, Errno>) -> Result<Option<OwnedFd>, Failure> {
    match dir {
        Ok(dir) => Ok(Some(dir)),
        Err(errno @ (Errno::IO | Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
            Err(failure(errno))
        }
        // A full disk, too: only what makes a store meets it, so none is there.
        Err(_) => Ok(None),
    }
}

/// The top directory of the mount the root is on.
fn mount_top(root: &Root, mount: u64) -> Result<OwnedFd, Errno> {
    /// No path is deeper.
    const MOST: usize = 4096;
    let mut at = open_directory(root.top(), ".")?;
    let mut here = identity(&at)?;
    for _ in 0..MOST {
        let above = open_directory(at.as_fd(), "..")?;
        let seen = sys::handle_meta(above.as_fd())?;
        let next = identity(&above)?;
        if sys::mount_of(&seen) != mount || next == here {
            // The root is itself the top: nothing above it is on its mount.
            return if here == root.identity() {
                Err(Errno::XDEV)
            } else {
                Ok(at)
            };
        }
        (at, here) = (above, next);
    }
    Err(Errno::XDEV)
}

/// `.portcullis/undo` in the root, which keeps itself out of git.
fn in_root(root: &Root) -> Result<OwnedFd, Errno> {
    let top = open_directory(root.top(), ".")?;
    let own = private(&top, ".portcullis")?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(&own, ".gitignore", flags, Mode::RUSR | Mode::WUSR);
    match retry_on_intr(create) {
        Ok(file) => {
            let _told_to_git = rustix::io::write(&file, b"*\n");
        }
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    private(&own, UNDO)
}

fn open_directory(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| openat(at, name, DIRECTORY, Mode::empty()))
}

fn identity(dir: &OwnedFd) -> Result<(u64, u64), Errno> {
    let meta = Meta::of_stat(&rustix::fs::fstat(dir)?);
    Ok((meta.dev, meta.ino))
}

/// The directory `name` in `dir`, ours and closed to others; made if missing.
fn private(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    admitted(open_directory(dir.as_fd(), name))
}

/// The directory, if it is ours and closed to others.
fn admitted(own: Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let own = own?;
    let meta = Meta::of_stat(&rustix::fs::fstat(&own)?);
    if meta.uid != rustix::process::geteuid().as_raw() || meta.mode & 0o077 != 0 {
        // Somebody else made it first, or opened it: not a place for old content.
        return Err(Errno::PERM);
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_proto::Reason;

    #[test]
    fn a_place_that_cannot_be_used_is_passed_over_and_one_that_cannot_be_looked_at_is_told() {
        for errno in [Errno::ACCESS, Errno::ROFS, Errno::XDEV, Errno::NOSPC] {
            assert!(if_usable(Err(errno)).unwrap().is_none(), "{errno}");
        }
        for (errno, reason) in [(Errno::IO, Reason::Io), (Errno::MFILE, Reason::TooManyOpen)] {
            assert_eq!(if_usable(Err(errno)).unwrap_err().reason(), reason);
        }
    }
}
