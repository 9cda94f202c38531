//! What stands between a change and what it would take away.

use std::os::fd::{AsFd as _, OwnedFd};

use portcullis_policy::{Terms, moves_along};
use portcullis_proto::{Digest, Entity, Failure, Reason, RelPath};
use rustix::fs::OFlags;

use crate::errno::failure;
use crate::meta::{Meta, without_content};
use crate::options::{Expect, WriteMode};
use crate::text;
use crate::writing::{Base, Before, Place, Version, digest_file};

/// What must be there for a change to be made.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Anything,
    Version(Version),
    Hash(Digest),
    /// Something this caller has read, and it has read nothing there.
    Read,
}

/// What a caller expects, before it is known what it may be told.
#[derive(Clone, Debug)]
pub(crate) struct Expecting {
    pub(crate) expect: Expect,
    /// What it last saw there.
    pub(crate) seen: Option<Version>,
    /// Whether a grant lets it read here at all.
    pub(crate) may_read: bool,
}

impl Expecting {
    /// What must stand at `path`. Of a file that may not be read nothing is
    /// confirmed that tells of its content: hashes could be tried out.
    pub(crate) fn at(&self, terms: &Terms, path: &RelPath) -> Result<Expected, Failure> {
        let reads = || self.may_read && terms.reads_unasked(path);
        Ok(match &self.expect {
            Expect::Anything => Expected::Anything,
            Expect::LastSeen => match &self.seen {
                Some(version) => Expected::Version(version.clone()),
                None => Expected::Anything,
            },
            Expect::Version(version) if reads() => Expected::Version(version.clone()),
            Expect::Version(version) => Expected::Version(without_content(version)),
            Expect::Hash(hash) if reads() => Expected::Hash(*hash),
            Expect::Hash(_) => {
                return Err(Failure::new(
                    Reason::BadArguments,
                    "What may not be read without asking cannot be named by its hash.",
                )
                .hint("Name its version."));
            }
        })
    }

    /// The same of a file that is to be replaced: a root may require that it was
    /// read, and what is to be created expects nothing.
    pub(crate) fn replacing(
        &self,
        terms: &Terms,
        place: &Place,
        mode: WriteMode,
    ) -> Result<Expected, Failure> {
        if mode == WriteMode::Create {
            return Ok(Expected::Anything);
        }
        let expected = self.at(terms, &place.path)?;
        let unseen = self.expect == Expect::LastSeen && self.seen.is_none();
        if unseen && place.entry.policy().read_before_write {
            return Ok(Expected::Read);
        }
        Ok(expected)
    }
}

/// Refuses to replace what is not there, where a file must be.
pub(crate) fn must_be_there(place: &Place, mode: WriteMode) -> Result<(), Failure> {
    if mode == WriteMode::Replace && place.base.is_none() {
        return Err(Failure::from(Reason::NotFound).hint("Create it instead."));
    }
    Ok(())
}

/// Whether what stands at `below` in a directory is protected the same when the
/// directory has moved.
pub(crate) fn keeps_its_class(from: &Place, to: &Place, below: &[u8]) -> bool {
    let (from, to) = (from.classed(), to.classed());
    moves_along(&from, &to, &String::from_utf8_lossy(below))
}

/// Whether what comes is much smaller than the large file it takes the place of.
pub(crate) fn shrinks_by(there: &Place, comes: &Place) -> bool {
    let size = |place: &Place| place.base.as_ref().map(|base| base.meta.size);
    size(there)
        .zip(size(comes))
        .is_some_and(|(before, after)| text::shrinks(before, after))
}

/// Nobody was asked about that.
pub(crate) fn takes_most() -> Failure {
    Failure::new(
        Reason::ApprovalUnavailable,
        "It would take most of a large file away, which is asked about.",
    )
}

/// The guards of a write, for a file that a move overwrites.
pub(crate) fn check_overwritten(
    to: &Place,
    expected: &Expected,
) -> Result<Option<Checked>, Failure> {
    let Some(base) = &to.base else {
        return Ok(None);
    };
    if base.meta.mode & 0o222 == 0 {
        return Err(
            Failure::from(Reason::ReadOnly).hint("Remove it first, or choose another name.")
        );
    }
    check_base(to, expected)
}

