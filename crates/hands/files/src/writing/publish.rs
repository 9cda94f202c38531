//! Putting a draft in place of a file, or where nothing was.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use portcullis_gate::Live;
use portcullis_proto::{Digest, Failure, Reason, RelPath, Verb};
use rustix::fs::{AtFlags, Mode, RenameFlags, renameat_with, unlinkat};
use rustix::io::{Errno, retry_on_intr};

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
use crate::sys;
use crate::undo::{Entry, Kept, State, UndoStore};

/// A file up to here is compared byte by byte after the swap; a larger one by
/// its size and times.
pub(super) const COMPARED: u64 = 16 * 1024 * 1024;

/// What goes into the file.
pub(crate) enum Content<'a> {
    /// These bytes.
    Bytes(Arc<Vec<u8>>),
    /// All of another file.
    Copy(Source<'a>),
    /// What this writes; it says how much, and what that hashes to.
    Made(Box<Write<'a>>),
}

/// A file that is copied.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) from: BorrowedFd<'a>,
    /// Whose mode and owner the copy gets, for undo.
    pub(crate) like: Option<&'a Meta>,
    /// What its content must hash to.
    pub(crate) expected: Option<Digest>,
    /// What a person said yes to.
    pub(crate) pinned: Option<Digest>,
    /// How many bytes are copied at most: it may grow meanwhile.
    pub(crate) most: u64,
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
    let mut parents = Parents::make(place, rules.new_directory, live)?;
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
pub(super) struct Looked {
    pub(super) meta: Meta,
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) hash: Option<Digest>,
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
pub(super) struct Swap<'a> {
    pub(super) place: &'a Place,
    pub(super) rules: &'a Rules,
    pub(super) live: &'a Live<'a>,
    pub(super) undo: Option<&'a UndoStore>,
    pub(super) labels: Vec<Label>,
    pub(super) cas: Cas,
    pub(super) looked: Option<Looked>,
}

