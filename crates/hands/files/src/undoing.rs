//! Undoing: what a change displaced comes back, unless somebody has changed
//! what the change left.

use std::os::fd::AsFd as _;

use portcullis_gate::{Live, Settled};
use portcullis_policy::{Symlinks, Terms};
use portcullis_proto::{Digest, Entity, Failure, Principal, Reason, RelPath, Staged, Verb};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, unlinkat};
use rustix::io::Errno;

use crate::archive::digest_of_tree;
use crate::deeds::{Changing, change};
use crate::errno::failure;
use crate::meta::Meta;
use crate::options::WriteOptions;
use crate::pinning::{bytes_below, pin_what_comes};
use crate::root::Root;
use crate::scoped::{ScopedFs, elsewhere, in_turn};
use crate::undo::{Entry, Pre, State, UndoHeld, UndoStore, Where};
use crate::writing::{
    Base, Circumstances, Content, Parents, PathLock, Place, Source, Want, digest, digest_file,
    entry_of, publish, read_all, relocate, remove, set_mode, staged_name,
};

/// An operation that was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The operation.
    pub entry: Entry,
    /// What to name to have the undoing undone; `None` where it cannot be.
    pub redo: Option<String>,
}

/// The longest name of an operation.
const MAX_ID: usize = 128;

impl ScopedFs {
    /// What can be undone in this root, oldest first.
    pub fn undo_entries(&self) -> Result<Vec<Entry>, Failure> {
        self.undo()?.map_or(Ok(Vec::new()), |store| store.entries())
    }

    /// The same, read where it may wait for the disk, and by few at once: each
    /// holds all there are.
    pub async fn list_undo(&self) -> Result<Vec<Entry>, Failure> {
        let scope = self.clone();
        in_turn(move || scope.undo_entries()).await
    }

