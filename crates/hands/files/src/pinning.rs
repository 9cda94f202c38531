//! What a yes is held to: the content of what comes to stand where it runs by
//! itself, or where a secret stands.
//!
//! A question about a move names where things go. What is in them could be
//! rewritten, unasked, until the yes comes, because where they stand they are
//! plain files. So their content goes into the digest of the question, and is
//! looked at once more when they stand in their new place.

use std::os::fd::{AsFd as _, BorrowedFd};

use portcullis_policy::{Admit, RootPolicy, Terms, Trigger};
use portcullis_proto::{Access, Digest, Entity, Failure, Reason, RelPath, Verb};
use rustix::fs::{OFlags, readlinkat};
use sha2::{Digest as _, Sha256};

use crate::deeds::Changing;
use crate::errno::failure;
use crate::guards::keeps_its_class;
use crate::meta::Meta;
use crate::options::WriteOptions;
use crate::sys;
use crate::undo::{Found, survey};
use crate::writing::{Base, Place, digest_up_to};

/// How many paths below a directory a question names; the others are counted.
const MAX_NAMED: usize = 32;
/// How many files one yes pins: more than any project keeps where they run by
/// themselves, and few enough to be hashed while somebody waits.
const MAX_PINNED: usize = 1_000;
/// How many bytes of them.
const MAX_PINNED_BYTES: u64 = 64 * 1024 * 1024;

/// What is protected below a directory: some of it for people to read, all of it
/// for the digest of the question.
#[derive(Default)]
pub(crate) struct Below {
    /// The first of each kind.
    kinds: Vec<RelPath>,
    /// Others.
    others: Vec<RelPath>,
    words: Vec<&'static str>,
    count: u64,
    all: Option<Sha256>,
    pinned: usize,
    pinned_bytes: u64,
    /// What the last of it holds: of a single file, what that holds.
    content: Option<Digest>,
    /// Whether a secret comes to where it can be read.
    exposes: bool,
}

impl Below {
    pub(crate) fn add(&mut self, path: RelPath, policy: &RootPolicy) {
        self.put(path.as_str().as_bytes());
        self.count += 1;
        let runs = Trigger::of(&policy.classed(&path)).map(|trigger| trigger.runs);
        let is_new = runs.is_none_or(|runs| !self.words.contains(&runs));
        // Of each kind one is named, however many hooks come first.
        if is_new && self.kinds.len() < MAX_NAMED {
            self.words.extend(runs);
            self.kinds.push(path);
        } else if self.others.len() < MAX_NAMED {
            self.others.push(path);
        }
    }

    /// As [`add`](Self::add), with what it is and holds.
    fn pin(
        &mut self,
        path: RelPath,
        policy: &RootPolicy,
        moved: &Moved<'_>,
        found: &Found<'_>,
    ) -> Result<(), Failure> {
        let leads_there = policy.class_of_change(&path).is_some() && !moved.back;
        self.add(path, policy);
        self.put(found.meta.entity.as_str().as_bytes());
        self.put(&found.meta.mode.to_le_bytes());
        match found.meta.entity {
            Entity::File if moved.stands_as_secret(found.path) => self.put_stamp(&found.meta),
            Entity::File => {
                let content = self.content_of(found)?;
                self.put(&content.0);
                self.content = Some(content);
            }
            Entity::Symlink => {
                let target = readlinkat(found.dir, found.name, Vec::new()).map_err(failure)?;
                if leads_there && moved.leads_astray(found.path, target.as_bytes()) {
                    return Err(Failure::new(
                        Reason::Symlink,
                        "A link would come to stand where it runs by itself, and what it leads to could be changed after a yes, so it was left as it is.",
                    )
                    .hint("Put the file itself there, in place of the link."));
                }
                self.put(target.as_bytes());
            }
            Entity::Directory | Entity::Mount | Entity::Special => {}
        }
        Ok(())
    }

