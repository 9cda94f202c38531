//! How a change is asked for, and what comes back.

use portcullis_proto::Digest;

use crate::ignores::MatchedBy;
use crate::text::{Charset, Diff, LineEnding, PROBE_BYTES_MCP};
use crate::writing::{Receipt, Version};

/// What a change expects to find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// What this session last saw; anything, where it saw nothing.
    #[default]
    LastSeen,
    /// This version, as a read returned it.
    Version(Version),
    /// A content that hashes to this.
    Hash(Digest),
    /// Whatever is there.
    Anything,
}

/// Whether something may be there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Nothing may be there.
    Create,
    /// A file must be there.
    Replace,
    /// Either.
    #[default]
    Overwrite,
}

/// How a file is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Whether something may be there already.
    pub mode: WriteMode,
    /// What is expected to be there.
    pub expect: Expect,
    /// Permission bits, for a new file or an old one.
    pub permissions: Option<u32>,
    /// Whether a read-only file is replaced.
    pub read_only_too: bool,
    /// Whether it is on the disk before this returns.
    pub durable: bool,
    /// The largest file that is edited or comes of it, where the root allows more.
    pub max_bytes: u64,
    /// Whether directories above it are made where they are missing.
    pub parents: bool,
    /// Whether to say that an ignore rule names it.
    pub classify: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::default(),
            expect: Expect::default(),
            permissions: None,
            read_only_too: false,
            durable: true,
            max_bytes: u64::MAX,
            parents: true,
            classify: false,
        }
    }
}

/// How something is moved.
#[derive(Clone, Debug)]
pub struct MoveOptions {
    /// Whether a file that is there may be replaced.
    pub overwrite: bool,
    /// What is expected to be moved.
    pub source: Expect,
}

impl Default for MoveOptions {
    /// As `mv` does: nothing of what is moved is lost, so it may be anything.
    fn default() -> Self {
        Self {
            overwrite: true,
            source: Expect::Anything,
        }
    }
}

/// A change that is done.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What came of it.
    pub receipt: Receipt,
    /// What changed, where the caller may see it.
    pub diff: Option<Diff>,
    /// How its text is written, where text was written.
    pub text: Option<TextShape>,
    /// The ignore rule that names it, where somebody asked and one does.
    pub ignored_by: Option<MatchedBy>,
}

impl Changed {
    /// A change of which nothing more is known.
    pub(crate) fn shown(receipt: Receipt, diff: Option<Diff>) -> Self {
        Self {
            receipt,
            diff,
            text: None,
            ignored_by: None,
        }
    }
}

/// How the text of a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextShape {
    /// In which encoding.
    pub charset: Charset,
    /// Whether a byte order mark comes first.
    pub bom: bool,
    /// How its lines end.
    pub line_ending: LineEnding,
}

impl TextShape {
    /// How `bytes`, which are text in `charset`, are written.
    pub(crate) fn of(bytes: &[u8], charset: Charset) -> Self {
        let marks = [
            (Charset::UTF_8, &b"\xef\xbb\xbf"[..]),
            (Charset::UTF_16LE, b"\xff\xfe"),
            (Charset::UTF_16BE, b"\xfe\xff"),
        ];
        let bom = marks
            .into_iter()
            .find(|(marked, mark)| *marked == charset && bytes.starts_with(mark));
        let head = bytes.get(bom.map_or(0, |(_, mark)| mark.len())..);
        let head = head.unwrap_or_default();
        let head = head.get(..PROBE_BYTES_MCP).unwrap_or(head);
        Self {
            charset,
            bom: bom.is_some(),
            line_ending: charset.line_ending(head),
        }
    }
}

/// Which modes new files and directories get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewModes {
    /// A new file's.
    pub file: u32,
    /// A new directory's.
    pub directory: u32,
}

impl Default for NewModes {
    fn default() -> Self {
        Self {
            file: 0o600,
            directory: 0o700,
        }
    }
}