    /// The operation `id`, if it can be undone in this root. What could be no
    /// operation's name is none.
    pub async fn undo_entry(&self, id: &str) -> Result<Option<Entry>, Failure> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=MAX_ID).contains(&id.len()) || !id.bytes().all(plain) {
            return Ok(None);
        }
        let (scope, id) = (self.clone(), id.to_owned());
        elsewhere(move || match scope.undo()? {
            Some(store) => Ok(store.entry(&id)?.filter(|entry| entry.id == id)),
            None => Ok(None),
        })
        .await
    }

    /// What is kept of each operation, and how much room that takes, oldest first.
    pub fn undo_held(&self) -> Result<Vec<UndoHeld>, Failure> {
        self.undo()?
            .map_or(Ok(Vec::new()), |store| store.held_entries())
    }

    /// Forgets the operations `ids` with what they displaced, for a person who is
    /// out of room; says how many. It is in the record, and no agent's to do.
    pub fn prune_undo(&self, ids: &[String]) -> Result<usize, Failure> {
        let what = format!("undo prune: {}", ids.len());
        let caller = self.caller();
        let is_persons = matches!(
            caller.subject.principal,
            Principal::User { .. } | Principal::Core { .. }
        );
        if !is_persons {
            let why = Failure::new(Reason::NoGrant, "Only a person forgets what undo keeps.")
                .hint("The operator can run `portcullis undo prune`.");
            return Err(self.gate().refuse(caller, Verb::Administer, &what, why));
        }
        self.gate().administer(caller, &what, || {
            let Some(store) = self.undo()? else {
                return Ok(0);
            };
            let under_way = store.being_undone()?;
            let mut forgotten = 0;
            for id in ids.iter().filter(|id| !under_way.contains(*id)) {
                store.forget(id)?;
                forgotten += 1;
            }
            store.look();
            Ok(forgotten)
        })
    }

    /// Where this root's displaced files are kept.
    pub fn undo_place(&self) -> Result<Option<Where>, Failure> {
        Ok(self.undo()?.map(|store| store.place()))
    }

    /// What the operation `id` displaced, if it was a file that is not too large.
    pub fn undo_content(&self, id: &str, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
        match self
            .undo()?
            .map(|store| store.pre(id))
            .transpose()?
            .flatten()
        {
            Some(Pre::File(file)) => read_all(&file, limit),
            Some(Pre::Directory | Pre::Link) | None => Ok(None),
        }
    }

    /// Undoes one operation.
    pub async fn undo_one(&self, id: &str) -> Result<Undone, Failure> {
        let unknown = || {
            Failure::new(Reason::NotFound, "No such operation is kept for undo.")
                .hint("`portcullis undo list` shows those that are.")
        };
        let store = self.undo()?.ok_or_else(unknown)?;
        let entry = store.entry(id)?.ok_or_else(unknown)?;
        if entry.root_identity != self.declared().root().identity() {
            return Err(unknown());
        }
        let to = entry.to.as_ref().map(|to| to.as_str().to_owned());
        let there = to.as_deref().map(|to| (self, to));
        let goes = !entry.displaces() && entry.verb != Verb::Mkdir;
        let declared = std::sync::Arc::clone(self.declared());
        let operation = undoes(&entry.id, None);
        let resolve = |path: &RelPath, terms: &Terms| {
            let mut deed = self.deed(Verb::Undo, path, terms, Want::Back)?;
            if let Some(to) = &entry.to {
                let declared = self.declared();
                let (root, of) = (declared.root(), declared.entry());
                deed.to = Some(Place::resolve(of, root, to, terms, Want::Back)?);
            }
            // What only added goes into the store; all else gives as much as it takes.
            let size = deed.place.base.as_ref().map_or(0, |base| base.meta.size);
            deed.unkept = goes && self.declared().lacks_room_for(size);
            deed.shown = Some(operation);
            Ok(deed)
        };
        let undone = entry.id.clone();
        // What was put below it since, or written, comes along.
        let look = move |deed: &mut Changing, terms: &Terms| {
            pin_what_comes(deed, terms)?;
            deed.shown = Some(undoes(&undone, deed.pinned));
            if goes && deed.to.is_none() {
                deed.unkept = declared.lacks_room_for(bytes_below(&deed.place)?);
            }
            Ok(())
        };
        let (path, shown) = (entry.path.as_str(), Some(operation));
        let permit = self
            .changing_after_look(Verb::Undo, path, there, shown, resolve, look)
            .await?;
        let pinned = permit.deed().pinned;
        let rules = self.rules(
            Verb::Undo,
            &WriteOptions {
                read_only_too: true,
                ..WriteOptions::default()
            },
        );
        let modes = self.modes();
        let undone = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let undoing = Undoing {
                    entry: &entry,
                    store: &store,
                    live,
                    directory: modes.directory,
                    pinned,
                    terms,
                    rules,
                };
                let this = live.request_id().as_str();
                let root = deed.place.root.identity();
                live.stage(Staged { root, made: None })?;
                store.intend(this, &entry.id)?;
                let redo = undoing.run(deed).inspect_err(|_| store.settle(this))?;
                // It is undone, whether or not it can be forgotten now.
                let _next_time = store.forget(&entry.id);
                store.settle(this);
                Ok((Undone { entry, redo }, Settled::default()))
            })
        })
        .await?;
        self.forget_seen(&undone.entry.path);
        if let Some(to) = &undone.entry.to {
            self.forget_seen(to);
        }
        Ok(undone)
    }
}

struct Undoing<'a> {
    entry: &'a Entry,
    store: &'a UndoStore,
    live: &'a Live<'a>,
    directory: u32,
    /// What a yes to it holds it to.
    pinned: Option<Digest>,
    terms: &'a Terms,
    rules: crate::writing::Rules,
}

/// Digest of which operation is undone, and of what that brings back: a yes to
/// one is none to another at the same path.
fn undoes(id: &str, pinned: Option<Digest>) -> Digest {
    let pinned = pinned.map_or([0; 32], |pinned| pinned.0);
    digest(&[&pinned[..], id.as_bytes()].concat())
}

