//! Files written, edited and uploaded.

use std::sync::Arc;

use portcullis_files::text::{
    Bom, Charset, Edit, EncodingChoice, WriteEncoding, WriteEnding, WriteText,
};
use portcullis_files::{Changed, Expect, ScopedFs, TextShape, WriteMode, WriteOptions};
use portcullis_proto::{Digest, Failure, Json, Reason};

use super::{MAX_WRITE, WriteAsk, ending, matched, spelled};
use crate::quoted::Object;

/// How many other names are tried for an upload.
const MAX_NAMES: u32 = 1_000;
/// The longest name of a file, in bytes.
const MAX_NAME: usize = 255;

fn options(expect: Expect, mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        expect,
        parents: false,
        classify: true,
        max_bytes: MAX_WRITE as u64,
        ..WriteOptions::default()
    }
}

/// The encoding a request names.
pub(super) fn encoding(ask: &WriteAsk) -> Result<WriteEncoding, Failure> {
    match &ask.encoding {
        None => Ok(WriteEncoding::KeepOrUtf8),
        Some(label) => Charset::for_label(label).map(WriteEncoding::Named),
    }
}

pub(super) async fn write(
    scope: &ScopedFs,
    path: &str,
    ask: WriteAsk,
    encoding: WriteEncoding,
) -> Result<Json, Failure> {
    let how = WriteText {
        encoding,
        bom: match ask.bom {
            None => Bom::Keep,
            Some(true) => Bom::Yes,
            Some(false) => Bom::No,
        },
        line_ending: match ask.crlf {
            None => WriteEnding::Keep,
            Some(true) => WriteEnding::Crlf,
            Some(false) => WriteEnding::Lf,
        },
    };
    let (expect, mode) = match ask.replaces {
        Some(hash) => (Expect::Hash(hash), WriteMode::Replace),
        None => (Expect::Anything, WriteMode::Create),
    };
    let changed = scope
        .write_text(path, ask.content, how, &options(expect, mode))
        .await?;
    let mode = match mode {
        WriteMode::Create => "create",
        WriteMode::Replace | WriteMode::Overwrite => "replace",
    };
    Ok(written("file_write", &changed, |object| {
        object
            .word("mode", mode)
            .flag("created", changed.receipt.created);
    }))
}

pub(super) async fn edit(
    scope: &ScopedFs,
    path: &str,
    old: String,
    new: String,
    expected: Digest,
) -> Result<Json, Failure> {
    let edits = vec![Edit {
        old,
        new,
        all: false,
    }];
    let options = options(Expect::Hash(expected), WriteMode::Replace);
    let changed = scope
        .edit(path, edits, EncodingChoice::Detect, &options)
        .await?;
    Ok(written("file_edit", &changed, |object| {
        object.number("replacements", 1);
    }))
}

pub(super) async fn upload(scope: &ScopedFs, path: &str, bytes: Vec<u8>) -> Result<Json, Failure> {
    let options = WriteOptions {
        mode: WriteMode::Create,
        expect: Expect::Anything,
        ..WriteOptions::default()
    };
    let bytes = Arc::new(bytes);
    for number in 0..MAX_NAMES {
        let name = numbered(path, number)?;
        // All names but the first are looked at before the bytes are.
        if number > 0 && scope.stat(&name).await.is_ok() {
            continue;
        }
        match scope.write_bytes(&name, Arc::clone(&bytes), &options).await {
            Ok(changed) => return Ok(written("file_upload", &changed, |_| {})),
            // A link is refused, not passed by: nobody should wonder what it leads to.
            Err(why) if matches!(why.reason(), Reason::AlreadyExists | Reason::IsDirectory) => {}
            Err(why) => return Err(why),
        }
    }
    Err(Failure::new(
        Reason::AlreadyExists,
        "A thousand files of that name are there already.",
    )
    .hint("Upload it under another name."))
}

/// `dir/name (2).txt`: the name it has when the ones before are taken.
fn numbered(path: &str, number: u32) -> Result<String, Failure> {
    if number == 0 {
        return Ok(path.to_owned());
    }
    let (dir, name) = path
        .rsplit_once('/')
        .map_or(("", path), |(dir, name)| (dir, name));
    // A name that begins with its only dot is all stem.
    let (stem, extension) = match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        Some(_) | None => (name, ""),
    };
    let tail = format!(" ({number}){extension}");
    let room = MAX_NAME.saturating_sub(tail.len());
    let stem = stem.get(..stem.floor_char_boundary(room)).unwrap_or(stem);
    if stem.is_empty() {
        return Err(Failure::new(
            Reason::BadArguments,
            "The name is taken, and too long to be numbered.",
        )
        .hint("Upload it under a shorter name."));
    }
    Ok(if dir.is_empty() && !path.starts_with('/') {
        format!("{stem}{tail}")
    } else {
        format!("{dir}/{stem}{tail}")
    })
}

fn written(kind: &'static str, changed: &Changed, more: impl FnOnce(&mut Object<'_>)) -> Json {
    let receipt = &changed.receipt;
    let mut out = String::with_capacity(512);
    let mut object = Object::begin(&mut out);
    object.word("kind", kind).text("path", receipt.path.shown());
    more(&mut object);
    object.number_or_null("sizeBytes", receipt.bytes);
    if let Some(hash) = &receipt.hash {
        object.text("hash", &spelled(hash));
    }
    if let Some(TextShape {
        charset,
        bom,
        line_ending,
    }) = changed.text
    {
        object
            .text("encoding", &charset.label())
            .flag("bom", bom)
            .word("lineEnding", ending(line_ending))
            .word_or_null("matchedIgnore", matched(changed.ignored_by));
    }
    object.text("version", &receipt.version);
    if let Some(undo) = &receipt.undo {
        object.text("undo", undo);
    }
    object.end();
    Json::vouched(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, number: u32, want: &str) {
        assert_eq!(numbered(path, number).unwrap(), want);
    }

    #[test]
    fn an_upload_finds_a_name_beside_what_is_there() {
        check("a/b.txt", 0, "a/b.txt");
        check("a/b.txt", 2, "a/b (2).txt");
        check("b", 1, "b (1)");
        check(".env", 1, ".env (1)");
        check("a.tar.gz", 1, "a.tar (1).gz");
        let long = numbered(&format!("{}.txt", "ü".repeat(126)), 7).unwrap();
        assert!(
            long.len() <= MAX_NAME && long.ends_with(" (7).txt"),
            "{long}"
        );
    }
}
