//! The papers tell the truth: a test they name exists, a decision is whole, and
//! nothing in the tree speaks of the machine it was written on.

use std::path::Path;

use crate::none;
use crate::tree::{Source, source, sources, top};

/// The column that says what holds a promise.
const HELD_BY: &str = "held by";

/// In that column, names after this word belong to tests still to come.
const PENDING: &str = "pending";

/// The parts of a decision record, in order.
const PARTS: &[&str] = &[
    "## The question",
    "## The choice",
    "## What we gave up",
    "## What would change our mind",
];

/// Words that make a reader feel slow.
const NO_WORDS: &[&str] = &["simply", "just"];

const README_LINES: usize = 150;

#[test]
fn every_threat_names_a_test_that_exists() {
    let mut wrong = Vec::new();
    for row in rows("docs/THREATS.md", &mut wrong) {
        let missing: Vec<_> = row.evidence.iter().filter(|name| !is_test(name)).collect();
        if row.evidence.is_empty() && row.pending.is_empty() {
            wrong.push(format!("{}: names no test", row.at));
        }
        if !missing.is_empty() {
            wrong.push(format!("{}: no such test: {missing:?}", row.at));
        }
        for name in &row.pending {
            let state = if is_test(name) {
                "no longer pending"
            } else {
                "pending"
            };
            eprintln!("{state}: {}: {name}", row.at);
        }
    }
    none(
        wrong,
        "threats that nothing holds",
        "write the test, or put `pending:` before its name",
    );
}

#[test]
fn every_promise_names_a_test_a_bench_or_a_command() {
    let mut wrong = Vec::new();
    for row in rows("docs/SPEC.md", &mut wrong) {
        let missing: Vec<_> = row
            .evidence
            .iter()
            .filter(|name| !is_evidence(name))
            .collect();
        if row.evidence.is_empty() || !missing.is_empty() {
            wrong.push(format!("{}: {missing:?} of {:?}", row.at, row.evidence));
        }
    }
    none(
        wrong,
        "promises that nothing holds",
        "name a test, a file of this tree or a `portcullis` command, in backticks",
    );
}

#[test]
fn every_decision_has_a_number_and_four_parts() {
    let mut wrong = Vec::new();
    let mut numbers = std::collections::BTreeSet::new();
    for record in sources() {
        let Some(name) = record.path.strip_prefix("docs/decisions/") else {
            continue;
        };
        let Some(number) = record_number(name) else {
            wrong.push(format!("{name}: not NNN-title.md"));
            continue;
        };
        if !numbers.insert(number) {
            wrong.push(format!("{name}: the number is taken"));
        }
        let parts: Vec<_> = record
            .text
            .lines()
            .filter(|l| l.starts_with("## "))
            .collect();
        if parts != PARTS {
            wrong.push(format!("{name}: has the parts {parts:?}"));
        }
    }
    none(
        wrong,
        "decision records out of shape",
        "docs/decisions/001 shows the shape",
    );
}

#[test]
fn the_readme_is_read_in_one_go() {
    let lines = source("README.md").map_or(0, |readme| readme.text.lines().count());
    assert!(
        (1..=README_LINES).contains(&lines),
        "README.md has {lines} lines, at most {README_LINES}\nhint: move it to docs/"
    );
}

#[test]
fn the_papers_do_not_talk_down() {
    let mut wrong = Vec::new();
    for paper in sources().iter().filter(|file| is_markdown(file)) {
        for (number, line) in paper.text.lines().enumerate() {
            for word in line.split(|c: char| !c.is_alphanumeric()) {
                if NO_WORDS.contains(&word.to_lowercase().as_str()) {
                    wrong.push(format!("{}:{}: {word:?}", paper.path, number + 1));
                }
            }
        }
    }
    none(
        wrong,
        "words that make a reader feel slow",
        "leave the word out",
    );
}

#[test]
fn the_tree_does_not_know_the_machine_it_was_written_on() {
    // Spelled in halves, so that this file passes its own test.
    let directories = [concat!("/wo", "rk"), concat!("/ro", "ot")];
    let hosts = [
        concat!("index.", "crates.io"),
        concat!("static.", "crates.io"),
        concat!("registry.", "npmjs.org"),
        concat!("pypi", ".org"),
        concat!("pythonhosted", ".org"),
        concat!("deb.", "debian.org"),
    ];
    let mut wrong = Vec::new();
    for file in sources() {
        for (number, line) in file.text.lines().enumerate() {
            let directory = directories.iter().find(|name| names_directory(line, name));
            let host = hosts.iter().find(|host| line.contains(*host));
            if let Some(found) = directory.or(host) {
                wrong.push(format!("{}:{}: {found}", file.path, number + 1));
            }
        }
    }
    none(
        wrong,
        "places of one machine",
        "use a relative path, a scratch directory or an argument",
    );
}

