//! Who may lift the boundary, who may be unsafe, and how long a file may grow.

use crate::none;
use crate::tree::{Source, source, sources};

/// Files, or directories ending in `/`, that may lift a ban of `clippy.toml`.
/// Unit tests, `tests/` and `benches/` may as well.
const MAY_LIFT: &[&str] = &[
    "crates/hands/files/build.rs",
    "crates/hands/files/src/lib.rs",
    "crates/hands/files/build.rs",
    "crates/hands/process/src/lib.rs",
    "crates/hammer/src/lib.rs",
    "crates/conformance/src/main.rs",
    "crates/store/src/db.rs",
    "crates/cli/src/",
    "crates/testkit/",
    "benches/src/main.rs",
];

/// Files that may hold `unsafe`, each with a SAFETY comment per block.
const MAY_BE_UNSAFE: &[&str] = &["crates/hands/files/src/sys/lease.rs"];

/// The most lines of a file that ship.
const MAX_LINES: usize = 600;

/// Lints, and groups that contain them, whose lifting opens the boundary.
const BOUNDARY: &[&str] = &[
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
    "clippy::disallowed_macros",
    "clippy::style",
    "clippy::all",
    "warnings",
];

#[test]
fn only_the_hands_lift_the_boundary() {
    let mut wrong = Vec::new();
    for file in sources().iter().filter(|file| file.is_rust()) {
        for (level, lint) in levels(file.production()) {
            if lifts(&level) && BOUNDARY.contains(&lint.as_str()) && !may_lift(file) {
                wrong.push(format!("{}: {level}({lint})", file.path));
            }
        }
    }
    none(
        wrong,
        "files that step around the boundary",
        "use the replacement the lint names; who may lift it stands in MAY_LIFT",
    );
}

#[test]
fn every_other_crate_forbids_lifting_it() {
    let wrong = sources()
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs"))
        .filter(|file| !crate_may_lift(file))
        // A crate that holds no code yet has nothing to forbid.
        .filter(|file| file.text.contains("mod ") || file.text.contains("fn "))
        .filter(|file| {
            let levels = levels(&file.text);
            !["clippy::disallowed_methods", "clippy::disallowed_types"]
                .iter()
                .all(|lint| levels.contains(&("forbid".to_owned(), (*lint).to_owned())))
        })
        .map(|file| file.path.clone())
        .collect();
    none(
        wrong,
        "crates in which one `allow` would open the boundary",
        "copy the `cfg_attr(not(test), forbid(…))` of crates/proto/src/lib.rs",
    );
}

#[test]
fn unsafe_code_is_allowed_in_the_listed_files_alone() {
    let mut wrong = Vec::new();
    for file in sources().iter().filter(|file| file.is_rust()) {
        for (level, lint) in levels(&file.text) {
            let listed = MAY_BE_UNSAFE.contains(&file.path.as_str());
            if lifts(&level) && lint == "unsafe_code" && !listed {
                wrong.push(format!("{}: {level}({lint})", file.path));
            }
        }
    }
    none(
        wrong,
        "unsafe code outside the list",
        "look for a safe wrapper (rustix has most); the list is MAY_BE_UNSAFE",
    );
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let wrong = sources()
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
        .filter(|file| !file.text.contains("[lints]\nworkspace = true"))
        .map(|file| file.path.clone())
        .collect();
    none(
        wrong,
        "crates with lints of their own",
        "write `[lints]`, then `workspace = true`",
    );
}

#[test]
fn a_file_is_short_enough_to_be_read_at_once() {
    let wrong = sources()
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.production().lines().count(), &file.path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    none(
        wrong,
        "files over 600 lines",
        "split along the sentences of its `//!`",
    );
}

/// Tests pass on any machine, however slow: a limit in seconds or less goes through
/// `testkit::promised`, which `./bench` holds, or is `testkit::PATIENCE`.
#[test]
fn no_test_fails_because_a_machine_is_slow() {
    const LIMITS: [&str; 2] = ["< Duration::from_secs", "< Duration::from_millis"];
    let wrong = sources()
        .iter()
        .filter(|file| file.is_rust() && file.is_test() && file.path.starts_with("crates/"))
        .filter(|file| !file.path.ends_with("architecture/lints.rs"))
        .flat_map(|file| file.text.lines().map(|line| (&file.path, line.trim())))
        .filter(|(_, line)| LIMITS.iter().any(|limit| line.contains(limit)))
        .map(|(path, line)| format!("{path}: {line}"))
        .collect();
    none(
        wrong,
        "tests that a slow machine fails",
        "`testkit::promised(limit)`, or `testkit::until`",
    );
}

#[test]
fn every_file_opens_with_its_job() {
    let wrong = sources()
        .iter()
        .filter(|file| file.is_rust() && !file.text.starts_with("//!"))
        .map(|file| file.path.clone())
        .collect();
    none(
        wrong,
        "files that do not open with `//!`",
        "one sentence: what is this file for?",
    );
}

#[test]
fn a_lint_level_is_found_however_it_is_written() {
    #[track_caller]
    fn check(text: &str, want: &[(&str, &str)]) {
        let got = levels(text);
        let got: Vec<_> = got.iter().map(|(l, n)| (l.as_str(), n.as_str())).collect();
        assert_eq!(got, want, "{text}");
    }
    check("#![allow(a::b)]", &[("allow", "a::b")]);
    check(
        "#[expect(\n  a,\n  b,\n  reason = \"(c)\"\n)]",
        &[("expect", "a"), ("expect", "b")],
    );
    check(
        "#![cfg_attr(not(test), forbid(a, b))]",
        &[("forbid", "a"), ("forbid", "b")],
    );
    check("// #[allow(a)]\n/// `#[allow(a)]`\n", &[]);
    check("thing.expect(\"a\")", &[]);
    check("fn disallow(a: A) {}", &[]);
}

fn lifts(level: &str) -> bool {
    matches!(level, "allow" | "expect" | "warn")
}

fn may_lift(file: &Source) -> bool {
    MAY_LIFT
        .iter()
        .any(|home| file.path == *home || (home.ends_with('/') && file.path.starts_with(home)))
}

/// Whether some file of the same crate may lift it, so that `forbid` cannot stand at the top.
fn crate_may_lift(lib: &Source) -> bool {
    let directory = lib.path.trim_end_matches("src/lib.rs");
    MAY_LIFT
        .iter()
        .any(|home| home.starts_with(directory) && (home.ends_with('/') || source(home).is_some()))
}

/// Every lint level set in `text`, one pair per lint.
fn levels(text: &str) -> Vec<(String, String)> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace())
        .collect();
    let mut found = Vec::new();
    for level in ["allow", "expect", "warn", "deny", "forbid"] {
        let opening = format!("{level}(");
        let mut parts = code.split(opening.as_str());
        let mut before = parts.next().unwrap_or_default();
        for after in parts {
            // An attribute, alone or inside `cfg_attr`; not a call, not a longer word.
            if before.ends_with(['[', ',']) {
                let lints = after.split([')', '"']).next().unwrap_or_default();
                found.extend(
                    lints
                        .split(',')
                        .filter(|lint| !lint.is_empty() && !lint.starts_with("reason="))
                        .map(|lint| (level.to_owned(), lint.to_owned())),
                );
            }
            before = after;
        }
    }
    found
}
