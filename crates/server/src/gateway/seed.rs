//! The seed's dialect: a daemon uploads the tree of its directory, which is
//! listed here, and is asked for what is in files.

use portcullis_link::{Annotations, Operation, SeedInit, SeedReply, Tool, TreeEntry, bounds};
use serde_json::{Map, Value, json};

use super::result::Returned;
use super::surface::{BadOffer, Offer};

/// How many entries a listing has, unless told otherwise, and at most.
const LISTED: (usize, usize) = (200, 1_000);
/// How deep a tree is shown, unless told otherwise, and at most.
const DEPTH: (usize, usize) = (2, 5);
/// How many entries a tree shows.
const SHOWN: usize = 200;
/// The longest glob.
const MAX_GLOB: usize = 128;

/// What was uploaded, in the order of the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(Vec<TreeEntry>);

/// What becomes of a call.
pub(crate) enum Ask {
    /// It is answered from the tree.
    Answered(Value),
    /// The daemon is asked.
    Far(Operation),
}

impl Tree {
    /// The tree an init brings: relative paths and nothing else.
    pub(crate) fn of(init: &SeedInit) -> Result<Self, BadOffer> {
        if init.tree.len() > bounds::MAX_TREE {
            let most = bounds::MAX_TREE;
            return Err(BadOffer(format!("A tree has at most {most} entries.")));
        }
        let fits = |entry: &&TreeEntry| {
            let path = &entry.path;
            path.len() <= bounds::MAX_ROOT
                && !path.chars().any(char::is_control)
                && !path.split('/').any(|part| part.is_empty() || part == "..")
        };
        let mut entries: Vec<TreeEntry> = init.tree.iter().filter(fits).cloned().collect();
        entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        Ok(Self(entries))
    }

    /// What a call of `tool` comes to.
    pub(crate) fn ask(&self, tool: &str, arguments: &Map<String, Value>) -> Ask {
        let operation = |operation: &str| Operation {
            operation: operation.to_owned(),
            args: Value::Object(arguments.clone()),
        };
        match tool {
            "get_file_tree" => Ask::Answered(self.shown(arguments)),
            "list_files" => Ask::Answered(self.listed(arguments)),
            "search_files" => Ask::Far(operation("search-files")),
            _ => Ask::Far(operation("read-file")),
        }
    }

    /// The entries below a directory, each with its path from there.
    fn below<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = (&'a str, &'a TreeEntry)> {
        let dir = dir.trim_start_matches("./").trim_matches('/');
        let dir = if dir == "." { "" } else { dir };
        self.0.iter().filter_map(move |entry| {
            let rest = entry.path.strip_prefix(dir)?;
            let rest = if dir.is_empty() {
                rest
            } else {
                rest.strip_prefix('/')?
            };
            Some((rest, entry))
        })
    }

    fn listed(&self, arguments: &Map<String, Value>) -> Value {
        let (dir, kind) = (text(arguments, "dirPath"), text(arguments, "type"));
        let pattern = text(arguments, "pattern").unwrap_or("**");
        let deep = arguments.contains_key("pattern")
            || arguments.get("recursive").and_then(Value::as_bool) == Some(true);
        let most = number(arguments, "maxResults").unwrap_or(LISTED.0);
        let most = most.clamp(1, LISTED.1);
        let mut found = self
            .below(dir.unwrap_or("."))
            .filter(|(rest, entry)| {
                (deep || !rest.contains('/'))
                    && kind.is_none_or(|kind| kind == "all" || kind == entry.kind)
                    && is_match(pattern, rest)
            })
            .map(|(_, entry)| json!({"path": entry.path, "type": entry.kind, "sizeBytes": entry.size_bytes}));
        let entries: Vec<Value> = found.by_ref().take(most).collect();
        json!({"entries": entries, "truncated": found.next().is_some()})
    }

