//! What a replaced file hands down to its successor: mode, owner, extended
//! attributes and access lists.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use portcullis_proto::Failure;
use rustix::fs::{
    Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, flistxattr_query, fsetxattr,
};
use rustix::io::Errno;

use super::receipt::Label;
use crate::errno::failure;
use crate::meta::Meta;

/// Permission bits that are handed down; a file that runs as somebody else
/// does so only as it was, byte for byte.
const KEPT_MODE: u32 = 0o777;
/// Attributes are small; a kernel allows 64 KiB for names and for a value.
const MOST: usize = 64 * 1024;

/// Makes `to` look like `from`, whose metadata is `meta`; says what could not
/// be kept. Content comes after: a change of owner drops capabilities.
pub(crate) fn carry_over(
    from: &OwnedFd,
    meta: &Meta,
    to: &OwnedFd,
    labels: &mut Vec<Label>,
) -> Result<(), Failure> {
    let ours = rustix::fs::fstat(to).map_err(failure)?;
    if (ours.st_uid, ours.st_gid) != (meta.uid, meta.gid) {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        if fchown(to, Some(uid), Some(gid)).is_err() {
            // The group alone may be one of ours.
            let _kept = fchown(to, None, Some(gid));
            labels.push(Label::OwnerNotPreserved);
        }
    }
    if carry_attributes(from.as_fd(), to.as_fd()).is_err() {
        labels.push(Label::XattrsNotPreserved);
    }
    if meta.mode & !KEPT_MODE & 0o6000 != 0 {
        labels.push(Label::SetidDropped);
    }
    // After the access list, whose mask it must agree with.
    fchmod(to, Mode::from_raw_mode(meta.mode & KEPT_MODE)).map_err(failure)
}

fn carry_attributes(from: impl AsFd, to: impl AsFd) -> Result<(), Errno> {
    let mut names: Vec<u8> = Vec::new();
    // Nearly every file has none, and one look says so.
    let needed = match flistxattr_query(&from) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(()),
        Ok(needed) => needed,
        Err(errno) => return Err(errno),
    };
    names.resize(needed.saturating_mul(2).min(MOST), 0);
    let got = flistxattr(&from, &mut names[..])?;
    names.truncate(got);
    let mut value = vec![0; MOST];
    let mut kept = Ok(());
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        // Labels of a security module are given by the kernel, not copied.
        if name.to_bytes().starts_with(b"security.") && name.to_bytes() != b"security.capability" {
            continue;
        }
        let copied = fgetxattr(&from, name, &mut value[..]).and_then(|len| {
            let value = value.get(..len).ok_or(Errno::RANGE)?;
            fsetxattr(&to, name, value, XattrFlags::empty())
        });
        if copied.is_err() {
            kept = copied;
        }
    }
    kept
}
