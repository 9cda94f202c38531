//! Putting a draft in place of a file, or where nothing was.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use portcullis_gate::Live;
use portcullis_policy::Symlinks;
use portcullis_proto::{Digest, Failure, Principal, Reason, RelPath, Verb};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::base::{digest, read_all};
use super::carry::carry_over;
use super::draft::Draft;
use super::lock::PathLock;
use super::names::conflict_name;
use super::parents::Parents;
use super::place::{Base, Place, moved_on};
use super::receipt::{Cas, Label, Receipt};
use crate::errno::failure;
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;
use crate::undo::{Entry, Kept, State, UndoStore};

/// A file up to here is compared byte by byte after the swap; a larger one by
/// its size and times.
const COMPARED: u64 = 16 * 1024 * 1024;

/// What goes into the file.
pub(crate) enum Content<'a> {
    /// These bytes.
    Bytes(Arc<Vec<u8>>),
    /// All of another file; and, for undo, its mode and owner too.
    Copy(BorrowedFd<'a>, Option<&'a Meta>),
    /// What this writes; it says how much, and what that hashes to.
    Made(Box<Write<'a>>),
}

/// Writes into a draft.
type Write<'a> = dyn FnOnce(&Draft) -> Result<(u64, Digest), Failure> + 'a;

/// How a file is put in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// For the record.
    pub(crate) verb: Verb,
    /// Whether a file may be there already.
    pub(crate) replace: bool,
    /// Whether a read-only file is replaced.
    pub(crate) read_only_too: bool,
    /// The mode of a file that is new; what is replaced keeps its own.
    pub(crate) new_file: u32,
    /// The mode of directories that are made on the way.
    pub(crate) new_directory: u32,
    /// A mode somebody named, for a new file or an old one.
    pub(crate) permissions: Option<u32>,
    /// Whether it is on the disk before anybody is told.
    pub(crate) durable: bool,
}

/// What is known of the file before.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    pub(crate) meta: &'a Meta,
    /// Its content, where it has at most [`COMPARED`] bytes.
    pub(crate) bytes: Option<&'a [u8]>,
    pub(crate) hash: Option<Digest>,
}

/// A change that is done.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) receipt: Receipt,
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Option<Arc<Vec<u8>>>,
}

/// Puts what `make` makes of the file in its place.
///
/// `make` is called with the file locked and looked at; what it refuses leaves
/// everything as it was.
pub(crate) fn publish<'c>(
    place: Place,
    rules: &Rules,
    live: &Live<'_>,
    undo: Option<&UndoStore>,
    make: impl FnOnce(Option<&Before<'_>>) -> Result<Content<'c>, Failure>,
) -> Result<Published, Failure> {
    let _lock = match &place.base {
        Some(base) => Some(PathLock::take(&base.handle)?),
        None => None,
    };
    place.is_still()?;
    let looked = place.base.as_ref().map(look).transpose()?;
    if let Some(looked) = &looked {
        if !rules.replace {
            return Err(Failure::from(Reason::AlreadyExists)
                .hint("Read it first, then replace or edit it; or choose another name."));
        }
        if looked.meta.mode & 0o222 == 0 && !rules.read_only_too {
            return Err(Failure::from(Reason::ReadOnly)
                .hint("Say that read-only files may be replaced, or have it made writable."));
        }
    }
    let content = make(looked.as_ref().map(Looked::before).as_ref())?;
    let mut parents = Parents::make(place, rules.new_directory)?;
    let mut swap = Swap {
        place: &parents.place,
        rules,
        live,
        undo,
        labels: Vec::new(),
        cas: Cas::Exact,
        looked,
    };
    let published = swap.run(content, &parents.made)?;
    parents.stay(rules.durable);
    Ok(published)
}

/// What was there when the lock was taken.
#[derive(Debug)]
struct Looked {
    meta: Meta,
    bytes: Option<Vec<u8>>,
    hash: Option<Digest>,
}

impl Looked {
    fn before(&self) -> Before<'_> {
        Before {
            meta: &self.meta,
            bytes: self.bytes.as_deref(),
            hash: self.hash,
        }
    }
}

fn look(base: &Base) -> Result<Looked, Failure> {
    let bytes = read_all(&base.handle, COMPARED)?;
    let meta = Meta::of_stat(&rustix::fs::fstat(&base.handle).map_err(failure)?);
    Ok(Looked {
        hash: bytes.as_deref().map(digest),
        meta,
        bytes,
    })
}

/// One swap under way.
struct Swap<'a> {
    place: &'a Place,
    rules: &'a Rules,
    live: &'a Live<'a>,
    undo: Option<&'a UndoStore>,
    labels: Vec<Label>,
    cas: Cas,
    looked: Option<Looked>,
}