    /// What a file holds, within what one yes pins.
    fn content_of(&mut self, found: &Found<'_>) -> Result<Digest, Failure> {
        let left = MAX_PINNED_BYTES.saturating_sub(self.pinned_bytes);
        if self.pinned >= MAX_PINNED || found.meta.size > left {
            return Err(too_much());
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = sys::open_child(found.dir, found.name, flags).map_err(failure)?;
        let meta = Meta::of_stat(&rustix::fs::fstat(&file).map_err(failure)?);
        if (meta.dev, meta.ino, meta.entity) != (found.meta.dev, found.meta.ino, Entity::File) {
            return Err(changed());
        }
        let digest = digest_up_to(&file, left)?.ok_or_else(too_much)?;
        self.pinned += 1;
        self.pinned_bytes += meta.size.min(left);
        Ok(digest)
    }

    /// Of a secret that stands in its place no hash goes anywhere: whoever
    /// rewrites it is asked about that, and its times tell.
    fn put_stamp(&mut self, meta: &Meta) {
        self.put(&meta.ino.to_le_bytes());
        self.put(&meta.size.to_le_bytes());
        self.put(&meta.mtime_ns.to_le_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        let all = self.all.get_or_insert_default();
        all.update((bytes.len() as u64).to_le_bytes());
        all.update(bytes);
    }

    /// Some of it for people to read, and how much more there is.
    pub(crate) fn named(mut self) -> Option<(Vec<RelPath>, u64)> {
        self.all.as_ref()?;
        let room = MAX_NAMED - self.kinds.len();
        self.kinds.extend(self.others.drain(..).take(room));
        self.kinds
            .sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let more = self.count - self.kinds.len() as u64;
        Some((self.kinds, more))
    }

    fn digest(&self) -> Option<Digest> {
        let all = self.all.clone()?;
        Some(Digest(all.finalize().into()))
    }

    /// Has `deed` asked about for what is there.
    pub(crate) fn ask(self, deed: &mut Changing) {
        let digest = self.digest();
        deed.exposes = self.exposes;
        if let Some((named, more)) = self.named() {
            deed.shrinks = true;
            deed.shown = digest;
            deed.pinned = digest;
            deed.below = named;
            deed.more_below = more;
        }
    }
}

/// Something that is moved, by where it is judged to stand.
pub(crate) struct Moved<'a> {
    pub(crate) from: &'a Place,
    pub(crate) to: &'a Place,
    /// Whether it goes back to where it stood.
    pub(crate) back: bool,
    /// What its caller may read, here and there.
    pub(crate) terms: &'a Terms,
}

impl Moved<'_> {
    /// Whether what stands at `below` of it is a secret before it is moved.
    fn stands_as_secret(&self, below: &[u8]) -> bool {
        path_below(&self.from.path, below).is_some_and(|path| self.from.policy().is_secret(&path))
    }

    /// Whether what is secret `here` can be read `there` without a question, which
    /// an answer about a file of the same name may allow.
    fn exposes(&self, here: Option<&RelPath>, there: Option<&RelPath>) -> bool {
        let reads = |path: &RelPath| self.terms.reads_unasked(path);
        match (here, there) {
            (Some(here), Some(there)) if self.from.policy().is_secret(here) => {
                !self.to.policy().is_secret(there) || (!reads(here) && reads(there))
            }
            (_, _) => false,
        }
    }

    /// Whether a link that stands at `below` of it leads, when it is moved, to
    /// anything that is changed without a yes.
    fn leads_astray(&self, below: &[u8], target: &[u8]) -> bool {
        if leads_out(below, target) {
            return true;
        }
        let Some(path) = followed(below, target) else {
            return true;
        };
        path_below(&self.to.path, &path)
            .is_none_or(|path| self.to.policy().class_of_change(&path).is_none())
    }

    /// What is asked about by name, below the directory `name` of `dir`. What
    /// `terms` deny below it, where it was or where it goes, is refused.
    fn below(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
        terms: Option<&Terms>,
    ) -> Result<Below, Failure> {
        let mut protected = Below::default();
        survey(dir, name, &mut |found| {
            let here = path_below(&self.from.path, found.path);
            let there = path_below(&self.to.path, found.path);
            if let Some(terms) = terms {
                admitted(here.as_ref(), Access::Delete, terms)?;
                admitted(there.as_ref(), Access::Write, terms)?;
            }
            let exposes = self.exposes(here.as_ref(), there.as_ref());
            protected.exposes |= exposes;
            // What is as protected there as here only moves along.
            if !exposes && keeps_its_class(self.from, self.to, found.path) {
                return Ok(());
            }
            // Named by where it is protected.
            let is_protected = |path: &RelPath| self.to.policy().class_of_change(path).is_some();
            match (there.filter(is_protected), here) {
                (Some(path), _) => protected.pin(path, self.to.policy(), self, found),
                (None, Some(path)) => protected.pin(path, self.from.policy(), self, found),
                (None, None) => Ok(()),
            }
        })?;
        Ok(protected)
    }

