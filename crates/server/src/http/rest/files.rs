//! The file routes that clients of `qwen serve` know.

use http::HeaderValue;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use portcullis_proto::{Digest, Failure, Reason};
use portcullis_tools::{
    FileAsk, ListAsk, MAX_LINES, MAX_MATCHES, MAX_WINDOW, MAX_WRITE, MachineAsk, ReadAsk, WriteAsk,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::super::guard::media_type;
use super::super::limits::MAX_UPLOAD;
use super::super::reply::{self, Reply};
use super::super::shares::Holder;
use super::Errand;
use super::body::{self, NoBody};
use super::query::{Asks as _, EXACT, Number, Yes, query};

/// How many raw bytes where nobody says.
const DEFAULT_BYTES: usize = 65_536;
/// How many names a glob finds where nobody says.
const DEFAULT_MATCHES: usize = 5_000;
/// How many directories above an upload may be made.
const MAX_DEPTH: usize = 64;
/// The longest name of a file.
const MAX_NAME: usize = 255;

/// Asks the machine, and answers with `status` where it says yes.
async fn ask(errand: &Errand, ask: Result<FileAsk, Failure>, status: StatusCode) -> Reply {
    let ask = match ask {
        Ok(ask) => ask,
        Err(why) => return errand.refuse(why),
    };
    errand.done(MachineAsk::File(ask), status).await
}

pub(super) async fn read(errand: &Errand) -> Reply {
    ask(errand, read_ask(errand), StatusCode::OK).await
}

query! {
    /// What `GET /file` asks for.
    pub(super) struct ReadQuery {
        /// The file, from the workspace's root.
        "path" path: String,
        /// How many bytes of text at most.
        "maxBytes" max_bytes: Number<1, { MAX_WINDOW as u64 }>,
        /// From which line on, counted from 1.
        "line" line: Number<1, EXACT>,
        /// How many lines at most.
        "limit" limit: Number<1, MAX_LINES>,
        /// `nextCursor` of the window before, in place of `line`.
        "cursor" cursor: Option<String>,
    }
}

fn read_ask(errand: &Errand) -> Result<FileAsk, Failure> {
    let query = ReadQuery::read(&errand.asked.head.uri)?;
    if query.cursor.is_some() && query.line.0.is_some() {
        return Err(Failure::new(
            Reason::BadArguments,
            "`cursor` and `line` exclude each other.",
        ));
    }
    Ok(FileAsk::Read(ReadAsk {
        path: query.path,
        max_bytes: query.max_bytes.count(),
        line: query.line.0,
        limit: query.limit.0,
        cursor: query.cursor,
    }))
}

query! {
    /// What `GET /file/bytes` asks for.
    pub(super) struct BytesQuery {
        /// The file, from the workspace's root.
        "path" path: String,
        /// Where to begin. Default: 0.
        "offset" offset: Number<0, EXACT>,
        /// How many bytes at most. Default: 65,536.
        "maxBytes" max_bytes: Number<1, { MAX_WINDOW as u64 }>,
    }
}

pub(super) async fn bytes(errand: &Errand) -> Reply {
    let made = BytesQuery::read(&errand.asked.head.uri).map(|query| FileAsk::Bytes {
        path: query.path,
        offset: query.offset.0.unwrap_or(0),
        max_bytes: query.max_bytes.count().unwrap_or(DEFAULT_BYTES),
    });
    ask(errand, made, StatusCode::OK).await
}

query! {
    /// What a route asks for that is about one thing.
    pub(super) struct PathQuery {
        /// Which, from the workspace's root.
        "path" path: String,
    }
}

impl PathQuery {
    /// The path, of a request.
    pub(super) fn path(errand: &Errand) -> Result<String, Failure> {
        Self::read(&errand.asked.head.uri).map(|query| query.path)
    }
}

pub(super) async fn stat(errand: &Errand) -> Reply {
    let made = PathQuery::path(errand).map(|path| FileAsk::Stat { path });
    ask(errand, made, StatusCode::OK).await
}

query! {
    /// What `GET /list` asks for.
    pub(super) struct ListQuery {
        /// The directory, from the workspace's root; `.` for the root itself.
        "path" path: String,
        /// Also what ignore files name, marked as such.
        "includeIgnored" include_ignored: Yes,
        /// How many names a page has; with it, each comes with size and time.
        "limit" limit: Number<1, 2_000>,
        /// `nextCursor` of the page before.
        "cursor" cursor: Option<String>,
    }
}

pub(super) async fn list(errand: &Errand) -> Reply {
    let made = ListQuery::read(&errand.asked.head.uri).map(|query| {
        FileAsk::List(ListAsk {
            path: query.path,
            include_ignored: query.include_ignored.0,
            limit: query.limit.count(),
            cursor: query.cursor,
        })
    });
    ask(errand, made, StatusCode::OK).await
}

query! {
    /// What `GET /glob` asks for.
    pub(super) struct GlobQuery {
        /// Which names, such as `**/*.rs`.
        "pattern" pattern: String,
        /// Below which directory, from the workspace's root. Default: the root itself.
        "cwd" cwd: Option<String>,
        /// Also what ignore files name.
        "includeIgnored" include_ignored: Yes,
        /// How many names at most. Default: 5,000.
        "maxResults" max_results: Number<1, { MAX_MATCHES as u64 }>,
    }
}

pub(super) async fn glob(errand: &Errand) -> Reply {
    let made = || {
        let query = GlobQuery::read(&errand.asked.head.uri)?;
        Ok(FileAsk::Glob {
            pattern: below_here(query.pattern)?,
            cwd: query.cwd.filter(|cwd| !cwd.is_empty()),
            include_ignored: query.include_ignored.0,
            max_results: query.max_results.count().unwrap_or(DEFAULT_MATCHES),
        })
    };
    ask(errand, made(), StatusCode::OK).await
}

/// A pattern that names no drive and no other machine, as some would read it.
fn below_here(pattern: String) -> Result<String, Failure> {
    let drive = matches!(
        pattern.as_bytes(),
        [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic()
    );
    if drive || pattern.starts_with("\\\\") {
        return Err(Failure::new(
            Reason::BadGlob,
            "The pattern is not a glob: it must stay below the directory.",
        ));
    }
    Ok(pattern)
}

/// What `POST /file/write` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "if" = {"properties": {"mode": {"const": "replace"}}},
    "then" = {"required": ["expectedHash"], "properties": {"expectedHash": {"type": "string"}}}
))]
pub(crate) struct WriteBody {
    /// The file, from the workspace's root. Its directory has to be there.
    #[schemars(length(min = 1))]
    path: String,
    /// The whole new text, at most 5 MiB.
    content: String,
    /// create: nothing may be there. replace: `expectedHash` has to be there.
    mode: WriteMode,
    /// `sha256:` and 64 hexadecimal digits: what the file to replace hashes to.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    expected_hash: Option<String>,
    /// Whether it starts with a byte order mark. Default: as the file does.
    bom: Option<bool>,
    /// In which encoding. Default: the file's own, utf-8 for a new one.
    encoding: Option<String>,
    /// How lines end. Default: as in the file.
    line_ending: Option<LineEnd>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    Create,
    Replace,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LineEnd {
    Lf,
    Crlf,
}

pub(super) async fn write(errand: &mut Errand) -> Reply {
    let body: WriteBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let status = match body.mode {
        WriteMode::Create => StatusCode::CREATED,
        WriteMode::Replace => StatusCode::OK,
    };
    let path = body.path.clone();
    match write_ask(body) {
        Ok(write) => ask(errand, Ok(write), status).await,
        Err(why) => errand.refuse_at(&path, why),
    }
}

fn write_ask(body: WriteBody) -> Result<FileAsk, Failure> {
    non_empty(&body.path)?;
    fits(body.content.len())?;
    let replaces = match body.mode {
        WriteMode::Create => {
            // It says nothing here, but what is said has to make sense.
            if body.expected_hash.is_some() {
                hash(body.expected_hash.as_deref())?;
            }
            None
        }
        WriteMode::Replace => Some(hash(body.expected_hash.as_deref())?),
    };
    Ok(FileAsk::Write(WriteAsk {
        path: body.path,
        content: body.content,
        replaces,
        bom: body.bom,
        encoding: body.encoding,
        crlf: body.line_ending.map(|ending| match ending {
            LineEnd::Lf => false,
            LineEnd::Crlf => true,
        }),
    }))
}

/// What `POST /file/edit` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditBody {
    /// The file, from the workspace's root.
    #[schemars(length(min = 1))]
    path: String,
    /// The exact text to replace. It has to occur once.
    #[schemars(length(min = 1))]
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// `sha256:` and 64 hexadecimal digits: what the file hashes to now.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    expected_hash: String,
}