impl Undoing<'_> {
    fn run(&self, deed: Changing) -> Result<Option<String>, Failure> {
        match (deed.to, &self.entry.before, &self.entry.after) {
            (Some(to), _, Some(after)) => self.move_back(deed.place, to, after),
            (None, Some(_), None) => self.bring_back(deed.place),
            (None, None, Some(_)) if self.entry.verb == Verb::Mkdir => {
                self.unmake_whole(&deed.place.root)?;
                Ok(None)
            }
            (None, None, Some(after)) => {
                Self::is_as_left(&deed.place, after)?;
                let root = std::sync::Arc::clone(&deed.place.root);
                let store = Some(self.store);
                let removed = remove(&deed.place, Verb::Undo, self.live, store, &|| Ok(()))?;
                // Directories made for it go too, if nothing else is in them.
                let _kept_if_used = self.unmake(&root);
                Ok(removed.undo)
            }
            (None, Some(before), Some(after)) => {
                Self::is_as_left(&deed.place, after)?;
                match self.store.pre(&self.entry.id)? {
                    Some(Pre::File(pre)) => self.put_content_back(deed.place, &pre, after),
                    Some(Pre::Directory | Pre::Link) => Err(Reason::Bug.into()),
                    // The very same thing, and nobody looked at its content: only
                    // its bits were changed.
                    None if after.hash.is_none() && before.thing() == after.thing() => {
                        self.put_mode_back(deed.place, before)
                    }
                    None => Err(Failure::new(
                        Reason::NotFound,
                        "What the operation displaced is no longer kept.",
                    )),
                }
            }
            (_, None, None) | (Some(_), _, None) => Err(Reason::Bug.into()),
        }
    }

    /// Whether what stands there is what the operation left.
    fn is_as_left(place: &Place, after: &State) -> Result<(), Failure> {
        let base = place.base.as_ref().ok_or_else(changed_since)?;
        let same = base.meta.entity == after.entity
            && match (&after.hash, after.entity) {
                (Some(hash), Entity::File) => {
                    base.meta.size == after.size && digest_file(&base.handle)? == *hash
                }
                // Of an unpacked archive, all that is below it.
                (Some(hash), Entity::Directory) => {
                    (base.meta.dev, base.meta.ino) == (after.dev, after.ino)
                        && digest_of_tree(place.parent.as_fd(), &place.leaf)? == *hash
                }
                _ => (base.meta.dev, base.meta.ino) == (after.dev, after.ino),
            };
        if same { Ok(()) } else { Err(changed_since()) }
    }

    fn put_content_back(
        &self,
        place: Place,
        pre: &std::os::fd::OwnedFd,
        after: &State,
    ) -> Result<Option<String>, Failure> {
        let meta = Meta::of_stat(&rustix::fs::fstat(pre).map_err(failure)?);
        let before = self.entry.before.as_ref().and_then(|before| before.hash);
        if let Some(hash) = before
            && digest_file(pre)? != hash
        {
            return Err(Failure::new(
                Reason::ChangedSince,
                "A program that had the old file open wrote to it since, so nothing was put back.",
            )
            .hint("`portcullis undo show` tells where the old content is kept."));
        }
        let Some(base) = &place.base else {
            return Err(changed_since());
        };
        let _lock = PathLock::take(&base.handle)?;
        place.is_still()?;
        place.parent_is_still()?;
        let (parent, id) = (place.parent.as_fd(), self.entry.id.as_str());
        match self.store.swap(id, parent, &place.leaf) {
            Ok(()) => {}
            // Kept on another mount, or itself one: a copy goes back instead.
            Err(Errno::XDEV | Errno::BUSY | Errno::INVAL | Errno::NOSYS) => {
                let published = publish(place, &self.rules, self.live, Some(self.store), |now| {
                    if now.is_none_or(|now| now.hash != after.hash) {
                        return Err(changed_since());
                    }
                    Ok(Content::Copy(Source {
                        from: pre.as_fd(),
                        like: Some(&meta),
                        expected: before,
                        pinned: None,
                        most: u64::MAX,
                    }))
                })?;
                return Ok(published.receipt.undo);
            }
            Err(errno) => return Err(failure(errno)),
        }
        let displaced = match self.store.pre(id) {
            Ok(Some(Pre::File(file))) => digest_file(&file).map(Some),
            Ok(_) => Ok(None),
            Err(why) => Err(why),
        };
        let fits = displaced.and_then(|displaced| {
            if displaced.is_none() || displaced != after.hash {
                return Err(changed_since());
            }
            place.landed(meta.dev, meta.ino).map(drop)
        });
        if let Err(why) = fits {
            let _as_it_was = self.store.swap(id, parent, &place.leaf);
            return Err(why);
        }
        let redo = Entry {
            before: Some(after.clone()),
            after: Some(State::of(&meta, before)),
            ..entry_of(&place, Verb::Undo, self.live)
        };
        let _synced = rustix::fs::fsync(&place.parent);
        let kept = self
            .store
            .record(&redo)
            .and_then(|()| self.store.hand_over(id, &redo.id));
        if let Err(failure) = kept {
            // What undo displaces is kept too, or it is not displaced.
            let _as_it_was = self.store.swap(id, parent, &place.leaf);
            let _not_done = self.store.forget(&redo.id);
            return Err(failure);
        }
        Ok(Some(redo.id))
    }

    fn put_mode_back(&self, mut place: Place, before: &State) -> Result<Option<String>, Failure> {
        let base = place.base.take().ok_or_else(changed_since)?;
        let after = self.entry.after.as_ref().map_or(0, |after| after.mode);
        if base.meta.mode != after {
            return Err(changed_since());
        }
        // A handle that bits can be set by, of the very thing that was looked at.
        let mut flags = OFlags::RDONLY;
        flags.set(OFlags::DIRECTORY, base.meta.entity == Entity::Directory);
        let (parent, dir) = (place.parent.as_fd(), &place.parent_path);
        let handle = place.root.open_child(parent, dir, &place.leaf, flags)?;
        let meta = Meta::of_stat(&rustix::fs::fstat(&handle).map_err(failure)?);
        if (meta.dev, meta.ino) != (base.meta.dev, base.meta.ino) {
            return Err(changed_since());
        }
        place.base = Some(Base { handle, meta });
        let mode = before.mode & 0o777;
        set_mode(&place, mode, Verb::Undo, self.live, Some(self.store)).map(|done| done.undo)
    }

    /// What was removed stands where it stood.
    fn bring_back(&self, place: Place) -> Result<Option<String>, Failure> {
        if place.base.is_some() {
            return Err(changed_since());
        }
        let mut parents = Parents::make(place, self.directory, self.live)?;
        let place = &parents.place;
        place.is_still()?;
        place.parent_is_still()?;
        self.put_kept_at(place)?;
        if let Err(why) = place.parent_is_still() {
            let _as_it_was = self
                .store
                .take(place.parent.as_fd(), &place.leaf, &self.entry.id);
            return Err(why);
        }
        // It is back: what fails from here on costs only the redo.
        let redo = looks_now(place).and_then(|back| {
            let redo = Entry {
                after: Some(State::of(&back, None)),
                made: parents.made.clone(),
                ..entry_of(place, Verb::Undo, self.live)
            };
            self.store.record(&redo).map(|()| redo.id)
        });
        parents.stay(true);
        Ok(redo.ok())
    }

    /// What the operation displaced stands at `place`, where nothing is: moved
    /// there, or copied beside it first, so that it is there whole or not at all.
    fn put_kept_at(&self, place: &Place) -> Result<(), Failure> {
        let (parent, id) = (place.parent.as_fd(), self.entry.id.as_str());
        match self.store.put_back(id, parent, &place.leaf) {
            Ok(()) => {}
            Err(Errno::XDEV) => {
                let root = place.root.identity();
                self.live.stage(Staged { root, made: None })?;
                let own = staged_name(self.live.request_id());
                self.store.copy_out(id, parent, &own)?;
                let named = crate::sys::child_meta(parent, own.as_str())
                    .map_err(failure)
                    .and_then(|seen| {
                        let seen = Meta::of_statx(&seen);
                        let made = Some((seen.dev, seen.ino));
                        self.live.stage(Staged { root, made })?;
                        crate::sys::rename_new(parent, &own, parent, &place.leaf).map_err(taken)
                    });
                if let Err(why) = named {
                    let _copy = crate::undo::remove_tree(parent, &own);
                    return Err(why);
                }
                let _next_time = self.store.forget_kept(id);
            }
            Err(errno) => return Err(taken(errno)),
        }
        let _synced = rustix::fs::fsync(&place.parent);
        Ok(())
    }

    fn move_back(&self, place: Place, to: Place, after: &State) -> Result<Option<String>, Failure> {
        Self::is_as_left(&to, after)?;
        match (&place.base, &self.entry.back) {
            (None, _) => {}
            // What undoing brought back there goes again.
            (Some(_), Some(back)) => Self::is_as_left(&place, back)?,
            (Some(_), None) => return Err(changed_since()),
        }
        let mut parents = Parents::make(place, self.directory, self.live)?;
        let root = std::sync::Arc::clone(&to.root);
        let mut redo = relocate(
            &to,
            &parents.place,
            Verb::Undo,
            self.live,
            Some(self.store),
            &Circumstances {
                made: &parents.made,
                pinned: self.pinned,
                terms: self.terms,
                still: &|| Ok(()),
            },
        )?
        .undo;
        if self.entry.before.is_some() {
            if let Err(why) = self.put_kept_at(&to) {
                return Err(self.move_again(&parents.place, &to, why));
            }
            // Without it the move is undone and cannot be done again, and nothing
            // says that it can. Nothing was displaced: only the entry goes.
            if self.tell_what_came_back(&to).is_err()
                && let Some(redo) = redo.take()
            {
                let _next_time = self.store.forget(&redo);
            }
        }
        parents.stay(true);
        let _kept_if_used = self.unmake(&root);
        Ok(redo)
    }

    /// What it had overwritten cannot be put back: then it is not moved back.
    fn move_again(&self, from: &Place, to: &Place, why: Failure) -> Failure {
        let (source, target) = (from.parent.as_fd(), to.parent.as_fd());
        match crate::sys::rename_new(source, &from.leaf, target, &to.leaf) {
            Ok(()) => {
                let _not_done = self.store.forget(self.live.request_id().as_str());
                why
            }
            Err(_) => why.hint(
                "It was moved back; what it had overwritten is still kept, since it cannot be put back.",
            ),
        }
    }

    /// Doing the move again displaces what came back.
    fn tell_what_came_back(&self, to: &Place) -> Result<(), Failure> {
        let back = looks_now(to)?;
        let hash = match self.entry.before.as_ref().map(|before| before.entity) {
            Some(Entity::File) => {
                let (parent, dir) = (to.parent.as_fd(), &to.parent_path);
                let file = to.root.open_child(parent, dir, &to.leaf, OFlags::RDONLY)?;
                Some(digest_file(&file)?)
            }
            _ => None,
        };
        let redo = self.live.request_id().as_str();
        if let Some(redo) = self.store.entry(redo)? {
            self.store.record_again(&Entry {
                back: Some(State::of(&back, hash)),
                ..redo
            })?;
        }
        Ok(())
    }

    fn unmake(&self, root: &Root) -> Result<(), Failure> {
        unmake(root, self.entry)
    }

    /// The same, but where one of them cannot go, those that went are made again.
    fn unmake_whole(&self, root: &Root) -> Result<(), Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = |path: &RelPath| root.open(path, flags, Symlinks::Reject);
        let there: Vec<_> = self
            .entry
            .made
            .iter()
            .filter_map(|path| open(path).ok().map(|dir| (path, dir.meta.mode)))
            .collect();
        self.unmake(root).inspect_err(|_| {
            for (path, mode) in there {
                let above = path.parent().and_then(|above| open(&above).ok());
                if let (Some(above), Some(name)) = (above, path.name()) {
                    let _there_still = mkdirat(&above.handle, name, Mode::from_raw_mode(mode));
                }
            }
        })
    }
}

/// Removes the directories the operation made, innermost first, while they are
/// empty.
pub(crate) fn unmake(root: &Root, entry: &Entry) -> Result<(), Failure> {
    for path in entry.made.iter().rev() {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else {
            continue;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = match root.open(&above, flags, Symlinks::Reject) {
            Ok(dir) => dir,
            Err(why) if why.reason() == Reason::NotFound => continue,
            Err(why) => return Err(why),
        };
        match unlinkat(&dir.handle, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                return Err(changed_since());
            }
            Err(errno) => return Err(failure(errno)),
        }
    }
    Ok(())
}

fn looks_now(place: &Place) -> Result<Meta, Failure> {
    let seen = crate::sys::child_meta(place.parent.as_fd(), place.leaf.as_str());
    Ok(Meta::of_statx(&seen.map_err(failure)?))
}

/// Something is there again.
fn taken(errno: Errno) -> Failure {
    match errno {
        Errno::EXIST => changed_since(),
        other => failure(other),
    }
}

fn changed_since() -> Failure {
    Failure::from(Reason::ChangedSince)
        .hint("Look at what is there now; what the operation displaced is still kept.")
}
