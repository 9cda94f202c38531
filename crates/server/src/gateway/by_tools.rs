//! The file routes over machines that offer tools and no more: n8n's daemon, and
//! the seed's.
//!
//! What their tools tell is put into the shapes of these routes, as far as they
//! tell it; what they cannot say is `not_offered`. They know no versions: what is
//! expected of a file is looked at before it is written, and a save in between is
//! lost. A text they return whole is the file, byte by byte, so its hash is ours.

use std::sync::Arc;

use portcullis_gate::Caller;
use portcullis_proto::{Digest, Failure, Group, Json, Reason, Scope};
use portcullis_store::CallName;
use portcullis_tools::{FileAsk, ListAsk, Machine as _, MachineAsk, ReadAsk, WriteAsk, whole_text};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::again::{Named, call_name};
use super::calls::Calls;
use super::link::Link;
use super::result::Returned;
use super::there::There;

/// More lines than such a daemon reads of a file.
const ALL_LINES: u64 = 1_000_000;
/// How often a file is asked for that does not come at once.
const MAX_ROUNDS: usize = 32;
/// The most text that is put together.
const MAX_TEXT: usize = 2 * 1024 * 1024;
/// The most entries of a directory such a daemon looks at.
const MAX_ENTRIES: usize = 10_000;
/// What stands in a text for bytes that are none.
const NO_TEXT: char = '\u{fffd}';
/// What a text begins with that has a byte order mark.
const MARK: char = '\u{feff}';

impl There {
    /// Asks the tools behind `link` for what `ask` means.
    pub(super) async fn by_tools(
        &self,
        caller: &Caller,
        link: &Arc<Link>,
        ask: MachineAsk,
    ) -> Result<Json, Failure> {
        // Of what only looks, several calls may be made, and one name stands for one.
        let named = (ask.verb().group() == Group::FilesystemWrite)
            .then(|| {
                let (operation, args) = ask.spelled();
                call_name(caller, &operation, &args)
            })
            .flatten();
        let files = ByTools {
            there: self,
            caller,
            link,
            named,
            until: Instant::now() + Calls(&self.gateway).patience(link.about().dialect),
        };
        let body = match ask {
            MachineAsk::File(FileAsk::Read(ask)) => return files.read(&ask).await,
            MachineAsk::File(FileAsk::List(ask)) => files.list(&ask).await?,
            MachineAsk::File(FileAsk::Write(ask)) => files.write(ask).await?,
            MachineAsk::File(FileAsk::Edit {
                path,
                old,
                new,
                expected,
            }) => files.edit(&path, &old, &new, expected).await?,
            MachineAsk::File(
                FileAsk::Bytes { .. }
                | FileAsk::Stat { .. }
                | FileAsk::Glob { .. }
                | FileAsk::Upload { .. },
            )
            | MachineAsk::Raw { .. }
            | MachineAsk::Undoable {}
            | MachineAsk::Undo { .. }
            | MachineAsk::Resources { .. }
            | MachineAsk::ReadResource { .. } => return Err(files.cannot(ask.about(), NO_TOOL)),
        };
        Json::of(&body).map_err(|error| Failure::from(Reason::Bug).detail(error))
    }
}

/// Why something cannot be asked for.
const NO_TOOL: &str = "it has no tool for that";
const NO_PAGES: &str = "its lists have no pages and know no ignore files";
const NO_CURSOR: &str = "its texts have no cursors";
const NO_SHAPE: &str = "it writes text in UTF-8 as it comes, and in no other shape";
const NOT_WHOLE: &str = "it does not tell all of this file as text";

struct ByTools<'a> {
    there: &'a There,
    caller: &'a Caller,
    link: &'a Arc<Link>,
    /// What its caller calls what is asked for: of all calls that are made for
    /// it, the one that changes something.
    named: Option<CallName>,
    /// By when all of it is done: a route asked once, however many calls it takes.
    until: Instant,
}

