//! `read_file`: a window of a file, as lines of text or as raw bytes.

use portcullis_files::{Authority, ByteWindow, ScopedFs, TextFrom, TextRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Json, Reason, ToolReply, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::limits::LIMITS;
use crate::quoted::{Object, quoted};
use crate::resource::base64;
use crate::shown::containment;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file, from the root.
    file_path: String,
    /// First line, counted from 1. Default 1.
    start_line: Option<u64>,
    /// How many lines. Default 200, at most 500.
    max_lines: Option<usize>,
    /// The last so many lines instead.
    tail_lines: Option<u64>,
    /// Go on where the page before ended (its nextCursor).
    cursor: Option<String>,
    /// Read the text in this encoding instead of finding out.
    encoding: Option<String>,
    /// Read raw bytes from this offset instead of text; they come as base64.
    byte_offset: Option<u64>,
    /// How many raw bytes. Default 65,536, at most 1,048,576.
    byte_length: Option<usize>,
    /// Show a secret file with its names and without its values; nobody is asked.
    redacted: Option<bool>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reply {
    /// Path from the root.
    path: String,
    /// The text, exactly as it stands in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    content: Option<Json>,
    /// Raw bytes as base64, where bytes were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    base64: Option<Json>,
    /// The line the text begins with, counted from 1, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_line: Option<u64>,
    /// How many lines were returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_count: Option<u64>,
    /// How many lines the file has, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    /// The offset the window begins at.
    byte_offset: u64,
    /// Bytes of the window.
    byte_count: u64,
    /// Bytes of the file.
    total_bytes: u64,
    /// Whether the file goes on behind the window.
    has_more: bool,
    /// Pass it as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Lines that were cut because they are longer than a line may be.
    cut_lines: u64,
    /// Whether a limit asked for was over the maximum.
    clamped: bool,
    /// The text's encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    /// Whether the encoding was guessed from the bytes rather than known.
    encoding_detected: bool,
    /// lf, crlf, cr, mixed or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_ending: Option<String>,
    /// How many values are hidden, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted_values: Option<u64>,
    /// Which ignore file names it, if one does; it is read all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched_ignore: Option<String>,
    /// Changes when the file does.
    version: String,
    /// kernel_atomic or best_effort.
    containment: String,
}

impl Reply {
    /// Both halves, as they go over a wire; `text` is what a person reads.
    fn written(&self, text: Json) -> ToolReply {
        let length = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.get().len());
        let mut out = String::with_capacity(1024 + length(&self.content) + length(&self.base64));
        let mut object = Object::begin(&mut out);
        object.text("path", &self.path);
        for (name, json) in [("content", &self.content), ("base64", &self.base64)] {
            if let Some(json) = json {
                object.json(name, json);
            }
        }
        for (name, number) in [
            ("startLine", self.start_line),
            ("lineCount", self.line_count),
            ("totalLines", self.total_lines),
            ("byteOffset", Some(self.byte_offset)),
            ("byteCount", Some(self.byte_count)),
            ("totalBytes", Some(self.total_bytes)),
        ] {
            if let Some(number) = number {
                object.number(name, number);
            }
        }
        object.flag("hasMore", self.has_more);
        if let Some(cursor) = &self.next_cursor {
            object.text("nextCursor", cursor);
        }
        object
            .number("cutLines", self.cut_lines)
            .flag("clamped", self.clamped);
        if let Some(encoding) = &self.encoding {
            object.text("encoding", encoding);
        }
        object.flag("encodingDetected", self.encoding_detected);
        if let Some(ending) = &self.line_ending {
            object.text("lineEnding", ending);
        }
        if let Some(values) = self.redacted_values {
            object.number("redactedValues", values);
        }
        if let Some(ignore) = &self.matched_ignore {
            object.text("matchedIgnore", ignore);
        }
        object
            .text("version", &self.version)
            .text("containment", &self.containment);
        object.end();
        ToolReply {
            structured: Json::vouched(out),
            text,
            is_error: false,
            attached: Vec::new(),
        }
    }
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<ToolReply, Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Read, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Read,
        arguments.root.as_deref(),
        &arguments.file_path,
    )?;
    if arguments.redacted == Some(true) {
        return redacted(&scope, &path).await;
    }
    if arguments.byte_offset.is_some() || arguments.byte_length.is_some() {
        return bytes(&scope, &path, &arguments).await;
    }
    let from =
        from(&arguments).map_err(|why| authority.gate().refuse(caller, Verb::Read, &path, why))?;
    text(&scope, &path, from, arguments).await
}

