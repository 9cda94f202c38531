//! The tree under test: its files as git sees them, its packages as cargo does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// A text file of the repository.
pub(crate) struct Source {
    /// Its path from the top, with `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Source {
    /// Whether it is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extension == "rs")
    }

    /// Whether all of it is test or bench code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || self.path.ends_with("/tests.rs")
            || self.path.starts_with("fuzz/")
    }

    /// What ships: everything before the unit tests, nothing of a test file.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() {
            return "";
        }
        self.text
            .split("#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default()
    }
}

/// The top of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("testkit stands two directories down")
        .to_owned()
}

/// Every text file that is, or is about to be, committed.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let listed = run(
            "git",
            &[
                "-c",
                "safe.directory=*",
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        );
        let sources: Vec<_> = listed
            .split('\0')
            .filter(|path| !path.is_empty())
            .filter_map(|path| {
                // A binary file, a link or a file deleted but not yet committed has no text.
                let text = std::fs::read_to_string(top().join(path)).ok()?;
                Some(Source {
                    path: path.to_owned(),
                    text,
                })
            })
            .collect();
        assert!(!sources.is_empty(), "git lists no file");
        sources
    })
}

/// The file at `path`, if there is one.
pub(crate) fn source(path: &str) -> Option<&'static Source> {
    sources().iter().find(|source| source.path == path)
}

/// The packages of this workspace.
pub(crate) fn members() -> Vec<Value> {
    let metadata = run(
        env!("CARGO"),
        &[
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ],
    );
    packages(&metadata)
}

/// Every package in the graph that is built on this machine.
pub(crate) fn graph() -> Vec<Value> {
    let metadata = run(
        env!("CARGO"),
        &[
            "metadata",
            "--locked",
            "--offline",
            "--filter-platform",
            &host(),
            "--format-version",
            "1",
        ],
    );
    packages(&metadata)
}

/// The name of a member without its family name.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("portcullis-").unwrap_or(name)
}

/// A string in a package's record; empty when it is absent.
pub(crate) fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A list in a package's record.
pub(crate) fn list<'a>(package: &'a Value, field: &str) -> &'a [Value] {
    package
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn packages(metadata: &str) -> Vec<Value> {
    let metadata: Value = serde_json::from_str(metadata).expect("cargo prints JSON");
    list(&metadata, "packages").to_vec()
}

fn host() -> String {
    run("rustc", &["-vV"])
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc names its host")
        .to_owned()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(top())
        .output()
        .unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    assert!(
        output.status.success(),
        "{program} {}:\n{}\nhint: run the tests in a git checkout, after `cargo fetch --locked`",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}
