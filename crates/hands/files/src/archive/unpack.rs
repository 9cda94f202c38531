//! Looking into an archive, and unpacking one: attempt, enter, act.

use portcullis_gate::{Headway, Live, Settled};
use portcullis_policy::Containment;
use portcullis_proto::{Access, Counts, Failure, Reason, RelPath, Verb};
use rustix::io::retry_on_intr;

use super::limits::PATIENCE_US;
use super::look;
use super::manifest::{ItemKind, Manifest};
use super::source::{Pace, Source};
use super::stage::Staging;
use super::stream::Input;
use super::tar::Tar;
use super::unzip::Unzip;
use super::why::Stop;
use super::{Format, read};
use crate::deeds::{Reading, inspect, unpack};
use crate::meta::Meta;
use crate::options::NewModes;
use crate::scoped::{ScopedFs, elsewhere, in_archive_turn};
use crate::undo::{Entry, State, UndoStore};
use crate::writing::{Cas, Label, Parents, Place, Receipt, Want, digest_up_to, entry_of, moved_on};

/// What is in an archive that stands in a root.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Where it really stands.
    pub path: RelPath,
    /// The archive's own file.
    pub meta: Meta,
    /// What is in it, and what would be refused.
    pub manifest: Manifest,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// An archive that was unpacked.
#[derive(Clone, Debug)]
pub struct Extracted {
    /// The directory that was made.
    pub receipt: Receipt,
    /// What kind of archive it was.
    pub format: Format,
    /// How many files and directories it had.
    pub entries: u64,
    /// The size of all files together.
    pub bytes: u64,
}

impl ScopedFs {
    /// Tells what is in an archive, and what unpacking it would refuse. Nothing
    /// is unpacked.
    pub async fn inspect_archive(&self, path: &str) -> Result<Inspected, Failure> {
        let declared = self.declared();
        let permit = self
            .enter(Verb::Inspect, path, |path, terms| {
                let mut reading = Reading::resolve(declared.entry(), declared.root(), path, terms)?;
                reading.verb = Verb::Inspect;
                Ok(reading)
            })
            .await?;
        in_archive_turn(move || {
            inspect(permit, |reading, live| {
                let pace = pace(live);
                let manifest = read(Source::of(&reading.handle)?, &pace)?;
                let counts = Counts {
                    entries: manifest.entries,
                    ..Counts::default()
                };
                let inspected = Inspected {
                    path: reading.path,
                    meta: reading.meta,
                    manifest,
                    containment: reading.containment,
                };
                Ok((inspected, Settled::counts(counts)))
            })
        })
        .await
    }

    /// Unpacks an archive into a directory that is not there yet.
    pub async fn extract_archive(
        &self,
        archive: &str,
        to: &Self,
        destination: &str,
    ) -> Result<Extracted, Failure> {
        let (from, there) = (self.declared(), to.declared());
        let attempt = to
            .attempt(Verb::Extract, destination)?
            .and(from.entry(), archive, Access::Read)?
            .and(there.entry(), destination, Access::Archive)?;
        let path = &attempt.path();
        let permit = attempt
            .enter_in_time(|terms| async move {
                let archive = RelPath::parse(archive)?;
                let archive = Reading::resolve(from.entry(), from.root(), &archive, &terms)?;
                let (entry, root) = (there.entry(), there.root());
                let want = Want::DirectoryOrNothing;
                let place = Place::resolve(entry, root, path, &terms, want)?;
                if place.base.is_some() {
                    return Err(Failure::from(Reason::AlreadyExists).hint(
                        "Name a directory that is not there yet; it is made. Nothing is unpacked into one that is there.",
                    ));
                }
                let cancel = to.caller().cancel.clone();
                look::unpacking(archive, place, terms, cancel).await
            })
            .await?;
        let (undo, modes) = (to.undo(), to.modes());
        elsewhere(move || {
            unpack(permit, |deed, terms, live| {
                let _until_done = deed.turn;
                let pace = pace(live);
                let source = Source::of(&deed.archive.handle)?;
                let manifest = deed.manifest?;
                let format = look::admit(&manifest, terms)?;
                let protected = look::takes_protected(&manifest, &deed.place.path, terms)?.named();
                if protected.is_some() && deed.protected.is_none() {
                    // A rule that let it through without a word was taken back
                    // since it was judged.
                    return Err(Failure::new(
                        Reason::ApprovalUnavailable,
                        "It would bring files that run by themselves or hold secrets, which is asked about.",
                    )
                    .hint("Ask for it again."));
                }
                let work = Work {
                    source,
                    format,
                    manifest: &manifest,
                    modes,
                    live,
                    pace: &pace,
                };
                // What somebody said yes to is what is put in place.
                let archive = &deed.archive.handle;
                let size = deed.archive.meta.size;
                let still = || match &deed.protected {
                    Some(shown) if digest_up_to(archive, size)? != Some(shown.archive) => {
                        Err(moved_on(Reason::VersionMismatch))
                    }
                    Some(_) | None => Ok(()),
                };
                let receipt = work.run(deed.place, undo?.as_deref(), &still)?;
                let extracted = Extracted {
                    receipt,
                    format,
                    entries: manifest.items.len() as u64,
                    bytes: manifest.bytes,
                };
                let settled = Settled {
                    bytes: Some(extracted.bytes),
                    hash: None,
                    counts: Some(Counts {
                        entries: extracted.entries,
                        ..Counts::default()
                    }),
                };
                Ok((extracted, settled))
            })
        })
        .await
    }
}

