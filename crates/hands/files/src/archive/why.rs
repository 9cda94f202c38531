//! Why an archive is not unpacked: one table, no `_` arm.

use portcullis_proto::{Failure, Reason};

macro_rules! whys {
    ($($name:ident = $wire:literal, $reason:ident, $sentence:literal;)*) => {
        /// Why an archive, or one entry of it, is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Why {
            $(#[doc = $sentence] $name,)*
        }

        impl Why {
            /// Every one there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As the wire spells it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $wire,)* }
            }

            /// The reason it travels under.
            pub const fn reason(self) -> Reason {
                match self { $(Self::$name => Reason::$reason,)* }
            }

            /// What is wrong, as a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

whys! {
    NotAnArchive = "not_an_archive", UnsupportedArchive, "It begins like no archive that is unpacked here (zip, tar, tar.gz, tar.bz2, tar.xz, tar.zst).";
    Method = "method", UnsupportedArchive, "An entry is packed in a way that is not unpacked here.";
    Encrypted = "encrypted", UnsupportedArchive, "It is encrypted.";
    ManyDisks = "many_disks", UnsupportedArchive, "It is one part of several.";
    Dialect = "dialect", UnsupportedArchive, "It uses an extension of its format that is not read here.";
    Sparse = "sparse", UnsupportedArchive, "An entry has holes.";
    UnknownType = "unknown_type", UnsupportedArchive, "An entry is of a type that is not known.";
    Truncated = "truncated", BadArchive, "It ends too early.";
    Damaged = "damaged", BadArchive, "It cannot be decoded.";
    Checksum = "checksum", BadArchive, "A checksum does not match.";
    Prepended = "prepended", BadArchive, "Something stands before its first entry.";
    Hidden = "hidden", BadArchive, "Something stands between its entries.";
    Trailing = "trailing", BadArchive, "Something stands behind its end.";
    Concatenated = "concatenated", BadArchive, "It is several compressed streams in a row.";
    TwoEnds = "two_ends", BadArchive, "It has more than one end.";
    Overlap = "overlap", BadArchive, "Two entries share bytes.";
    Disagrees = "disagrees", BadArchive, "It says two different things of one entry.";
    Zip64 = "zip64", BadArchive, "Its 64-bit fields do not fit its 32-bit fields.";
    SizeDisagrees = "size_disagrees", BadArchive, "Two headers give one entry different sizes.";
    WrongSize = "wrong_size", BadArchive, "An entry does not have the size it claims.";
    SizeOfDirectory = "size_of_directory", BadArchive, "A directory claims to have content.";
    EmptyName = "empty_name", BadArchive, "An entry has no name.";
    Absolute = "absolute", Escape, "A name is absolute.";
    Parent = "parent", Escape, "A name has a `..` component.";
    Drive = "drive", Escape, "A name begins with a drive letter.";
    Backslash = "backslash", Escape, "A name holds a backslash, which some systems take for a separator.";
    Character = "character", BadName, "A name holds a NUL, a control character or a text-direction override.";
    NotUtf8 = "not_utf8", BadName, "A name is not UTF-8.";
    Unportable = "unportable", BadName, "A name means a device somewhere, ends in a dot or a space, or holds a sign some file systems refuse.";
    NameTooLong = "name_too_long", NameTooLong, "A name is longer than 4,095 bytes, or has a component longer than 255.";
    TooDeep = "too_deep", NameTooLong, "A name has more than 64 components.";
    Duplicate = "duplicate", NameCollision, "Two entries have the same name.";
    Collides = "collides", NameCollision, "Two names differ only in case or in how they spell the same characters.";
    FileAndDirectory = "file_and_directory", NameCollision, "A name is a file in one place and a directory in another.";
    Symlink = "symlink", Symlink, "An entry is a symbolic link, and links are not unpacked.";
    Hardlink = "hardlink", Hardlink, "An entry is a hard link, and links are not unpacked.";
    Special = "special", SpecialFile, "An entry is a device, a pipe or a socket.";
    ArchiveTooLarge = "archive_too_large", TooLarge, "The archive itself is larger than 256 MiB.";
    TooManyEntries = "too_many_entries", TooLarge, "It has more than 10,000 entries.";
    EntryTooLarge = "entry_too_large", TooLarge, "An entry is larger than 256 MiB, or than this root allows.";
    TotalTooLarge = "total_too_large", TooLarge, "Its entries are larger than 512 MiB together.";
    TooMuchMetadata = "too_much_metadata", TooLarge, "It has too many bytes of names and headers.";
    Ratio = "ratio", TooLarge, "It would unpack to far more than its size.";
    Memory = "memory", TooLarge, "Decoding it would take more than 64 MiB of memory.";
}

/// An archive, or one entry of it, that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The entry, as it can be shown; `None` where it is the archive itself.
    pub entry: Option<String>,
    /// Why.
    pub why: Why,
}

impl Refused {
    pub(super) fn entry(raw: &[u8], why: Why) -> Self {
        Self {
            entry: Some(shown(raw)),
            why,
        }
    }
}

/// A name somebody else chose, fit to be shown.
fn shown(raw: &[u8]) -> String {
    const MOST: usize = 120;
    let text = String::from_utf8_lossy(raw);
    let mut shown: String = text
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().count() > MOST {
        shown.push('…');
    }
    shown
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let sentence = refused.why.sentence();
        let message = match &refused.entry {
            Some(entry) => format!("The archive was refused at `{entry}`: {sentence}"),
            None => format!("The archive was refused: {sentence}"),
        };
        Self::new(refused.why.reason(), format!("{message} Nothing was unpacked."))
            .hint("Inspect it to see every entry and every refusal; have it packed again without what is named.")
    }
}

/// Why reading an archive ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The archive is not as it must be.
    Refused(Refused),
    /// Something else came between: the disk, a cancellation, a deadline.
    Failed(Failure),
}

impl From<Why> for Stop {
    fn from(why: Why) -> Self {
        Self::Refused(Refused { entry: None, why })
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<std::io::Error> for Stop {
    /// What the kernel says is told as such; all else came from a decoder.
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        if error.raw_os_error().is_some() {
            return Self::Failed(crate::errno::from_io(&error));
        }
        if error.kind() == ErrorKind::UnexpectedEof {
            return Why::Truncated.into();
        }
        if error.kind() == ErrorKind::OutOfMemory {
            return Why::Memory.into();
        }
        Why::Damaged.into()
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Refused(refused) => refused.into(),
            Stop::Failed(failure) => failure,
        }
    }
}
