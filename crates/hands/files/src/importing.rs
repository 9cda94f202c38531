//! Copying in: a file that stands outside the root, by its absolute path.

use std::os::fd::AsFd as _;

use portcullis_proto::{Entity, Failure, Principal, Reason, Verb};
use rustix::fs::{Mode, OFlags};

use crate::authority::Authority;
use crate::changes::settled;
use crate::deeds::change;
use crate::errno::{failure, hinted};
use crate::guards::check;
use crate::meta::Meta;
use crate::options::{Changed, Expect, WriteOptions};
use crate::scoped::{ScopedFs, elsewhere};
use crate::writing::{Base, Content, Want, publish};

impl Authority {
    /// Copies the file at `source`, an absolute path, to `destination` in the
    /// scope `to`. Core may name any file of the host; everybody else only what
    /// stands in a root, and is judged there as if copied from it.
    pub async fn copy_in(
        &self,
        to: &ScopedFs,
        destination: &str,
        source: &str,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let caller = to.caller();
        let refuse = |why| self.gate().refuse(caller, Verb::Copy, source, why);
        if !source.starts_with('/') {
            return Err(refuse(
                Failure::new(Reason::BadArguments, "The source is no absolute path.")
                    .hint("Copy what stands in a root by its path in it."),
            ));
        }
        match self.locate(None, source) {
            Ok(located) => {
                let from = self.scope(caller, Some(&located.root))?;
                let anything = &Expect::Anything;
                from.copy_to(&located.alleged, anything, to, destination, options)
                    .await
            }
            Err(_) if matches!(caller.subject.principal, Principal::Core { .. }) => {
                let from = open_host_file(source).map_err(refuse)?;
                to.write_from(destination, from, options).await
            }
            Err(why) => Err(refuse(why)),
        }
    }
}

impl ScopedFs {
    /// Writes all of an opened file.
    async fn write_from(
        &self,
        destination: &str,
        from: Base,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let size = from.meta.size;
        let permit = self
            .changing(Verb::Write, destination, None, |path, terms| {
                if size > terms.max_file_bytes() {
                    return Err(Reason::TooLarge.into());
                }
                let mut deed = self.deed(Verb::Write, path, terms, Want::FileOrNothing)?;
                let before = deed.place.base.as_ref().map(|base| base.meta.size);
                deed.shrinks = before.is_some_and(|before| crate::text::shrinks(before, size));
                Ok(deed)
            })
            .await?;
        let (undo, rules) = (self.undo(), self.rules(Verb::Write, options));
        let expected = self.expected(&permit.deed().place.path, options);
        let published = elsewhere(move || {
            change(permit, |deed, _, live| {
                let published = publish(deed.place, &rules, live, undo?.as_deref(), |before| {
                    check(before, &expected)?;
                    Ok(Content::Copy(from.handle.as_fd(), None))
                })?;
                let settled = settled(&published.receipt);
                Ok((published, settled))
            })
        })
        .await?;
        self.note_seen(&published.receipt.path, &published.receipt.version);
        Ok(Changed {
            receipt: published.receipt,
            diff: None,
        })
    }
}

/// Opens a file core names: a file, not a link to one, and nothing that acts on
/// being opened.
fn open_host_file(path: &str) -> Result<Base, Failure> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let looked = rustix::fs::open(path, flags | OFlags::PATH, Mode::empty()).map_err(failure)?;
    let seen = Meta::of_stat(&rustix::fs::fstat(&looked).map_err(failure)?);
    match seen.entity {
        Entity::File => {}
        Entity::Directory => return Err(hinted(Reason::IsDirectory)),
        Entity::Symlink => return Err(hinted(Reason::Symlink)),
        Entity::Mount | Entity::Special => return Err(hinted(Reason::SpecialFile)),
    }
    let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(failure)?;
    let meta = Meta::of_stat(&rustix::fs::fstat(&handle).map_err(failure)?);
    if (meta.dev, meta.ino, meta.entity) != (seen.dev, seen.ino, seen.entity) {
        return Err(Reason::VersionMismatch.into());
    }
    Ok(Base { handle, meta })
}