    /// The same of a file or link, if it goes to a protected place.
    fn single(&self, dir: BorrowedFd<'_>, name: &str) -> Result<Below, Failure> {
        let mut protected = Below::default();
        if self.to.policy().class_of_change(&self.to.path).is_some() {
            let seen = sys::child_meta(dir, name).map_err(failure)?;
            let found = Found {
                path: &[],
                dir,
                name: name.as_bytes(),
                meta: Meta::of_statx(&seen),
            };
            protected.pin(self.to.path.clone(), self.to.policy(), self, &found)?;
        }
        Ok(protected)
    }

    /// Whether what was judged to be moved, and `pinned`, is what stands as `name`
    /// in `dir` now; without anything pinned nothing may be there that is.
    pub(crate) fn landed(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
        entity: Entity,
        pinned: Option<Digest>,
    ) -> Result<(), Failure> {
        let now = match entity {
            Entity::Directory => self.below(dir, name, None)?,
            Entity::File | Entity::Symlink if pinned.is_some() => self.single(dir, name)?,
            Entity::File | Entity::Symlink | Entity::Mount | Entity::Special => return Ok(()),
        };
        if now.digest() == pinned {
            Ok(())
        } else {
            Err(changed())
        }
    }
}

/// What moving the directory at `from` takes with it that is asked about by
/// name: then this is asked about. What a rule denies below it is refused, as it
/// would be by its own name.
fn moves_protected(
    moved: &Moved<'_>,
    from: &Place,
    to: &Place,
    terms: &Terms,
) -> Result<Below, Failure> {
    if to.root.identity() != from.root.identity() {
        return Err(Failure::new(
            Reason::BadArguments,
            "A directory is not moved to another root.",
        )
        .hint("Copy its files, or move them one by one."));
    }
    moved.below(from.parent.as_fd(), &from.leaf, Some(terms))
}

/// The same of a directory that is removed, and how many bytes are below it;
/// what is gone runs nowhere, so its paths are all that is asked about.
pub(crate) fn takes_protected(from: &Place, terms: &Terms) -> Result<(Below, u64), Failure> {
    let mut protected = Below::default();
    let surveyed = survey(from.parent.as_fd(), &from.leaf, &mut |found| {
        let here = path_below(&from.path, found.path);
        admitted(here.as_ref(), Access::Delete, terms)?;
        let is_protected = |here: &RelPath| from.policy().class_of_change(here).is_some();
        if let Some(here) = here.filter(is_protected) {
            protected.add(here, from.policy());
        }
        Ok(())
    })?;
    Ok((protected, surveyed.bytes))
}

/// How many bytes stand at a place and below it.
pub(crate) fn bytes_below(place: &Place) -> Result<u64, Failure> {
    let surveyed = survey(place.parent.as_fd(), &place.leaf, &mut |_| Ok(()))?;
    Ok(surveyed.bytes)
}

/// Has a move, a copy, or a move that is undone asked about for what it brings
/// to a protected place or takes out of one, and pins what that holds.
pub(crate) fn pin_what_comes(deed: &mut Changing, terms: &Terms) -> Result<(), Failure> {
    let Some((from, to)) = course(deed) else {
        return Ok(());
    };
    let moved = Moved {
        from,
        to,
        back: deed.verb == Verb::Undo,
        terms,
    };
    if is_directory(from) {
        moves_protected(&moved, from, to, terms)?.ask(deed);
        return Ok(());
    }
    let protected = match moved.single(from.parent.as_fd(), &from.leaf) {
        // Where a rule lets it through without a word there is no yes to pin.
        Err(why) if why.reason() == Reason::TooLarge && goes_unasked(from, to, deed, terms) => {
            return Ok(());
        }
        other => other?,
    };
    let pinned = protected.digest();
    (deed.shown, deed.pinned, deed.content) = (pinned, pinned, protected.content);
    Ok(())
}

/// From where to where something goes, if it is there and goes anywhere.
fn course(deed: &Changing) -> Option<(&Place, &Place)> {
    let to = deed.to.as_ref()?;
    let (from, to) = if deed.verb == Verb::Undo {
        (to, &deed.place)
    } else {
        (&deed.place, to)
    };
    from.base.as_ref().map(|_| (from, to))
}

fn goes_unasked(from: &Place, to: &Place, deed: &Changing, terms: &Terms) -> bool {
    // The terms are those of the root it comes from.
    from.root.identity() == to.root.identity()
        && terms.admits_change(deed.verb, Access::Write, &to.path) == Admit::Yes
}

/// Whether there is more to look at than the names say: what is below a
/// directory, or what comes to a protected place.
pub(crate) fn is_looked_into(deed: &Changing) -> bool {
    match course(deed) {
        Some((from, to)) => is_directory(from) || to.policy().class_of_change(&to.path).is_some(),
        None => is_directory(&deed.place),
    }
}

