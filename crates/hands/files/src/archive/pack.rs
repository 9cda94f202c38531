//! Packing a directory: attempt, enter, act. The archive is written beside its
//! place, and put there as any file is.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_gate::{Headway, Live, Settled};
use portcullis_policy::{Admit, Class, Symlinks, Terms};
use portcullis_proto::{Access, Counts, Entity, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;

use super::limits::{MAX_ENTRIES, MAX_TOTAL, PATIENCE_US};
use super::pack_tar::TarWriter;
use super::pack_zip::ZipWriter;
use super::sink::Sink;
use crate::deeds::{Gathered, Packing, Pinned, gather, pack};
use crate::guards::{check, must_be_there, takes_most};
use crate::meta::Meta;
use crate::options::WriteOptions;
use crate::scoped::{ScopedFs, in_archive_turn};
use crate::writing::{Content, Place, Receipt, publish};
use crate::{sys, text};

/// What an archive is made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackAs {
    /// Zip.
    Zip,
    /// Tar in gzip.
    TarGz,
}

/// A directory that was packed.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The archive.
    pub receipt: Receipt,
    /// How many files and directories are in it.
    pub entries: u64,
    /// The size of all files in it together.
    pub bytes: u64,
    /// What was left out, by terms.
    pub counts: Counts,
    /// Links, devices and files that could not be read, left out too.
    pub special: u64,
    /// Whether everything that may be packed is in it.
    pub complete: bool,
}

impl ScopedFs {
    /// Packs what is below a directory into an archive. What may not be read is
    /// left out and counted; so are links and special files.
    pub async fn create_archive(
        &self,
        directory: &str,
        to: &Self,
        destination: &str,
        pack_as: PackAs,
        include_ignored: bool,
        options: &WriteOptions,
    ) -> Result<Packed, Failure> {
        let plan = Plan {
            from: self,
            directory,
            to,
            destination,
            pack_as,
            include_ignored,
            options,
        };
        let shrinks = Arc::new(AtomicBool::new(false));
        match plan.once(Loss::NotKnown(Arc::clone(&shrinks))).await {
            // How large it is shows only when it is made: so ask, and make it again.
            Err(_) if shrinks.load(Ordering::Relaxed) => plan.once(Loss::AskedAbout).await,
            done => done,
        }
    }
}

/// What is to be packed, and where to.
struct Plan<'a> {
    from: &'a ScopedFs,
    directory: &'a str,
    to: &'a ScopedFs,
    destination: &'a str,
    pack_as: PackAs,
    include_ignored: bool,
    options: &'a WriteOptions,
}

/// Whether most of a large file would go.
enum Loss {
    /// Set if it would, and nobody was asked.
    NotKnown(Arc<AtomicBool>),
    /// It would, and that is asked about.
    AskedAbout,
}

impl Plan<'_> {
    async fn once(&self, loss: Loss) -> Result<Packed, Failure> {
        let Self {
            directory,
            to,
            destination,
            pack_as,
            include_ignored,
            options,
            ..
        } = *self;
        let (from, there) = (self.from.declared(), to.declared());
        to.look_at_undo().await;
        let attempt = self
            .from
            .attempt(Verb::Archive, directory)?
            .and(there.entry(), destination, Access::Write)?
            .and(from.entry(), directory, Access::List)?
            // To see names is not to see bytes.
            .and(from.entry(), directory, Access::Read)?;
        let path = attempt.path();
        let same_root = from.root().identity() == there.root().identity();
        let permit = attempt
            .enter(|terms| {
                let top = Pinned::resolve(from.entry(), from.root(), &path, terms)?;
                let place = to.destination(destination, terms)?;
                must_be_there(&place, options.mode)?;
                runs_nowhere(&place, same_root, terms)?;
                let over = place.base.as_ref().map(|base| base.meta.size);
                Ok(Packing {
                    top,
                    place,
                    shrinks: matches!(loss, Loss::AskedAbout),
                    unkept: over.is_some_and(|size| there.lacks_room_for(size)),
                })
            })
            .await?;
        // Whoever was asked about it said yes to losing what is there.
        let unasked = match loss {
            Loss::NotKnown(shrinks) if !permit.was_answered() => Some(shrinks),
            Loss::NotKnown(_) | Loss::AskedAbout => None,
        };
        let undo = to.undo();
        let rules = to.rules(Verb::Archive, options);
        let expecting = to.expecting(&permit.deed().place.path, &options.expect);
        let mode = options.mode;
        let packed = in_archive_turn(move || {
            pack(permit, |deed, terms, live| {
                let Packing { top, place, .. } = deed;
                let expected = expecting.replacing(terms, &place, mode)?;
                let mut gathered =
                    gather(&top, terms, live, include_ignored, MAX_ENTRIES, PATIENCE_US)?;
                // An archive does not hold the one it replaces.
                let own = place.path.clone();
                gathered
                    .entries
                    .retain(|(path, _)| !same_root || *path != own);
                let mut work = Work {
                    top: &top,
                    terms,
                    live,
                    bytes: 0,
                    entries: 0,
                    unreadable: 0,
                };
                let limit = terms.max_file_bytes();
                let published = publish(place, &rules, live, undo?.as_deref(), |before| {
                    check(before, &expected)?;
                    let was = before.map_or(0, |before| before.meta.size);
                    let (work, gathered, unasked) = (&mut work, &gathered, &unasked);
                    Ok(Content::Made(Box::new(move |draft| {
                        let made = work.write(gathered, pack_as, Sink::new(draft, limit))?;
                        match unasked {
                            Some(shrinks) if text::shrinks(was, made.0) => {
                                shrinks.store(true, Ordering::Relaxed);
                                Err(takes_most())
                            }
                            Some(_) | None => Ok(made),
                        }
                    })))
                })?;
                let mut counts = gathered.counts;
                counts.entries = work.entries;
                let packed = Packed {
                    entries: work.entries,
                    bytes: work.bytes,
                    counts,
                    special: gathered.special + work.unreadable,
                    complete: gathered.complete && work.unreadable == 0,
                    receipt: published.receipt,
                };
                let settled = Settled {
                    bytes: packed.receipt.bytes,
                    hash: packed.receipt.hash,
                    counts: Some(counts),
                };
                Ok((packed, settled))
            })
        })
        .await?;
        to.note_seen(&packed.receipt.path, &packed.receipt.version);
        Ok(packed)
    }
}

