//! A directory of our own that is gone when we are done with it.

use std::path::{Path, PathBuf};

use portcullis_proto::{Failure, Reason};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;

/// A fresh, private directory; removed with all it holds when dropped.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
}

/// How many names are tried before something else must be wrong.
const TRIES: u32 = 16;

impl ScratchDir {
    /// Makes one in `parent`, which the operator named.
    pub fn new(parent: &Path) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::new(Reason::Io, "No scratch directory could be made.")
                .detail(format_args!("{}: {why}", parent.display()))
        };
        for _ in 0..TRIES {
            let mut random = [0u8; 8];
            getrandom::fill(&mut random).map_err(|error| failed(&error))?;
            let path = parent.join(format!("portcullis-{:016x}", u64::from_le_bytes(random)));
            match rustix::fs::mkdirat(CWD, &path, Mode::RWXU) {
                Ok(()) => return Ok(Self { path }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(&errno)),
            }
        }
        Err(failed(&"every name was taken"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the parent up.
        std::fs::remove_dir_all(&self.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_gone_afterwards() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = ScratchDir::new(&std::env::temp_dir()).unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("x"), "y").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(scratch);
        assert!(!path.exists());
    }
}
