//! `write_file`: a whole file, created or replaced.

use portcullis_files::text::{Charset, WriteEncoding, WriteText};
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
    /// Write the text in this encoding. Default: the file's own, utf-8 for a new one.
    encoding: Option<String>,
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

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Create,
    Replace,
    #[default]
    Overwrite,
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
    fits(
        authority,
        caller,
        Verb::Write,
        &path,
        arguments.content.len(),
    )?;
    let (how, options) =
        how(&arguments).map_err(|why| authority.gate().refuse(caller, Verb::Write, &path, why))?;
    let changed = scope
        .write_text(&path, arguments.content, how, &options)
        .await?;
    let reply = Reply::of_change(changed);
    let text = reply.text(if reply.created() {
        "created"
    } else {
        "replaced"
    });
    Ok((reply, text))
}

fn how(arguments: &Arguments) -> Result<(WriteText, WriteOptions), Failure> {
    let encoding = match &arguments.encoding {
        None => WriteEncoding::KeepOrUtf8,
        Some(label) => WriteEncoding::Named(Charset::for_label(label)?),
    };
    let how = WriteText {
        encoding,
        ..WriteText::default()
    };
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
    Ok((how, options))
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