struct Work<'a> {
    top: &'a Pinned,
    terms: &'a Terms,
    live: &'a Live<'a>,
    bytes: u64,
    entries: u64,
    unreadable: u64,
}

/// One archive under way, of either kind.
enum Writer<'a> {
    Zip(ZipWriter<'a>),
    TarGz(TarWriter<'a>),
}

impl Work<'_> {
    fn write(
        &mut self,
        gathered: &Gathered,
        pack_as: PackAs,
        sink: Sink<'_>,
    ) -> Result<(u64, portcullis_proto::Digest), Failure> {
        let mut writer = match pack_as {
            PackAs::Zip => Writer::Zip(ZipWriter::new(sink)),
            PackAs::TarGz => Writer::TarGz(TarWriter::new(sink)),
        };
        for (path, entity) in &gathered.entries {
            self.live.still()?;
            let name = below(&self.top.path, path);
            if *entity == Entity::Directory {
                match &mut writer {
                    Writer::Zip(zip) => zip.directory(name)?,
                    Writer::TarGz(tar) => tar.directory(name)?,
                }
                self.entries += 1;
                continue;
            }
            let Some((file, meta)) = self.open(path)? else {
                self.unreadable += 1;
                continue;
            };
            self.bytes = self.bytes.saturating_add(meta.size);
            if meta.size > self.terms.max_file_bytes() || self.bytes > MAX_TOTAL {
                return Err(Failure::new(
                    Reason::TooLarge,
                    format!(
                        "With `{path}` it is more than is packed at once, so nothing was packed."
                    ),
                )
                .hint("Pack the directories below it one by one."));
            }
            let executable = meta.mode & 0o111 != 0;
            match &mut writer {
                Writer::Zip(zip) => zip.file(name, executable, &file, meta.size, self.live)?,
                Writer::TarGz(tar) => tar.file(name, executable, &file, meta.size, self.live)?,
            }
            self.entries += 1;
            self.live.progress(Headway::entries(self.entries));
        }
        match writer {
            Writer::Zip(zip) => zip.finish(),
            Writer::TarGz(tar) => tar.finish(),
        }
    }

    /// The file at `path`, by the rules of a read of it; `None` if it cannot be
    /// read.
    fn open(&self, path: &RelPath) -> Result<Option<(OwnedFd, Meta)>, Failure> {
        let top = self.top;
        let opened = top.root.open(path, OFlags::RDONLY, Symlinks::Reject);
        let admitted = opened.and_then(|opened| {
            let still = || sys::is_named(opened.handle.as_fd(), &opened.path);
            opened.meta.admit_file(top.entry.policy(), still)?;
            Ok((opened.handle, opened.meta))
        });
        match admitted {
            Ok(file) => Ok(Some(file)),
            Err(failure) if failure.reason() == Reason::TooManyOpen => Err(failure),
            Err(_) => Ok(None),
        }
    }
}

fn below<'a>(top: &RelPath, path: &'a RelPath) -> &'a str {
    let rest = path.as_str().strip_prefix(top.as_str());
    rest.unwrap_or(path.as_str()).trim_start_matches('/')
}

/// Refuses an archive where something would run it: what goes into it is known
/// only when it is made, so no yes could be held to it.
fn runs_nowhere(place: &Place, same_root: bool, terms: &Terms) -> Result<(), Failure> {
    let unasked = || {
        same_root && terms.admits_change(Verb::Archive, Access::Write, &place.path) == Admit::Yes
    };
    if place.policy().class_of_change(&place.path) != Some(Class::AutoExec) || unasked() {
        return Ok(());
    }
    Err(Failure::new(
        Reason::BadArguments,
        "An archive is not made where something runs it by itself.",
    )
    .hint("Make it elsewhere, then move it there."))
}
