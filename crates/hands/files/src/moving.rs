//! Moving, copying and removing: changes of where things stand.

use std::os::fd::AsFd as _;

use portcullis_gate::Settled;
use portcullis_proto::{Counts, Entity, Failure, Reason, Verb};

use crate::changes::settled;
use crate::deeds::change;
use crate::guards::{
    Checked, Expected, check, check_base, check_overwritten, must_be_there, shrinks_by,
    takes_protected,
};
use crate::options::{Changed, Expect, MoveOptions, WriteMode, WriteOptions};
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
        let permit = self
            .changing(Verb::Move, path, Some((to, destination)), |path, terms| {
                let mut deed = self.deed(Verb::Move, path, terms, Want::Anything)?;
                if crosses {
                    leaves_root(&deed.place)?;
                }
                let there = to.destination(destination, terms)?;
                deed.shrinks = shrinks_by(&there, &deed.place);
                takes_protected(&deed.place, Some(&there), terms)?.ask(&mut deed);
                deed.to = Some(there);
                Ok(deed)
            })
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
        let saw = seen.clone();
        let (changed, was_seen) = elsewhere(move || {
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
                        asked_about_what_is_below: deed.shrinks,
                        still: &still,
                    },
                )?;
                parents.stay(true);
                let content = content.as_ref().map(|(was, is)| (&was[..], &is[..]));
                let diff = may_be_shown
                    .then(|| showing::of_moved(&deed.place.path, &receipt.path, content));
                Ok((
                    (Changed::shown(receipt, diff), was_seen),
                    Settled::default(),
                ))
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
            Some(_) if was_seen => to.note_seen(landed, &changed.receipt.version),
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
        let permit = self
            .changing(Verb::Copy, path, Some((to, destination)), |path, terms| {
                let mut deed = self.deed(Verb::Copy, path, terms, Want::File)?;
                let size = deed.place.base.as_ref().map_or(0, |base| base.meta.size);
                if size > terms.max_file_bytes().min(options.max_bytes) {
                    return Err(Reason::TooLarge.into());
                }
                let there = to.destination(destination, terms)?;
                must_be_there(&there, options.mode)?;
                deed.shrinks = shrinks_by(&there, &deed.place);
                deed.to = Some(there);
                Ok(deed)
            })
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
                let published = publish(to, &rules, live, undo?.as_deref(), |before| {
                    check(before, &expected)?;
                    Ok(Content::Copy(Source {
                        from: base.handle.as_fd(),
                        like: None,
                        expected: checked.and_then(|checked| checked.hash),
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
        let permit = self
            .changing(Verb::Remove, path, None, |path, terms| {
                let mut deed = self.deed(Verb::Remove, path, terms, Want::Anything)?;
                takes_protected(&deed.place, None, terms)?.ask(&mut deed);
                Ok(deed)
            })
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
        std::sync::Arc::ptr_eq(self.declared(), other.declared())
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
