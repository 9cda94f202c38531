//! What stands between a change and what it would take away.

use std::os::fd::{AsFd as _, OwnedFd};

use portcullis_policy::{Admit, Class, Terms, Trigger, moves_along};
use portcullis_proto::{Access, Digest, Entity, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::deeds::Changing;
use crate::errno::failure;
use crate::meta::{Meta, without_content};
use crate::options::{Expect, WriteMode};
use crate::text;
use crate::undo::survey;
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
            Expect::Version(version) => Expected::Version(without_content(version.clone())),
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

/// How many paths below a directory a question names.
const MOST_NAMED: usize = 16;

/// What is protected below a directory: some of it for people to read, all of it
/// for the digest of the question.
#[derive(Default)]
pub(crate) struct Below {
    named: Vec<RelPath>,
    words: Vec<&'static str>,
    all: Option<Sha256>,
}

impl Below {
    pub(crate) fn add(&mut self, path: Option<RelPath>) {
        let Some(path) = path else {
            return;
        };
        let all = self.all.get_or_insert_default();
        all.update(path.as_str());
        all.update([0]);
        // Of a thousand hooks one is named: the words for the others are the same.
        let runs = Trigger::of(&path).map(|trigger| trigger.runs);
        let is_new = runs.is_none_or(|runs| !self.words.contains(&runs));
        if is_new && self.named.len() < MOST_NAMED {
            self.words.extend(runs);
            self.named.push(path);
        }
    }

    /// Some of it for people to read, if there is any.
    pub(crate) fn named(self) -> Option<Vec<RelPath>> {
        self.all.map(|_| self.named)
    }

    /// Has `deed` asked about for what is there.
    pub(crate) fn ask(self, deed: &mut Changing) {
        if let Some(all) = self.all {
            deed.shrinks = true;
            deed.shown = Some(Digest(all.finalize().into()));
            deed.below = self.named;
        }
    }
}

/// What removing or moving a directory takes with it that is asked about by
/// name: then this is asked about. What a rule denies below it is refused, as
/// it would be by its own name.
pub(crate) fn takes_protected(
    from: &Place,
    to: Option<&Place>,
    terms: &Terms,
) -> Result<Below, Failure> {
    let mut protected = Below::default();
    let is_directory = |base: &Base| base.meta.entity == Entity::Directory;
    if !from.base.as_ref().is_some_and(is_directory) {
        return Ok(protected);
    }
    if to.is_some_and(|to| to.root.identity() != from.root.identity()) {
        return Err(Failure::new(
            Reason::BadArguments,
            "A directory is not moved to another root.",
        )
        .hint("Copy its files, or move them one by one."));
    }
    survey(from.parent.as_fd(), &from.leaf, &mut |below| {
        let here = path_below(&from.path, below);
        let there = to.and_then(|to| path_below(&to.path, below));
        let sides = [(&here, Access::Delete), (&there, Access::Write)];
        for (path, access) in sides {
            let Some(path) = path else {
                continue;
            };
            match terms.admits_change(Verb::Move, access, path) {
                Admit::Denied => {
                    return Err(Failure::new(
                        Reason::DeniedByRule,
                        "Something below it is denied by a rule, so it was left as it is.",
                    ));
                }
                Admit::Yes | Admit::WouldAsk => {}
            }
        }
        // What is as protected there as here only moves along.
        let asks = match to {
            None => here.as_ref().and_then(Class::of_change).is_some(),
            Some(to) => !keeps_its_class(&from.path, &to.path, below),
        };
        if asks {
            // Named by where it is protected.
            let is_protected = |path: &RelPath| Class::of_change(path).is_some();
            protected.add(there.filter(is_protected).or(here));
        }
        Ok(())
    })?;
    Ok(protected)
}

/// The path of what stands at `below` under `above`, as it is judged. A name no
/// path can ask for is in no rule and in no class.
fn path_below(above: &RelPath, below: &[u8]) -> Option<RelPath> {
    let below = String::from_utf8_lossy(below);
    RelPath::parse(&format!("{}/{below}", above.as_str())).ok()
}

/// Whether what stands at `below` in a directory is protected the same when the
/// directory has moved.
pub(crate) fn keeps_its_class(from: &RelPath, to: &RelPath, below: &[u8]) -> bool {
    moves_along(from, to, &String::from_utf8_lossy(below))
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
