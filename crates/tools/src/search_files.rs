//! `search_files`: lines in files that match a regular expression or a text.

use std::fmt::Write as _;

use portcullis_files::{Authority, Case, FoundIn, FoundLines, Hidden, ScopedFs, SearchRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, RelPath, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::get_file_tree::here;
use crate::limits::LIMITS;
use crate::shown::{Skipped, containment};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// What to search for: a regular expression.
    query: String,
    /// Directory to search below, or one file, from the root. Default: the root itself.
    #[serde(default = "here")]
    dir_path: String,
    /// Only files that match this glob: on the name (`*.ts`), or with a `/` on the path below the directory (`src/**/*.ts`).
    #[serde(alias = "name")]
    file_pattern: Option<String>,
    /// Whether small and capital letters are the same. Default true.
    #[serde(default = "yes")]
    ignore_case: bool,
    /// Ignore case unless the query has a capital letter; goes before ignoreCase.
    #[serde(default)]
    smart_case: bool,
    /// How many matching lines to return. Default 50, at most 100.
    max_results: Option<usize>,
    /// Search for the query as it is written, not as a regular expression.
    #[serde(default)]
    literal: bool,
    /// How many lines to show before and after each match. Default 0, at most 20.
    context_lines: Option<usize>,
    /// How many matching lines of one file to return.
    max_per_file: Option<usize>,
    /// Let a match go over several lines. Files over 4 MiB are then not searched.
    #[serde(default)]
    multiline: bool,
    /// Also search what ignore files and the default exclusions hide.
    #[serde(default)]
    include_ignored: bool,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

fn yes() -> bool {
    true
}

/// What `search_files` and `grep` reply with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SearchReply")]
pub struct Reply {
    /// The directory or file searched.
    path: String,
    /// The lines that match, in the order of the tree: the files of a directory by name, then its subdirectories.
    matches: Vec<Match>,
    /// How many lines are returned.
    total_matches: usize,
    /// How many files they are in.
    files_matched: usize,
    /// How many files were searched.
    files_searched: u64,
    /// Whether there are more than was returned.
    truncated: bool,
    /// Whether everything that may be shown was searched.
    complete: bool,
    /// Whether a limit asked for was over the maximum.
    clamped: bool,
    /// Files searched no further because they are binary.
    binary: u64,
    /// Files and directories that could not be read.
    unread: u64,
    /// What was left out.
    skipped: Skipped,
    /// kernel_atomic or best_effort.
    containment: String,
}

/// One line that matches.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SearchMatch")]
struct Match {
    /// Path from the root.
    #[schemars(with = "String")]
    path: RelPath,
    /// Its number in the file, from one.
    line_number: u64,
    /// Where in it the first match begins, in characters from one.
    column: usize,
    /// What it says.
    line: String,
    /// Whether the line is longer than shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    /// The lines before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// The lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Search, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Search,
        arguments.root.as_deref(),
        &arguments.dir_path,
    )?;
    let (max_matches, many) = LIMITS.matches.of(arguments.max_results);
    let (around, wide) = LIMITS.around.of(arguments.context_lines);
    let request = SearchRequest {
        literal: arguments.literal,
        case: match (arguments.smart_case, arguments.ignore_case) {
            (true, _) => Case::Smart,
            (false, true) => Case::Insensitive,
            (false, false) => Case::Sensitive,
        },
        multiline: arguments.multiline,
        files: arguments.file_pattern,
        max_matches,
        max_per_file: arguments.max_per_file.unwrap_or(usize::MAX).max(1),
        include_ignored: arguments.include_ignored,
        hidden: Hidden::Shown,
        ..request(arguments.query, around)
    };
    found(&scope, &path, request, many || wide).await
}

/// A search for `query` by the limits there are.
pub(crate) fn request(query: String, around: usize) -> SearchRequest {
    SearchRequest {
        query,
        literal: false,
        case: Case::Sensitive,
        multiline: false,
        files: None,
        before: around,
        after: around,
        max_matches: LIMITS.matches.default,
        max_per_file: usize::MAX,
        max_bytes: LIMITS.text_bytes.default,
        max_line_bytes: LIMITS.found_line_bytes.default,
        include_ignored: false,
        hidden: Hidden::LeftOut,
        patience_us: LIMITS.walk_ms.default as u64 * 1_000,
    }
}