pub(super) async fn edit(errand: &mut Errand) -> Reply {
    let body: EditBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let path = body.path.clone();
    match edit_ask(body) {
        Ok(edit) => ask(errand, Ok(edit), StatusCode::OK).await,
        Err(why) => errand.refuse_at(&path, why),
    }
}

fn edit_ask(body: EditBody) -> Result<FileAsk, Failure> {
    non_empty(&body.path)?;
    if body.old_text.is_empty() {
        return Err(Failure::new(
            Reason::BadArguments,
            "`oldText` has to say something.",
        ));
    }
    fits(body.old_text.len() + body.new_text.len())?;
    Ok(FileAsk::Edit {
        path: body.path,
        old: body.old_text,
        new: body.new_text,
        expected: hash(Some(&body.expected_hash))?,
    })
}

pub(super) async fn upload(errand: &mut Errand) -> Reply {
    let path = match PathQuery::path(errand).and_then(uploadable) {
        Ok(path) => path,
        Err(why) => return errand.refuse(why),
    };
    let headers = &errand.asked.head.headers;
    let is_plain = media_type(headers).as_deref() == Some("application/octet-stream")
        && !headers.contains_key(CONTENT_ENCODING);
    if !is_plain {
        return not_bytes(errand);
    }
    let uploads = &errand.server.shares.uploads;
    let _place = match uploads.take(&Holder::of(&errand.asked.identity.principal)) {
        Ok(place) => place,
        Err(why) => return busy(errand, &why),
    };
    let bytes = match body::read(errand.asked.body.take(), MAX_UPLOAD).await {
        Ok(bytes) => bytes,
        Err(NoBody::TooLarge) => return too_large(errand),
        Err(NoBody::Lost) => return body::lost(),
    };
    ask(
        errand,
        Ok(FileAsk::Upload { path, bytes }),
        StatusCode::CREATED,
    )
    .await
}

