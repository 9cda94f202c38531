//! `write_file`: a whole file, created or replaced.

use base64::Engine as _;
use portcullis_files::text::{Bom, Charset, WriteEncoding, WriteEnding, WriteText};
use portcullis_files::{Authority, WriteMode, WriteOptions};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Reason, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::changed::{Reply, expect, fits};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file, from the root. Directories above it are made.
    file_path: String,
    /// The whole new content, at most 5 MiB.
    content: String,
    /// Write the text in this encoding; base64 where content is the bytes themselves, so written. Default: the file's own, utf-8 for a new one.
    encoding: Option<String>,
    /// How lines end: keep (as in the file; in a new one as given), lf or crlf. Default keep.
    line_ending: Option<LineEnd>,
    /// Whether the file starts with a byte order mark. Default: as the file does.
    bom: Option<bool>,
    /// create (nothing may be there), replace (a file must be there) or overwrite (either). Default overwrite.
    #[serde(default)]
    mode: Mode,
    /// Only if the file is still this version, as a read or a change returned it.
    expected_version: Option<String>,
    /// Only if the file's content has this SHA-256, in hexadecimal.
    expected_hash: Option<String>,
    /// Permission bits in octal, such as 0644. Default: the file's own, 0600 for a new one.
    permissions: Option<String>,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

impl Arguments {
    fn is_bytes(&self) -> bool {
        self.encoding.as_deref() == Some("base64")
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Create,
    Replace,
    #[default]
    Overwrite,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LineEnd {
    Keep,
    Lf,
    Crlf,
}

/// What is written.
enum New {
    Text(String, WriteText),
    Bytes(Vec<u8>),
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Write, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Write,
        arguments.root.as_deref(),
        &arguments.file_path,
    )?;
    let sent = arguments.content.len();
    // Four characters are three bytes.
    let sent = if arguments.is_bytes() {
        sent / 4 * 3
    } else {
        sent
    };
    fits(authority, caller, Verb::Write, &path, sent)?;
    let (new, options) =
        how(arguments).map_err(|why| authority.gate().refuse(caller, Verb::Write, &path, why))?;
    let changed = match new {
        New::Text(text, how) => scope.write_text(&path, text, how, &options).await?,
        New::Bytes(bytes) => scope.write_bytes(&path, bytes, &options).await?,
    };
    let reply = Reply::of_change(changed);
    let text = reply.text(if reply.created() {
        "created"
    } else {
        "replaced"
    });
    Ok((reply, text))
}

fn how(arguments: Arguments) -> Result<(New, WriteOptions), Failure> {
    let options = WriteOptions {
        mode: match arguments.mode {
            Mode::Create => WriteMode::Create,
            Mode::Replace => WriteMode::Replace,
            Mode::Overwrite => WriteMode::Overwrite,
        },
        expect: expect(
            arguments.expected_version.clone(),
            arguments.expected_hash.as_deref(),
        )?,
        permissions: arguments
            .permissions
            .as_deref()
            .map(permissions)
            .transpose()?,
        ..WriteOptions::default()
    };
    Ok((new(arguments)?, options))
}

fn new(arguments: Arguments) -> Result<New, Failure> {
    let bad = |what: &str| Failure::new(Reason::BadArguments, what.to_owned());
    if arguments.is_bytes() {
        if arguments.line_ending.is_some() || arguments.bom.is_some() {
            return Err(bad(
                "Bytes are written as they are: lineEnding and bom are for text.",
            ));
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(&arguments.content);
        return bytes
            .map(New::Bytes)
            .map_err(|why| bad("content is not base64.").hint(format!("{why}.")));
    }
    let how = WriteText {
        encoding: match &arguments.encoding {
            None => WriteEncoding::KeepOrUtf8,
            Some(label) => WriteEncoding::Named(Charset::for_label(label)?),
        },
        bom: match arguments.bom {
            None => Bom::Keep,
            Some(true) => Bom::Yes,
            Some(false) => Bom::No,
        },
        line_ending: match arguments.line_ending {
            None | Some(LineEnd::Keep) => WriteEnding::Keep,
            Some(LineEnd::Lf) => WriteEnding::Lf,
            Some(LineEnd::Crlf) => WriteEnding::Crlf,
        },
    };
    Ok(New::Text(arguments.content, how))
}

/// `0644`, `644` or `0o644`: the nine bits, and no other.
fn permissions(typed: &str) -> Result<u32, Failure> {
    let digits = typed.strip_prefix("0o").unwrap_or(typed);
    let octal = !digits.is_empty() && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|bits| octal && *bits <= 0o777)
        .ok_or_else(|| {
            Failure::new(
                Reason::BadArguments,
                "permissions are the nine permission bits in octal.",
            )
            .hint("Write them as 0644 or 0755.")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(arguments: Value) -> Result<New, Reason> {
        new(serde_json::from_value(arguments).unwrap()).map_err(|why| why.reason())
    }

    #[test]
    fn base64_is_bytes_and_has_no_line_ends() {
        let ok = written(json!({"filePath": "f", "content": "AP8=", "encoding": "base64"}));
        assert!(matches!(ok, Ok(New::Bytes(bytes)) if bytes == [0, 0xff]));
        for bad in [
            json!({"filePath": "f", "content": "AP8", "encoding": "base64"}),
            json!({"filePath": "f", "content": "AP8=", "encoding": "base64", "bom": false}),
            json!({"filePath": "f", "content": "", "encoding": "base64", "lineEnding": "lf"}),
        ] {
            assert!(matches!(written(bad), Err(Reason::BadArguments)));
        }
    }

    #[test]
    fn line_ends_and_the_byte_order_mark_are_kept_unless_named() {
        for (typed, want) in [
            (json!({}), (Bom::Keep, WriteEnding::Keep)),
            (
                json!({"bom": true, "lineEnding": "crlf"}),
                (Bom::Yes, WriteEnding::Crlf),
            ),
            (
                json!({"bom": false, "lineEnding": "lf"}),
                (Bom::No, WriteEnding::Lf),
            ),
        ] {
            let mut arguments = json!({"filePath": "f", "content": "x"});
            for (name, value) in typed.as_object().unwrap() {
                arguments[name] = value.clone();
            }
            let Ok(New::Text(_, how)) = written(arguments) else {
                panic!("text is text");
            };
            assert_eq!((how.bom, how.line_ending), want);
        }
    }

    #[test]
    fn permissions_are_nine_bits_in_octal() {
        for (typed, want) in [("0644", 0o644), ("755", 0o755), ("0o600", 0o600)] {
            assert_eq!(permissions(typed).unwrap(), want, "{typed}");
        }
        for bad in ["", "0o", "4755", "+644", "rw-r--r--", "888", "0x1ff"] {
            assert!(permissions(bad).is_err(), "{bad}");
        }
    }
}