/// Searches, and shapes the reply: what `search_files` does, and `grep`.
pub(crate) async fn found(
    scope: &ScopedFs,
    path: &str,
    request: SearchRequest,
    clamped: bool,
) -> Result<(Reply, String), Failure> {
    let around = request.after as u64;
    let found = scope.search(path, request).await?;
    let text = show(&found);
    let reply = Reply {
        path: found.path.shown().to_owned(),
        total_matches: found.matches,
        files_matched: found.files.len(),
        files_searched: found.counts.searched,
        truncated: found.truncated,
        complete: found.complete,
        clamped,
        binary: found.counts.binary,
        unread: found.counts.unread,
        skipped: found.counts.into(),
        containment: containment(found.containment),
        matches: found
            .files
            .into_iter()
            .flat_map(|file| matches(file, around))
            .collect(),
    };
    Ok((reply, text))
}

/// The matches of a file, each with the lines around it. A line between two
/// matches stands behind the first, as far as it reaches.
fn matches(file: FoundIn, around: u64) -> Vec<Match> {
    let mut matches: Vec<Match> = Vec::new();
    let mut before = Vec::new();
    for line in file.lines {
        match (line.column, matches.last_mut()) {
            (Some(column), _) => matches.push(Match {
                path: file.path.clone(),
                line_number: line.number,
                column,
                line: line.text,
                cut: line.cut,
                before: std::mem::take(&mut before),
                after: Vec::new(),
            }),
            (None, Some(last)) if line.number <= last.line_number + around => {
                last.after.push(line.text);
            }
            (None, Some(_) | None) => before.push(line.text),
        }
    }
    matches
}

/// As `grep` writes it: `path:line:column: text`, and `path:line- text` beside
/// a match.
fn show(found: &FoundLines) -> String {
    let many = |count: usize, one: &str, more: &str| {
        format!("{count} {}", if count == 1 { one } else { more })
    };
    let mut text = format!(
        "{} across {}",
        many(found.matches, "match", "matches"),
        many(found.files.len(), "file", "files")
    );
    if found.matches > 0 {
        text.push_str("\n---");
    }
    for file in &found.files {
        for line in &file.lines {
            // Writing to a String cannot fail.
            let _ = match line.column {
                Some(column) => {
                    write!(text, "\n./{}:{}:{column}: ", file.path, line.number)
                }
                None => write!(text, "\n./{}:{}- ", file.path, line.number),
            };
            text.push_str(&line.text);
            if line.cut {
                text.push('…');
            }
        }
    }
    let counts = &found.counts;
    let notes = [
        Skipped::from(*counts).sentence(),
        (counts.unread > 0).then(|| format!("could not be read: {}", counts.unread)),
        found
            .truncated
            .then(|| "more: narrow the query or raise the limit".to_owned()),
        (!found.complete && !found.truncated).then(|| {
            "not complete: something moved, could not be read, or it took too long; ask again or narrow it"
                .to_owned()
        }),
    ];
    for note in notes.into_iter().flatten() {
        let _ = write!(text, "\n({note})");
    }
    text
}

#[cfg(test)]
mod tests {
    use portcullis_files::FoundLine;

    use super::*;

    #[test]
    fn a_line_between_two_matches_is_told_once() {
        let line = |number, column, text: &str| FoundLine {
            number,
            column,
            text: text.to_owned(),
            cut: false,
        };
        let found = matches(
            FoundIn {
                path: RelPath::parse("a").unwrap(),
                lines: vec![
                    line(1, None, "one"),
                    line(2, Some(1), "two"),
                    line(3, None, "three"),
                    line(4, None, "four"),
                    line(5, Some(3), "five"),
                    line(6, None, "six"),
                ],
                matches: 2,
                more: false,
            },
            1,
        );
        let shape: Vec<_> = found
            .iter()
            .map(|found| {
                (
                    found.line_number,
                    found.before.join(","),
                    found.after.join(","),
                )
            })
            .collect();
        assert_eq!(
            shape,
            [
                (2, "one".to_owned(), "three".to_owned()),
                (5, "four".to_owned(), "six".to_owned())
            ]
        );
    }
}
