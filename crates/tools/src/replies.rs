//! The shapes of what tools and file routes reply with, for who describes a wire.
//!
//! The first are what the tools serialise. The others are written out by hand,
//! member by member, because that is several times faster; a test compares
//! what is written with what stands here.

use schemars::JsonSchema;

pub use crate::changed::Reply as ChangeReply;
pub use crate::create_archive::Reply as ArchiveReply;
pub use crate::delete::Reply as DeleteReply;
pub use crate::extract_archive::Reply as ExtractReply;
pub use crate::get_file_tree::Reply as TreeReply;
pub use crate::inspect_archive::Reply as InspectReply;
pub use crate::search_files::Reply as SearchReply;

/// What `GET /file` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileReply {
    /// Always `file`.
    #[schemars(extend("const" = "file"))]
    pub kind: String,
    /// Path from the root.
    pub path: String,
    /// The text, without its byte order mark.
    pub content: String,
    /// What the file is encoded in.
    pub encoding: String,
    /// Whether it starts with a byte order mark.
    pub bom: bool,
    /// How its lines end.
    pub line_ending: LineEnding,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Bytes of `content`, in UTF-8.
    pub returned_bytes: u64,
    /// Whether there is more in the file than in `content`.
    pub truncated: bool,
    /// `sha256:` and 64 hexadecimal digits, for a file that is read whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub hash: Option<String>,
    /// What an ignore file names: the file, a directory above it, or nothing.
    pub matched_ignore: Option<MatchedIgnore>,
    /// How many lines the file has, where that is known.
    pub original_line_count: Option<u64>,
    /// Pass it as `cursor` to go on from here.
    pub next_cursor: Option<String>,
    /// Whether there is more behind `content`.
    pub has_more: bool,
    /// Changes when the file does.
    pub version: String,
}

/// How lines end. A file without CR LF is `lf`.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineEnding {
    /// In LF.
    Lf,
    /// In CR LF, at least some.
    Crlf,
}

/// What an ignore file names.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MatchedIgnore {
    /// The file itself.
    File,
    /// A directory above it.
    Directory,
}

/// What stands somewhere.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A mount, a device, a pipe or a socket.
    Other,
}

/// What `GET /file/bytes` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BytesReply {
    /// Always `file_bytes`.
    #[schemars(extend("const" = "file_bytes"))]
    pub kind: String,
    /// Path from the root.
    pub path: String,
    /// Where in the file they begin.
    pub offset: u64,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// How many came.
    pub returned_bytes: u64,
    /// Whether the file has others.
    pub truncated: bool,
    /// The bytes, in base64.
    pub content_base64: String,
    /// `sha256:` and 64 hexadecimal digits, where all of the file came.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub hash: Option<String>,
    /// Changes when the file does.
    pub version: String,
}

/// What `GET /stat` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatReply {
    /// Always `stat`.
    #[schemars(extend("const" = "stat"))]
    pub kind: String,
    /// Path from the root.
    pub path: String,
    /// What it is.
    pub r#type: EntryKind,
    /// Bytes it has.
    pub size_bytes: u64,
    /// Last change, in milliseconds since 1970, with what is below them.
    pub modified_ms: f64,
    /// Changes when it does.
    pub version: String,
}

/// What `GET /list` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListReply {
    /// Always `list`.
    #[schemars(extend("const" = "list"))]
    pub kind: String,
    /// Path of the directory, from the root.
    pub path: String,
    /// What is in it, by name.
    pub entries: Vec<ListEntry>,
    /// Whether there is more in it.
    pub truncated: bool,
    /// Always null: a directory that is named is listed.
    pub matched_ignore: Option<MatchedIgnore>,
    /// With `limit` or `cursor`: pass it as `cursor` for the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many a rule denies.
    pub omitted_denied: u64,
    /// How many are of a protected class: ask for one by name.
    pub omitted_secret: u64,
}

/// One name in a directory.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Whether an ignore file names it.
    pub ignored: bool,
    /// With `limit` or `cursor`: bytes it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// With `limit` or `cursor`: last change, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_ms: Option<i64>,
}

/// What `GET /glob` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobReply {
    /// Always `glob`.
    #[schemars(extend("const" = "glob"))]
    pub kind: String,
    /// The pattern, as it was asked for.
    pub pattern: String,
    /// The directory, as it was asked for; empty for the root.
    pub cwd: String,
    /// Paths from the root.
    pub matches: Vec<String>,
    /// How many.
    pub count: u64,
    /// Whether there are more.
    pub truncated: bool,
    /// How long it took.
    pub duration_ms: u64,
}

/// What `POST /file/write` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteReply {
    /// Always `file_write`.
    #[schemars(extend("const" = "file_write"))]
    pub kind: String,
    /// `create` or `replace`, as it was asked for.
    #[schemars(extend("enum" = ["create", "replace"]))]
    pub mode: String,
    /// Whether it was not there before.
    pub created: bool,
    /// What came of it.
    #[serde(flatten)]
    pub written: Written,
}

/// What `POST /file/edit` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditReply {
    /// Always `file_edit`.
    #[schemars(extend("const" = "file_edit"))]
    pub kind: String,
    /// How often the text was replaced: once.
    pub replacements: u64,
    /// What came of it.
    #[serde(flatten)]
    pub written: Written,
}

/// What `POST /file/upload` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadReply {
    /// Always `file_upload`.
    #[schemars(extend("const" = "file_upload"))]
    pub kind: String,
    /// What came of it. Its path may be another than was asked for.
    #[serde(flatten)]
    pub written: Written,
}

/// What every change of a file tells.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// Path from the root.
    pub path: String,
    /// Bytes of the file now.
    pub size_bytes: u64,
    /// `sha256:` and 64 hexadecimal digits of the file now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub hash: Option<String>,
    /// What text is encoded in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Whether text starts with a byte order mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bom: Option<bool>,
    /// How lines of text end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_ending: Option<LineEnding>,
    /// What an ignore file names, of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_ignore: Option<MatchedIgnore>,
    /// Changes when the file does.
    pub version: String,
    /// What `POST /undo` takes to have it undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

/// What `GET /undo` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoListReply {
    /// What can be taken back, the newest first.
    pub operations: Vec<Undoable>,
    /// How many others there are.
    pub more: u64,
}

/// One change that can be taken back.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Undoable {
    /// What `POST /undo` takes.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// What was done.
    pub operation: String,
    /// To what, from the root.
    pub path: String,
    /// Where it went, from the root.
    pub to: Option<String>,
    /// Who did it.
    pub by: String,
    /// In which run.
    pub run: Option<String>,
}

/// What `POST /undo` replies with.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoReply {
    /// What was taken back.
    #[serde(flatten)]
    pub undone: Undoable,
    /// What `POST /undo` takes to have it done again.
    pub redo: Option<String>,
}