/// How a draft came to stand in its place.
pub(super) enum Landed {
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
            Content::Copy(source) => {
                let (bytes, hash) = draft.copy_from(source.from, source.most, self.live)?;
                if source.expected.is_some_and(|expected| expected != hash) {
                    return Err(crate::guards::mismatch());
                }
                if source.pinned.is_some_and(|pinned| pinned != hash) {
                    return Err(crate::pinning::changed());
                }
                (bytes, hash, None)
            }
            Content::Made(write) => {
                let (bytes, hash) = write(&draft)?;
                (bytes, hash, None)
            }
        };
        draft.written = Some(hash);
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
                bytes: Some(bytes),
                hash: Some(hash),
                created: matches!(landed, Landed::Created),
                containment: place.containment,
                cas: self.cas,
                labels,
                kept_in: self.undo.filter(|_| undo.is_some()).map(UndoStore::place),
                undo,
            },
            before: self.looked.take().and_then(|looked| looked.bytes),
            after,
        })
    }

    /// Gives the draft the looks of what it replaces, or those of a new file.
    fn dress(&mut self, draft: &Draft, content: &Content<'_>) -> Result<(), Failure> {
        let mode = match (content, &self.place.base) {
            (
                Content::Copy(Source {
                    from,
                    like: Some(meta),
                    ..
                }),
                _,
            ) => {
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
        // Asked before the look: what is written until then is in it.
        if self.place.root.has_writer(base.handle.as_fd()) {
            self.labels.push(Label::OpenWriter);
        }
        match self.displaced_is_base(draft, base) {
            Ok(true) => Ok(Landed::Swapped),
            Ok(false) => {
                let why = Failure::new(
                    Reason::VersionMismatch,
                    "Somebody saved the file at the very moment it was to be changed; theirs was kept.",
                )
                .hint("Read it again, then try again.");
                Err(self.give_back(draft, why))
            }
            // What cannot be looked at is not replaced.
            Err(why) => Err(self.give_back(draft, why)),
        }
    }

    /// Whether what the swap displaced is what was looked at, byte for byte.
    fn displaced_is_base(&self, draft: &Draft, base: &Base) -> Result<bool, Failure> {
        let seen = match sys::child_meta(self.place.parent.as_fd(), draft.name.as_str()) {
            Ok(seen) => seen,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failure(errno)),
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

    /// Swaps back, because of `why`. If somebody saved the file meanwhile, over
    /// our draft or into it, what comes back is theirs and is kept beside it.
    fn give_back(&self, draft: &mut Draft, why: Failure) -> Failure {
        let (parent, leaf) = (self.place.parent.as_fd(), self.place.leaf.as_str());
        let back = renameat_with(parent, &draft.name, parent, leaf, RenameFlags::EXCHANGE);
        let back = match back {
            // They removed it instead: theirs goes back where it was.
            Err(Errno::NOENT) => sys::rename_new(parent, &draft.name, parent, leaf),
            other => other,
        };
        match back {
            Ok(()) if draft.is_at(&draft.name) => self.withdraw(draft, why),
            Ok(()) if sys::child_meta(parent, draft.name.as_str()).is_err() => why,
            Ok(()) | Err(_) => self.keep_beside(draft, why),
        }
    }

    /// The draft is back under its own name: it goes, unless somebody wrote
    /// into it while it stood in its target's place.
    fn withdraw(&self, draft: &mut Draft, why: Failure) -> Failure {
        if draft.is_as_written() {
            draft.withdrawn();
            return why;
        }
        self.keep_beside(draft, why)
    }

    /// What is under the draft's name is somebody's save.
    fn keep_beside(&self, draft: &Draft, why: Failure) -> Failure {
        let parent = self.place.parent.as_fd();
        let kept = conflict_name(&self.place.leaf, self.live.request_id());
        match sys::rename_new(parent, &draft.name, parent, &kept) {
            Ok(()) => why.hint(format!(
                "Two saves met: the other one is kept beside the file as {kept:?}."
            )),
            Err(errno) => why.detail(format_args!("a conflict file: {errno}")),
        }
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
        match landed {
            Landed::Swapped => Err(self.give_back(draft, why)),
            Landed::Created => {
                let parent = place.parent.as_fd();
                let (leaf, own) = (place.leaf.as_str(), draft.name.clone());
                if sys::rename_new(parent, leaf, parent, &own).is_ok() && draft.is_at(&own) {
                    return Err(self.withdraw(draft, why));
                }
                let stands = format!("It was made, and stands at {:?}.", place.path.shown());
                Err(why.hint(stands))
            }
            // It is done and cannot be taken back: what was there is kept.
            Landed::Over(_) if why.reason() != Reason::VersionMismatch => {
                let handle = match &place.base {
                    Some(base) if !draft.is_at(&place.leaf) => &base.handle,
                    Some(_) | None => &draft.file,
                };
                let now = rustix::fs::fstat(handle).map_err(failure)?;
                Ok(Meta::of_stat(&now))
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
                return Err(self.give_back(draft, failure(errno)));
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
            Landed::Created | Landed::Over(Kept::Moved | Kept::Copied | Kept::CopiedInPart) => {
                undo.record(&entry)
            }
            Landed::Swapped => undo.record(&entry).and_then(|()| {
                let kept = undo.take(parent, &draft.name, &entry.id);
                match &kept {
                    Ok(Kept::Copied | Kept::CopiedInPart) => {
                        self.labels.push(Label::CopiedForUndo);
                    }
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
            (Err(failure), Landed::Swapped) => Err(self.give_back(draft, failure)),
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
        subject: subject.label(),
        run: subject.run_id.as_ref().map(|run| run.as_str().to_owned()),
        before: None,
        after: None,
        back: None,
        made: Vec::new(),
        recovered: false,
    }
}

/// A principal as a person reads it: `user:ada`.
fn exists(errno: Errno) -> Failure {
    match errno {
        Errno::EXIST => moved_on(Reason::AlreadyExists),
        other => failure(other),
    }
}
