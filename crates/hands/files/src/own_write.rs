//! Writing small texts of the operator's own: settings, and the log of a daemon.
//!
//! Never for a path an agent can name: nothing is judged and nothing recorded.
//! Everything stands in a [`PrivateDir`] and is closed to everybody else.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use portcullis_proto::{Failure, Reason};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, fsync, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::private_dir::PrivateDir;

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Whether a text may take the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPlace {
    /// Only where there is none.
    Free,
    /// Whatever is there goes.
    Any,
}

/// Writes `text` as the file called `name` in `dir`: whole or not at all, and on
/// the disk when this returns. Whether it was written.
pub fn write_own_text(
    dir: &PrivateDir,
    name: &str,
    text: &str,
    place: OwnPlace,
) -> Result<bool, Failure> {
    let failed = |errno: Errno| unwritable(dir, name, &errno);
    // Every start comes by here: what is there already is not worth a draft and a sync.
    if place == OwnPlace::Free && statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(false);
    }
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).map_err(|error| unwritable(dir, name, &error))?;
    let draft = format!("{name}.new-{:016x}", u64::from_le_bytes(nonce));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(dir.fd(), &draft, flags, PRIVATE).map_err(failed)?;
    let mut file = std::fs::File::from(handle);
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_data())
        .map_err(|error| unwritable(dir, name, &error))
        .and_then(|()| {
            let put = match place {
                OwnPlace::Free => linkat(dir.fd(), &draft, dir.fd(), name, AtFlags::empty()),
                OwnPlace::Any => renameat(dir.fd(), &draft, dir.fd(), name),
            };
            match put {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(errno) => Err(failed(errno)),
            }
        });
    // The draft goes whether or not it was published.
    unlinkat(dir.fd(), &draft, AtFlags::empty()).ok();
    if matches!(written, Ok(true)) {
        fsync(dir.fd()).map_err(failed)?;
    }
    written
}

fn unwritable(dir: &PrivateDir, name: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(
        Reason::Io,
        "A file of Portcullis's own cannot be written. What was there is unchanged.",
    )
    .hint("Run `portcullis doctor`; it tries the data directory.")
    .detail(format_args!("{}/{name}: {why}", dir.path().display()))
}

/// A log: lines at the end of a file, with one older file beside it.
#[derive(Debug)]
pub struct OwnLog {
    dir: PrivateDir,
    name: String,
    max: u64,
    open: Mutex<Option<(OwnedFd, u64)>>,
}

impl OwnLog {
    /// The log called `name` in `dir`, begun anew when it has more than `max` bytes.
    pub fn open(dir: &PrivateDir, name: &str, max: u64) -> Result<Self, Failure> {
        let log = Self {
            dir: dir.clone(),
            name: name.to_owned(),
            max,
            open: Mutex::default(),
        };
        let opened = log
            .reopen()
            .map_err(|errno| unwritable(dir, name, &errno))?;
        *log.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(log)
    }

    /// Adds a line. One that cannot be written is lost: nothing rests on a log.
    pub fn line(&self, line: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = open.as_ref().is_none_or(|(_, length)| *length >= self.max);
        if is_full {
            let older = format!("{}.1", self.name);
            renameat(self.dir.fd(), &self.name, self.dir.fd(), &older).ok();
            *open = self.reopen().ok();
        }
        let Some((handle, length)) = open.as_mut() else {
            return;
        };
        let line = format!("{}\n", line.replace(['\n', '\r'], " "));
        if let Ok(written) = rustix::io::write(handle, line.as_bytes()) {
            *length += written as u64;
        }
    }

    fn reopen(&self) -> Result<(OwnedFd, u64), Errno> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let handle = openat(self.dir.fd(), self.name.as_str(), flags, PRIVATE)?;
        let length = fstat(&handle)?.st_size;
        Ok((handle, u64::try_from(length).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &std::path::Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_text_is_written_whole_closed_to_others_and_only_where_it_may() {
        let scratch = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        let dir = PrivateDir::open_or_create(scratch.path()).unwrap();
        let write = |text, place| write_own_text(&dir, "s.json", text, place).unwrap();
        assert!(write("one", OwnPlace::Free));
        assert!(!write("two", OwnPlace::Free));
        let path = scratch.path().join("s.json");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert!(write("three", OwnPlace::Any));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn where_one_is_already_nothing_is_written_beside_it() {
        let scratch = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        let dir = PrivateDir::open_or_create(scratch.path()).unwrap();
        let changed = || {
            let stat = fstat(dir.fd()).unwrap();
            (stat.st_mtime, stat.st_mtime_nsec)
        };
        let write = |text| write_own_text(&dir, "s.json", text, OwnPlace::Free).unwrap();
        assert!(write("one"));
        let before = changed();
        assert!(!write("two"));
        assert_eq!(changed(), before);
    }

    #[test]
    fn a_log_grows_to_its_bound_and_keeps_one_older_file() {
        let scratch = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        let dir = PrivateDir::open_or_create(scratch.path()).unwrap();
        let log = OwnLog::open(&dir, "l", 20).unwrap();
        for n in 0..9 {
            log.line(&format!("line\n{n}"));
        }
        let text = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap();
        assert_eq!(
            (text("l.1"), text("l")),
            (
                "line 3\nline 4\nline 5\n".into(),
                "line 6\nline 7\nline 8\n".into()
            )
        );
        assert_eq!(mode(&scratch.path().join("l")), 0o600);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
    }
}
