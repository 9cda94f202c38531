//! What is in an archive that is about to be unpacked, found out while it is
//! resolved: so that there is one question, about all of it, and one yes.
//!
//! Invariant: why an archive cannot be unpacked is told only to whom unpacking
//! it is permitted, so a look that finds that out says nothing yet.

use std::time::{Duration, Instant};

use portcullis_gate::CancelFlag;
use portcullis_policy::{Admit, Terms};
use portcullis_proto::{Access, Failure, Reason, RelPath, Verb};

use super::limits::PATIENCE_US;
use super::manifest::{ItemKind, Manifest};
use super::source::Source;
use super::why::{Refused, Why};
use super::{Format, read};
use crate::deeds::{Protected, Reading, Unpacking};
use crate::pinning::Below;
use crate::scoped::{archive_turn, elsewhere};
use crate::writing::{Place, digest_up_to};

/// Looks into `archive`, when it is its turn, and makes the deed of it. The turn
/// goes along: what waits for one holds no manifest.
pub(super) async fn unpacking(
    archive: Reading,
    place: Place,
    terms: Terms,
    cancel: CancelFlag,
) -> Result<Unpacking, Failure> {
    // Whoever waited may be gone: then nobody needs the rest of it.
    let waits = Waits(CancelFlag::new());
    let gone = waits.0.clone();
    let turn = archive_turn().await;
    elsewhere(move || {
        let began = Instant::now();
        let pace = || {
            if cancel.is_cancelled() || gone.is_cancelled() {
                return Err(Reason::Cancelled.into());
            }
            if began.elapsed() > Duration::from_micros(PATIENCE_US) {
                return Err(Reason::Deadline.into());
            }
            Ok(())
        };
        let manifest = read(Source::of(&archive.handle)?, &pace);
        let protected = match &manifest {
            Ok(manifest) => protected(&archive, manifest, &place.path, &terms)?,
            Err(_) => None,
        };
        Ok(Unpacking {
            archive,
            place,
            manifest,
            protected,
            turn,
        })
    })
    .await
}

/// Tells the thread that looks that nobody waits any more.
struct Waits(CancelFlag);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn protected(
    archive: &Reading,
    manifest: &Manifest,
    destination: &RelPath,
    terms: &Terms,
) -> Result<Option<Protected>, Failure> {
    // What is refused anyway is asked about by nobody.
    if admit(manifest, terms).is_err() {
        return Ok(None);
    }
    let Ok(below) = takes_protected(manifest, destination, terms) else {
        return Ok(None);
    };
    let Some((below, more_below)) = below.named() else {
        return Ok(None);
    };
    let digest = digest_up_to(&archive.handle, archive.meta.size)?;
    Ok(Some(Protected {
        archive: digest.ok_or(Reason::Changed)?,
        below,
        more_below,
    }))
}

/// Whether all of it may be unpacked, and as what.
pub(super) fn admit(manifest: &Manifest, terms: &Terms) -> Result<Format, Failure> {
    if let Some(refused) = manifest.refused.first() {
        return Err(refused.clone().into());
    }
    let most = terms.max_file_bytes();
    if let Some(item) = manifest.items.iter().find(|item| item.size > most) {
        let name = item.path.as_str().as_bytes();
        return Err(Refused::entry(name, Why::EntryTooLarge).into());
    }
    manifest.format.ok_or_else(|| Reason::Bug.into())
}

/// What in it comes to stand where it is asked about by name. What a rule denies
/// is refused, and all of the archive with it.
pub(super) fn takes_protected(
    manifest: &Manifest,
    destination: &RelPath,
    terms: &Terms,
) -> Result<Below, Failure> {
    let mut protected = Below::default();
    for item in &manifest.items {
        let mut path = destination.clone();
        for name in item.path.components() {
            path = path.join(name)?;
        }
        // A directory is judged by what comes to stand in it, or in the way.
        let access = Access::Write;
        match terms.admits_change(Verb::Extract, access, &path) {
            Admit::Yes => {}
            Admit::WouldAsk => protected.add(path, terms.policy()),
            Admit::Denied if item.kind == ItemKind::Directory && terms.only_leads(&path) => {}
            Admit::Denied => {
                return Err(Failure::new(
                    Reason::DeniedByRule,
                    format!(
                        "A rule denies `{}`, which is in the archive, so nothing was unpacked.",
                        item.path
                    ),
                ));
            }
        }
    }
    Ok(protected)
}
