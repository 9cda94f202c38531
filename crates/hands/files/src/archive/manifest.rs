//! What is in an archive, before anything is made of it.

use portcullis_proto::RelPath;

use super::format::Format;
use super::limits::{
    ENTRY_RATIO, MAX_ENTRIES, MAX_ENTRY, MAX_METADATA, MAX_REFUSED, MAX_TOTAL, RATIO_FROM,
    TOTAL_RATIO,
};
use super::names::{Names, admit};
use super::why::{Refused, Stop, Why};

/// What an entry becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// One entry that can be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it comes to stand below the destination.
    pub path: RelPath,
    /// What it becomes.
    pub kind: ItemKind,
    /// Its size, as the archive claims.
    pub size: u64,
    /// Its packed size, where entries are packed one by one.
    pub packed: Option<u64>,
    /// Whether it is a program.
    pub executable: bool,
    /// Where its bytes are, for a format that has them in any order.
    pub(super) data: Option<Data>,
}

/// Where the bytes of a zip's entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) at: u64,
    pub(super) deflated: bool,
    pub(super) crc: u32,
}

/// What is in an archive. Proves that every item may be made as it says, among
/// all the others; not that its content can be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What kind of archive it is, by its content; `None` for none.
    pub format: Option<Format>,
    /// What would be made, in the archive's order.
    pub items: Vec<Item>,
    /// What is refused; with one of these nothing is unpacked. At most
    /// [`MAX_REFUSED`] are told.
    pub refused: Vec<Refused>,
    /// How many entries it has, refused ones included, as far as it was read.
    pub entries: u64,
    /// The size of all items together.
    pub bytes: u64,
    /// Whether all of it was looked at.
    pub complete: bool,
}

/// An entry as its archive tells it.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: Result<ItemKind, Why>,
    pub(super) size: u64,
    pub(super) packed: Option<u64>,
    pub(super) executable: bool,
    pub(super) data: Option<Data>,
}

/// A manifest under way.
#[derive(Debug)]
pub(super) struct Builder {
    manifest: Manifest,
    names: Names,
    metadata: u64,
    archive: u64,
}

impl Builder {
    /// Of an archive that has `archive` bytes.
    pub(super) fn new(archive: u64) -> Self {
        Self {
            manifest: Manifest {
                format: None,
                items: Vec::new(),
                refused: Vec::new(),
                entries: 0,
                bytes: 0,
                complete: false,
            },
            names: Names::default(),
            metadata: 0,
            archive,
        }
    }

    pub(super) fn is_of(&mut self, format: Format) {
        self.manifest.format = Some(format);
    }

    /// Counts bytes of headers and names that are held or gone through.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), Stop> {
        self.metadata = self.metadata.saturating_add(bytes);
        if self.metadata > MAX_METADATA {
            return Err(Why::TooMuchMetadata.into());
        }
        Ok(())
    }

    /// Adds an entry, or that it is refused. What says that there is no end to
    /// it ends the reading.
    pub(super) fn add(&mut self, told: Told<'_>) -> Result<(), Stop> {
        self.manifest.entries += 1;
        if self.manifest.entries > MAX_ENTRIES as u64 {
            return Err(Why::TooManyEntries.into());
        }
        self.charge(told.name.len() as u64)?;
        match self.judge(&told) {
            Ok(item) => {
                if let Some(item) = item {
                    self.manifest.bytes += item.size;
                    self.manifest.items.push(item);
                }
            }
            Err(why) => self.refuse(Refused::entry(told.name, why)),
        }
        if self.manifest.bytes > MAX_TOTAL {
            return Err(Why::TotalTooLarge.into());
        }
        Ok(())
    }

    fn judge(&mut self, told: &Told<'_>) -> Result<Option<Item>, Why> {
        let path = admit(told.name)?;
        let kind = told.kind?;
        if path.is_root() {
            // `./` is the destination itself.
            return match kind {
                ItemKind::Directory if told.size == 0 => Ok(None),
                ItemKind::Directory => Err(Why::SizeOfDirectory),
                ItemKind::File => Err(Why::EmptyName),
            };
        }
        if kind == ItemKind::Directory && told.size > 0 {
            return Err(Why::SizeOfDirectory);
        }
        if told.size > MAX_ENTRY {
            return Err(Why::EntryTooLarge);
        }
        let most = told.packed.map(|packed| packed.saturating_mul(ENTRY_RATIO));
        if told.size > RATIO_FROM && most.is_some_and(|most| told.size > most) {
            return Err(Why::Ratio);
        }
        self.names.add(&path, kind == ItemKind::Directory)?;
        Ok(Some(Item {
            path,
            kind,
            size: told.size,
            packed: told.packed,
            executable: told.executable,
            data: told.data,
        }))
    }

    pub(super) fn refuse(&mut self, refused: Refused) {
        if self.manifest.refused.len() < MAX_REFUSED {
            self.manifest.refused.push(refused);
        }
    }

    /// The manifest, when all of the archive was read.
    pub(super) fn finish(mut self) -> Manifest {
        let bytes = self.manifest.bytes;
        if bytes > RATIO_FROM && bytes > self.archive.saturating_mul(TOTAL_RATIO) {
            self.refuse(Refused {
                entry: None,
                why: Why::Ratio,
            });
        }
        self.manifest.complete = true;
        self.manifest
    }

    /// The manifest, as far as it came.
    pub(super) fn stop(mut self, refused: Refused) -> Manifest {
        // It is why the rest is not there: always told.
        self.manifest.refused.truncate(MAX_REFUSED - 1);
        self.manifest.refused.push(refused);
        self.manifest
    }
}
