//! What a file server can be asked, and which of its tools look as if they answer it.
//!
//! Invariants:
//! - a tool is chosen by its name and the names of its inputs alone; whether it really works is
//!   found out in calm, by [`calibrate`](crate::calibrate);
//! - a tool whose name or annotations say that it changes something is never chosen.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Something a file server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// The bytes of one file.
    Read,
    /// The bytes of several files in one call.
    ReadMany,
    /// The facts about one file.
    Stat,
    /// The names in one directory.
    List,
    /// The names below a directory, as a tree.
    Tree,
    /// The paths that match a pattern.
    Glob,
    /// The lines that match a query.
    Search,
    /// The names in an archive.
    Inspect,
    /// One file, as an MCP resource.
    Resource,
}

impl Verb {
    /// Every verb, in the order in which reports show them.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::ReadMany,
        Self::Stat,
        Self::List,
        Self::Tree,
        Self::Glob,
        Self::Search,
        Self::Inspect,
        Self::Resource,
    ];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadMany => "read-many",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Glob => "glob",
            Self::Search => "search",
            Self::Inspect => "inspect",
            Self::Resource => "resource",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// The word every line of every scratch file begins with, so that a search finds both sides.
pub(crate) const LINE_WORD: &str = "hammerline";

/// How paths are written for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathStyle {
    Relative,
    Absolute,
}

/// A tool as the server described it.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    inputs: Vec<String>,
    changes_things: bool,
}

impl Tool {
    pub(crate) fn from_listing(entry: &Value) -> Option<Self> {
        let properties = entry
            .pointer("/inputSchema/properties")
            .and_then(Value::as_object);
        Some(Self {
            name: entry.get("name")?.as_str()?.to_owned(),
            inputs: properties
                .map(|map| map.keys().cloned().collect())
                .unwrap_or_default(),
            changes_things: entry.pointer("/annotations/readOnlyHint") == Some(&json!(false)),
        })
    }

    /// The verbs this tool may answer, best guess first; none if it might change something.
    pub(crate) fn likely_verbs(&self) -> Vec<Verb> {
        let words = words_of(&self.name);
        let says = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        if self.changes_things || says(CHANGING_WORDS) {
            return Vec::new();
        }
        if says(ARCHIVE_WORDS) {
            // By itself such a word is one for making one.
            let looks = says(&["inspect", "list", "read", "peek"]);
            return looks.then_some(Verb::Inspect).into_iter().collect();
        }
        if says(&["read", "get"]) && says(&["multiple", "many", "batch", "files"]) {
            vec![Verb::ReadMany]
        } else if says(&["tree"]) {
            vec![Verb::Tree]
        } else if says(&["stat", "info", "metadata"]) {
            vec![Verb::Stat]
        } else if says(&["glob", "find"]) {
            vec![Verb::Glob, Verb::Search]
        } else if says(&["search", "grep"]) {
            if self.input(QUERY_INPUTS).is_some() {
                vec![Verb::Search]
            } else {
                vec![Verb::Glob, Verb::Search]
            }
        } else if says(&["list", "ls", "dir", "readdir"]) {
            vec![Verb::List]
        } else if says(&["read", "cat", "view", "get", "open"]) {
            vec![Verb::Read]
        } else {
            Vec::new()
        }
    }

    /// The arguments to call this tool with for `verb`, or `None` if it has no input for a path.
    pub(crate) fn arguments(&self, verb: Verb, path: impl Fn(&str) -> String) -> Option<Value> {
        let mut arguments = Map::new();
        let mut put = |input: &str, value: Value| arguments.insert(input.to_owned(), value);
        match verb {
            Verb::Read => put(self.input(FILE_INPUTS)?, json!(path(LEAF))),
            Verb::ReadMany => put(self.input(MANY_INPUTS)?, json!([path(LEAF), path(OTHER)])),
            Verb::Stat => put(self.input(FILE_INPUTS)?, json!(path(SIZED))),
            Verb::Inspect => put(self.input(ARCHIVE_INPUTS)?, json!(path(PACKED))),
            Verb::List => put(self.input(DIRECTORY_INPUTS)?, json!(path(SUB))),
            Verb::Tree => {
                if let Some(depth) = self.input(DEPTH_INPUTS) {
                    put(depth, json!(4));
                }
                put(self.input(DIRECTORY_INPUTS)?, json!(path(GRAND)))
            }
            Verb::Glob => {
                put(self.input(PATTERN_INPUTS)?, json!("**/*.txt"));
                put(self.input(DIRECTORY_INPUTS)?, json!(path(GRAND)))
            }
            Verb::Search => {
                let query = self
                    .input(QUERY_INPUTS)
                    .or_else(|| self.input(PATTERN_INPUTS))?;
                put(query, json!(LINE_WORD));
                put(self.input(DIRECTORY_INPUTS)?, json!(path(GRAND)))
            }
            Verb::Resource => return None,
        };
        Some(Value::Object(arguments))
    }

    fn input(&self, known: &[&str]) -> Option<&str> {
        known.iter().find_map(|name| {
            let same = |input: &&String| plain(input) == **name;
            self.inputs.iter().find(same).map(String::as_str)
        })
    }
}

