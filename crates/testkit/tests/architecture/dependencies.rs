//! Licences, bans and sources, enforced wherever the tests run.
//!
//! The lists stand in `deny.toml`, which cargo-deny reads too (`./test --deny`).
//! That tool takes minutes to build, so this file holds the same promises from
//! what cargo knows: bans and sources over the whole lock file, licences over
//! every package built on this machine.

use std::collections::{BTreeMap, BTreeSet};

use crate::none;
use crate::tree::{graph, source, text};

#[test]
fn every_licence_is_on_the_list() {
    let allowed = strings("[licenses]", "allow");
    let wrong = graph()
        .iter()
        .filter(|package| !text(package, "source").is_empty())
        .filter(|package| !acceptable(text(package, "license"), &allowed))
        .map(|package| {
            format!(
                "{} {}: {:?}",
                text(package, "name"),
                text(package, "version"),
                text(package, "license")
            )
        })
        .collect();
    none(
        wrong,
        "packages under a licence that is not on the list",
        "choose another crate, or argue for the licence in deny.toml",
    );
}

#[test]
fn no_banned_crate_is_in_the_lock_file() {
    let banned = banned();
    let locked = locked();
    let mut wrong = Vec::new();
    for package in &locked {
        let Some(wrappers) = banned.get(&package.name) else {
            continue;
        };
        for user in locked
            .iter()
            .filter(|user| user.uses.contains(&package.name))
        {
            if !wrappers.contains(&user.name) {
                wrong.push(format!("{} -> {}", user.name, package.name));
            }
        }
    }
    none(
        wrong,
        "banned crates",
        "the reason stands in deny.toml, and so does what to use instead",
    );
}

#[test]
fn every_package_comes_from_the_public_registry() {
    let registries = strings("[sources]", "allow-registry");
    let wrong = locked()
        .into_iter()
        .filter(|package| {
            !package.source.is_empty()
                && !registries.contains(package.source.trim_start_matches("registry+"))
        })
        .map(|package| format!("{}: {}", package.name, package.source))
        .collect();
    none(
        wrong,
        "packages from elsewhere",
        "publish the crate or vendor the file; no git sources",
    );
}

#[test]
fn a_licence_expression_is_read_as_spdx_means_it() {
    #[track_caller]
    fn check(expression: &str, want: bool) {
        let allowed = ["MIT", "A", "A WITH X"].map(str::to_owned).into();
        assert_eq!(acceptable(expression, &allowed), want, "{expression}");
    }
    check("MIT", true);
    check("GPL OR MIT", true);
    check("GPL/MIT", true);
    check("GPL AND MIT", false);
    check("(GPL OR MIT) AND A", true);
    check("(GPL OR MIT) AND B", false);
    check("GPL AND B OR MIT", true);
    check("A WITH X", true);
    check("A WITH Y", false);
    check("", false);
}

/// A package as the lock file has it.
#[derive(Default)]
struct Locked {
    name: String,
    source: String,
    uses: BTreeSet<String>,
}

fn locked() -> Vec<Locked> {
    let lock = &source("Cargo.lock")
        .expect("the lock file is committed")
        .text;
    lock.split("[[package]]")
        .skip(1)
        .map(|block| {
            let mut package = Locked::default();
            for line in block.lines() {
                if let Some(name) = line.strip_prefix("name = ") {
                    name.trim_matches('"').clone_into(&mut package.name);
                } else if let Some(from) = line.strip_prefix("source = ") {
                    from.trim_matches('"').clone_into(&mut package.source);
                } else if let Some(used) = line.strip_prefix(" \"") {
                    let used = used.split([' ', '"']).next().unwrap_or_default();
                    package.uses.insert(used.to_owned());
                }
            }
            package
        })
        .collect()
}

/// Banned crate, and the crates it may come in through.
fn banned() -> BTreeMap<String, BTreeSet<String>> {
    let banned: BTreeMap<_, _> = entries("[bans]", "deny")
        .iter()
        .map(|entry| {
            let (before, wrappers) = entry.split_once("wrappers").unwrap_or((entry, ""));
            let name = quoted(before)
                .into_iter()
                .next()
                .expect("a ban names its crate");
            let wrappers = wrappers.split(']').next().unwrap_or_default();
            (name, quoted(wrappers).into_iter().collect())
        })
        .collect();
    assert!(
        banned.contains_key("openssl"),
        "deny.toml was not understood"
    );
    banned
}

fn strings(section: &str, key: &str) -> BTreeSet<String> {
    let strings: BTreeSet<_> = entries(section, key)
        .iter()
        .flat_map(|line| quoted(line))
        .collect();
    assert!(!strings.is_empty(), "deny.toml has no {key} in {section}");
    strings
}

/// The lines of the list called `key`, comments left out.
fn entries(section: &str, key: &str) -> Vec<String> {
    let text = &source("deny.toml").expect("deny.toml is committed").text;
    let mut lines = text.lines().skip_while(|line| *line != section).skip(1);
    let opening = format!("{key} = [");
    let first = lines
        .by_ref()
        .find_map(|line| line.strip_prefix(opening.as_str()))
        .unwrap_or_default();
    if let Some(only) = first.strip_suffix(']') {
        return vec![only.to_owned()];
    }
    lines
        .take_while(|line| *line != "]")
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn quoted(line: &str) -> Vec<String> {
    line.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Whether `expression` can be satisfied by licences of the list alone. `AND`
/// binds tighter than `OR`; the old `/` is an `OR`.
fn acceptable(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut words = words.as_slice();
    either(&mut words, allowed) && words.is_empty()
}

fn either(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut yes = both(words, allowed);
    while take(words, "OR") {
        yes |= both(words, allowed);
    }
    yes
}

fn both(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut yes = one(words, allowed);
    while take(words, "AND") {
        yes &= one(words, allowed);
    }
    yes
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    if take(words, "(") {
        return either(words, allowed) & take(words, ")");
    }
    let Some((licence, rest)) = words.split_first() else {
        return false;
    };
    *words = rest;
    if !take(words, "WITH") {
        return allowed.contains(*licence);
    }
    let Some((exception, rest)) = words.split_first() else {
        return false;
    };
    *words = rest;
    allowed.contains(&format!("{licence} WITH {exception}"))
}

fn take(words: &mut &[&str], word: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == word => {
            *words = rest;
            true
        }
        Some(_) | None => false,
    }
}