/// Refuses to bring a secret to where it can be read, for whom no grant lets
/// read: that is a read of it.
pub(crate) fn may_be_exposed(deed: &Changing, may_read: bool) -> Result<(), Failure> {
    if deed.exposes && !may_read {
        return Err(Failure::new(
            Reason::NoGrant,
            "It would bring a secret to where it can be read, and no grant lets you read it.",
        ));
    }
    Ok(())
}

fn is_directory(place: &Place) -> bool {
    let is_directory = |base: &Base| base.meta.entity == Entity::Directory;
    place.base.as_ref().is_some_and(is_directory)
}

fn admitted(path: Option<&RelPath>, access: Access, terms: &Terms) -> Result<(), Failure> {
    let ruling = path.map(|path| terms.admits_change(Verb::Move, access, path));
    match ruling {
        Some(Admit::Denied) => Err(Failure::new(
            Reason::DeniedByRule,
            "Something below it is denied by a rule, so it was left as it is.",
        )),
        Some(Admit::Yes | Admit::WouldAsk) | None => Ok(()),
    }
}

/// The path of what stands at `below` under `above`, as it is judged. A name no
/// path can ask for is in no rule and in no class.
fn path_below(above: &RelPath, below: &[u8]) -> Option<RelPath> {
    if below.is_empty() {
        return Some(above.clone());
    }
    let below = String::from_utf8_lossy(below);
    RelPath::parse(&format!("{}/{below}", above.as_str())).ok()
}

/// Whether a link that stands at `below` in what is moved leads out of that.
fn leads_out(below: &[u8], target: &[u8]) -> bool {
    let mut depth = below.split(|byte| *byte == b'/').count() - 1;
    if below.is_empty() || target.first() == Some(&b'/') {
        return true;
    }
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// Where a link that stands at `below` leads, by the names alone. `None` where
/// those do not tell: a name on the way, left again by `..`, could be a link.
fn followed(below: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = below.split(|byte| *byte == b'/').collect();
    names.pop();
    let mut went_down = false;
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if went_down => return None,
            b".." => {
                names.pop()?;
            }
            name => {
                went_down = true;
                names.push(name);
            }
        }
    }
    Some(names.join(&b'/'))
}

/// One digest of several parts, each with its length: no other parts, however
/// they are cut, have the same.
pub(crate) fn in_a_row<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut all = Sha256::new();
    for part in parts {
        all.update((part.len() as u64).to_le_bytes());
        all.update(part);
    }
    Digest(all.finalize().into())
}

/// What a yes to a change is held to, with the options that decide what comes of
/// it: a hook with other permission bits is another hook.
pub(crate) fn with_options(shown: Option<Digest>, options: &WriteOptions) -> Option<Digest> {
    let WriteOptions {
        permissions,
        read_only_too,
        ..
    } = options;
    if permissions.is_none() && !read_only_too {
        return shown;
    }
    let bits = permissions.map(u32::to_le_bytes);
    Some(in_a_row([
        shown.as_ref().map_or(&[][..], |shown| &shown.0[..]),
        bits.as_ref().map_or(&[][..], |bits| &bits[..]),
        &[u8::from(*read_only_too)],
    ]))
}

fn too_much() -> Failure {
    Failure::new(
        Reason::TooLarge,
        format!(
            "It would bring more to where files run by themselves than one question covers ({MAX_PINNED} files, {} MiB), so it was left as it is.",
            MAX_PINNED_BYTES / 1024 / 1024
        ),
    )
    .hint("Bring it there in smaller parts, or have a person do it.")
}

/// The refusal when what a person said yes to is not what is there.
pub(crate) fn changed() -> Failure {
    Failure::from(Reason::Changed)
        .hint("Ask for it again; the new question shows what is there now.")
}

#[cfg(test)]
mod tests {
    use super::leads_out;

    #[test]
    fn a_link_leads_out_when_more_is_above_it_than_the_directory_it_is_in() {
        for (below, target, out) in [
            ("l", "file", false),
            ("l", "../file", true),
            ("a/l", "../file", false),
            ("a/l", "./b/../../file", false),
            ("a/l", "../../file", true),
            ("a/l", "/bin/sh", true),
            ("", "file", true),
        ] {
            assert_eq!(
                leads_out(below.as_bytes(), target.as_bytes()),
                out,
                "{below} -> {target}"
            );
        }
    }
}
