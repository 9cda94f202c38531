//! A secret every process of one data directory shares: made once, by whoever
//! needs it first.

use std::io::{Read, Write};

use portcullis_proto::{Failure, Reason};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, linkat, openat, unlinkat};
use rustix::io::Errno;

use crate::private_dir::PrivateDir;

/// How long it is.
const LENGTH: usize = 32;

/// The secret called `name` in `dir`, made first where there is none.
pub fn shared_secret(dir: &PrivateDir, name: &str) -> Result<Vec<u8>, Failure> {
    if let Some(secret) = load(dir, name)? {
        return Ok(secret);
    }
    make(dir, name)?;
    load(dir, name)?.ok_or_else(|| unusable(dir, name, &"it vanished right after it was made"))
}

fn load(dir: &PrivateDir, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |errno: Errno| unusable(dir, name, &errno);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = match openat(dir.fd(), name, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let stat = fstat(&handle).map_err(failed)?;
    if stat.st_mode & 0o077 != 0 {
        return Err(unusable(dir, name, &"others can read it: chmod 600"));
    }
    let mut secret = Vec::with_capacity(LENGTH);
    std::fs::File::from(handle)
        .take(LENGTH as u64 + 1)
        .read_to_end(&mut secret)
        .map_err(|error| unusable(dir, name, &error))?;
    if secret.len() == LENGTH {
        Ok(Some(secret))
    } else {
        Err(unusable(dir, name, &"it is damaged: move it away"))
    }
}

/// Makes it under another name and links it in place, so that another process
/// sees a whole one or none. Whoever comes second uses the first's.
fn make(dir: &PrivateDir, name: &str) -> Result<(), Failure> {
    let failed = |errno: Errno| unusable(dir, name, &errno);
    let mut secret = [0; LENGTH];
    getrandom::fill(&mut secret).map_err(|error| unusable(dir, name, &error))?;
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).map_err(|error| unusable(dir, name, &error))?;
    let draft = format!("{name}.new-{:016x}", u64::from_le_bytes(nonce));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(dir.fd(), &draft, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let mut file = std::fs::File::from(handle);
    let made = file
        .write_all(&secret)
        .and_then(|()| file.sync_data())
        .map_err(|error| unusable(dir, name, &error))
        .and_then(
            |()| match linkat(dir.fd(), &draft, dir.fd(), name, AtFlags::empty()) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(failed(errno)),
            },
        );
    // The draft goes whether or not it was published.
    unlinkat(dir.fd(), &draft, AtFlags::empty()).ok();
    made
}

fn unusable(dir: &PrivateDir, name: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Reason::Io, "A secret of Portcullis's own cannot be used.")
        .hint("Run `portcullis doctor`; it tries the data directory.")
        .detail(format_args!("{}/{name}: {why}", dir.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_the_same_and_a_damaged_one_is_refused() {
        let scratch = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        let dir = PrivateDir::open_or_create(scratch.path()).unwrap();
        let first = shared_secret(&dir, "k").unwrap();
        assert_eq!(first.len(), LENGTH);
        assert_eq!(shared_secret(&dir, "k").unwrap(), first);
        assert_ne!(shared_secret(&dir, "other").unwrap(), first);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
        std::fs::write(scratch.path().join("k"), "short").unwrap();
        assert!(shared_secret(&dir, "k").is_err());
    }
}
