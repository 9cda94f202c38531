//! `list_files`: what is in a directory, or, with a pattern, below it.

use std::fmt::Write as _;

use portcullis_files::{Authority, GlobRequest, ListRequest, Order, ScopedFs, Want};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::get_file_tree::here;
use crate::limits::LIMITS;
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

#[derive(Debug, Serialize, JsonSchema)]
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

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
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
    let text = show(&reply);
    Ok((reply, text))
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
pub(crate) fn show(reply: &Reply) -> String {
    let mut text = String::new();
    for entry in &reply.entries {
        text.push_str(&match &entry.path {
            Some(path) => on_one_line(path.shown(), true),
            None => on_one_line(&entry.name, false),
        });
        // Writing to a String cannot fail.
        let _ = match (entry.r#type, entry.size_bytes) {
            ("file", Some(size)) => writeln!(text, "  {size} B"),
            ("file", None) => writeln!(text),
            ("directory", _) => writeln!(text, "/"),
            _ => writeln!(text, " (not a file)"),
        };
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