/// Where the page begins.
fn from(arguments: &Arguments) -> Result<TextFrom, Failure> {
    let (max_lines, _) = LIMITS.lines.of(arguments.max_lines);
    match (
        &arguments.cursor,
        arguments.tail_lines,
        arguments.start_line,
    ) {
        (Some(cursor), None, None) => Ok(TextFrom::Cursor(cursor.clone())),
        (None, Some(lines), None) => Ok(TextFrom::Tail(lines.min(max_lines.max(1) as u64))),
        (None, None, Some(0)) => Err(Failure::new(
            Reason::BadArguments,
            "Lines are counted from 1.",
        )
        .hint("Call it again with startLine 1.")),
        (None, None, line) => Ok(TextFrom::Line(line.unwrap_or(1))),
        (_, _, _) => Err(Failure::new(
            Reason::BadArguments,
            "startLine, tailLines and cursor exclude each other.",
        )
        .hint("Call it again with one of them.")),
    }
}

async fn bytes(scope: &ScopedFs, path: &str, arguments: &Arguments) -> Result<ToolReply, Failure> {
    let (max, clamped) = LIMITS.raw_bytes.of(arguments.byte_length);
    let window = ByteWindow::Part {
        offset: arguments.byte_offset.unwrap_or(0),
        max,
    };
    let page = scope.read_bytes(path, window).await?;
    let encoded = quoted(&base64(&page.bytes));
    let reply = Reply {
        path: page.path.shown().to_owned(),
        content: None,
        base64: Some(encoded.clone()),
        start_line: None,
        line_count: None,
        total_lines: None,
        byte_offset: page.offset,
        byte_count: page.bytes.len() as u64,
        total_bytes: page.meta.size,
        has_more: page.more,
        next_cursor: None,
        cut_lines: 0,
        clamped,
        encoding: None,
        encoding_detected: false,
        line_ending: None,
        redacted_values: None,
        matched_ignore: None,
        version: page.meta.version(),
        containment: containment(page.containment),
    };
    Ok(reply.written(encoded))
}

/// The whole file, as far as a reply takes it: its lines are not those on disk.
async fn redacted(scope: &ScopedFs, path: &str) -> Result<ToolReply, Failure> {
    let shown = scope.read_redacted(path).await?;
    let mut end = shown.text.len().min(LIMITS.text_bytes.default);
    while !shown.text.is_char_boundary(end) {
        end -= 1;
    }
    let content = quoted(shown.text.get(..end).unwrap_or_default());
    let reply = Reply {
        path: shown.path.shown().to_owned(),
        content: Some(content.clone()),
        base64: None,
        start_line: None,
        line_count: None,
        total_lines: None,
        byte_offset: 0,
        byte_count: end as u64,
        total_bytes: shown.meta.size,
        has_more: end < shown.text.len(),
        next_cursor: None,
        cut_lines: 0,
        clamped: false,
        encoding: None,
        encoding_detected: false,
        line_ending: None,
        redacted_values: Some(shown.values),
        matched_ignore: None,
        version: shown.meta.version(),
        containment: containment(shown.containment),
    };
    Ok(reply.written(content))
}

