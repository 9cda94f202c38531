//! Reading a small text of the operator's own, such as the settings.
//!
//! Never for a path an agent can name: nothing is judged and nothing recorded.

use std::io::Read;
use std::path::Path;

use portcullis_proto::{Failure, Reason};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

/// The text of the file at `path`, which the operator named; `None` where there
/// is none. A pipe or a device is refused instead of waited for, and so is a
/// file over `max` bytes.
pub fn read_own_text(path: &Path, max: u64) -> Result<Option<String>, Failure> {
    let unusable =
        |reason: Reason, what: &str| Failure::new(reason, format!("{} {what}.", path.display()));
    let handle = match rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY,
        Mode::empty(),
    ) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(unusable(Reason::Os, "cannot be opened").detail(errno)),
    };
    let stat = fstat(&handle)
        .map_err(|errno| unusable(Reason::Io, "cannot be looked at").detail(errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(unusable(Reason::SpecialFile, "is not a file"));
    }
    let mut text = Vec::new();
    let read = std::fs::File::from(handle)
        .take(max + 1)
        .read_to_end(&mut text)
        .map_err(|error| unusable(Reason::Io, "cannot be read").detail(error))?;
    if read as u64 > max {
        return Err(unusable(Reason::TooLarge, "is too large"));
    }
    String::from_utf8(text)
        .map(Some)
        .map_err(|_| unusable(Reason::BadEncoding, "is not UTF-8 text"))
}

/// Whether anything stands at `path`, which the operator named: also a link that
/// leads nowhere, which [`read_own_text`] takes for nothing.
pub fn is_own_there(path: &Path) -> Result<bool, Failure> {
    match rustix::fs::lstat(path) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => {
            let what = format!("{} cannot be looked at.", path.display());
            Err(Failure::new(Reason::Os, what).detail(errno))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_none_and_what_is_no_file_is_refused() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(read_own_text(&here.join("no such file"), 9), Ok(None));
        assert_eq!(is_own_there(&here.join("no such file")), Ok(false));
        assert_eq!(is_own_there(&here.join("Cargo.toml")), Ok(true));
        let dir = read_own_text(here, 9).unwrap_err();
        assert_eq!(dir.reason(), Reason::SpecialFile);
        let long = read_own_text(&here.join("Cargo.toml"), 9).unwrap_err();
        assert_eq!(long.reason(), Reason::TooLarge);
        let text = read_own_text(&here.join("Cargo.toml"), 1 << 16).unwrap();
        assert!(text.unwrap().starts_with("[package]"));
        let device = read_own_text(Path::new("/dev/zero"), 9).unwrap_err();
        assert_eq!(device.reason(), Reason::SpecialFile);
    }
}