impl ByTools<'_> {
    /// What the machine's tools cannot say, on the record.
    fn cannot(&self, path: &str, why: &str) -> Failure {
        let failure = Failure::new(
            Reason::NotOffered,
            format!(
                "The linked machine {} offers tools alone: {why}.",
                self.link.about().name
            ),
        )
        .hint("Lend it with `portcullis connect` for all routes, or call its tools over /mcp.");
        self.there.refuse(self.caller, path, failure)
    }

    /// Refuses on the record.
    fn refused(&self, path: &str, why: impl Into<Failure>) -> Failure {
        self.there.refuse(self.caller, path, why.into())
    }

    /// Asks a tool that only looks.
    async fn call(&self, tool: &str, arguments: Value) -> Result<Returned, Failure> {
        self.call_for(tool, arguments, None).await
    }

    /// Has a text written, for `body`: what its caller is told, now and when it
    /// asks again.
    async fn save(&self, path: &str, content: &str, body: &Value) -> Result<(), Failure> {
        let arguments = json!({"filePath": path, "content": content});
        let body = Some(body.to_string().into());
        self.call_for("write_file", arguments, body).await?;
        Ok(())
    }

    async fn call_for(
        &self,
        tool: &str,
        arguments: Value,
        body: Option<Arc<str>>,
    ) -> Result<Returned, Failure> {
        let about = self.link.about();
        let Some(offered) = about.offer.tool(tool) else {
            return Err(self.cannot(tool, NO_TOOL));
        };
        let named = body.and_then(|body| {
            Some(Named {
                call: self.named?,
                scope: Scope::of_group(offered.group),
                body: Some(body),
            })
        });
        let arguments = super::spelling::object(arguments);
        if Instant::now() >= self.until {
            return Err(self.refused(tool, never_asked()));
        }
        let called = self
            .there
            .run(self.caller, self.link, tool, arguments, named);
        let returned = called.await?;
        if returned.is_error() {
            return Err(typed(&returned));
        }
        Ok(returned)
    }

    /// All of a text, as its machine decoded it.
    async fn whole(&self, path: &str) -> Result<String, Failure> {
        let mut text = String::new();
        let mut line = 1;
        for _ in 0..MAX_ROUNDS {
            let mut arguments = json!({"filePath": path, "maxLines": ALL_LINES});
            if line > 1 {
                arguments["startLine"] = line.into();
                text.push('\n');
            }
            let returned = self.call("read_file", arguments).await?;
            let Some(content) = returned.told("content").and_then(Value::as_str) else {
                return Err(self.refused(path, Reason::Binary));
            };
            text.push_str(content);
            if text.len() > MAX_TEXT || text.contains(NO_TEXT) {
                return Err(self.cannot(path, NOT_WHOLE));
            }
            if returned.told("truncated").and_then(Value::as_bool) != Some(true) {
                return Ok(text);
            }
            line += 1 + breaks(content);
        }
        Err(self.cannot(path, NOT_WHOLE))
    }

    async fn read(&self, ask: &ReadAsk) -> Result<Json, Failure> {
        if ask.cursor.is_some() {
            return Err(self.cannot(&ask.path, NO_CURSOR));
        }
        let text = self.whole(&ask.path).await?;
        whole_text(&ask.path, &text, ask).map_err(|why| self.refused(&ask.path, why))
    }

    /// What is in a directory, as its machine tells it.
    async fn entries(&self, path: &str, most: usize) -> Result<(Vec<Value>, bool), Failure> {
        let arguments = json!({"dirPath": path, "maxResults": most});
        let returned = self.call("list_files", arguments).await?;
        let entries = returned.told("entries").and_then(Value::as_array);
        let Some(entries) = entries else {
            return Err(self.cannot(path, NO_TOOL));
        };
        let truncated = returned.told("truncated").and_then(Value::as_bool) == Some(true);
        Ok((entries.clone(), truncated))
    }

    async fn list(&self, ask: &ListAsk) -> Result<Value, Failure> {
        if ask.cursor.is_some() || ask.include_ignored {
            return Err(self.cannot(&ask.path, NO_PAGES));
        }
        let most = ask.limit.unwrap_or(MAX_LISTED).min(MAX_LISTED);
        let (mut entries, truncated) = self.entries(&ask.path, most + 1).await?;
        let truncated = truncated || entries.len() > most;
        entries.truncate(most);
        let mut shown: Vec<Value> = entries.iter().filter_map(|one| entry(one, ask)).collect();
        shown.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        let mut body = json!({
            "kind": "list",
            "path": plain(&ask.path),
            "entries": shown,
            "truncated": truncated,
            "matchedIgnore": null,
            "omittedDenied": 0,
            "omittedSecret": 0,
        });
        if ask.limit.is_some() {
            body["nextCursor"] = Value::Null;
        }
        Ok(body)
    }

    async fn write(&self, ask: WriteAsk) -> Result<Value, Failure> {
        let is_utf8 = ask
            .encoding
            .as_deref()
            .is_none_or(|name| name.eq_ignore_ascii_case("utf-8"));
        if !is_utf8 || ask.bom.is_some() || ask.crlf.is_some() {
            return Err(self.cannot(&ask.path, NO_SHAPE));
        }
        match ask.replaces {
            None => self.is_free(&ask.path).await?,
            Some(expected) => drop(self.expected(&ask.path, expected).await?),
        }
        let mut body = written("file_write", &ask.path, &ask.content);
        let made = ask.replaces.is_none();
        body["mode"] = if made { "create" } else { "replace" }.into();
        body["created"] = made.into();
        self.save(&ask.path, &ask.content, &body).await?;
        Ok(body)
    }

    /// Makes the edit here: some of these daemons take signs in a text for others.
    async fn edit(
        &self,
        path: &str,
        old: &str,
        new: &str,
        expected: Digest,
    ) -> Result<Value, Failure> {
        let text = self.expected(path, expected).await?;
        let mut found = text.match_indices(old);
        let Some((at, _)) = found.next() else {
            return Err(self.refused(path, Reason::TextNotFound));
        };
        if found.next().is_some() {
            return Err(self.refused(path, Reason::AmbiguousText));
        }
        let (before, rest) = text.split_at(at);
        let after = rest.get(old.len()..).unwrap_or_default();
        let content = format!("{before}{new}{after}");
        let mut body = written("file_edit", path, &content);
        body["replacements"] = 1.into();
        self.save(path, &content, &body).await?;
        Ok(body)
    }

    /// The text of a file that has to hash to this.
    async fn expected(&self, path: &str, expected: Digest) -> Result<String, Failure> {
        let text = self.whole(path).await?;
        if sha256(&text) != expected {
            return Err(self.refused(path, Reason::VersionMismatch));
        }
        if text.starts_with(MARK) {
            return Err(self.cannot(path, NO_SHAPE));
        }
        Ok(text)
    }

    /// Whether nothing has that name, in a directory that is there.
    async fn is_free(&self, path: &str) -> Result<(), Failure> {
        let path = plain(path);
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        let (entries, truncated) = self.entries(dir, MAX_ENTRIES).await?;
        let is_there = entries.iter().any(|one| name_of(one) == Some(name));
        if is_there {
            return Err(self.refused(path, Reason::AlreadyExists));
        }
        if truncated || entries.len() >= MAX_ENTRIES {
            return Err(self.cannot(path, "it does not tell all names of that directory"));
        }
        Ok(())
    }
}