async fn text(
    scope: &ScopedFs,
    path: &str,
    from: TextFrom,
    arguments: Arguments,
) -> Result<ToolReply, Failure> {
    let (max_lines, clamped) = LIMITS.lines.of(arguments.max_lines);
    let request = TextRequest {
        from,
        max_lines: max_lines as u64,
        max_bytes: LIMITS.text_bytes.default,
        max_line_bytes: Some(LIMITS.line_bytes.default),
        encoding: arguments.encoding,
        classify: true,
    };
    let read = scope.read_text(path, request).await?;
    let page = read.page;
    let cut_lines = page.truncated_lines();
    let next_cursor = page.next_cursor.as_ref().map(ToString::to_string);
    let mut notes = Vec::new();
    if cut_lines > 0 {
        notes.push(format!("{cut_lines} long lines cut"));
    }
    if page.detected {
        notes.push(format!("encoding {} was guessed", page.encoding.label()));
    }
    if let Some(cursor) = &next_cursor {
        notes.push(format!("more: pass cursor {cursor:?}"));
    }
    // Most pages have no note, and then both halves are the same string.
    let content = quoted(&page.text);
    let text = if notes.is_empty() {
        content.clone()
    } else {
        let mut text = page.text;
        if !text.ends_with('\n') && !text.is_empty() {
            text.push('\n');
        }
        text.push('(');
        text.push_str(&notes.join("; "));
        text.push(')');
        quoted(&text)
    };
    let reply = Reply {
        path: read.path.shown().to_owned(),
        start_line: page.start_line,
        line_count: Some(page.lines),
        total_lines: page.total_lines,
        byte_offset: page.byte_range.start,
        byte_count: page.byte_range.end - page.byte_range.start,
        total_bytes: page.total_bytes,
        has_more: page.has_more,
        next_cursor,
        cut_lines,
        clamped,
        encoding: Some(page.encoding.label()),
        encoding_detected: page.detected,
        line_ending: Some(page.line_ending.as_str().to_owned()),
        redacted_values: None,
        matched_ignore: read.matched_ignore,
        version: read.meta.version(),
        containment: containment(read.containment),
        content: Some(content),
        base64: None,
    };
    Ok(reply.written(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{members, names};

    #[test]
    fn a_reply_is_written_as_its_schema_says() {
        let full = Reply {
            path: "a \"b\"".to_owned(),
            content: Some(quoted("one\n")),
            base64: Some(quoted("YQ==")),
            start_line: Some(1),
            line_count: Some(1),
            total_lines: Some(2),
            byte_offset: 3,
            byte_count: 4,
            total_bytes: 5,
            has_more: true,
            next_cursor: Some("c".to_owned()),
            cut_lines: 6,
            clamped: true,
            encoding: Some("utf-8".to_owned()),
            encoding_detected: true,
            line_ending: Some("lf".to_owned()),
            redacted_values: Some(7),
            matched_ignore: Some(".gitignore: *".to_owned()),
            version: "v1".to_owned(),
            containment: "kernel_atomic".to_owned(),
        };
        let written: Value =
            serde_json::from_str(full.written(quoted("one\n")).structured.get()).unwrap();
        assert_eq!(
            written,
            serde_json::json!({
                "path": "a \"b\"", "content": "one\n", "base64": "YQ==", "startLine": 1,
                "lineCount": 1, "totalLines": 2, "byteOffset": 3, "byteCount": 4, "totalBytes": 5,
                "hasMore": true, "nextCursor": "c", "cutLines": 6, "clamped": true,
                "encoding": "utf-8", "encodingDetected": true, "lineEnding": "lf",
                "redactedValues": 7, "matchedIgnore": ".gitignore: *", "version": "v1",
                "containment": "kernel_atomic",
            })
        );
        let (may, must) = members("read_file");
        assert_eq!(names(&written), may);
        let bare = Reply {
            content: None,
            base64: None,
            start_line: None,
            line_count: None,
            total_lines: None,
            next_cursor: None,
            encoding: None,
            line_ending: None,
            redacted_values: None,
            matched_ignore: None,
            ..full
        };
        let written = bare.written(quoted("")).structured;
        assert_eq!(names(&serde_json::from_str(written.get()).unwrap()), must);
    }
}