/// Goes on while the deed may, and for as long as one archive may take.
fn pace<'a>(live: &'a Live<'_>) -> impl Fn() -> Result<(), Failure> + 'a {
    let deadline = live.monotonic_us().saturating_add(PATIENCE_US);
    move || {
        live.still()?;
        if live.monotonic_us() > deadline {
            return Err(Reason::Deadline.into());
        }
        Ok(())
    }
}

/// One unpacking under way.
struct Work<'a> {
    source: Source<'a>,
    format: Format,
    manifest: &'a Manifest,
    modes: NewModes,
    live: &'a Live<'a>,
    pace: Pace<'a>,
}

impl Work<'_> {
    fn run(
        &self,
        place: Place,
        undo: Option<&UndoStore>,
        still: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<Receipt, Failure> {
        place.is_still()?;
        place.parent_is_still()?;
        let mut parents = Parents::make(place, self.modes.directory, self.live)?;
        let place = &parents.place;
        let mut staging = Staging::create(place, self.modes, self.live)?;
        self.fill(&mut staging)?;
        let mut labels = Vec::new();
        if staging.sync().is_err() {
            labels.push(Label::NotSynced);
        }
        // The last looks before anything anybody can see happens.
        still()?;
        place.parent_is_still()?;
        self.live.still()?;
        let now = staging.publish(place)?;
        let mut kept = None;
        if let Some(undo) = undo {
            let entry = Entry {
                after: Some(State::of(&now, Some(staging.left().digest()))),
                made: parents.made.clone(),
                ..entry_of(place, Verb::Extract, self.live)
            };
            match undo.record(&entry) {
                Ok(()) => kept = Some(entry.id),
                Err(_) => labels.push(Label::NotKept),
            }
        }
        if retry_on_intr(|| rustix::fs::fsync(&place.parent)).is_err() {
            labels.push(Label::NotSynced);
        }
        labels.sort_unstable();
        labels.dedup();
        let receipt = Receipt {
            path: place.path.clone(),
            dev: now.dev,
            ino: now.ino,
            version: now.version(),
            bytes: Some(self.manifest.bytes),
            hash: None,
            created: true,
            containment: place.containment,
            cas: Cas::Exact,
            labels,
            kept_in: undo.filter(|_| kept.is_some()).map(UndoStore::place),
            undo: kept,
        };
        parents.stay(true);
        Ok(receipt)
    }

    fn fill(&self, staging: &mut Staging) -> Result<(), Stop> {
        match self.format {
            Format::Zip => self.fill_from_zip(staging),
            Format::Tar | Format::TarGz | Format::TarBz2 | Format::TarXz | Format::TarZst => {
                self.fill_from_tar(staging)
            }
        }
    }

    fn fill_from_zip(&self, staging: &mut Staging) -> Result<(), Stop> {
        let mut unzip = Unzip::new(self.source, self.pace);
        for (done, item) in self.manifest.items.iter().enumerate() {
            (self.pace)()?;
            self.live.progress(Headway::entries(done as u64));
            match (item.kind, item.data) {
                (ItemKind::Directory, _) => {
                    staging.directory(&item.path)?;
                }
                (ItemKind::File, Some(data)) => {
                    staging.file(&item.path, item.executable, |put| {
                        unzip.unpack(item, data, put)
                    })?;
                }
                (ItemKind::File, None) => return Err(Failure::from(Reason::Bug).into()),
            }
        }
        Ok(())
    }

    /// A tar is read again; every entry must be what the manifest says, or
    /// somebody wrote to the archive meanwhile.
    fn fill_from_tar(&self, staging: &mut Staging) -> Result<(), Stop> {
        let changed = || Stop::Failed(moved_on(Reason::VersionMismatch));
        let mut tar = Tar::new(Input::new(self.source, self.format)?, self.pace);
        let mut items = self.manifest.items.iter().enumerate();
        while let Some(entry) = tar.next()? {
            let path = super::names::admit(&entry.name).map_err(|_| changed())?;
            if path.is_root() {
                continue;
            }
            let Some((done, item)) = items.next() else {
                return Err(changed());
            };
            if path != item.path || entry.kind != Ok(item.kind) || entry.size != item.size {
                return Err(changed());
            }
            self.live.progress(Headway::entries(done as u64));
            match item.kind {
                ItemKind::Directory => {
                    staging.directory(&path)?;
                }
                ItemKind::File => staging.file(&path, item.executable, |put| {
                    loop {
                        let content = tar.content()?;
                        if content.is_empty() {
                            return Ok::<(), Stop>(());
                        }
                        put(content)?;
                    }
                })?,
            }
        }
        if items.next().is_some() {
            return Err(changed());
        }
        Ok(())
    }
}
