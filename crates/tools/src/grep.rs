//! `grep`: what `search_files` does, asked for as workspace agents ask for it.

use portcullis_files::{Authority, Case, Hidden, SearchRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Verb};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::get_file_tree::here;
use crate::limits::LIMITS;
use crate::search_files::{Reply, found, request};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// A regular expression.
    pattern: String,
    /// File, directory or glob to search, from the root. Default: the root itself.
    #[serde(default = "here")]
    path: String,
    /// How many lines to show before and after each match. Default 0, at most 20.
    context_lines: Option<usize>,
    /// How many matching lines of one file to return.
    max_count: Option<usize>,
    /// Whether small and capital letters differ. Default true.
    #[serde(default = "yes")]
    case_sensitive: bool,
    /// Also search files and directories whose names begin with a dot. Default false.
    #[serde(default)]
    include_hidden: bool,
    /// How many matching lines to return. Default and at most 1,000.
    max_results: Option<usize>,
    /// Search for the pattern as it is written, not as a regular expression.
    #[serde(default)]
    literal: bool,
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

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Search, arguments)?;
    let (path, files) = split(&arguments.path);
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Search,
        arguments.root.as_deref(),
        &path,
    )?;
    let (max_matches, many) = LIMITS.grep_matches.of(arguments.max_results);
    let (around, wide) = LIMITS.around.of(arguments.context_lines);
    let request = SearchRequest {
        literal: arguments.literal,
        case: if arguments.case_sensitive {
            Case::Sensitive
        } else {
            Case::Insensitive
        },
        multiline: arguments.multiline,
        files,
        max_matches,
        max_per_file: arguments.max_count.unwrap_or(usize::MAX).max(1),
        include_ignored: arguments.include_ignored,
        hidden: if arguments.include_hidden {
            Hidden::Shown
        } else {
            Hidden::LeftOut
        },
        ..request(arguments.pattern, around)
    };
    found(&scope, &path, request, many || wide).await
}

/// The directory a glob stays below, and the rest of it; a path without a
/// wildcard is all there is.
fn split(path: &str) -> (String, Option<String>) {
    let wild = |part: &str| part.contains(['*', '?', '[', '{']);
    let parts: Vec<&str> = path.split('/').collect();
    let Some(first) = parts.iter().position(|part| wild(part)) else {
        return (path.to_owned(), None);
    };
    let (above, below) = parts.split_at(first);
    let dir = match above {
        [] => ".".to_owned(),
        [""] => "/".to_owned(),
        above => above.join("/"),
    };
    // The leading `./` says that it is about the path, even where it has one part.
    (dir, Some(format!("./{}", below.join("/"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, dir: &str, files: Option<&str>) {
        assert_eq!(split(path), (dir.to_owned(), files.map(str::to_owned)));
    }

    #[test]
    fn a_glob_is_searched_from_the_directory_it_stays_below() {
        check("src", "src", None);
        check("*.ts", ".", Some("./*.ts"));
        check("src/**/*.ts", "src", Some("./**/*.ts"));
        check("a/b/{c,d}/e", "a/b", Some("./{c,d}/e"));
        check("/home/x/*.rs", "/home/x", Some("./*.rs"));
        check("~/p/**", "~/p", Some("./**"));
    }
}
