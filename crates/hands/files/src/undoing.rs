//! Undoing: what a change displaced comes back, unless somebody has changed
//! what the change left.

use std::os::fd::AsFd as _;

use portcullis_gate::{Live, Settled};
use portcullis_proto::{Entity, Failure, Reason, Verb};
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, unlinkat};
use rustix::io::Errno;

use crate::archive::digest_of_tree;
use crate::deeds::{Changing, change};
use crate::errno::failure;
use crate::meta::Meta;
use crate::options::WriteOptions;
use crate::root::Root;
use crate::scoped::{ScopedFs, elsewhere};
use crate::undo::{Entry, Pre, State, UndoStore, Where};
use crate::writing::{
    Content, Parents, PathLock, Place, Want, digest_file, entry_of, publish, read_all, relocate,
    remove,
};

/// An operation that was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The operation.
    pub entry: Entry,
    /// What to name to have the undoing undone; `None` where it cannot be.
    pub redo: Option<String>,
}

impl ScopedFs {
    /// What can be undone in this root, oldest first.
    pub fn undo_entries(&self) -> Result<Vec<Entry>, Failure> {
        self.undo()?.map_or(Ok(Vec::new()), |store| store.entries())
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
        let permit = self
            .changing(Verb::Undo, entry.path.as_str(), there, |path, terms| {
                let mut deed = self.deed(Verb::Undo, path, terms, Want::Back)?;
                if let Some(to) = &entry.to {
                    let declared = self.declared();
                    let (root, of) = (declared.root(), declared.entry());
                    deed.to = Some(Place::resolve(of, root, to, terms, Want::Back)?);
                }
                Ok(deed)
            })
            .await?;
        let rules = self.rules(
            Verb::Undo,
            &WriteOptions {
                read_only_too: true,
                ..WriteOptions::default()
            },
        );
        let modes = self.modes();
        let undone = elsewhere(move || {
            change(permit, |deed, _, live| {
                let undoing = Undoing {
                    entry: &entry,
                    store: &store,
                    live,
                    directory: modes.directory,
                    rules,
                };
                let redo = undoing.run(deed)?;
                store.forget(&entry.id)?;
                Ok((Undone { entry, redo }, Settled::default()))
            })
        })
        .await?;
        self.forget_seen(undone.entry.path.as_str());
        Ok(undone)
    }
}

struct Undoing<'a> {
    entry: &'a Entry,
    store: &'a UndoStore,
    live: &'a Live<'a>,
    directory: u32,
    rules: crate::writing::Rules,
}

impl Undoing<'_> {
    fn run(&self, deed: Changing) -> Result<Option<String>, Failure> {
        match (deed.to, &self.entry.before, &self.entry.after) {
            (Some(to), _, Some(after)) => self.move_back(deed.place, to, after),
            (None, Some(_), None) => self.bring_back(deed.place),
            (None, None, Some(_)) if self.entry.verb == Verb::Mkdir => {
                self.unmake(&deed.place.root)?;
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
                    None if self.entry.verb == Verb::Chmod => {
                        self.put_mode_back(&deed.place, before)
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
            // Kept on another mount: a copy goes back instead.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS) => {
                let published = publish(place, &self.rules, self.live, Some(self.store), |now| {
                    if now.is_none_or(|now| now.hash != after.hash) {
                        return Err(changed_since());
                    }
                    Ok(Content::Copy(pre.as_fd(), Some(&meta)))
                })?;
                return Ok(published.receipt.undo);
            }
            Err(errno) => return Err(failure(errno)),
        }
        let displaced = match self.store.pre(id) {
            Ok(Some(Pre::File(file))) => digest_file(&file).ok(),
            Ok(_) | Err(_) => None,
        };
        if displaced.is_none()
            || displaced != after.hash
            || place.landed(meta.dev, meta.ino).is_err()
        {
            let _as_it_was = self.store.swap(id, parent, &place.leaf);
            return Err(changed_since());
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
            return Err(failure);
        }
        Ok(Some(redo.id))
    }

    fn put_mode_back(&self, place: &Place, before: &State) -> Result<Option<String>, Failure> {
        let base = place.base.as_ref().ok_or_else(changed_since)?;
        let after = self.entry.after.as_ref().map_or(0, |after| after.mode);
        if base.meta.mode != after {
            return Err(changed_since());
        }
        place.is_still()?;
        let mut flags = OFlags::RDONLY;
        flags.set(OFlags::DIRECTORY, base.meta.entity == Entity::Directory);
        let (parent, dir) = (place.parent.as_fd(), &place.parent_path);
        let handle = place.root.open_child(parent, dir, &place.leaf, flags)?;
        fchmod(&handle, Mode::from_raw_mode(before.mode & 0o777)).map_err(failure)?;
        Ok(None)
    }

    /// What was removed stands where it stood.
    fn bring_back(&self, place: Place) -> Result<Option<String>, Failure> {
        if place.base.is_some() {
            return Err(changed_since());
        }
        let mut parents = Parents::make(place, self.directory)?;
        let place = &parents.place;
        place.is_still()?;
        place.parent_is_still()?;
        self.store
            .put_back(&self.entry.id, place.parent.as_fd(), &place.leaf)?;
        let _synced = rustix::fs::fsync(&place.parent);
        let back = crate::sys::child_meta(place.parent.as_fd(), place.leaf.as_str());
        let back = Meta::of_statx(&back.map_err(failure)?);
        let redo = Entry {
            after: Some(State::of(&back, None)),
            ..entry_of(place, Verb::Undo, self.live)
        };
        let made_again = self.store.record(&redo).is_ok();
        parents.stay(true);
        Ok(made_again.then_some(redo.id))
    }

    fn move_back(&self, place: Place, to: Place, after: &State) -> Result<Option<String>, Failure> {
        Self::is_as_left(&to, after)?;
        if place.base.is_some() {
            return Err(changed_since());
        }
        let mut parents = Parents::make(place, self.directory)?;
        let root = std::sync::Arc::clone(&to.root);
        relocate(
            &to,
            &parents.place,
            Verb::Undo,
            self.live,
            Some(self.store),
            &[],
            true,
        )?;
        parents.stay(true);
        if self.entry.before.is_some() {
            self.store
                .put_back(&self.entry.id, to.parent.as_fd(), &to.leaf)?;
        }
        let _kept_if_used = self.unmake(&root);
        Ok(Some(self.live.request_id().as_str().to_owned()))
    }

    /// Removes the directories the operation made, innermost first, while they
    /// are empty.
    fn unmake(&self, root: &Root) -> Result<(), Failure> {
        for path in self.entry.made.iter().rev() {
            let (Some(above), Some(name)) = (path.parent(), path.name()) else {
                continue;
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let dir = root.open(&above, flags, portcullis_policy::Symlinks::Reject)?;
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
}

fn changed_since() -> Failure {
    Failure::from(Reason::ChangedSince)
        .hint("Look at what is there now; what the operation displaced is still kept.")
}
