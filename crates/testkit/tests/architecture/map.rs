//! Dependencies point down only, and an outside crate has its home.

use std::collections::BTreeSet;

use crate::none;
use crate::tree::{list, members, short, text};

/// Crate, and the crates of ours it may use. Tests may use what they like.
const MAY_USE: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("policy", &["proto"]),
    ("gate", &["proto", "policy"]),
    // Words alone: both ends of a link take them from here.
    ("link", &[]),
    ("files", &["proto", "policy", "gate"]),
    ("process", &["proto", "gate", "files"]),
    ("store", &["proto", "policy", "gate", "files"]),
    ("tools", &["proto", "policy", "gate", "files", "process"]),
    (
        "server",
        &["proto", "policy", "gate", "link", "tools", "store"],
    ),
    ("daemon", &["proto", "gate", "link", "tools"]),
    ("hammer", &["process"]),
    (
        "cli",
        &[
            "proto", "policy", "gate", "link", "files", "process", "store", "tools", "server",
            "daemon", "hammer",
        ],
    ),
    ("testkit", &["proto", "policy", "gate", "files", "store"]),
    // Tools for us: they may use everything, and nothing may use them.
    (
        "conformance",
        &["proto", "policy", "gate", "server", "store"],
    ),
    ("bench", &["proto", "policy", "gate", "files"]),
];

/// Outside crate, and the only crates of ours that may use it.
const ONLY_IN: &[(&str, &[&str])] = &[
    // Whoever names a system call is a hand, or attacks one.
    (
        "rustix",
        &["files", "process", "hammer", "testkit", "bench"],
    ),
    // The one call rustix does not have: a lease.
    ("libc", &["files"]),
    // Filters on system calls; only a test puts one around itself yet.
    ("seccompiler", &["testkit"]),
    // CPU clocks of other processes, which rustix does not have.
    ("nix", &["bench"]),
    ("rusqlite", &["store"]),
    ("rmcp", &["server", "conformance"]),
    // Whoever speaks HTTP is a surface, or the far end of a link.
    ("hyper", &["server", "daemon"]),
    ("rustls", &["server", "daemon"]),
    // It checks what issuers sign; TLS brings it in.
    ("ring", &["server"]),
    ("clap", &["cli"]),
    // They read the environment.
    ("listenfd", &["cli"]),
    ("sd-notify", &["cli"]),
    // It holds the terminal.
    ("crossterm", &["cli"]),
    ("ed25519-dalek", &["files"]),
    ("similar", &["files"]),
    // They can open files by path; the hand gives them open ones.
    ("grep-matcher", &["files"]),
    ("grep-regex", &["files"]),
    ("grep-searcher", &["files"]),
    // Decoders: they see bytes, never a path.
    ("bzip2", &["files"]),
    ("flate2", &["files"]),
    ("lzma-rust2", &["files"]),
    ("ruzstd", &["files"]),
    // Crates that unpack by themselves; the tests of ours say why not.
    ("tar", &[]),
    ("zip", &[]),
    // The oracle of the tests; a product crate has its own walk.
    ("cap-std", &[]),
    ("proptest", &[]),
    ("trybuild", &[]),
    // What the language, or `portcullis_proto::Failure`, does already.
    ("anyhow", &[]),
    ("async-trait", &[]),
    ("lazy_static", &[]),
    ("once_cell", &[]),
];

/// Outside crate, and the crates of ours that must stay without it.
const NOT_IN: &[(&str, &[&str])] = &[("tokio", &["proto", "policy"])];

/// Names that gather whatever has no home.
const NO_NAMES: &[&str] = &[
    "core", "common", "types", "utils", "util", "helpers", "misc",
];

#[test]
fn dependencies_point_down_only() {
    let mut wrong = Vec::new();
    for package in members() {
        let name = short(text(&package, "name"));
        let Some((_, may)) = MAY_USE.iter().find(|(of, _)| *of == name) else {
            wrong.push(format!("{name} is not on the map"));
            continue;
        };
        for used in used_by(&package) {
            if used.starts_with("portcullis-") && !may.contains(&short(&used)) {
                wrong.push(format!("{name} -> {}", short(&used)));
            }
        }
    }
    none(
        wrong,
        "edges that are not on the map",
        "move the code down, or draw the edge in docs/ARCHITECTURE.md and in MAY_USE",
    );
}

#[test]
fn the_map_names_only_crates_there_are() {
    let members = members();
    let there: BTreeSet<_> = members.iter().map(|p| short(text(p, "name"))).collect();
    let wrong = MAY_USE
        .iter()
        .flat_map(|(name, may)| std::iter::once(name).chain(may.iter()))
        .filter(|name| !there.contains(*name))
        .map(|name| (*name).to_owned())
        .collect();
    none(
        wrong,
        "on the map, but not in the tree",
        "take them off MAY_USE",
    );
}

#[test]
fn an_outside_crate_stays_in_its_home() {
    let mut wrong = Vec::new();
    for package in members() {
        let name = short(text(&package, "name"));
        for used in used_by(&package) {
            for (outside, homes) in ONLY_IN {
                if used == *outside && !homes.contains(&name) {
                    wrong.push(format!("{name} -> {outside}, whose home is {homes:?}"));
                }
            }
            for (outside, without) in NOT_IN {
                if used == *outside && without.contains(&name) {
                    wrong.push(format!("{name} -> {outside}, which it does without"));
                }
            }
        }
    }
    none(
        wrong,
        "outside crates that left their home",
        "ask the crate at home to do it; the list is ONLY_IN",
    );
}

#[test]
fn no_crate_is_named_for_whatever_has_no_home() {
    let wrong = members()
        .iter()
        .map(|package| short(text(package, "name")).to_owned())
        .filter(|name| name.split('-').any(|part| NO_NAMES.contains(&part)))
        .collect();
    none(
        wrong,
        "crates without a subject",
        "name a crate for what it does",
    );
}

#[test]
fn no_crate_has_cargo_features() {
    let wrong = members()
        .iter()
        .filter(|package| {
            package
                .get("features")
                .and_then(serde_json::Value::as_object)
                .is_some_and(|features| !features.is_empty())
        })
        .map(|package| text(package, "name").to_owned())
        .collect();
    none(
        wrong,
        "crates with `[features]` or optional dependencies",
        "one product is built and tested, not 2^n: make it a setting",
    );
}

/// What a package needs to be built, tests aside.
fn used_by(package: &serde_json::Value) -> Vec<String> {
    list(package, "dependencies")
        .iter()
        .filter(|dependency| text(dependency, "kind") != "dev")
        .map(|dependency| text(dependency, "name").to_owned())
        .collect()
}
