//! The workspace file routes: files as programs ask for them over HTTP, in the
//! shapes that clients of `qwen serve` know.
//!
//! A request comes here typed and checked; what comes back is the body of the
//! reply, written out.

mod cursor;
mod listing;
pub(crate) mod more;
mod reading;
mod writing;

use portcullis_files::ignores::MatchedBy;
use portcullis_files::text::LineEnding;
use portcullis_files::{Authority, sha256};
use portcullis_gate::Caller;
use portcullis_proto::{Digest, Failure, Json, RelPath, RootId, RootKind, Verb};

use serde::{Deserialize, Serialize};

use self::cursor::Cursor;
use crate::arguments::scope;
use crate::ask::in_base64;
use crate::resource::uri;

pub use self::more::RawBytes;
pub use self::reading::whole_text;

/// The largest file that is read whole.
pub(crate) const MAX_SNAPSHOT: u64 = 256 * 1024;
/// The most bytes of text, or of raw bytes, in one reply.
pub const MAX_WINDOW: usize = 256 * 1024;
/// The most lines of a window.
pub const MAX_LINES: u64 = 2_000;
/// The most entries of a directory that are listed at once.
pub(crate) const MAX_ENTRIES: usize = 2_000;
/// The most names a glob finds.
pub const MAX_MATCHES: usize = 50_000;
/// The most bytes a write or an edit may bring.
pub const MAX_WRITE: usize = 5 * 1024 * 1024;

/// What is asked of a workspace's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FileAsk {
    /// Text: whole, or a window.
    Read(ReadAsk),
    /// Bytes.
    Bytes {
        /// The file.
        path: String,
        /// Where to begin.
        offset: u64,
        /// How many at most.
        max_bytes: usize,
    },
    /// What stands there.
    Stat {
        /// What.
        path: String,
    },
    /// The names in a directory.
    List(ListAsk),
    /// Names below a directory.
    Glob {
        /// Which names.
        pattern: String,
        /// Below which directory.
        cwd: Option<String>,
        /// With what ignore files hide.
        include_ignored: bool,
        /// How many at most.
        max_results: usize,
    },
    /// A whole file.
    Write(WriteAsk),
    /// One piece of a file, replaced.
    Edit {
        /// The file.
        path: String,
        /// What is there, once.
        old: String,
        /// What shall be.
        new: String,
        /// What the whole file hashes to.
        expected: Digest,
    },
    /// Bytes under a name that is free.
    Upload {
        /// Where; another name beside it where that is taken.
        path: String,
        /// What.
        #[serde(with = "in_base64")]
        bytes: Vec<u8>,
    },
}

/// Which text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadAsk {
    /// The file.
    pub path: String,
    /// How many bytes at most.
    pub max_bytes: Option<usize>,
    /// From which line, counted from 1.
    pub line: Option<u64>,
    /// How many lines at most.
    pub limit: Option<u64>,
    /// Where an earlier window ended.
    pub cursor: Option<String>,
}

/// Which names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListAsk {
    /// The directory.
    pub path: String,
    /// With what ignore files hide, marked.
    pub include_ignored: bool,
    /// A page of so many, with size and time of each.
    pub limit: Option<usize>,
    /// Where an earlier page ended.
    pub cursor: Option<String>,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteAsk {
    /// The file.
    pub path: String,
    /// Its text.
    pub content: String,
    /// What the file it replaces hashes to; nothing for a new one.
    pub replaces: Option<Digest>,
    /// With a byte order mark or without; as it was, where nobody says.
    pub bom: Option<bool>,
    /// In which encoding; as it was, where nobody says.
    pub encoding: Option<String>,
    /// How lines end: all in CR LF, or all in LF; as they were, where nobody says.
    pub crlf: Option<bool>,
}

impl FileAsk {
    /// What would be done.
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Read(_) | Self::Bytes { .. } => Verb::Read,
            Self::Stat { .. } => Verb::Stat,
            Self::List(_) => Verb::List,
            Self::Glob { .. } => Verb::Glob,
            Self::Write(_) | Self::Upload { .. } => Verb::Write,
            Self::Edit { .. } => Verb::Edit,
        }
    }

    /// The same, asking for no more than a reply may hold: what a surface of
    /// ours has seen to, and one far away may not have.
    #[must_use]
    pub(crate) fn within_bounds(mut self) -> Self {
        let window = |bytes: usize| bytes.clamp(1, MAX_WINDOW);
        match &mut self {
            Self::Read(ask) => {
                ask.max_bytes = ask.max_bytes.map(window);
                ask.line = ask.line.map(|line| line.max(1));
                ask.limit = ask.limit.map(|lines| lines.clamp(1, MAX_LINES));
            }
            Self::Bytes { max_bytes, .. } => *max_bytes = window(*max_bytes),
            Self::Glob { max_results, .. } => *max_results = (*max_results).min(MAX_MATCHES),
            Self::List(ask) => ask.limit = ask.limit.map(|limit| limit.clamp(1, MAX_ENTRIES)),
            // Bounded where it is done.
            Self::Stat { .. } | Self::Write(_) | Self::Edit { .. } | Self::Upload { .. } => {}
        }
        self
    }

    /// What it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Read(ReadAsk { path, .. })
            | Self::Bytes { path, .. }
            | Self::Stat { path }
            | Self::List(ListAsk { path, .. })
            | Self::Write(WriteAsk { path, .. })
            | Self::Edit { path, .. }
            | Self::Upload { path, .. } => path,
            Self::Glob { cwd, .. } => cwd.as_deref().unwrap_or("."),
        }
    }
}

