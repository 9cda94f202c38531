//! Answers that were given for good, seen from the roots there are now.
//!
//! They were given about a place of this machine, and hold for that place: under
//! whichever name a directory with it is served or lent later, and in no other
//! directory that happens to have the same names in it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use portcullis_files::{Place, place_by_name};
use portcullis_policy::{Effect, PatternSet, Rule};
use portcullis_proto::RootId;
use portcullis_store::StoredRule;

/// Every path there is.
const ALL: &str = "**";

/// A root, and the directory it really is.
pub(crate) type Standing = (RootId, PathBuf);

/// What the name of a directory that is no text begins with: no path does.
const BYTES: &str = "bytes:";

/// How the store calls the directory of a root. One that is no text is called
/// something that no other directory is.
pub(crate) fn name_of(dir: &Path) -> String {
    let bytes = || dir.as_os_str().as_encoded_bytes().escape_ascii();
    dir.to_str()
        .map_or_else(|| format!("{BYTES}{}", bytes()), str::to_owned)
}

/// The directory that the store calls so; nothing where we call none so.
fn named(name: &str) -> Option<PathBuf> {
    let Some(escaped) = name.strip_prefix(BYTES) else {
        return Some(name.into());
    };
    let mut bytes = Vec::new();
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'x' => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                    u8::try_from(16 * high + low).ok()?
                }
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                itself @ (b'\\' | b'\'' | b'"') => itself,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(OsString::from_vec(bytes).into())
}

/// What `stored` says about `roots`.
pub(crate) fn seen_from(stored: &StoredRule, roots: &[Standing]) -> Vec<Rule> {
    let Some(place) = &stored.place else {
        return vec![stored.rule.clone()];
    };
    let seen = roots.iter().filter_map(|(root, dir)| {
        Some(Rule {
            root: Some(root.clone()),
            pattern: pattern(&stored.rule, place, dir)?,
            ..stored.rule.clone()
        })
    });
    seen.collect()
}

/// Which paths below `dir` a rule is about that was said in `place`. A no that
/// cannot be said from there is a no to all of it, a yes none at all.
///
/// By names alone: what was asked about had no link on its way, and if one was
/// put there since, it is not followed.
fn pattern(rule: &Rule, place: &str, dir: &Path) -> Option<String> {
    if place == name_of(dir) {
        return Some(rule.pattern.clone());
    }
    let seen = match (named(place), PatternSet::exactly(&rule.pattern)) {
        // Of a name that means nothing to us it is not known where it lies.
        (None, _) => Place::Unspeakable,
        (Some(place), Some(path)) if path.is_root() => place_by_name(&place, dir),
        (Some(place), Some(path)) => place_by_name(&place.join(path.as_str()), dir),
        (Some(place), None) => match place_by_name(&place, dir) {
            Place::Apart => Place::Apart,
            Place::Inside(_) | Place::All | Place::Unspeakable => Place::Unspeakable,
        },
    };
    match (rule.effect, seen) {
        (_, Place::Inside(path)) => Some(PatternSet::exact(&path)),
        (_, Place::All) | (Effect::Deny, Place::Unspeakable) => Some(ALL.to_owned()),
        (_, Place::Apart) | (Effect::Allow, Place::Unspeakable) => None,
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::{Group, RelPath};
    use portcullis_store::RuleId;

    use super::*;

    fn said(effect: Effect, place: Option<&str>, path: &str) -> StoredRule {
        StoredRule {
            id: RuleId::parse("1").unwrap(),
            rule: Rule {
                effect,
                group: Group::FilesystemWrite,
                root: RootId::parse("workspace"),
                pattern: PatternSet::exact(&RelPath::parse(path).unwrap()),
                covers_protected: false,
                exact_path: false,
                source: "answer:q_1".into(),
            },
            place: place.map(str::to_owned),
            kept_at: 0,
        }
    }

    #[track_caller]
    fn check(stored: &StoredRule, dir: impl Into<PathBuf>, want: Option<&str>) {
        let (root, dir) = (RootId::parse("lent").unwrap(), dir.into());
        let rules = seen_from(stored, &[(root.clone(), dir.clone())]);
        let seen: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        assert_eq!(seen, Vec::from_iter(want), "{}", dir.display());
        assert!(rules.iter().all(|rule| rule.root == Some(root.clone())));
    }

    #[test]
    fn an_answer_holds_for_the_place_it_was_given_about_and_no_other() {
        for effect in [Effect::Allow, Effect::Deny] {
            let stored = said(effect, Some("/w/a"), "src/[x].txt");
            check(&stored, "/w/a", Some("/src/[[]x[]].txt"));
            check(&stored, "/w", Some("/a/src/[[]x[]].txt"));
            check(&stored, "/w/a/src", Some("/[[]x[]].txt"));
            check(&stored, "/w/a/src/[x].txt", Some("**"));
            check(&stored, "/w/a/src/[x].txt/deep", Some("**"));
            for apart in ["/w/b", "/w/a2", "/", "/w/a/other"] {
                let want = (apart == "/").then_some("/w/a/src/[[]x[]].txt");
                check(&stored, apart, want);
            }
        }
    }

    #[test]
    fn a_no_that_cannot_be_said_is_one_to_all_of_it_and_a_yes_none() {
        let odd = |effect| StoredRule {
            rule: Rule {
                pattern: "*.key".into(),
                ..said(effect, None, "x").rule
            },
            ..said(effect, Some("/w/a"), "x")
        };
        check(&odd(Effect::Deny), "/w/a", Some("*.key"));
        check(&odd(Effect::Deny), "/w/a/b", Some("**"));
        check(&odd(Effect::Deny), "/w/b", None);
        check(&odd(Effect::Allow), "/w/a/b", None);
    }

    #[test]
    fn an_answer_about_a_place_that_is_no_text_holds_around_and_below_it() {
        let dir = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let odd = dir(b"/w/\xff \\'\n\t\"x");
        assert_eq!(named(&name_of(&odd)).as_ref(), Some(&odd));
        let place = name_of(&odd);
        for effect in [Effect::Allow, Effect::Deny] {
            let stored = said(effect, Some(&place), "src/x");
            check(&stored, odd.clone(), Some("/src/x"));
            check(&stored, odd.join("src"), Some("/x"));
            check(&stored, odd.join("src/x/deep"), Some("**"));
            check(&stored, odd.join("other"), None);
            check(&stored, dir(b"/w/\xfe"), None);
            // From around it, there is no pattern that says it.
            let around = (effect == Effect::Deny).then_some("**");
            check(&stored, "/w", around);
        }
        for unknown in ["bytes:\\q", "bytes:\\x4"] {
            check(&said(Effect::Deny, Some(unknown), "x"), "/w", Some("**"));
            check(&said(Effect::Allow, Some(unknown), "x"), "/w", None);
        }
    }

    #[test]
    fn one_from_before_places_were_kept_counts_as_it_did() {
        let stored = said(Effect::Deny, None, "x");
        let root = RootId::parse("lent").unwrap();
        assert_eq!(seen_from(&stored, &[(root, "/w".into())]), [stored.rule]);
    }
}
