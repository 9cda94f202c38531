//! What the caller of a change is shown of it: a diff, where it may read what
//! the diff would tell.

use std::os::fd::AsFd as _;

use portcullis_policy::Terms;
use portcullis_proto::{Entity, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;

use crate::meta::Meta;
use crate::sys;
use crate::text::{self, Diff};
use crate::writing::{Place, Published, read_all};

/// The longest diff a reply carries.
const MAX_DIFF: usize = 64 * 1024;
/// A larger file is moved, copied and removed without one.
const MAX_SHOWN: u64 = 1024 * 1024;

/// What may be shown of the change of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) terms: &'a Terms,
    /// Whether the caller may be shown anything of this root at all.
    pub(crate) may_be_shown: bool,
}

impl Sight<'_> {
    /// The content of the file at `place`, if it may be shown.
    pub(crate) fn content(&self, place: &Place) -> Option<Vec<u8>> {
        if !self.may_be_shown || !self.terms.reads_unasked(&place.path) {
            return None;
        }
        let base = place.base.as_ref()?;
        if base.meta.entity != Entity::File || base.meta.size > MAX_SHOWN {
            return None;
        }
        let (dir, above) = (place.parent.as_fd(), &place.parent_path);
        let flags = OFlags::RDONLY;
        let file = place.root.open_child(dir, above, &place.leaf, flags).ok()?;
        let meta = Meta::of_stat(&rustix::fs::fstat(&file).ok()?);
        if (meta.dev, meta.ino) != (base.meta.dev, base.meta.ino) {
            return None;
        }
        // What a read of it would refuse, such as another name of something
        // elsewhere, is not shown either.
        let still = || sys::is_named(file.as_fd(), &place.path);
        meta.admit_file(place.entry.policy(), still).ok()?;
        read_all(&file, MAX_SHOWN).ok()?
    }
}

/// What a failed change may say of the file it was tried on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling {
    pub(crate) verb: Verb,
    /// Whether the caller may be told what is in the file.
    pub(crate) tells: bool,
}

impl Telling {
    /// `why`, where it may be told. Otherwise one sentence for all there is,
    /// because each difference answers a question about the content.
    pub(crate) fn of(self, why: Failure) -> Failure {
        if self.tells {
            return why;
        }
        let (reason, what) = if self.verb == Verb::Edit {
            (Reason::TextNotFound, "The edit does not fit the file")
        } else {
            (Reason::BadArguments, "It does not fit what the file holds")
        };
        let message = format!(
            "{what}, which was left as it is. Why is not told of a file that may not be read."
        );
        Failure::new(reason, message).hint("Read the file first, or write all of it anew.")
    }
}

/// A file that was written: what was there, what is there.
pub(crate) fn of_written(published: &Published, may_see: bool) -> Option<Diff> {
    let receipt = &published.receipt;
    // What the caller may not read, a diff must not tell either.
    let known = receipt.created || published.before.is_some();
    let after = published.after.as_ref().filter(|_| may_see && known)?;
    let before = published.before.as_deref().unwrap_or_default();
    Some(unified(&receipt.path, before, after))
}

/// A file that was copied: what it took the place of, and what it is.
pub(crate) fn of_copied(to: &RelPath, before: Option<&[u8]>, copied: &[u8]) -> Diff {
    unified(to, before.unwrap_or_default(), copied)
}

/// Something that moved; and, where it was a file that took another's place,
/// what changed there.
pub(crate) fn of_moved(from: &RelPath, to: &RelPath, over: Option<(&[u8], &[u8])>) -> Diff {
    let mut diff = match over {
        Some((before, after)) => unified(to, before, after),
        None => Diff::default(),
    };
    let renamed = text::renamed(from.shown(), to.shown());
    diff.text.insert_str(0, &renamed);
    diff
}

/// A file that is gone.
pub(crate) fn of_removed(path: &RelPath, content: &[u8]) -> Diff {
    unified(path, content, &[])
}

fn unified(path: &RelPath, before: &[u8], after: &[u8]) -> Diff {
    text::unified(path.shown(), before, after, MAX_DIFF)
}
