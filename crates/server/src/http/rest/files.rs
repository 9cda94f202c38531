//! The file routes that clients of `qwen serve` know.

use http::HeaderValue;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use portcullis_proto::{Digest, Failure, Json, Reason};
use portcullis_tools::{
    FileAsk, ListAsk, MAX_LINES, MAX_MATCHES, MAX_WINDOW, MAX_WRITE, ReadAsk, WriteAsk,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::super::guard::media_type;
use super::super::limits::MAX_UPLOAD;
use super::super::reply::{self, Reply};
use super::Errand;
use super::body::{self, NoBody};
use super::query::Query;

/// How many raw bytes where nobody says.
const DEFAULT_BYTES: u64 = 65_536;
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
    let asked = errand.machine.file(&errand.caller, errand.root(), ask);
    answered(errand, asked.await, status)
}

fn answered(errand: &Errand, asked: Result<Json, Failure>, status: StatusCode) -> Reply {
    match asked {
        Ok(body) => reply::written(status, body.into_string()),
        Err(why) => errand.failed(&why),
    }
}

pub(super) async fn read(errand: &Errand) -> Reply {
    ask(errand, read_ask(errand), StatusCode::OK).await
}

fn read_ask(errand: &Errand) -> Result<FileAsk, Failure> {
    let query = Query::of(&errand.asked.head.uri);
    let path = query.required("path")?;
    let most = MAX_WINDOW as u64;
    let max_bytes = query.number("maxBytes", 1, most)?;
    let line = query.number("line", 1, u64::MAX)?;
    let limit = query.number("limit", 1, MAX_LINES)?;
    let cursor = query.text("cursor")?.map(str::to_owned);
    if cursor.is_some() && line.is_some() {
        return Err(Failure::new(
            Reason::BadArguments,
            "`cursor` and `line` exclude each other.",
        ));
    }
    Ok(FileAsk::Read(ReadAsk {
        path,
        max_bytes: max_bytes.and_then(|most| usize::try_from(most).ok()),
        line,
        limit,
        cursor,
    }))
}

pub(super) async fn bytes(errand: &Errand) -> Reply {
    let made = || {
        let query = Query::of(&errand.asked.head.uri);
        let max = query.number("maxBytes", 1, MAX_WINDOW as u64)?;
        Ok(FileAsk::Bytes {
            path: query.required("path")?,
            offset: query.number("offset", 0, u64::MAX)?.unwrap_or(0),
            max_bytes: usize::try_from(max.unwrap_or(DEFAULT_BYTES)).unwrap_or(MAX_WINDOW),
        })
    };
    ask(errand, made(), StatusCode::OK).await
}

pub(super) async fn stat(errand: &Errand) -> Reply {
    let path = Query::of(&errand.asked.head.uri).required("path");
    let made = path.map(|path| FileAsk::Stat { path });
    ask(errand, made, StatusCode::OK).await
}

pub(super) async fn list(errand: &Errand) -> Reply {
    let made = || {
        let query = Query::of(&errand.asked.head.uri);
        let limit = query.number("limit", 1, 2_000)?;
        Ok(FileAsk::List(ListAsk {
            path: query.required("path")?,
            include_ignored: query.flag("includeIgnored")?,
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            cursor: query.text("cursor")?.map(str::to_owned),
        }))
    };
    ask(errand, made(), StatusCode::OK).await
}

pub(super) async fn glob(errand: &Errand) -> Reply {
    let made = || {
        let query = Query::of(&errand.asked.head.uri);
        let max = query.number("maxResults", 1, MAX_MATCHES as u64)?;
        let cwd = query.text("cwd")?.filter(|cwd| !cwd.is_empty());
        Ok(FileAsk::Glob {
            pattern: query.required("pattern").and_then(below_here)?,
            cwd: cwd.map(str::to_owned),
            include_ignored: query.flag("includeIgnored")?,
            max_results: max
                .and_then(|max| usize::try_from(max).ok())
                .unwrap_or(DEFAULT_MATCHES),
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
pub(crate) struct WriteBody {
    /// The file, from the workspace's root. Its directory has to be there.
    path: String,
    /// The whole new text, at most 5 MiB.
    content: String,
    /// create: nothing may be there. replace: `expectedHash` has to be there.
    mode: WriteMode,
    /// `sha256:` and 64 hexadecimal digits: what the file to replace hashes to.
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
    ask(errand, write_ask(body), status).await
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
    path: String,
    /// The exact text to replace. It has to occur once.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// `sha256:` and 64 hexadecimal digits: what the file hashes to now.
    expected_hash: String,
}

pub(super) async fn edit(errand: &mut Errand) -> Reply {
    let body: EditBody = match body::json(errand).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    ask(errand, edit_ask(body), StatusCode::OK).await
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
    let path = match Query::of(&errand.asked.head.uri)
        .required("path")
        .and_then(uploadable)
    {
        Ok(path) => path,
        Err(why) => return errand.refuse(why),
    };
    let headers = &errand.asked.head.headers;
    let is_plain = media_type(headers).as_deref() == Some("application/octet-stream")
        && !headers.contains_key(CONTENT_ENCODING);
    if !is_plain {
        return not_bytes(errand);
    }
    let server = std::sync::Arc::clone(&errand.server);
    let Ok(_turn) = server.uploads.try_acquire() else {
        return busy(errand);
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
    if name.is_empty() || path.contains('\0') {
        return bad("`path` names no file.");
    }
    if name.len() > MAX_NAME {
        return bad("The name is longer than 255 bytes.");
    }
    if matches!(name, "." | "..") {
        return bad("`path` names no file.");
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

fn busy(errand: &Errand) -> Reply {
    let why = Failure::new(Reason::Overload, "As many uploads as may be are under way.")
        .hint("Try again in a second.");
    let mut reply = upload_refused(errand, &why, (StatusCode::TOO_MANY_REQUESTS, "upload_busy"));
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