/// The paths that are asked for, relative to the root.
pub(crate) const GRAND: &str = "grand";
/// The directory that parents are swapped for.
pub(crate) const SUB: &str = "grand/sub";
/// The file that is read.
pub(crate) const LEAF: &str = "grand/sub/leaf.txt";
/// A second file, for reads of several.
pub(crate) const OTHER: &str = "grand/sub/other.txt";
/// The file whose size tells inside from outside.
pub(crate) const SIZED: &str = "grand/sub/sized.bin";
/// The archive whose names tell inside from outside.
pub(crate) const PACKED: &str = "grand/sub/packed.tar";

const CHANGING_WORDS: &[&str] = &[
    "write", "edit", "create", "delete", "remove", "move", "rename", "copy", "append", "patch",
    "upload", "undo", "run", "exec", "execute", "shell", "kill", "mkdir", "rm", "mv", "cp", "set",
    "put", "replace", "insert", "apply", "restore", "extract", "unpack", "chmod", "touch",
];
const ARCHIVE_WORDS: &[&str] = &["archive", "zip", "tar"];

// Known names of inputs, most telling first, compared without case and underscores.
const FILE_INPUTS: &[&str] = &[
    "filepath",
    "path",
    "file",
    "filename",
    "absolutepath",
    "target",
];
const ARCHIVE_INPUTS: &[&str] = &["archivepath", "archive", "filepath", "path", "file"];
const MANY_INPUTS: &[&str] = &["paths", "filepaths", "files"];
const DIRECTORY_INPUTS: &[&str] = &[
    "dirpath",
    "directorypath",
    "directory",
    "dir",
    "folder",
    "path",
    "rootpath",
    "cwd",
];
const PATTERN_INPUTS: &[&str] = &["pattern", "glob", "name"];
const QUERY_INPUTS: &[&str] = &["query", "regex", "text", "search", "content", "searchterm"];
const DEPTH_INPUTS: &[&str] = &["maxdepth", "depth"];

fn plain(input: &str) -> String {
    input
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// `readTextFile`, `read_text_file` and `fs/read-text-file` all say read, text, file.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        let breaks = letter.is_ascii_uppercase() || !letter.is_ascii_alphanumeric();
        if breaks && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if letter.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, inputs: &[&str], verb: Option<Verb>, arguments: Value) {
        let properties: Map<String, Value> = inputs
            .iter()
            .map(|input| ((*input).to_owned(), json!({})))
            .collect();
        let listing = json!({ "name": name, "inputSchema": { "properties": properties } });
        let tool = Tool::from_listing(&listing).unwrap();
        assert_eq!(tool.likely_verbs().first().copied(), verb, "{name}");
        if let Some(verb) = verb {
            let got = tool.arguments(verb, |path| format!("/r/{path}"));
            assert_eq!(got.unwrap_or_default(), arguments, "{name}");
        }
    }

    #[test]
    fn our_tools_are_known() {
        check(
            "read_file",
            &["filePath"],
            Some(Verb::Read),
            json!({"filePath": "/r/grand/sub/leaf.txt"}),
        );
        check(
            "stat",
            &["path"],
            Some(Verb::Stat),
            json!({"path": "/r/grand/sub/sized.bin"}),
        );
        check(
            "list_files",
            &["dirPath"],
            Some(Verb::List),
            json!({"dirPath": "/r/grand/sub"}),
        );
        check(
            "get_file_tree",
            &["dirPath", "maxDepth"],
            Some(Verb::Tree),
            json!({"dirPath": "/r/grand", "maxDepth": 4}),
        );
        check(
            "glob",
            &["dirPath", "pattern"],
            Some(Verb::Glob),
            json!({"dirPath": "/r/grand", "pattern": "**/*.txt"}),
        );
        check(
            "search_files",
            &["dirPath", "query"],
            Some(Verb::Search),
            json!({"dirPath": "/r/grand", "query": "hammerline"}),
        );
        check(
            "inspect_archive",
            &["archivePath"],
            Some(Verb::Inspect),
            json!({"archivePath": "/r/grand/sub/packed.tar"}),
        );
    }

    #[test]
    fn the_tools_of_the_reference_server_are_known() {
        check(
            "read_text_file",
            &["path", "head"],
            Some(Verb::Read),
            json!({"path": "/r/grand/sub/leaf.txt"}),
        );
        check(
            "read_multiple_files",
            &["paths"],
            Some(Verb::ReadMany),
            json!({"paths": ["/r/grand/sub/leaf.txt", "/r/grand/sub/other.txt"]}),
        );
        check(
            "get_file_info",
            &["path"],
            Some(Verb::Stat),
            json!({"path": "/r/grand/sub/sized.bin"}),
        );
        check(
            "list_directory_with_sizes",
            &["path"],
            Some(Verb::List),
            json!({"path": "/r/grand/sub"}),
        );
        check(
            "directory_tree",
            &["path"],
            Some(Verb::Tree),
            json!({"path": "/r/grand"}),
        );
        check(
            "search_files",
            &["path", "pattern"],
            Some(Verb::Glob),
            json!({"path": "/r/grand", "pattern": "**/*.txt"}),
        );
        check(
            "list_allowed_directories",
            &[],
            Some(Verb::List),
            json!(null),
        );
    }

    #[test]
    fn tools_that_change_things_are_left_alone() {
        for name in [
            "write_file",
            "edit_file",
            "moveFile",
            "create_directory",
            "run_command",
            "create_archive",
            "extract_archive",
            "archive_files",
        ] {
            check(name, &["path"], None, json!(null));
        }
    }
}