/// A path that a file can be uploaded to.
fn uploadable(path: String) -> Result<String, Failure> {
    let bad = |what: &'static str| Err(Failure::new(Reason::BadArguments, what));
    let name = path.rsplit('/').next().unwrap_or_default();
    if path.contains('\0') {
        return Err(Reason::BadName.into());
    }
    if matches!(name, "" | "." | "..") {
        return Err(Failure::new(Reason::IsDirectory, "`path` names no file."));
    }
    if name.len() > MAX_NAME {
        return bad("The name is longer than 255 bytes.");
    }
    if path.split('/').count() > MAX_DEPTH + 1 {
        return bad("The path is deeper than 64 directories.");
    }
    Ok(path)
}

fn not_bytes(errand: &Errand) -> Reply {
    let why = Failure::new(Reason::BadArguments, "The body is not said to be bytes.")
        .hint("Send it with Content-Type: application/octet-stream, and not compressed.");
    upload_refused(
        errand,
        &why,
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
    )
}

fn busy(errand: &Errand, why: &Failure) -> Reply {
    let mut reply = upload_refused(errand, why, (StatusCode::TOO_MANY_REQUESTS, "upload_busy"));
    reply
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

fn upload_refused(errand: &Errand, why: &Failure, (status, kind): (StatusCode, &str)) -> Reply {
    drop(errand.refuse(why.clone()));
    let mut body = json!({
        "errorKind": kind,
        "error": why.message(),
        "status": status.as_u16(),
    });
    if let Some(object) = body.as_object_mut() {
        if let Some(hint) = why.next_step() {
            object.insert("hint".to_owned(), hint.into());
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            object.insert("retryAfterSeconds".to_owned(), 1.into());
        }
    }
    reply::value(status, &body)
}

fn too_large(errand: &Errand) -> Reply {
    let why = Failure::new(Reason::TooLarge, "The upload has more than 50 MiB.");
    drop(errand.refuse(why.clone()));
    reply::value(
        reply::status_of(&why),
        &json!({
            "errorKind": why.kind().as_str(),
            "error": why.message(),
            "hint": "Split it, or put it there another way.",
            "status": why.kind().status(),
            "maxBytes": MAX_UPLOAD,
        }),
    )
}

fn non_empty(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Err(Failure::new(Reason::BadArguments, "`path` is required."));
    }
    Ok(())
}

fn fits(bytes: usize) -> Result<(), Failure> {
    if bytes > MAX_WRITE {
        return Err(Failure::new(
            Reason::TooLarge,
            format!("It brings {bytes} bytes; {MAX_WRITE} are the most."),
        )
        .hint("Upload it, or write it in parts with /file/append."));
    }
    Ok(())
}

/// `sha256:` and 64 lower-case hexadecimal digits.
pub(super) fn hash(text: Option<&str>) -> Result<Digest, Failure> {
    text.and_then(|text| text.strip_prefix("sha256:"))
        .filter(|hex| {
            hex.bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
        .and_then(Digest::parse)
        .ok_or_else(|| {
            Failure::new(
                Reason::BadArguments,
                "`expectedHash` is `sha256:` and 64 hexadecimal digits.",
            )
            .hint("Read the file first: GET /file tells its hash.")
        })
}
