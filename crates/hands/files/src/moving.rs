//! Moving, copying and removing: changes of where things stand.

use std::os::fd::AsFd as _;

use portcullis_gate::Settled;
use portcullis_proto::{Counts, Failure, Reason, Verb};

use crate::changes::settled;
use crate::deeds::change;
use crate::guards::{
    Checked, Expected, check, check_base, check_overwritten, shrinks_by, takes_protected,
};
use crate::options::{Changed, Expect, MoveOptions, WriteOptions};
use crate::scoped::{ScopedFs, elsewhere};
use crate::showing::{self, Sight};
use crate::writing::{Content, Parents, Removed, Want, publish, relocate, remove};

impl ScopedFs {
    /// Moves a file or directory, within this root or to another.
    pub async fn move_to(
        &self,
        path: &str,
        to: &Self,
        destination: &str,
        options: &MoveOptions,
    ) -> Result<Changed, Failure> {
        let permit = self
            .changing(Verb::Move, path, Some((to, destination)), |path, terms| {
                let mut deed = self.deed(Verb::Move, path, terms, Want::Anything)?;
                let there = to.destination(destination, terms)?;
                deed.shrinks = shrinks_by(&there, &deed.place);
                takes_protected(&deed.place, Some(&there), terms)?.ask(&mut deed);
                deed.to = Some(there);
                Ok(deed)
            })
            .await?;
        let (undo, modes) = (self.undo(), to.modes());
        let place = permit.deed().to.as_ref().map(|to| to.path.clone());
        let expected = place.map_or(Expected::Anything, |path| {
            to.expected(&path, &WriteOptions::default())
        });
        let source = self.expected_at(&permit.deed().place.path, &options.source);
        let overwrite = options.overwrite;
        let may_read = self.shares_root(to) && self.may_read();
        let changed = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let to = deed.to.ok_or(Reason::Bug)?;
                check_base(&deed.place, &source)?;
                check_overwritten(&to, &expected)?;
                if to.base.is_some() && !overwrite {
                    return Err(Failure::from(Reason::AlreadyExists)
                        .hint("Choose another name, or say that it may be overwritten."));
                }
                let sight = Sight { terms, may_read };
                let over = sight.content(&to).zip(sight.content(&deed.place));
                let mut parents = Parents::make(to, modes.directory)?;
                let made = &parents.made;
                let receipt = relocate(
                    &deed.place,
                    &parents.place,
                    Verb::Move,
                    live,
                    undo?.as_deref(),
                    made,
                    deed.shrinks,
                )?;
                parents.stay(true);
                let over = over.as_ref().map(|(was, is)| (&was[..], &is[..]));
                let diff =
                    may_read.then(|| showing::of_moved(&deed.place.path, &receipt.path, over));
                Ok((Changed { receipt, diff }, Settled::default()))
            })
        })
        .await?;
        self.forget_seen(path);
        to.note_seen(&changed.receipt.path, &changed.receipt.version);
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
                if size > terms.max_file_bytes() {
                    return Err(Reason::TooLarge.into());
                }
                let there = to.destination(destination, terms)?;
                deed.shrinks = shrinks_by(&there, &deed.place);
                deed.to = Some(there);
                Ok(deed)
            })
            .await?;
        let undo = to.undo();
        let rules = to.rules(Verb::Copy, options);
        let place = permit.deed().to.as_ref().map(|to| to.path.clone());
        let expected = place.map_or(Expected::Anything, |path| to.expected(&path, options));
        let source = self.expected_at(&permit.deed().place.path, source);
        let may_read = self.shares_root(to) && self.may_read();
        let (receipt, diff, reads_source) = elsewhere(move || {
            change(permit, |deed, terms, live| {
                check_base(&deed.place, &source)?;
                let sight = Sight { terms, may_read };
                let copied = sight.content(&deed.place);
                let reads_source = terms.reads_unasked(&deed.place.path);
                let source = deed.place.base.ok_or(Reason::NotFound)?;
                let to = deed.to.ok_or(Reason::Bug)?;
                let copied = copied.filter(|_| terms.reads_unasked(&to.path));
                let published = publish(to, &rules, live, undo?.as_deref(), |before| {
                    check(before, &expected)?;
                    Ok(Content::Copy(source.handle.as_fd(), None))
                })?;
                let settled = settled(&published.receipt);
                let known = published.receipt.created || published.before.is_some();
                let diff = copied.filter(|_| known).map(|copied| {
                    let before = published.before.as_deref();
                    showing::of_copied(&published.receipt.path, before, &copied)
                });
                let receipt = published.receipt;
                Ok(((receipt, diff, reads_source), settled))
            })
        })
        .await?;
        to.note_seen(&receipt.path, &receipt.version);
        Ok(Changed {
            receipt: receipt.shown_to(reads_source && self.may_read()),
            diff,
        })
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
        let expected = self.expected_at(&permit.deed().place.path, expect);
        let may_read = self.may_read();
        let removed = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let checked = check_base(&deed.place, &expected)?;
                let still = || checked.as_ref().map_or(Ok(()), Checked::still);
                let content = Sight { terms, may_read }.content(&deed.place);
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
        self.forget_seen(path);
        Ok(removed)
    }

    fn shares_root(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(self.declared(), other.declared())
    }
}