/// A workspace that can be worked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its root.
    pub root: RootId,
    /// Sixteen hexadecimal digits that name it to programs.
    pub id: String,
    /// Where it stands on its machine: the one host path a wire requires. What
    /// is an extension's own stands in our state, and is told by its URI.
    pub cwd: String,
    /// What it is for.
    pub kind: RootKind,
    /// Whether it may be changed.
    pub trusted: bool,
    /// Whether a request that names none means it.
    pub primary: bool,
}

impl Workspace {
    /// The one workspace of a machine that is linked: where it stands is what its
    /// daemon says.
    pub fn linked(root: RootId, kind: RootKind, cwd: &str, trusted: bool) -> Self {
        Self {
            root,
            id: id_of(cwd),
            cwd: cwd.to_owned(),
            kind,
            trusted,
            primary: true,
        }
    }

    /// Whether a request that names `name` means it: by its id or directory, or,
    /// for what an extension has one of, by the kind.
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.cwd == name || (is_own(self.kind) && self.kind.as_str() == name)
    }
}

/// Whether a root of this kind is one extension's own.
const fn is_own(kind: RootKind) -> bool {
    match kind {
        RootKind::ExtensionStorage | RootKind::Temp => true,
        RootKind::Workspace
        | RootKind::Artifact
        | RootKind::Knowledge
        | RootKind::Downloads
        | RootKind::Secret => false,
    }
}

/// Serves one request.
pub(crate) async fn serve(
    authority: &Authority,
    caller: &Caller,
    root: Option<&str>,
    ask: FileAsk,
) -> Result<Json, Failure> {
    let (scope, path) = scope(authority, caller, ask.verb(), root, ask.path())?;
    match ask {
        FileAsk::Read(ask) => {
            let cursor = ask.cursor.as_deref().map(Cursor::parse).transpose();
            let cursor =
                cursor.map_err(|why| authority.gate().refuse(caller, Verb::Read, &path, why))?;
            let refuse = |why| authority.gate().refuse(caller, Verb::Read, &path, why);
            reading::text(&scope, &path, &ask, cursor, refuse).await
        }
        FileAsk::Bytes {
            offset, max_bytes, ..
        } => reading::bytes(&scope, &path, offset, max_bytes).await,
        FileAsk::Stat { .. } => listing::stat(&scope, &path).await,
        FileAsk::List(ask) => listing::list(&scope, &path, &ask).await,
        FileAsk::Glob {
            pattern,
            cwd,
            include_ignored,
            max_results,
        } => {
            let began = authority.gate().clock().monotonic_us();
            let found = listing::Globbed {
                pattern,
                cwd: cwd.unwrap_or_default(),
                include_ignored,
                max_results,
            };
            found
                .find(&scope, &path, || {
                    authority
                        .gate()
                        .clock()
                        .monotonic_us()
                        .saturating_sub(began)
                })
                .await
        }
        FileAsk::Write(ask) => {
            let encoding = writing::encoding(&ask)
                .map_err(|why| authority.gate().refuse(caller, Verb::Write, &path, why))?;
            writing::write(&scope, &path, ask, encoding).await
        }
        FileAsk::Edit {
            old, new, expected, ..
        } => writing::edit(&scope, &path, old, new, expected).await,
        FileAsk::Upload { bytes, .. } => writing::upload(&scope, &path, bytes).await,
    }
}

/// The workspaces of `authority`.
pub(crate) fn workspaces(authority: &Authority) -> Vec<Workspace> {
    let primary = authority.root(None).map(|root| root.entry().id().clone());
    authority
        .roots()
        .map(|declared| Workspace {
            root: declared.entry().id().clone(),
            id: id_of(&declared.root().host_path().to_string_lossy()),
            cwd: if is_own(declared.entry().kind()) {
                uri(declared.entry().id(), &RelPath::root())
            } else {
                declared.root().host_path().to_string_lossy().into_owned()
            },
            kind: declared.entry().kind(),
            trusted: declared.entry().trusted(),
            primary: primary.as_ref() == Some(declared.entry().id()),
        })
        .collect()
}

fn id_of(cwd: &str) -> String {
    let mut id = sha256(cwd.as_bytes()).hex();
    id.truncate(16);
    id
}

/// A hash as these routes spell it.
fn spelled(hash: &Digest) -> String {
    format!("sha256:{}", hash.hex())
}

/// How an ignore rule names a file, as these routes spell it.
const fn matched(by: Option<MatchedBy>) -> Option<&'static str> {
    match by {
        None => None,
        Some(MatchedBy::Itself) => Some("file"),
        Some(MatchedBy::Parent) => Some("directory"),
    }
}

/// How lines end, as these routes spell it: what has no CR LF is `lf`.
const fn ending(ending: LineEnding) -> &'static str {
    match ending {
        LineEnding::Crlf | LineEnding::Mixed => "crlf",
        LineEnding::None | LineEnding::Lf | LineEnding::Cr => "lf",
    }
}