/// How a draft came to stand in its place.
enum Landed {
    /// By a name of its own or by a swap; what was displaced is under the
    /// draft's name.
    Swapped,
    /// Where nothing was.
    Created,
    /// Over what was there, of which a copy was kept.
    Over(Kept),
}

impl Swap<'_> {
    fn run(&mut self, content: Content<'_>, made: &[RelPath]) -> Result<Published, Failure> {
        let place = self.place;
        let mut draft = Draft::create(place, self.live)?;
        self.dress(&draft, &content)?;
        let (bytes, hash, after) = match content {
            Content::Bytes(bytes) => {
                draft.write(&bytes)?;
                (bytes.len() as u64, digest(&bytes), Some(bytes))
            }
            Content::Copy(from, _) => {
                let (bytes, hash) = draft.copy_from(from, self.live)?;
                (bytes, hash, None)
            }
            Content::Made(write) => {
                let (bytes, hash) = write(&draft)?;
                (bytes, hash, None)
            }
        };
        if self.rules.durable {
            draft.sync()?;
        }
        // The last looks before anything anybody can see happens.
        place.parent_is_still()?;
        self.live.still()?;
        let landed = match &place.base {
            None => self.create(&mut draft)?,
            Some(base) => self.replace(&mut draft, base, after.as_ref().map(|bytes| &bytes[..]))?,
        };
        let now = self.settle(&mut draft, &landed)?;
        let undo = self.keep(&mut draft, &landed, &now, hash, made)?;
        if self.rules.durable && retry_on_intr(|| rustix::fs::fsync(&place.parent)).is_err() {
            self.labels.push(Label::NotSynced);
        }
        let mut labels = std::mem::take(&mut self.labels);
        labels.sort_unstable();
        labels.dedup();
        Ok(Published {
            receipt: Receipt {
                path: place.path.clone(),
                dev: now.dev,
                ino: now.ino,
                version: now.with_content(&hash).version(),
                bytes,
                hash: Some(hash),
                created: matches!(landed, Landed::Created),
                containment: place.containment,
                cas: self.cas,
                labels,
                undo,
            },
            before: self.looked.take().and_then(|looked| looked.bytes),
            after,
        })
    }

    /// Gives the draft the looks of what it replaces, or those of a new file.
    fn dress(&mut self, draft: &Draft, content: &Content<'_>) -> Result<(), Failure> {
        let mode = match (content, &self.place.base) {
            (Content::Copy(from, Some(meta)), _) => {
                let from = from
                    .try_clone_to_owned()
                    .map_err(|error| crate::errno::from_io(&error))?;
                carry_over(&from, meta, &draft.file, &mut self.labels)?;
                self.rules.permissions
            }
            (_, Some(base)) => {
                carry_over(&base.handle, &base.meta, &draft.file, &mut self.labels)?;
                if base.meta.links > 1 {
                    self.labels.push(Label::LinkBroken);
                }
                self.rules.permissions
            }
            (_, None) => Some(self.rules.permissions.unwrap_or(self.rules.new_file)),
        };
        match mode {
            Some(mode) => {
                rustix::fs::fchmod(&draft.file, Mode::from_raw_mode(mode & 0o777)).map_err(failure)
            }
            None => Ok(()),
        }
    }

    /// Gives the draft its name, where nothing has it.
    fn create(&self, draft: &mut Draft) -> Result<Landed, Failure> {
        let (parent, leaf) = (&self.place.parent, self.place.leaf.as_str());
        match renameat_with(parent, &draft.name, parent, leaf, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // A file system that cannot refuse to replace can refuse to link.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(parent, &draft.name, parent, leaf, AtFlags::empty())
                    .map_err(exists)?;
                let _own_name = unlinkat(parent, &draft.name, AtFlags::empty());
            }
            Err(errno) => return Err(exists(errno)),
        }
        draft.published();
        Ok(Landed::Created)
    }

    fn replace(
        &mut self,
        draft: &mut Draft,
        base: &Base,
        bytes: Option<&[u8]>,
    ) -> Result<Landed, Failure> {
        let (parent, leaf) = (&self.place.parent, self.place.leaf.as_str());
        match renameat_with(parent, &draft.name, parent, leaf, RenameFlags::EXCHANGE) {
            Ok(()) => draft.published(),
            Err(Errno::NOENT) => return Err(moved_on(Reason::VersionMismatch)),
            Err(Errno::INVAL | Errno::NOSYS) => return self.rename_over(draft, base),
            Err(Errno::BUSY | Errno::XDEV) => return self.write_in_place(draft, base, bytes),
            Err(errno) => return Err(failure(errno)),
        }
        match self.displaced_is_base(draft, base) {
            Ok(true) => {
                if sys::has_writer(base.handle.as_fd()) {
                    self.labels.push(Label::OpenWriter);
                }
                Ok(Landed::Swapped)
            }
            Ok(false) => Err(self.give_back(draft)),
            // What cannot be looked at is not replaced.
            Err(why) => {
                let _theirs_kept = self.give_back(draft);
                Err(why)
            }
        }
    }

    /// Whether what the swap displaced is what was looked at, byte for byte.
    fn displaced_is_base(&self, draft: &Draft, base: &Base) -> Result<bool, Failure> {
        let Ok(seen) = sys::child_meta(self.place.parent.as_fd(), draft.name.as_str()) else {
            return Ok(false);
        };
        let displaced = Meta::of_statx(&seen);
        let Some(looked) = &self.looked else {
            return Ok(false);
        };
        let same = (displaced.dev, displaced.ino) == (base.meta.dev, base.meta.ino)
            && displaced.entity == base.meta.entity
            && displaced.size == looked.meta.size;
        if !same {
            return Ok(false);
        }
        match &looked.bytes {
            // Times are coarse: two saves within one tick have the same.
            Some(bytes) => Ok(read_all(&base.handle, COMPARED)?.as_deref() == Some(&bytes[..])),
            None => Ok(displaced.mtime_ns == looked.meta.mtime_ns),
        }
    }

    /// Swaps back: somebody saved the file between the look and the swap. If
    /// they save once more meanwhile, what comes back is theirs and is kept
    /// beside the file.
    fn give_back(&self, draft: &mut Draft) -> Failure {
        let (parent, leaf) = (&self.place.parent, self.place.leaf.as_str());
        let changed = Failure::new(
            Reason::VersionMismatch,
            "Somebody saved the file at the very moment it was to be changed; theirs was kept.",
        )
        .hint("Read it again, then try again.");
        let back = renameat_with(parent, &draft.name, parent, leaf, RenameFlags::EXCHANGE);
        let back = match back {
            // They removed it instead: theirs goes back where it was.
            Err(Errno::NOENT) => {
                renameat_with(parent, &draft.name, parent, leaf, RenameFlags::NOREPLACE)
            }
            other => other,
        };
        match back {
            Ok(()) if draft.is_at(&draft.name) => {
                draft.withdrawn();
                changed
            }
            Ok(()) if sys::child_meta(parent.as_fd(), draft.name.as_str()).is_err() => changed,
            Ok(()) | Err(_) => {
                let kept = conflict_name(leaf, self.live.request_id());
                match renameat_with(parent, &draft.name, parent, &kept, RenameFlags::NOREPLACE) {
                    Ok(()) => changed.hint(format!(
                        "Two saves met: the other one is kept beside the file as {kept:?}."
                    )),
                    Err(errno) => changed.detail(format_args!("a conflict file: {errno}")),
                }
            }
        }
    }

    /// Where nothing can be swapped: a copy is kept, then the draft is renamed
    /// over the file. Only writers that lock are kept apart.
    fn rename_over(&mut self, draft: &mut Draft, base: &Base) -> Result<Landed, Failure> {
        self.cas = Cas::Cooperative;
        let kept = self.copy_for_undo(base)?;
        let parent = &self.place.parent;
        self.place.is_still()?;
        renameat(parent, &draft.name, parent, self.place.leaf.as_str()).map_err(failure)?;
        draft.published();
        Ok(Landed::Over(kept))
    }

    /// Where the file is itself a mount, and nothing can take its place: a copy
    /// is kept, then the bytes are written into it.
    fn write_in_place(
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
        let put = |bytes: &[u8]| -> Result<(), Errno> {
            let mut at = 0;
            while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
                at += retry_on_intr(|| pwrite(&opened.handle, rest, at as u64))?;
            }
            rustix::fs::ftruncate(&opened.handle, bytes.len() as u64)?;
            retry_on_intr(|| rustix::fs::fdatasync(&opened.handle))
        };
        if let Err(errno) = put(bytes) {
            if let Some(before) = self
                .looked
                .as_ref()
                .and_then(|looked| looked.bytes.as_deref())
            {
                let _as_it_was = put(before);
            }
            return Err(failure(errno));
        }
        Ok(Landed::Over(kept))
    }

    fn copy_for_undo(&mut self, base: &Base) -> Result<Kept, Failure> {
        let Some(undo) = self.undo else {
            return Ok(Kept::Nothing);
        };
        let kept = undo.copy(base.handle.as_fd(), self.live.request_id().as_str())?;
        self.labels.push(match kept {
            Kept::Copied | Kept::Moved => Label::CopiedForUndo,
            Kept::Nothing => Label::NotKept,
        });
        Ok(kept)
    }

    /// Looks whether the file stands where it was judged to stand. If the whole
    /// directory was moved away meanwhile, what was done in it is taken back.
    fn settle(&self, draft: &mut Draft, landed: &Landed) -> Result<Meta, Failure> {
        let place = self.place;
        let (dev, ino) = match (landed, &place.base) {
            (Landed::Over(_), Some(base)) if !draft.is_at(&place.leaf) => {
                (base.meta.dev, base.meta.ino)
            }
            _ => (draft.dev, draft.ino),
        };
        let why = match place.landed(dev, ino) {
            Ok(meta) => return Ok(meta),
            // Somebody saved over it since: it was there, and that is enough.
            Err(_) if place.parent_is_still().is_ok() && !draft.is_at(&place.leaf) => {
                let made = rustix::fs::fstat(&draft.file).map_err(failure)?;
                return Ok(Meta::of_stat(&made));
            }
            Err(why) => why,
        };
        let leads_elsewhere = matches!(
            why.reason(),
            Reason::NotFound | Reason::Symlink | Reason::NotDirectory | Reason::MountBoundary
        );
        let why = if leads_elsewhere {
            moved_on(Reason::VersionMismatch)
        } else {
            why
        };
        match landed {
            Landed::Swapped => {
                let _theirs_kept = self.give_back(draft);
                Err(why)
            }
            Landed::Created => {
                let parent = &place.parent;
                let (leaf, own) = (place.leaf.as_str(), draft.name.as_str());
                if renameat_with(parent, leaf, parent, own, RenameFlags::NOREPLACE).is_ok()
                    && draft.is_at(own)
                {
                    draft.withdrawn();
                }
                Err(why)
            }
            Landed::Over(_) => Err(why),
        }
    }

    /// Writes down what was done and moves what was displaced to the undo
    /// store. What cannot be kept is not replaced.
    fn keep(
        &mut self,
        draft: &mut Draft,
        landed: &Landed,
        now: &Meta,
        hash: Digest,
        made: &[RelPath],
    ) -> Result<Option<String>, Failure> {
        let parent = self.place.parent.as_fd();
        let Some(undo) = self.undo else {
            // It was looked at: it is what was to be replaced, and nothing else.
            if matches!(landed, Landed::Swapped)
                && let Err(errno) = unlinkat(parent, &draft.name, AtFlags::empty())
            {
                let _as_it_was = self.give_back(draft);
                return Err(failure(errno));
            }
            return Ok(None);
        };
        let entry = Entry {
            before: self
                .looked
                .as_ref()
                .map(|looked| State::of(&looked.meta, looked.hash)),
            after: Some(State::of(now, Some(hash))),
            made: made.to_vec(),
            ..entry_of(self.place, self.rules.verb, self.live)
        };
        let kept = match landed {
            Landed::Over(Kept::Nothing) => return Ok(None),
            Landed::Created | Landed::Over(Kept::Moved | Kept::Copied) => undo.record(&entry),
            Landed::Swapped => undo.record(&entry).and_then(|()| {
                let kept = undo.take(parent, &draft.name, &entry.id);
                match &kept {
                    Ok(Kept::Copied) => self.labels.push(Label::CopiedForUndo),
                    Ok(Kept::Moved | Kept::Nothing) => {}
                    Err(_) => {
                        let _not_done = undo.forget(&entry.id);
                    }
                }
                kept.map(drop)
            }),
        };
        match (kept, landed) {
            (Ok(()), _) => Ok(Some(entry.id)),
            (Err(failure), Landed::Swapped) => {
                let _as_it_was = self.give_back(draft);
                Err(failure)
            }
            (Err(_), Landed::Created | Landed::Over(_)) => {
                self.labels.push(Label::NotKept);
                Ok(None)
            }
        }
    }
}

/// What every entry says of who did what where.
pub(crate) fn entry_of(place: &Place, verb: Verb, live: &Live<'_>) -> Entry {
    let subject = live.subject();
    Entry {
        id: live.request_id().as_str().to_owned(),
        at: live.now_ms(),
        root: place.entry.id().as_str().to_owned(),
        root_identity: place.root.identity(),
        verb,
        path: place.path.clone(),
        to: None,
        subject: who(&subject.principal),
        run: subject.run_id.as_ref().map(|run| run.as_str().to_owned()),
        before: None,
        after: None,
        made: Vec::new(),
        recovered: false,
    }
}

/// A principal as a person reads it: `user:ada`.
fn who(principal: &Principal) -> String {
    let (kind, id) = match principal {
        Principal::Core { id } => ("core", id),
        Principal::User { id } => ("user", id),
        Principal::Token { id, .. } => ("token", id),
        Principal::Extension { id } => ("extension", id),
        Principal::Automation { id } => ("automation", id),
    };
    format!("{kind}:{id}")
}

fn exists(errno: Errno) -> Failure {
    match errno {
        Errno::EXIST => moved_on(Reason::AlreadyExists),
        other => failure(other),
    }
}