    fn shown(&self, arguments: &Map<String, Value>) -> Value {
        let depth = number(arguments, "maxDepth").unwrap_or(DEPTH.0);
        let depth = depth.clamp(1, DEPTH.1);
        let mut lines = self
            .below(text(arguments, "dirPath").unwrap_or("."))
            .filter(|(rest, _)| rest.split('/').count() <= depth)
            .map(|(rest, entry)| {
                let name = rest.rsplit('/').next().unwrap_or(rest);
                let sign = if entry.kind == "directory" { "/" } else { "" };
                format!("{}{name}{sign}", "  ".repeat(rest.matches('/').count()))
            });
        let shown: Vec<String> = lines.by_ref().take(SHOWN).collect();
        json!({"tree": shown.join("\n"), "truncated": lines.next().is_some()})
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

fn number(arguments: &Map<String, Value>, name: &str) -> Option<usize> {
    let number = arguments.get(name).and_then(Value::as_u64)?;
    usize::try_from(number).ok()
}

/// Whether a glob of `*`, `**` and `?` means a path; a pattern without a slash
/// means the name alone. Step by step, so that no pattern costs more than its length.
fn is_match(pattern: &str, path: &str) -> bool {
    if pattern.len() > MAX_GLOB {
        return false;
    }
    let path = if pattern.contains('/') || pattern == "**" {
        path
    } else {
        path.rsplit('/').next().unwrap_or(path)
    };
    // `reached[n]`: the first n bytes of the path are meant by the pattern so far.
    let bytes = path.as_bytes();
    let mut reached = vec![false; bytes.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    let mut rest = pattern.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if !reached.contains(&true) {
            return false;
        }
        let mut next = vec![false; bytes.len() + 1];
        let (spans, crosses, skipped) = match (first, after) {
            (b'*', [b'*', b'/', after @ ..] | [b'*', after @ ..]) => (true, true, after),
            (b'*', after) => (true, false, after),
            (_, after) => (false, false, after),
        };
        let mut going = false;
        for (at, byte) in bytes.iter().enumerate() {
            let here = reached.get(at).copied().unwrap_or_default();
            if spans {
                going = here || (going && (crosses || at == 0 || bytes.get(at - 1) != Some(&b'/')));
                set(&mut next, at, going);
            } else if here && (first == byte || (*first == b'?' && *byte != b'/')) {
                set(&mut next, at + 1, true);
            }
        }
        if spans {
            let last = reached.last().copied().unwrap_or_default();
            let ends = going && (crosses || bytes.last() != Some(&b'/'));
            set(&mut next, bytes.len(), last || ends);
        }
        reached = next;
        rest = skipped;
    }
    reached.last().copied().unwrap_or_default()
}

fn set(flags: &mut [bool], at: usize, to: bool) {
    if let Some(flag) = flags.get_mut(at) {
        *flag |= to;
    }
}

/// The four tools of the seed.
pub(crate) fn offer() -> Result<Offer, BadOffer> {
    let dir = json!({"type": "string", "description": "Directory, from the root. Default: the root itself."});
    let whole = json!({"type": "integer", "minimum": 1});
    let word = json!({"type": "string"});
    let tools = [
        (
            "get_file_tree",
            "Show a shallow directory tree as indented text.",
            json!({"dirPath": dir, "maxDepth": whole}),
            json!([]),
        ),
        (
            "list_files",
            "List files and directories.",
            json!({"dirPath": dir, "pattern": word, "recursive": {"type": "boolean"}, "maxResults": whole,
                "type": {"type": "string", "enum": ["file", "directory", "all"]}}),
            json!([]),
        ),
        (
            "read_file",
            "Read a file, or some lines of it.",
            json!({"filePath": word, "startLine": whole, "maxLines": whole}),
            json!(["filePath"]),
        ),
        (
            "search_files",
            "Search the contents of files for a regular expression.",
            json!({"dirPath": dir, "query": word, "filePattern": word, "maxResults": whole,
                "ignoreCase": {"type": "boolean"}}),
            json!(["query"]),
        ),
    ];
    let tools: Vec<Tool> = tools
        .into_iter()
        .map(|(name, about, properties, required)| Tool {
            name: name.to_owned(),
            description: Some(about.to_owned()),
            input_schema: json!({"type": "object", "properties": properties, "required": required}),
            annotations: Some(Annotations {
                category: Some("filesystem".to_owned()),
                read_only_hint: Some(true),
                ..Annotations::default()
            }),
        })
        .collect();
    Offer::of(&tools, Vec::new())
}

/// A reply of the seed's as a result: its text where it has one, and all of it.
pub(crate) fn returned(reply: SeedReply) -> Result<Returned, String> {
    match (reply.data, reply.error) {
        (Some(data), None) => Ok(Returned::of_data(data)),
        (None, Some(error)) => Ok(Returned::of_error(error)),
        (Some(_), Some(_)) | (None, None) => Err("One of data and error.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let entry = |path: &str, kind: &str| TreeEntry {
            path: path.to_owned(),
            kind: kind.to_owned(),
            size_bytes: None,
        };
        let init = SeedInit {
            root_path: "/w".to_owned(),
            tree: vec![
                entry("src/main.rs", "file"),
                entry("src", "directory"),
                entry("a.txt", "file"),
                entry("src/deep/x.rs", "file"),
                entry("src/deep", "directory"),
                entry("../out", "file"),
                entry("/etc", "directory"),
            ],
            tree_text: None,
        };
        Tree::of(&init).unwrap()
    }

    fn paths(arguments: Value) -> Vec<String> {
        let listed = tree().listed(arguments.as_object().unwrap());
        let entries = listed["entries"].as_array().unwrap();
        entries
            .iter()
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_uploaded_tree_is_listed() {
        assert_eq!(paths(json!({})), ["a.txt", "src"]);
        assert_eq!(
            paths(json!({"dirPath": "src"})),
            ["src/deep", "src/main.rs"]
        );
        assert_eq!(
            paths(json!({"pattern": "**/*.rs"})),
            ["src/deep/x.rs", "src/main.rs"]
        );
        assert_eq!(
            paths(json!({"pattern": "*.rs", "dirPath": "./src/deep"})),
            ["src/deep/x.rs"]
        );
        assert_eq!(
            paths(json!({"type": "directory", "recursive": true})),
            ["src", "src/deep"]
        );
        assert_eq!(
            paths(json!({"recursive": true, "maxResults": 1})),
            ["a.txt"]
        );
        let shown = tree().shown(&Map::new());
        assert_eq!(shown["tree"], "a.txt\nsrc/\n  deep/\n  main.rs");
    }

    #[test]
    fn a_glob_means_what_it_means_elsewhere() {
        for (pattern, path, want) in [
            ("**", "a/b", true),
            ("*.rs", "a/b.rs", true),
            ("src/*.rs", "src/b.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("**/*.rs", "b.rs", true),
            ("src/**/*.rs", "src/a/b/c.rs", true),
            ("src/**", "src/a/b", true),
            ("a?c/x", "abc/x", true),
            ("a?c/x", "a/c/x", false),
            ("*", "", true),
            ("a", "b", false),
        ] {
            assert_eq!(is_match(pattern, path), want, "{pattern} {path}");
        }
        let costly = "*a".repeat(64);
        assert!(!is_match(&costly, &"a".repeat(60)));
    }

    #[test]
    fn a_pattern_that_fails_early_costs_no_more_than_that() {
        let path = format!("a/{}", "b".repeat(4_000));
        let pattern = format!("x/{}", "b".repeat(MAX_GLOB - 2));
        let began = std::time::Instant::now();
        for _ in 0..500 {
            assert!(!is_match(&pattern, &path));
        }
        // Gone through to its end it is half a second of a fast machine, and
        // several without optimisation.
        assert!(began.elapsed().as_millis() < 1_000, "{:?}", began.elapsed());
    }
}
