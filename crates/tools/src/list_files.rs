//! `list_files`: what is in a directory, or, with a pattern, below it.

use portcullis_files::{Authority, GlobRequest, ListRequest, Order, ScopedFs, Want};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Json, ToolReply, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::get_file_tree::here;
use crate::limits::LIMITS;
use crate::quoted::{Object, push_number, quoted};
use crate::shown::{ShownEntry, Skipped, containment, on_one_line};

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Type {
    File,
    Directory,
    All,
}

impl From<Type> for Want {
    fn from(kind: Type) -> Self {
        match kind {
            Type::File => Self::Files,
            Type::Directory => Self::Directories,
            Type::All => Self::All,
        }
    }
}

pub(crate) fn all() -> Type {
    Type::All
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Directory to list, from the root. Default: the root itself.
    #[serde(default = "here")]
    dir_path: String,
    /// A glob on the path below the directory, such as `**/*.ts`. Implies recursive.
    pattern: Option<String>,
    /// What to list: file, directory or all. Default all.
    #[serde(default = "all")]
    r#type: Type,
    /// Also list what is in subdirectories. Default false.
    #[serde(default)]
    recursive: bool,
    /// How many entries to return. Default 200, at most 1,000.
    max_results: Option<usize>,
    /// Go on where the page before ended (its nextCursor).
    cursor: Option<String>,
    /// With size and time of each entry. Default true.
    metadata: Option<bool>,
    /// Also list what ignore files and the default exclusions hide.
    #[serde(default)]
    include_ignored: bool,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reply {
    /// The directory listed.
    pub(crate) path: String,
    /// Its entries, directories first, then by name.
    pub(crate) entries: Vec<ShownEntry>,
    /// Pass it as `cursor` to get the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
    /// Whether there is more than was returned.
    pub(crate) truncated: bool,
    /// Whether everything that may be shown was looked at.
    pub(crate) complete: bool,
    /// Whether a limit asked for was over the maximum.
    pub(crate) clamped: bool,
    /// What was left out.
    pub(crate) skipped: Skipped,
    /// kernel_atomic or best_effort.
    pub(crate) containment: String,
}

/// What an entry takes at most in a reply, as a rule.
const ENTRY_BYTES: usize = 160;

impl Reply {
    /// Both halves, as they go over a wire.
    pub(crate) fn written(&self) -> ToolReply {
        let mut out = String::with_capacity(256 + self.entries.len() * ENTRY_BYTES);
        let mut object = Object::begin(&mut out);
        object.text("path", &self.path).with("entries", |out| {
            out.push('[');
            for (n, entry) in self.entries.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                entry.write(out);
            }
            out.push(']');
        });
        if let Some(cursor) = &self.next_cursor {
            object.text("nextCursor", cursor);
        }
        object
            .flag("truncated", self.truncated)
            .flag("complete", self.complete)
            .flag("clamped", self.clamped)
            .with("skipped", |out| self.skipped.write(out))
            .text("containment", &self.containment);
        object.end();
        ToolReply {
            structured: Json::vouched(out),
            text: quoted(&show(self)),
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
    let arguments: Arguments = parse(authority, caller, Verb::List, arguments)?;
    let deep = arguments.recursive || arguments.pattern.is_some();
    let verb = if deep { Verb::Glob } else { Verb::List };
    let (scope, path) = scope(
        authority,
        caller,
        verb,
        arguments.root.as_deref(),
        &arguments.dir_path,
    )?;
    let reply = if deep {
        find(
            &scope,
            &path,
            arguments.pattern,
            arguments.r#type,
            arguments.max_results,
            arguments.include_ignored,
        )
        .await?
    } else {
        let (max, clamped) = LIMITS.entries.of(arguments.max_results);
        let request = ListRequest {
            want: arguments.r#type.into(),
            order: Order::DirectoriesFirst,
            max,
            after: arguments.cursor,
            metadata: arguments.metadata.unwrap_or(true),
            include_ignored: arguments.include_ignored,
            mark_ignored: false,
        };
        let listed = scope.list(&path, request).await?;
        Reply {
            path: listed.path.shown().to_owned(),
            entries: listed.entries.into_iter().map(ShownEntry::from).collect(),
            truncated: listed.next.is_some(),
            next_cursor: listed.next,
            complete: listed.complete,
            clamped,
            skipped: listed.counts.into(),
            containment: containment(listed.containment),
        }
    };
    Ok(reply.written())
}

/// Finds names below a directory: what `glob` does, and `list_files` with a pattern.
pub(crate) async fn find(
    scope: &ScopedFs,
    path: &str,
    pattern: Option<String>,
    kind: Type,
    max_results: Option<usize>,
    include_ignored: bool,
) -> Result<Reply, Failure> {
    let (max, clamped) = LIMITS.entries.of(max_results);
    let request = GlobRequest {
        pattern,
        want: kind.into(),
        max,
        include_ignored,
        patience_us: LIMITS.walk_ms.default as u64 * 1_000,
    };
    let found = scope.glob(path, request).await?;
    Ok(Reply {
        path: found.path.shown().to_owned(),
        entries: found.entries.into_iter().map(ShownEntry::from).collect(),
        next_cursor: None,
        truncated: found.truncated,
        complete: found.complete,
        clamped,
        skipped: found.counts.into(),
        containment: containment(found.containment),
    })
}

/// A line an entry, as a person reads it.
fn show(reply: &Reply) -> String {
    let mut text = String::with_capacity(256 + reply.entries.len() * ENTRY_BYTES / 2);
    for entry in &reply.entries {
        text.push_str(&match &entry.path {
            Some(path) => on_one_line(path.shown(), true),
            None => on_one_line(&entry.name, false),
        });
        match (entry.r#type, entry.size_bytes) {
            ("file", Some(size)) => {
                text.push_str("  ");
                push_number(size, &mut text);
                text.push_str(" B\n");
            }
            ("file", None) => text.push('\n'),
            ("directory", _) => text.push_str("/\n"),
            _ => text.push_str(" (not a file)\n"),
        }
    }
    let mut lines = Vec::new();
    if reply.entries.is_empty() {
        lines.push("(nothing)".to_owned());
    }
    lines.extend(
        reply
            .skipped
            .sentence()
            .map(|sentence| format!("({sentence})")),
    );
    if reply.truncated {
        lines.push(match &reply.next_cursor {
            Some(cursor) => format!("(more: pass cursor {cursor:?})"),
            None => "(more: narrow the pattern or raise maxResults)".to_owned(),
        });
    } else if !reply.complete {
        lines.push(
            "(not complete: something moved or it took too long; ask again or narrow it)"
                .to_owned(),
        );
    }
    text.push_str(&lines.join("\n"));
    text.truncate(text.trim_end_matches('\n').len());
    text
}

#[cfg(test)]
mod tests {
    use portcullis_proto::RelPath;
    use serde_json::json;

    use super::*;
    use crate::catalogue::{members, names};

    #[test]
    fn a_reply_is_written_as_its_schema_says() {
        let full = Reply {
            path: "d".to_owned(),
            entries: vec![
                ShownEntry {
                    name: "a \"b\".txt".to_owned(),
                    path: Some(RelPath::parse("d/a \"b\".txt").unwrap()),
                    r#type: "file",
                    size_bytes: Some(70),
                    modified_ms: Some(-1),
                },
                ShownEntry {
                    name: "odd\n".to_owned(),
                    path: None,
                    r#type: "directory",
                    size_bytes: None,
                    modified_ms: None,
                },
            ],
            next_cursor: Some("1:a".to_owned()),
            truncated: true,
            complete: false,
            clamped: false,
            skipped: Skipped {
                denied: 1,
                secret: 20,
                ignored: 300,
                moved: 0,
            },
            containment: "best_effort".to_owned(),
        };
        let reply = full.written();
        let written: Value = serde_json::from_str(reply.structured.get()).unwrap();
        assert_eq!(
            written,
            json!({
                "path": "d",
                "entries": [
                    {"name": "a \"b\".txt", "path": "d/a \"b\".txt", "type": "file",
                     "sizeBytes": 70, "modifiedMs": -1},
                    {"name": "odd\n", "type": "directory"},
                ],
                "nextCursor": "1:a", "truncated": true, "complete": false, "clamped": false,
                "skipped": {"denied": 1, "secret": 20, "ignored": 300, "moved": 0},
                "containment": "best_effort",
            })
        );
        let text: String = serde_json::from_str(reply.text.get()).unwrap();
        assert_eq!(
            text,
            "d/a \"b\".txt  70 B\nodd\\n/\n(left out: 1 denied by a rule, 20 secret (ask for one by \
             name), 300 ignored (includeIgnored shows them))\n(more: pass cursor \"1:a\")"
        );
        let (may, must) = members("list_files");
        assert_eq!(names(&written), may);
        let bare = Reply {
            entries: Vec::new(),
            next_cursor: None,
            ..full
        };
        let written = bare.written().structured;
        assert_eq!(names(&serde_json::from_str(written.get()).unwrap()), must);
    }
}
