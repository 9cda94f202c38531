//! Our own state directory, held by a handle.
//!
//! Invariants: the directory a [`PrivateDir`] holds was not a symbolic link,
//! belongs to the user we run as, and nobody else had any access to it when it
//! was opened. Everything in it is opened relative to the handle, so renaming
//! the directory or planting a link in its place leads nowhere.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_proto::{Failure, Reason};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// What only the owner may do anything with.
const PRIVATE: Mode = Mode::RWXU;
/// The bits that would let somebody else in.
const OTHERS: u32 = 0o077;

/// A directory of our own, for state that no agent may reach.
///
/// Proves: a directory, not reached through a link in its last component,
/// owned by our effective user, closed to everybody else. Does not prove that
/// it is on a local file system, nor that its parents are closed.
#[derive(Clone)]
pub struct PrivateDir {
    fd: Arc<OwnedFd>,
    path: Arc<Path>,
}

impl PrivateDir {
    /// Opens the directory at `path`, creating it and its parents (0700) where
    /// they are missing.
    pub fn open_or_create(path: &Path) -> Result<Self, Failure> {
        let fd = match open(CWD, path) {
            Err(Errno::NOENT) => {
                create_with_parents(path).map_err(|errno| os_failure(errno, path))?;
                open(CWD, path)
            }
            other => other,
        }
        .map_err(|errno| os_failure(errno, path))?;
        Self::admit(fd, path.to_path_buf())
    }

    /// Opens the directory called `name` in this one, creating it (0700) where
    /// it is missing.
    pub fn sub(&self, name: &str) -> Result<Self, Failure> {
        single_component(name)?;
        match rustix::fs::mkdirat(&self.fd, name, PRIVATE) {
            Ok(()) | Err(Errno::EXIST) => self.existing(name),
            Err(errno) => Err(os_failure(errno, &self.path.join(name))),
        }
    }

    /// Opens the directory called `name` in this one, which must exist.
    pub(crate) fn existing(&self, name: &str) -> Result<Self, Failure> {
        single_component(name)?;
        let path = self.path.join(name);
        let fd = open(&self.fd, Path::new(name)).map_err(|errno| os_failure(errno, &path))?;
        Self::admit(fd, path)
    }

    /// Where it was opened. For the operator's eyes and for libraries that can
    /// only take a path; never for an agent.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The handle.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn admit(fd: OwnedFd, path: PathBuf) -> Result<Self, Failure> {
        let stat = rustix::fs::fstat(&fd).map_err(|errno| os_failure(errno, &path))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Failure::new(
                Reason::NotOwned,
                "Portcullis's state directory belongs to another user.",
            )
            .hint("Run as the directory's owner, or name another state directory.")
            .detail(format_args!(
                "{} belongs to uid {}",
                path.display(),
                stat.st_uid
            )));
        }
        if stat.st_mode & OTHERS != 0 {
            return Err(Failure::new(
                Reason::InsecurePermissions,
                "Portcullis's state directory is open to other users.",
            )
            .hint("Run `chmod 700` on the state directory; the log names it.")
            .detail(format_args!(
                "chmod 700 {}  # mode is {:o}",
                path.display(),
                stat.st_mode & 0o7777
            )));
        }
        Ok(Self {
            fd: Arc::new(fd),
            path: path.into(),
        })
    }
}

impl fmt::Debug for PrivateDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateDir({})", self.path.display())
    }
}

fn single_component(name: &str) -> Result<(), Failure> {
    if name.is_empty() || name.contains(['/', '\0']) || matches!(name, "." | "..") {
        return Err(Failure::from(Reason::Bug)
            .detail(format_args!("{name:?} cannot name a state directory")));
    }
    Ok(())
}

fn open(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat(
            &at,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
    })
}

fn create_with_parents(path: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdirat(CWD, path, PRIVATE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            let parent = path.parent().ok_or(Errno::NOENT)?;
            if parent.as_os_str().is_empty() {
                return Err(Errno::NOENT);
            }
            create_with_parents(parent)?;
            match rustix::fs::mkdirat(CWD, path, PRIVATE) {
                // Another process of ours may have been faster.
                Err(Errno::EXIST) => Ok(()),
                other => other,
            }
        }
        Err(errno) => Err(errno),
    }
}

/// A failure to reach our own state, told without the path.
pub(crate) fn os_failure(errno: Errno, path: &Path) -> Failure {
    let (reason, message) = match errno {
        Errno::LOOP => (
            Reason::Symlink,
            "Portcullis's state directory is a symbolic link.",
        ),
        Errno::NOTDIR => (
            Reason::NotDirectory,
            "Portcullis's state directory is not a directory, or is a symbolic link.",
        ),
        Errno::NOENT => (Reason::NotFound, "Part of Portcullis's state is missing."),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => (
            Reason::Os,
            "The operating system refused access to Portcullis's state.",
        ),
        Errno::NOSPC => (
            Reason::NoSpace,
            "The disk that holds Portcullis's state is full.",
        ),
        Errno::DQUOT => (
            Reason::Quota,
            "The quota for Portcullis's state is used up.",
        ),
        Errno::MFILE | Errno::NFILE => (Reason::TooManyOpen, "Too many files are open."),
        _ => (Reason::Io, "Portcullis's state could not be reached."),
    };
    Failure::new(reason, message).detail(format_args!("{}: {errno}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("pc-private-{}-{name}", std::process::id()));
        let _gone = std::fs::remove_dir_all(&dir);
        dir
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_missing_is_created_closed_with_its_parents() {
        let top = scratch("create");
        let dir = PrivateDir::open_or_create(&top.join("a/b")).unwrap();
        let sub = dir.sub("c").unwrap();
        for path in [&top, &top.join("a"), &top.join("a/b"), sub.path()] {
            assert_eq!(mode(path), 0o700, "{path:?}");
        }
        assert!(dir.sub("c").is_ok(), "opening again works");
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn what_others_can_reach_is_refused_and_the_path_is_for_the_log_only() {
        let top = scratch("open");
        std::fs::create_dir(&top).unwrap();
        std::fs::set_permissions(&top, PermissionsExt::from_mode(0o750)).unwrap();
        let failure = PrivateDir::open_or_create(&top).unwrap_err();
        assert_eq!(failure.reason(), Reason::InsecurePermissions);
        let shown = format!("{failure} {}", failure.next_step().unwrap());
        assert!(
            shown.contains("chmod 700") && !shown.contains("pc-private"),
            "{shown}"
        );
        assert!(
            failure
                .cause()
                .unwrap()
                .contains(&top.display().to_string())
        );
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn a_link_or_a_file_in_its_place_is_refused() {
        let top = scratch("link");
        let real = PrivateDir::open_or_create(&top.join("real")).unwrap();
        symlink("real", top.join("link")).unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        for name in ["link", "file"] {
            let failure = PrivateDir::open_or_create(&top.join(name)).unwrap_err();
            assert_eq!(failure.reason(), Reason::NotDirectory, "{name}");
        }
        symlink("/tmp", real.path().join("sub")).unwrap();
        assert!(real.sub("sub").is_err());
        for name in ["", ".", "..", "a/b"] {
            assert_eq!(real.sub(name).unwrap_err().reason(), Reason::Bug, "{name}");
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
