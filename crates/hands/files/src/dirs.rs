//! Reading a directory through its handle.

use std::borrow::Cow;
use std::os::fd::BorrowedFd;

use portcullis_proto::{Entity, Failure, RelPath};
use rustix::fs::{FileType, RawDir};

use crate::errno::failure;
use crate::meta::entity;
use crate::sys;

/// One name in a directory, before anything is known but what `getdents` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// As it is shown; lossy where the disk holds no UTF-8.
    pub(crate) shown: String,
    pub(crate) entity: Entity,
    /// The path it can be asked for by; `None` when no admitted path names it.
    pub(crate) path: Option<RelPath>,
    /// The bytes on disk, where they are no UTF-8: two such names can look alike.
    pub(crate) raw: Option<Box<[u8]>>,
}

impl Name {
    /// The bytes on disk.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.shown.as_bytes())
    }

    /// The path it is judged by. A name that no path can ask for is judged as
    /// it is shown, so that no rule is stepped around by one odd byte.
    pub(crate) fn judged(&self, dir: &RelPath) -> Option<Cow<'_, RelPath>> {
        if let Some(path) = &self.path {
            return Some(Cow::Borrowed(path));
        }
        let plain = |c: char| RelPath::parse(c.encode_utf8(&mut [0; 4])).is_ok() || c == '.';
        let shown: String = self
            .shown
            .chars()
            .map(|c| {
                if plain(c) {
                    c
                } else {
                    char::REPLACEMENT_CHARACTER
                }
            })
            .collect();
        let judged = dir.join(&shown).or_else(|_| RelPath::parse(&shown));
        judged.ok().map(Cow::Owned)
    }
}

/// Calls `each` with every entry but `.` and `..`, in the kernel's order.
pub(crate) fn each_name(
    dir: BorrowedFd<'_>,
    path: &RelPath,
    mut each: impl FnMut(Name) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut buffer = sys::list_buffer();
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failure)?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let Ok(stat) = sys::child_meta(dir, entry.file_name()) else {
                // Gone since: it is not in the directory any more.
                continue;
            };
            kind = FileType::from_raw_mode(stat.stx_mode.into());
        }
        let name = String::from_utf8_lossy(bytes);
        let (admitted, raw) = match &name {
            Cow::Borrowed(name) => (path.join(name).ok(), None),
            Cow::Owned(_) => (None, Some(bytes.into())),
        };
        each(Name {
            path: admitted,
            raw,
            shown: name.into_owned(),
            entity: entity(kind),
        })?;
    }
    Ok(())
}