#[test]
fn a_directory_is_found_where_a_path_begins() {
    #[track_caller]
    fn check(line: &str, want: bool) {
        assert_eq!(names_directory(line, "/top"), want, "{line}");
    }
    check("cd /top/x", true);
    check("\"/top\"", true);
    check("PATH=/bin:/top/bin", true);
    check("portcullis://top/x", false);
    check("a/top/x", false);
    check("./top", false);
    check("/topmost", false);
}

/// A row of a table that says what holds it.
struct Row {
    /// Paper and line.
    at: String,
    /// The names in backticks in its last column.
    evidence: Vec<String>,
    /// Those of them that are still to come.
    pending: Vec<String>,
}

/// The rows of every table in a paper. A table without the column is a finding.
fn rows(path: &str, wrong: &mut Vec<String>) -> Vec<Row> {
    let Some(paper) = source(path) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    let mut in_table = false;
    for (number, line) in paper.text.lines().enumerate() {
        let at = format!("{path}:{}", number + 1);
        let line = line.trim();
        if !line.starts_with('|') {
            in_table = false;
            continue;
        }
        let last = line
            .trim_matches('|')
            .rsplit('|')
            .next()
            .unwrap_or_default()
            .trim();
        if !in_table {
            in_table = true;
            if !last.eq_ignore_ascii_case(HELD_BY) {
                wrong.push(format!("{at}: the last column is not {HELD_BY:?}"));
            }
        } else if !last.chars().all(|c| matches!(c, '-' | ':' | ' ')) {
            let (held, pending) = last.split_once(PENDING).unwrap_or((last, ""));
            rows.push(Row {
                at,
                evidence: backticked(held),
                pending: backticked(pending),
            });
        }
    }
    rows
}

fn backticked(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn is_evidence(name: &str) -> bool {
    is_test(name) || is_file(name) || is_command(name)
}

/// Whether `crate::module::name`, or `name`, is a function of the tree.
fn is_test(name: &str) -> bool {
    let function = name.rsplit("::").next().unwrap_or(name);
    let is_name = !function.is_empty()
        && function
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name
        && sources().iter().filter(|file| file.is_rust()).any(|file| {
            file.text
                .split(&format!("fn {function}"))
                .skip(1)
                .any(|after| after.starts_with(['(', '<']))
        })
}

/// Whether its first word is a file of the tree, as in `./test --quick`.
fn is_file(name: &str) -> bool {
    let word = name.split_whitespace().next().unwrap_or_default();
    let path = word.strip_prefix("./").unwrap_or(word);
    !path.is_empty() && source(path).is_some() && top().join(path).is_file()
}

/// Whether it is `portcullis …` with a subcommand the cli spells somewhere.
fn is_command(name: &str) -> bool {
    let mut words = name.split_whitespace();
    if words.next() != Some("portcullis") {
        return false;
    }
    let Some(subcommand) = words.next() else {
        return false;
    };
    let variant: String = subcommand
        .split('-')
        .flat_map(|part| {
            let mut chars = part.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars)
        })
        .collect();
    sources()
        .iter()
        .filter(|file| file.path.starts_with("crates/cli/src/"))
        .flat_map(|file| file.text.split(|c: char| !c.is_alphanumeric() && c != '-'))
        .any(|word| word == variant || word == subcommand)
}

fn is_markdown(file: &Source) -> bool {
    Path::new(&file.path)
        .extension()
        .is_some_and(|extension| extension == "md")
}

/// The number of `NNN-title.md`.
fn record_number(name: &str) -> Option<&str> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let fits = number.len() == 3
        && number.bytes().all(|b| b.is_ascii_digit())
        && !title.is_empty()
        && title
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    fits.then_some(number)
}

/// Whether `line` holds `directory` as the beginning of an absolute path.
fn names_directory(line: &str, directory: &str) -> bool {
    let mut parts = line.split(directory);
    let mut before = parts.next().unwrap_or_default();
    for after in parts {
        let begins = !before.ends_with(|c: char| c.is_alphanumeric() || "/._-~}>*)]".contains(c));
        let ends = !after.starts_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
        if begins && ends && (!before.is_empty() || line.starts_with(directory)) {
            return true;
        }
        before = after;
    }
    false
}
