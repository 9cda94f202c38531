//! Where nothing can be swapped: a copy of the file is kept, then the draft is
//! renamed over it, or its bytes are written into it.

use std::os::fd::{AsFd as _, OwnedFd};

use portcullis_policy::Symlinks;
use portcullis_proto::{Failure, Reason};
use rustix::fs::{OFlags, renameat};
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::base::{digest, read_all};
use super::draft::Draft;
use super::place::{Base, moved_on};
use super::publish::{COMPARED, Landed, Swap, entry_of};
use super::receipt::{Cas, Label};
use crate::errno::failure;
use crate::root::Root;
use crate::undo::{Entry, Kept, State};

impl Swap<'_> {
    /// Where nothing can be swapped: a copy is kept, then the draft is renamed
    /// over the file. Only writers that lock are kept apart.
    pub(super) fn rename_over(
        &mut self,
        draft: &mut Draft,
        base: &Base,
    ) -> Result<Landed, Failure> {
        self.cas = Cas::Cooperative;
        let kept = self.copy_for_undo(base)?;
        let (parent, leaf) = (&self.place.parent, self.place.leaf.as_str());
        let done = self
            .base_is_still(base)
            .and_then(|()| renameat(parent, &draft.name, parent, leaf).map_err(failure));
        if let Err(why) = done {
            self.copy_is_not_needed();
            return Err(why);
        }
        draft.published();
        Ok(Landed::Over(kept))
    }

    /// The last look before something nobody can take back: the very file, with
    /// the content that was looked at.
    fn base_is_still(&self, base: &Base) -> Result<(), Failure> {
        self.place.is_still()?;
        let Some(looked) = &self.looked else {
            return Err(moved_on(Reason::VersionMismatch));
        };
        let now = rustix::fs::fstat(&base.handle).map_err(failure)?;
        let same = match &looked.bytes {
            Some(bytes) => read_all(&base.handle, COMPARED)?.as_deref() == Some(&bytes[..]),
            None => crate::meta::Meta::of_stat(&now).mtime_ns == looked.meta.mtime_ns,
        };
        if same {
            Ok(())
        } else {
            Err(moved_on(Reason::VersionMismatch))
        }
    }

    /// Where the file is itself a mount, and nothing can take its place: a copy
    /// is kept, then the bytes are written into it.
    ///
    /// A crash on the way leaves the draft with all of the new content beside
    /// it and all of the old in the store: recovery finishes what was begun.
    pub(super) fn write_in_place(
        &mut self,
        draft: &Draft,
        base: &Base,
        bytes: Option<&[u8]>,
    ) -> Result<Landed, Failure> {
        let owned;
        let bytes = if let Some(bytes) = bytes {
            bytes
        } else {
            owned = read_all(&draft.file, COMPARED)?.ok_or(Reason::TooLarge)?;
            &owned
        };
        let root: &Root = &self.place.root;
        let opened = root.open(&self.place.path, OFlags::WRONLY, Symlinks::Reject)?;
        if (opened.meta.dev, opened.meta.ino) != (base.meta.dev, base.meta.ino) {
            return Err(moved_on(Reason::VersionMismatch));
        }
        let kept = self.copy_for_undo(base)?;
        self.cas = Cas::Cooperative;
        self.labels.push(Label::InPlace);
        if let Err(why) = self.base_is_still(base) {
            self.copy_is_not_needed();
            return Err(why);
        }
        let Err(errno) = put(&opened.handle, bytes) else {
            return Ok(Landed::Over(kept));
        };
        let before = self
            .looked
            .as_ref()
            .and_then(|looked| looked.bytes.as_deref());
        if before.is_some_and(|before| put(&opened.handle, before).is_ok()) {
            self.copy_is_not_needed();
            return Err(failure(errno));
        }
        Err(self.torn(base, failure(errno)))
    }

    /// The bytes could neither be written nor taken back: what was there is
    /// kept, and it is said under which name.
    fn torn(&self, base: &Base, why: Failure) -> Failure {
        let Some(undo) = self.undo else {
            return why.hint("Part of it was written, and it could not be taken back.");
        };
        let now = rustix::fs::fstat(&base.handle)
            .ok()
            .map(|now| crate::meta::Meta::of_stat(&now));
        let hash = read_all(&base.handle, COMPARED).ok().flatten();
        let entry = Entry {
            before: self
                .looked
                .as_ref()
                .map(|looked| State::of(&looked.meta, looked.hash)),
            after: now.map(|now| State::of(&now, hash.as_deref().map(digest))),
            ..entry_of(self.place, self.rules.verb, self.live)
        };
        match undo.record(&entry) {
            Ok(()) => why.hint(format!(
                "Part of it was written; `portcullis undo apply {}` puts back what was there.",
                entry.id
            )),
            Err(_) => why.hint("Part of it was written, and it could not be taken back."),
        }
    }

    fn copy_for_undo(&mut self, base: &Base) -> Result<Kept, Failure> {
        let Some(undo) = self.undo else {
            return Ok(Kept::Nothing);
        };
        let kept = undo.copy(base.handle.as_fd(), self.live.request_id().as_str())?;
        self.labels.push(match kept {
            Kept::Copied | Kept::CopiedInPart | Kept::Moved => Label::CopiedForUndo,
            Kept::Nothing => Label::NotKept,
        });
        Ok(kept)
    }

    fn copy_is_not_needed(&self) {
        if let Some(undo) = self.undo {
            let _not_done = undo.forget(self.live.request_id().as_str());
        }
    }
}

/// Writes all of `bytes` over what is in `file`, from its start.
pub(crate) fn put(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match retry_on_intr(|| pwrite(file, rest, at as u64))? {
            0 => return Err(Errno::IO),
            put => at += put,
        }
    }
    retry_on_intr(|| rustix::fs::ftruncate(file, bytes.len() as u64))?;
    retry_on_intr(|| rustix::fs::fdatasync(file))
}
