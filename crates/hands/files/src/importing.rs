//! Copying in: a file that stands outside the root, by its absolute path.

use std::os::fd::{AsFd as _, AsRawFd as _};

use portcullis_proto::{Entity, Failure, Principal, Reason, Verb};
use rustix::fs::{Mode, OFlags};

use crate::authority::Authority;
use crate::changes::settled;
use crate::deeds::change;
use crate::errno::{failure, from_io, hinted};
use crate::guards::{check, must_be_there};
use crate::meta::Meta;
use crate::options::{Changed, Expect, WriteOptions};
use crate::pinning::with_options;
use crate::root::is_pseudo;
use crate::scoped::{ScopedFs, elsewhere};
use crate::writing::{Base, Content, Source, Want, digest_file, publish};

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
        let is_core = matches!(caller.subject.principal, Principal::Core { .. });
        // Core's by what it really is, so that no link or `..` leads around a
        // root; of anybody else's nothing is looked at that is in no root.
        let real = if is_core {
            let real = std::path::Path::new(source).canonicalize();
            real.map_err(|error| refuse(from_io(&error)))?
        } else {
            source.into()
        };
        let real = real.to_str().ok_or(Reason::BadArguments)?;
        if is_core && self.is_own_state(real) {
            return Err(refuse(Reason::ProtectedState.into()));
        }
        match self.locate(None, real) {
            Ok(located) => {
                let from = self.scope(caller, Some(&located.root))?;
                let anything = &Expect::Anything;
                from.copy_to(&located.alleged, anything, to, destination, options)
                    .await
            }
            Err(_) if is_core => {
                let from = open_host_file(source).map_err(refuse)?;
                to.write_from(destination, source, from, options).await
            }
            Err(why) => Err(refuse(why)),
        }
    }
}

impl ScopedFs {
    /// Writes all of an opened file, which was named as `source`.
    async fn write_from(
        &self,
        destination: &str,
        source: &str,
        from: Base,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let (size, mode) = (from.meta.size, options.mode);
        // What a question is about, and what is copied, is one thing.
        let hash = digest_file(&from.handle)?;
        self.look_at_undo().await;
        let shown = with_options(Some(hash), options);
        let attempt = self.attempt(Verb::Write, destination)?.naming(source);
        let attempt = attempt.showing(shown.unwrap_or(hash));
        let path = attempt.path();
        let permit = attempt
            .enter(|terms| {
                if size > terms.max_file_bytes().min(options.max_bytes) {
                    return Err(Reason::TooLarge.into());
                }
                let mut deed = self.deed(Verb::Write, &path, terms, Want::FileOrNothing)?;
                must_be_there(&deed.place, mode)?;
                let before = deed.place.base.as_ref().map(|base| base.meta.size);
                deed.shrinks = before.is_some_and(|before| crate::text::shrinks(before, size));
                deed.unkept = before.is_some_and(|size| self.declared().lacks_room_for(size));
                deed.shown = shown;
                Ok(deed)
            })
            .await?;
        let (undo, rules) = (self.undo(), self.rules(Verb::Write, options));
        let expecting = self.expecting(&permit.deed().place.path, &options.expect);
        let published = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let expected = expecting.replacing(terms, &deed.place, mode)?;
                let published = publish(deed.place, &rules, live, undo?.as_deref(), |before| {
                    check(before, &expected)?;
                    Ok(Content::Copy(Source {
                        from: from.handle.as_fd(),
                        like: None,
                        expected: Some(hash),
                        pinned: None,
                        most: size,
                    }))
                })?;
                let settled = settled(&published.receipt);
                Ok((published, settled))
            })
        })
        .await?;
        self.note_seen(&published.receipt.path, &published.receipt.version);
        Ok(Changed::shown(published.receipt, None))
    }
}

/// Opens a file core names: a file, not a link to one, and nothing that acts on
/// being opened.
fn open_host_file(path: &str) -> Result<Base, Failure> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pinned = rustix::fs::open(path, flags, Mode::empty()).map_err(failure)?;
    let meta = Meta::of_stat(&rustix::fs::fstat(&pinned).map_err(failure)?);
    match meta.entity {
        Entity::File => {}
        Entity::Directory => return Err(hinted(Reason::IsDirectory)),
        Entity::Symlink => return Err(hinted(Reason::Symlink)),
        Entity::Mount | Entity::Special => return Err(hinted(Reason::SpecialFile)),
    }
    if is_pseudo(&pinned)? {
        return Err(hinted(Reason::SpecialFile));
    }
    // By the handle: only its own name in /proc leads to what is pinned.
    let own_name = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = rustix::fs::open(own_name, flags, Mode::empty()).map_err(failure)?;
    Ok(Base { handle, meta })
}