/// A file up to here is compared by its content; a larger one by its size and
/// times, unless its hash is asked for.
const COMPARED: u64 = 16 * 1024 * 1024;

/// A file that was what was expected, to be looked at once more.
#[derive(Debug)]
pub(crate) struct Checked {
    file: OwnedFd,
    meta: Meta,
    pub(crate) hash: Option<Digest>,
}

impl Checked {
    /// Whether nobody has written into it since.
    pub(crate) fn still(&self) -> Result<(), Failure> {
        let now = Meta::of_stat(&rustix::fs::fstat(&self.file).map_err(failure)?);
        let same = match self.hash {
            // Times are coarse: two saves within one tick have the same.
            Some(hash) if now.size <= COMPARED => digest_file(&self.file)? == hash,
            Some(_) | None => (now.size, now.mtime_ns) == (self.meta.size, self.meta.mtime_ns),
        };
        if same { Ok(()) } else { Err(mismatch()) }
    }
}

/// Whether what stands at `place` is what is expected. Where something is
/// expected of a file, it comes back opened.
pub(crate) fn check_base(place: &Place, expected: &Expected) -> Result<Option<Checked>, Failure> {
    let Some(base) = &place.base else {
        return check(None, expected).map(|()| None);
    };
    if matches!(expected, Expected::Anything) {
        return Ok(None);
    }
    let hashes = matches!(expected, Expected::Hash(_));
    let checked = match base.meta.entity {
        Entity::File => open_again(place, base, hashes)?,
        Entity::Directory | Entity::Symlink | Entity::Special | Entity::Mount if hashes => {
            return Err(Failure::new(
                Reason::BadArguments,
                "Only a file has a hash to expect.",
            ));
        }
        Entity::Directory | Entity::Symlink | Entity::Special | Entity::Mount => None,
    };
    let before = Before {
        meta: &base.meta,
        bytes: None,
        hash: checked.as_ref().and_then(|checked| checked.hash),
    };
    check(Some(&before), expected)?;
    Ok(checked)
}

/// The file at `place`, opened to be read: what is only moved or removed was
/// not. `None` for one that we may not read, which nobody asked the hash of.
fn open_again(place: &Place, base: &Base, hashes: bool) -> Result<Option<Checked>, Failure> {
    let (dir, above) = (place.parent.as_fd(), &place.parent_path);
    let opened = place
        .root
        .open_child(dir, above, &place.leaf, OFlags::RDONLY);
    let file = match opened {
        Ok(file) => file,
        Err(failure) if failure.reason() == Reason::Os && !hashes => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let meta = Meta::of_stat(&rustix::fs::fstat(&file).map_err(failure)?);
    if (meta.dev, meta.ino) != (base.meta.dev, base.meta.ino) {
        return Err(mismatch());
    }
    let hash = if hashes || meta.size <= COMPARED {
        Some(digest_file(&file)?)
    } else {
        None
    };
    Ok(Some(Checked { file, meta, hash }))
}

/// Whether what is there is what is expected.
pub(crate) fn check(before: Option<&Before<'_>>, expected: &Expected) -> Result<(), Failure> {
    let fits = match (expected, before) {
        (Expected::Anything, _) | (Expected::Read, None) => true,
        (Expected::Read, Some(_)) => {
            return Err(Failure::new(
                Reason::VersionMismatch,
                "This root requires a file to be read before it is replaced.",
            )
            .hint("Read it, then try again."));
        }
        (Expected::Version(_) | Expected::Hash(_), None) => false,
        (Expected::Version(version), Some(before)) => {
            before.meta.is_version(version, before.hash.as_ref())
        }
        (Expected::Hash(hash), Some(before)) => before.hash == Some(*hash),
    };
    if fits { Ok(()) } else { Err(mismatch()) }
}

pub(crate) fn mismatch() -> Failure {
    Failure::new(
        Reason::VersionMismatch,
        "Somebody changed it since it was last read, so it was left as it is.",
    )
    .hint("Read it again, then make the change on what is there now.")
}
