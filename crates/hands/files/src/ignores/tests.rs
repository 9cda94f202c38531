//! Ignore rules against tables, and against git itself.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use portcullis_proto::RelPath;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn stack(files: &[(&str, IgnoreKind, &str)]) -> IgnoreStack {
    files
        .iter()
        .fold(IgnoreStack::new(), |stack, (dir, kind, content)| {
            stack.with(IgnoreLayer::parse(path(dir), *kind, content.as_bytes()))
        })
}

#[track_caller]
fn check(files: &[(&str, IgnoreKind, &str)], what: &str, want: Option<&str>) {
    let (text, is_dir) = match what.strip_suffix('/') {
        Some(dir) => (dir, true),
        None => (what, false),
    };
    let got = stack(files).matched(&path(text), is_dir);
    assert_eq!(got.map(|found| found.pattern).as_deref(), want, "{what}");
}

#[test]
fn rules_mean_what_git_says_they_mean() {
    use IgnoreKind::Git;
    let root = |content: &'static str| [("", Git, content)];
    check(&root("*.log"), "a/b.log", Some("*.log"));
    check(&root("*.log\n!keep.log"), "keep.log", None);
    check(&root("!keep.log\n*.log"), "keep.log", Some("*.log"));
    check(&root("/a"), "a", Some("/a"));
    check(&root("/a"), "b/a", None);
    check(&root("a/"), "a", None);
    check(&root("a/"), "a/", Some("a/"));
    check(&root("a/"), "a/x", Some("a/"));
    check(&root("a/\n!a/x"), "a/x", Some("a/"));
    check(&root("a/*\n!a/x"), "a/x", None);
    check(&root("a/**/z"), "a/z", Some("a/**/z"));
    check(&root("a/**/z"), "a/b/c/z", Some("a/**/z"));
    check(&root("a/**"), "a/", None);
    check(&root("a/**"), "a/b", Some("a/**"));
    check(&root("**/z"), "b/z", Some("**/z"));
    check(&root("a/*"), "a/b/c", Some("a/*"));
    check(&root("*"), "", None);
    check(&root("# no\n\n \\#\n"), "x", None);
    check(&root("\\#x"), "#x", Some("\\#x"));
    check(&root("x \r\ny\\ \r\n"), "x", Some("x"));
    check(&root("\u{feff}x"), "x", Some("x"));
    check(&root("{a,b}"), "a", None);
    check(&root("{a,b}"), "{a,b}", Some("{a,b}"));
    check(&root("[a-c]x"), "bx", Some("[a-c]x"));
    check(&root("[!a]x"), "bx", Some("[!a]x"));
    check(&root("a[!b]c"), "a/c", None);
    check(&root("[ab"), "[ab", None);
    check(&root("[[:digit:]]x"), "7x", Some("[[:digit:]]x"));
}

#[test]
fn deeper_files_override_and_kinds_do_not_mix() {
    use IgnoreKind::{Git, Portcullis, Qwen};
    let files = [
        ("", Git, "*.log"),
        ("a", Git, "!x.log"),
        ("a/b", Git, "x.*"),
    ];
    check(&files, "x.log", Some("*.log"));
    check(&files, "a/x.log", None);
    check(&files, "a/c/x.log", None);
    check(&files, "a/b/x.log", Some("x.*"));
    check(&files, "ab/x.log", Some("*.log"));
    let mixed = [
        ("", Portcullis, "secret"),
        ("", Qwen, "*.key"),
        ("a", Git, "!secret\n!*.key"),
    ];
    check(&mixed, "a/secret", Some("secret"));
    check(&mixed, "a/x.key", Some("*.key"));
    let found = stack(&mixed).matched(&path("a/secret/x"), false).unwrap();
    assert_eq!(
        (found.kind, found.dir, found.by),
        (Portcullis, path(""), MatchedBy::Parent)
    );
}

#[test]
fn hostile_files_are_bounded_and_never_fail() {
    let mut big = vec![b'x'; MAX_IGNORE_BYTES - 1];
    big.extend_from_slice(b"\nlate\n");
    let layer = IgnoreLayer::parse(RelPath::root(), IgnoreKind::Git, &big);
    let late = IgnoreStack::new().with(layer).matched(&path("late"), false);
    assert_eq!(late, None, "rules after the cap do not count");
    let layer = IgnoreLayer::parse(
        RelPath::root(),
        IgnoreKind::Git,
        b"caf\xe9\n*.log\n[\n\\\n**a**\n",
    );
    let found = IgnoreStack::new()
        .with(layer)
        .matched(&path("x.log"), false);
    assert_eq!(found.unwrap().pattern, "*.log");
    // Many rules and many stars: still there, still quick.
    let mut many = String::new();
    for n in 0..60_000 {
        writeln!(many, "*a*{n}*b").unwrap();
    }
    many.push_str("last\n*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n");
    let layer = IgnoreLayer::parse(RelPath::root(), IgnoreKind::Git, many.as_bytes());
    let stack = IgnoreStack::new().with(layer);
    assert!(stack.matched(&path("last"), false).is_some());
    assert!(stack.matched(&path(&"a".repeat(250)), false).is_none());
}

#[test]
fn excluded_directories_are_sixteen() {
    assert!(is_excluded_dir("node_modules") && is_excluded_dir(".svelte-kit"));
    assert!(!is_excluded_dir("src") && !is_excluded_dir("Build"));
    for kind in IgnoreKind::ALL {
        assert_eq!(IgnoreKind::of_file_name(kind.file_name()), Some(kind));
    }
}