/// The time of a route ended between two calls.
fn never_asked() -> Failure {
    Failure::new(
        Reason::Deadline,
        "What had to be looked at first took all the time there was. Nothing was changed.",
    )
    .hint("Ask again; the machine is slow, or the file comes in many pieces.")
}

/// The most entries of a directory that are told at once.
const MAX_LISTED: usize = 2_000;

fn breaks(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn plain(path: &str) -> &str {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    if path.is_empty() { "." } else { path }
}

fn name_of(entry: &Value) -> Option<&str> {
    let path = entry.get("path")?.as_str()?;
    path.rsplit('/').next()
}

/// One entry, in the shape of these routes.
fn entry(told: &Value, ask: &ListAsk) -> Option<Value> {
    let kind = match told.get("type").and_then(Value::as_str) {
        Some(kind @ ("file" | "directory")) => kind,
        Some(_) | None => "other",
    };
    let mut entry = Map::new();
    entry.insert("name".to_owned(), name_of(told)?.into());
    entry.insert("kind".to_owned(), kind.into());
    entry.insert("ignored".to_owned(), false.into());
    if let Some(size) = told.get("sizeBytes").filter(|_| ask.limit.is_some()) {
        entry.insert("sizeBytes".to_owned(), size.clone());
    }
    Some(entry.into())
}

fn sha256(text: &str) -> Digest {
    let mut hash = Digest::ZERO;
    let made = digest(&SHA256, text.as_bytes());
    for (to, from) in hash.0.iter_mut().zip(made.as_ref()) {
        *to = *from;
    }
    hash
}

/// What a text came to that was written as it is.
fn written(kind: &str, path: &str, content: &str) -> Value {
    let hash = format!("sha256:{}", sha256(content).hex());
    json!({
        "kind": kind,
        "path": plain(path),
        "sizeBytes": content.len(),
        "hash": hash,
        "encoding": "utf-8",
        "bom": content.starts_with(MARK),
        "lineEnding": if content.contains("\r\n") { "crlf" } else { "lf" },
        "matchedIgnore": null,
        "version": hash,
    })
}

/// A failure of a daemon that types none, as far as its words tell.
pub(super) fn typed(returned: &Returned) -> Failure {
    let failure = returned.failure();
    if failure.reason() != Reason::Io {
        return failure;
    }
    let words = failure.message();
    let tells = [
        ("ENOENT", Reason::NotFound),
        ("ENOTDIR", Reason::NotDirectory),
        ("EISDIR", Reason::IsDirectory),
        ("EEXIST", Reason::AlreadyExists),
        ("EACCES", Reason::Os),
        ("EPERM", Reason::Os),
        ("escapes the base directory", Reason::Escape),
        ("File too large", Reason::TooLarge),
        ("binary file", Reason::Binary),
    ];
    let told = tells.iter().find(|(sign, _)| words.contains(sign));
    match told {
        // Its own words may hold a path of its host.
        Some((_, reason)) => Failure::from(*reason),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_in_words_is_typed_as_far_as_they_tell() {
        for (words, want) in [
            (
                "ENOENT: no such file or directory, stat '/home/x/a'",
                Reason::NotFound,
            ),
            ("Path \"../x\" escapes the base directory", Reason::Escape),
            ("File too large: 9 bytes", Reason::TooLarge),
            ("Unsupported binary file", Reason::Binary),
            ("something else", Reason::Io),
        ] {
            let failed = json!({
                "content": [], "structuredContent": {"error": words}, "isError": true,
            });
            let why = typed(&Returned::parse(&failed.to_string()).unwrap());
            assert_eq!(why.reason(), want, "{words}");
            assert!(!why.message().contains("/home"), "{}", why.message());
        }
    }

    #[test]
    fn a_path_is_told_from_the_root() {
        for (path, want) in [("./a/b/", "a/b"), (".", "."), ("", "."), ("a", "a")] {
            assert_eq!(plain(path), want, "{path:?}");
        }
    }
}
