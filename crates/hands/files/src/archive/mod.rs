//! Archives: crates decode, we unpack.
//!
//! Everything an archive says is read and judged before anything is written:
//! names, kinds, sizes, and whether its records agree with each other. Then it
//! is unpacked into a private directory beside its destination, and put in
//! place by one rename.
//!
//! Invariants: no decoder sees a path or opens a file; nothing is unpacked of
//! an archive of which anything is refused; an archive in an archive is a file.

mod format;
mod left;
pub mod limits;
mod look;
mod manifest;
mod names;
mod pack;
mod pack_tar;
mod pack_zip;
mod pax;
mod sink;
mod source;
mod stage;
mod stream;
mod tar;
mod unpack;
mod unzip;
mod why;
mod zip;
mod zip_entry;

pub use format::Format;
pub(crate) use left::digest_of_tree;
pub use manifest::{Item, ItemKind, Manifest};
pub use pack::{PackAs, Packed};
pub use unpack::{Extracted, Inspected};
pub use why::{Refused, Why};

use manifest::Builder;
use portcullis_proto::Failure;
use source::{Pace, Source};
use stream::Input;
use why::Stop;

/// What is in the archive whose bytes these are.
pub fn manifest_of(bytes: &[u8]) -> Manifest {
    let endless = || Ok(());
    read(Source::Bytes(bytes), &endless).unwrap_or_else(|_| Builder::new(0).finish())
}

/// Reads the manifest. What is wrong with the archive is in it; a failure is
/// something else.
fn read(source: Source<'_>, pace: Pace<'_>) -> Result<Manifest, Failure> {
    let mut builder = Builder::new(source.len());
    match fill(source, pace, &mut builder) {
        Ok(()) => Ok(builder.finish()),
        Err(Stop::Refused(refused)) => Ok(builder.stop(refused)),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

fn fill(source: Source<'_>, pace: Pace<'_>, builder: &mut Builder) -> Result<(), Stop> {
    if source.len() > limits::MAX_ARCHIVE {
        return Err(Why::ArchiveTooLarge.into());
    }
    let format = Format::of(source)?;
    builder.is_of(format);
    match format {
        Format::Zip => zip::read(source, pace, builder),
        Format::Tar | Format::TarGz | Format::TarBz2 | Format::TarXz | Format::TarZst => {
            tar::read(Input::new(source, format)?, pace, builder)
        }
    }
}
