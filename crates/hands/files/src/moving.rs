//! Moving, copying and removing: changes of where things stand.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use portcullis_gate::Settled;
use portcullis_policy::Terms;
use portcullis_proto::{Counts, Entity, Failure, Reason, RelPath, Verb};

use crate::changes::settled;
use crate::deeds::{Changing, change};
use crate::guards::{
    Checked, Expected, check, check_base, check_overwritten, must_be_there, shrinks_by,
};
use crate::options::{Changed, Expect, MoveOptions, WriteMode, WriteOptions};
use crate::pinning::{pin_what_comes, takes_protected, with_options};
use crate::scoped::{ScopedFs, elsewhere};
use crate::showing::{self, Sight};
use crate::sys;
use crate::writing::{
    Circumstances, Content, Parents, Place, Removed, Source, Want, digest, publish, relocate,
    remove,
};

impl ScopedFs {
    /// Moves a file or directory, within this root or to another.
    pub async fn move_to(
        &self,
        path: &str,
        to: &Self,
        destination: &str,
        options: &MoveOptions,
    ) -> Result<Changed, Failure> {
        let crosses = !self.shares_root(to);
        let resolve = |path: &RelPath, terms: &Terms| {
            let mut deed = self.deed(Verb::Move, path, terms, Want::Anything)?;
            if crosses {
                leaves_root(&deed.place)?;
            }
            let there = to.destination(destination, terms)?;
            deed.shrinks = shrinks_by(&there, &deed.place);
            // Where it stood is kept too.
            let over = there.base.as_ref().map_or(0, |base| base.meta.size);
            deed.unkept = self.declared().lacks_room_for(over);
            deed.to = Some(there);
            Ok(deed)
        };
        let there = Some((to, destination));
        let permit = self
            .changing_after_look(Verb::Move, path, there, None, resolve, pin_what_comes)
            .await?;
        let (undo, modes) = (self.undo(), to.modes());
        let from = permit.deed().place.path.clone();
        let moved = permit
            .deed()
            .place
            .base
            .as_ref()
            .map(|base| base.meta.entity);
        let seen = self.last_seen(&from);
        let source = self.expecting(&from, &options.source);
        let place = permit.deed().to.as_ref().map(|to| to.path.clone());
        let over = place.map(|path| to.expecting(&path, &Expect::LastSeen));
        let overwrite = options.overwrite;
        let may_be_shown = !crosses && self.may_be_shown();
        let may_read = self.may_read() && to.may_read();
        let saw = seen.clone();
        let (changed, version, was_seen) = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let to = deed.to.ok_or(Reason::Bug)?;
                if to.base.is_some() && !overwrite {
                    return Err(Failure::from(Reason::AlreadyExists)
                        .hint("Choose another name, or say that it may be overwritten."));
                }
                let source = source.at(terms, &deed.place.path)?;
                let expected = match over {
                    Some(over) => over.replacing(terms, &to, WriteMode::Overwrite)?,
                    None => Expected::Anything,
                };
                let checked = [
                    check_base(&deed.place, &source)?,
                    check_overwritten(&to, &expected)?,
                ];
                // What was not seen as it is now does not come to be by moving.
                let was_seen = match saw {
                    Some(version) => check_base(&deed.place, &Expected::Version(version)).is_ok(),
                    None => false,
                };
                let sight = Sight {
                    terms,
                    may_be_shown,
                };
                let content = sight.content(&to).zip(sight.content(&deed.place));
                let mut parents = Parents::make(to, modes.directory, live)?;
                let still = || checked.iter().flatten().try_for_each(Checked::still);
                let receipt = relocate(
                    &deed.place,
                    &parents.place,
                    Verb::Move,
                    live,
                    undo?.as_deref(),
                    &Circumstances {
                        made: &parents.made,
                        pinned: deed.pinned,
                        terms,
                        still: &still,
                    },
                )?;
                parents.stay(true);
                let content = content.as_ref().map(|(was, is)| (&was[..], &is[..]));
                let diff = may_be_shown
                    .then(|| showing::of_moved(&deed.place.path, &receipt.path, content));
                let reads = may_read
                    && terms.reads_unasked(&deed.place.path)
                    && terms.reads_unasked(&receipt.path);
                let version = receipt.version.clone();
                let changed = Changed::shown(receipt.shown_to(reads), diff);
                Ok(((changed, version, was_seen), Settled::default()))
            })
        })
        .await?;
        let landed = &changed.receipt.path;
        if crosses {
            self.forget_seen(&from);
        } else {
            self.carry_seen(&from, landed);
        }
        match seen.filter(|_| moved == Some(Entity::File)) {
            Some(_) if was_seen => to.note_seen(landed, &version),
            Some(stale) => to.note_seen(landed, &stale),
            // What was seen there is gone, by the caller's own act.
            None if moved != Some(Entity::Directory) => to.forget_seen(landed),
            None => {}
        }
        Ok(changed)
    }

    /// Copies a file, within this root or to another, if it is what `source`
    /// expects; `options` tell what may be replaced.
    pub async fn copy_to(
        &self,
        path: &str,
        source: &Expect,
        to: &Self,
        destination: &str,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let shown = with_options(None, options);
        let resolve = |path: &RelPath, terms: &Terms| {
            let mut deed = self.deed(Verb::Copy, path, terms, Want::File)?;
            let size = deed.place.base.as_ref().map_or(0, |base| base.meta.size);
            if size > terms.max_file_bytes().min(options.max_bytes) {
                return Err(Reason::TooLarge.into());
            }
            let there = to.destination(destination, terms)?;
            must_be_there(&there, options.mode)?;
            deed.shrinks = shrinks_by(&there, &deed.place);
            let over = there.base.as_ref().map(|base| base.meta.size);
            deed.unkept = over.is_some_and(|size| to.declared().lacks_room_for(size));
            deed.to = Some(there);
            deed.shown = shown;
            Ok(deed)
        };
        let there = Some((to, destination));
        let bits = options.clone();
        let look = move |deed: &mut Changing, terms: &Terms| {
            pin_what_comes(deed, terms)?;
            deed.shown = with_options(deed.pinned, &bits);
            Ok(())
        };
        let permit = self
            .changing_after_look(Verb::Copy, path, there, shown, resolve, look)
            .await?;
        let undo = to.undo();
        let rules = to.rules(Verb::Copy, options);
        let source = self.expecting(&permit.deed().place.path, source);
        let place = permit.deed().to.as_ref().map(|to| to.path.clone());
        let over = place.map(|path| to.expecting(&path, &options.expect));
        let (mode, max_bytes) = (options.mode, options.max_bytes);
        let may_be_shown = self.shares_root(to) && self.may_be_shown();
        let (receipt, diff, reads_source) = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let reads_source = terms.reads_unasked(&deed.place.path);
                let source = source.at(terms, &deed.place.path)?;
                let checked = check_base(&deed.place, &source)?;
                let sight = Sight {
                    terms,
                    may_be_shown,
                };
                let copied = sight.content(&deed.place);
                let base = deed.place.base.ok_or(Reason::NotFound)?;
                let to = deed.to.ok_or(Reason::Bug)?;
                let copied = copied.filter(|_| terms.reads_unasked(&to.path));
                let expected = match over {
                    Some(over) => over.replacing(terms, &to, mode)?,
                    None => Expected::Anything,
                };
                let pinned = deed.content;
                let published = publish(to, &rules, live, undo?.as_deref(), |before| {
                    check(before, &expected)?;
                    Ok(Content::Copy(Source {
                        from: base.handle.as_fd(),
                        like: None,
                        expected: checked.and_then(|checked| checked.hash),
                        pinned,
                        most: terms.max_file_bytes().min(max_bytes),
                    }))
                })?;
                let settled = settled(&published.receipt);
                let known = published.receipt.created || published.before.is_some();
                let diff = copied
                    .filter(|copied| known && published.receipt.hash == Some(digest(copied)))
                    .map(|copied| {
                        let before = published.before.as_deref();
                        showing::of_copied(&published.receipt.path, before, &copied)
                    });
                Ok(((published.receipt, diff, reads_source), settled))
            })
        })
        .await?;
        to.note_seen(&receipt.path, &receipt.version);
        let receipt = receipt.shown_to(reads_source && self.may_be_shown());
        Ok(Changed::shown(receipt, diff))
    }

    /// Removes a file, a link, or a directory and all below it, if it is what is
    /// expected.
    pub async fn remove(&self, path: &str, expect: &Expect) -> Result<Removed, Failure> {
        let resolve = |path: &RelPath, terms: &Terms| {
            let mut deed = self.deed(Verb::Remove, path, terms, Want::Anything)?;
            let size = deed.place.base.as_ref().map_or(0, |base| base.meta.size);
            deed.unkept = self.declared().lacks_room_for(size);
            Ok(deed)
        };
        let declared = Arc::clone(self.declared());
        let look = move |deed: &mut Changing, terms: &Terms| {
            let (protected, bytes) = takes_protected(&deed.place, terms)?;
            protected.ask(deed);
            deed.unkept = declared.lacks_room_for(bytes);
            Ok(())
        };
        let permit = self
            .changing_after_look(Verb::Remove, path, None, None, resolve, look)
            .await?;
        let undo = self.undo();
        let gone = permit.deed().place.path.clone();
        let expecting = self.expecting(&gone, expect);
        let may_be_shown = self.may_be_shown();
        let removed = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let expected = expecting.at(terms, &deed.place.path)?;
                let checked = check_base(&deed.place, &expected)?;
                let still = || checked.as_ref().map_or(Ok(()), Checked::still);
                let sight = Sight {
                    terms,
                    may_be_shown,
                };
                let content = sight.content(&deed.place);
                let undo = undo?;
                let mut removed = remove(&deed.place, Verb::Remove, live, undo.as_deref(), &still)?;
                removed.diff =
                    content.map(|content| showing::of_removed(&deed.place.path, &content));
                let counts = Counts {
                    entries: removed.entries,
                    ..Default::default()
                };
                Ok((removed, Settled::counts(counts)))
            })
        })
        .await?;
        self.forget_seen(&gone);
        Ok(removed)
    }

    fn shares_root(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.declared(), other.declared())
    }
}

/// Whether a file may leave its root: what a read of it would refuse there does
/// not come to be readable elsewhere.
fn leaves_root(place: &Place) -> Result<(), Failure> {
    match &place.base {
        Some(base) if base.meta.entity == Entity::File => {
            let still = || sys::is_named(base.handle.as_fd(), &place.path);
            base.meta.admit_file(place.entry.policy(), still)
        }
        Some(_) | None => Ok(()),
    }
}
