//! Reading a directory through its handle.

use std::os::fd::BorrowedFd;

use portcullis_proto::{Entity, Failure, RelPath};
use rustix::fs::{FileType, RawDir};

use crate::errno::failure;
use crate::meta::entity;
use crate::sys;

/// One name in a directory, before anything is known but what `getdents` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name; lossy where the disk holds no UTF-8.
    pub(crate) name: String,
    pub(crate) entity: Entity,
    /// The path it can be asked for by; `None` when no admitted path names it.
    pub(crate) path: Option<RelPath>,
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
        let kind = match entry.file_type() {
            FileType::Unknown => match sys::child_meta(dir, entry.file_name()) {
                Ok(stat) => FileType::from_raw_mode(stat.stx_mode.into()),
                // Gone since: it is not in the directory any more.
                Err(_) => continue,
            },
            known => known,
        };
        let name = String::from_utf8_lossy(bytes);
        let admitted = match &name {
            std::borrow::Cow::Borrowed(name) => path.join(name).ok(),
            std::borrow::Cow::Owned(_) => None,
        };
        each(Name {
            path: admitted,
            name: name.into_owned(),
            entity: entity(kind),
        })?;
    }
    Ok(())
}
