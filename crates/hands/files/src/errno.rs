//! What the kernel's errors mean to an agent.

use portcullis_proto::{Failure, Reason};
use rustix::io::Errno;

/// The failure for an error that is about something inside a root. `EACCES` and
/// `EPERM` are the operating system's word and never a reason to try a weaker way.
pub(crate) fn failure(errno: Errno) -> Failure {
    if errno == Errno::ROFS {
        return Failure::new(
            Reason::Os,
            "The file system it is on is mounted read-only, so nothing was changed.",
        )
        .hint("Choose a place outside it, or have it mounted writable.")
        .detail(errno);
    }
    let reason = match errno {
        Errno::NOENT | Errno::NOTDIR => Reason::NotFound,
        Errno::LOOP => Reason::Symlink,
        Errno::XDEV => Reason::MountBoundary,
        Errno::ACCESS | Errno::PERM => Reason::Os,
        Errno::NOSPC => Reason::NoSpace,
        Errno::DQUOT => Reason::Quota,
        Errno::BUSY | Errno::TXTBSY | Errno::AGAIN => Reason::Busy,
        Errno::MFILE | Errno::NFILE => Reason::TooManyOpen,
        Errno::NAMETOOLONG => Reason::NameTooLong,
        Errno::NXIO | Errno::NODEV => Reason::SpecialFile,
        Errno::ISDIR => Reason::IsDirectory,
        Errno::EXIST => Reason::AlreadyExists,
        _ => Reason::Io,
    };
    hinted(reason).detail(errno)
}

pub(crate) fn from_io(error: &std::io::Error) -> Failure {
    error.raw_os_error().map_or_else(
        || Failure::from(Reason::Io).detail(error),
        |code| failure(Errno::from_raw_os_error(code)),
    )
}

/// The failure for `reason`, with the next step where one is known.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "few reasons of an open have a next step"
)]
pub(crate) fn hinted(reason: Reason) -> Failure {
    let failure = Failure::from(reason);
    match reason {
        Reason::NotFound => failure.hint("List the directory it should be in to see what is there."),
        Reason::Symlink => {
            failure.hint("Name the file the link points to, or have the operator set `symlinks: allow-in-root` for this root.")
        }
        Reason::MountBoundary => failure.hint("The operator can list the place under `mounts` for this root."),
        Reason::Hardlink => failure.hint("The operator can set `hardlinks` for this root; `portcullis doctor` explains."),
        Reason::SpecialFile => failure.hint("Only regular files and directories are opened."),
        Reason::IsDirectory => failure.hint("List it instead."),
        Reason::NotDirectory => failure.hint("Read it instead."),
        _ => failure,
    }
}
