//! Whether a program has a file open for writing.
//!
//! The kernel gives a lease for reading only where nobody has: asking for one,
//! and letting go of it at once, tells. A hint and never a proof: a mapping that
//! outlived its handle is not told on every file system, and somebody may open
//! the file a moment later.

#![expect(
    unsafe_code,
    reason = "rustix has no leases, and fcntl takes its argument untyped"
)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::c_int;

/// Which signal tells of a broken lease; in no header that libc mirrors for us.
const F_SETSIG: c_int = 10;

/// Whether somebody has the file behind `file` open for writing. `false` where
/// this cannot be told, as of a file that is not ours.
pub(crate) fn has_writer(file: BorrowedFd<'_>) -> bool {
    // Whoever opens it while we hold the lease has us told by a signal; the
    // usual one ends a process, this one is ignored.
    if control(file, F_SETSIG, libc::SIGURG).is_err() {
        return false;
    }
    match control(file, libc::F_SETLEASE, c_int::from(libc::F_RDLCK)) {
        Ok(()) => {
            let _let_go = control(file, libc::F_SETLEASE, c_int::from(libc::F_UNLCK));
            false
        }
        Err(why) => why.raw_os_error() == Some(libc::EAGAIN),
    }
}

fn control(file: BorrowedFd<'_>, command: c_int, argument: c_int) -> Result<(), std::io::Error> {
    // SAFETY: the descriptor is open for as long as it is borrowed, and each of
    // these commands takes a number, not a pointer.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if answer == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_writer_is_told_and_a_reader_is_not() {
        let dir = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "x").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let _reader = std::fs::File::open(&path).unwrap();
        assert!(!has_writer(file.as_fd()));
        let writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        assert!(has_writer(file.as_fd()));
        drop(writer);
        assert!(!has_writer(file.as_fd()));
        // The lease is gone: nobody who opens it now waits for us.
        std::fs::write(&path, "y").unwrap();
    }
}