/// A pattern line, from pieces that git treats specially.
fn line() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(
        &[
            "a",
            "b",
            "c",
            "x",
            ".log",
            "*",
            "**",
            "?",
            "/",
            "/",
            "[ab]",
            "[!a]",
            "[^b-z]",
            "[",
            "]",
            "\\",
            "\\*",
            "{",
            "}",
            ",",
            " ",
            "-",
            "[[:alpha:]]",
            "[]a]",
            "[a\\]]",
            "[[:",
            "[a-",
            "[--b]",
            "[\\a-c]",
            "é",
            "??",
            "!",
            "#",
            "\t",
        ][..],
    );
    let plain = proptest::sample::select(
        &[
            "a", "b", "/a", "a/", "*.log", "a/*", "**/b", "a/**", "a/**/b", "/*", "!a", "!b/",
            "!*.log", "!a/b", "*", "!/a/", "a/b", "c ", "c\\ ", "\\!x", "!**/c", "**",
        ][..],
    );
    prop_oneof![
        2 => plain.prop_map(str::to_owned),
        1 => proptest::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat()),
    ]
}

fn content() -> impl Strategy<Value = String> {
    let end = proptest::sample::select(&["\n", "\n", "\r\n"][..]);
    proptest::collection::vec((line(), end), 0..6)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect())
}

/// The paths asked about: names that the patterns are about, three deep.
fn asked() -> Vec<(String, bool)> {
    let names = [
        "a", "b", "c", "x.log", "ab", "c ", "!x", "{a}", "[", "#b", "é",
    ];
    let mut all = Vec::new();
    for first in names {
        all.push((first.to_owned(), first == "a" || first == "b"));
    }
    for first in ["a", "b"] {
        for second in names {
            all.push((format!("{first}/{second}"), second == "a" || second == "b"));
            for third in names {
                if second == "a" || second == "b" {
                    all.push((format!("{first}/{second}/{third}"), false));
                }
            }
        }
    }
    all
}

/// A scratch directory of this test, removed when it goes.
struct Scratch(std::path::PathBuf);

#[allow(
    clippy::disallowed_methods,
    reason = "the oracle is git, which wants real files"
)]
impl Scratch {
    fn new() -> Self {
        let dir =
            std::path::Path::new("/tmp").join(format!("portcullis-ignores-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn git(&self, args: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.current_dir(&self.0)
            .args(["-c", "core.excludesFile=", "-c", "core.quotePath=false"])
            .args(args)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", &self.0)
            .stderr(Stdio::null());
        git
    }

    /// Which of the paths git ignores.
    fn ignored(&self, paths: &[(String, bool)]) -> Vec<bool> {
        let mut git = self
            .git(&["check-ignore", "--no-index", "--stdin", "-z", "-v", "-n"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = git.stdin.take().unwrap();
        for (path, _) in paths {
            stdin.write_all(format!("{path}\0").as_bytes()).unwrap();
        }
        drop(stdin);
        let out = git.wait_with_output().unwrap().stdout;
        let fields: Vec<_> = out.split(|&byte| byte == 0).collect();
        // Source, line, pattern, path; a `!` pattern keeps.
        let answers = fields.chunks_exact(4);
        assert_eq!(answers.len(), paths.len());
        answers
            .map(|answer| !answer[2].is_empty() && !answer[2].starts_with(b"!"))
            .collect()
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the oracle is git, which wants real files"
)]
impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the oracle is git, which wants real files"
)]
fn git_agrees_on_random_trees() {
    let scratch = Scratch::new();
    assert!(scratch.git(&["init", "-q"]).status().unwrap().success());
    let paths = asked();
    for (path, is_dir) in &paths {
        let full = scratch.0.join(path);
        if *is_dir {
            std::fs::create_dir_all(full).unwrap();
        } else {
            std::fs::write(full, "").unwrap();
        }
    }
    let dirs = ["", "a", "a/b", "b"];
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), seed);
    let mut disagreements = String::new();
    for _ in 0..200 {
        let contents = [content(), content(), content(), content()]
            .map(|content| content.new_tree(&mut runner).unwrap().current());
        let mut stack = IgnoreStack::new();
        for (dir, content) in dirs.iter().zip(&contents) {
            std::fs::write(scratch.0.join(dir).join(".gitignore"), content).unwrap();
            let layer = IgnoreLayer::parse(path(dir), IgnoreKind::Git, content.as_bytes());
            stack = stack.with(layer);
        }
        for ((text, is_dir), git) in paths.iter().zip(scratch.ignored(&paths)) {
            let ours = stack.matched(&path(text), *is_dir);
            if ours.is_some() != git {
                writeln!(
                    disagreements,
                    "{text:?}: git {git}, ours {ours:?}, by {contents:?}"
                )
                .unwrap();
            }
        }
    }
    assert!(disagreements.is_empty(), "{disagreements}");
}

#[test]
fn a_hostile_ignore_file_decides_neither_the_time_nor_the_memory() {
    let line = format!("{}b\n", "*a".repeat(500));
    let heavy = line.repeat(MAX_IGNORE_BYTES / line.len());
    let dirs: Vec<String> = (1..64).map(|deep| vec!["d"; deep].join("/")).collect();
    let mut files: Vec<_> = dirs
        .iter()
        .map(|dir| (dir.as_str(), IgnoreKind::Git, heavy.as_str()))
        .collect();
    // An honest file above them is heard all the same.
    files.insert(0, ("", IgnoreKind::Git, "*.log"));
    let name = format!("d/{}", "a".repeat(255));
    let stack = stack(&files);
    let began = std::time::Instant::now();
    for _ in 0..16 {
        assert_eq!(stack.matched_entry(&path(&name), false), None);
    }
    assert!(began.elapsed() < std::time::Duration::from_mins(3));
    assert!(stack.matched_entry(&path("d/x.log"), false).is_some());
}
