//! Rules about places of this machine by their whole path: they hold wherever
//! the directory that is served begins, and nowhere else.

use std::path::{Component, Path, PathBuf};

use portcullis_files::{Place, is_really, places};
use portcullis_policy::{Effect, PatternSet, Rule};
use portcullis_proto::Group;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::RootSetting;

/// Every path there is.
const ALL: &str = "**";

/// What `resourcePaths` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ByPath {
    filesystem_read: Lists,
    filesystem_write: Lists,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Lists {
    allow: Vec<Whole>,
    deny: Vec<Whole>,
}

/// A path from the top of this machine, without a way up in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Whole(PathBuf);

/// Whether a path is one that a rule can be about.
pub(super) fn is_whole(path: &str) -> bool {
    let path = Path::new(path);
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if !is_whole(&text) {
            return Err(D::Error::custom(format!(
                "{text:?} is not a whole path; write it from / and without .."
            )));
        }
        Ok(Self(text.into()))
    }
}

impl ByPath {
    /// The same as rules of each of `roots`.
    pub(super) fn rules(&self, roots: &[RootSetting], file: &str) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        for (group, lists) in [
            (Group::FilesystemRead, &self.filesystem_read),
            (Group::FilesystemWrite, &self.filesystem_write),
        ] {
            for (effect, paths) in [(Effect::Allow, &lists.allow), (Effect::Deny, &lists.deny)] {
                for (root, (n, Whole(path))) in roots
                    .iter()
                    .flat_map(|root| paths.iter().enumerate().map(move |path| (root, path)))
                {
                    // What a link leads to is not what somebody said yes to.
                    if effect == Effect::Allow && !is_really(path, &root.path) {
                        continue;
                    }
                    let places = places(path, &root.path);
                    for pattern in places.iter().filter_map(|place| pattern(effect, place)) {
                        let rule = Rule {
                            effect,
                            group,
                            root: Some(root.spec.id.clone()),
                            pattern,
                            covers_protected: false,
                            exact_path: false,
                            // Told to who is refused: no path of this machine.
                            source: format!(
                                "{file}: resourcePaths.{}.{}[{n}]",
                                group.as_str(),
                                effect.as_str()
                            )
                            .into(),
                        };
                        if !rules.contains(&rule) {
                            rules.push(rule);
                        }
                    }
                }
            }
        }
        rules
    }
}

/// What is meant by a place, seen from a root. A no that cannot be said is a no
/// to all of it, a yes none at all.
fn pattern(effect: Effect, place: &Place) -> Option<String> {
    match (effect, place) {
        (_, Place::Inside(path)) => Some(PatternSet::exact(path)),
        (_, Place::All) | (Effect::Deny, Place::Unspeakable) => Some(ALL.to_owned()),
        (_, Place::Apart) | (Effect::Allow, Place::Unspeakable) => None,
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::RootKind;

    use super::super::plain_root;
    use super::*;

    /// `effect pattern` of each rule, for a root at `dir`.
    fn seen_from(dir: &str, written: &str) -> Vec<String> {
        let by_path: ByPath = serde_json::from_str(written).unwrap();
        let root = plain_root(RootKind::Workspace, "workspace", dir.into()).unwrap();
        let rules = by_path.rules(&[root], "settings.json");
        let said = |rule: &Rule| format!("{} {}", rule.effect.as_str(), rule.pattern);
        rules.iter().map(said).collect()
    }

    #[test]
    fn a_rule_about_a_place_holds_wherever_the_root_begins() {
        let written =
            r#"{"filesystemRead": {"allow": ["/nowhere/w/a"], "deny": ["/nowhere/w/src/b"]}}"#;
        for (dir, want) in [
            ("/nowhere/w", &["allow /a", "deny /src/b"][..]),
            ("/nowhere", &["allow /w/a", "deny /w/src/b"]),
            ("/nowhere/w/src", &["deny /b"]),
            ("/nowhere/w/src/b/deep", &["deny **"]),
            ("/nowhere/w/a", &["allow **"]),
            ("/nowhere/other", &[]),
            ("/nowhere/w2", &[]),
        ] {
            assert_eq!(seen_from(dir, written), want, "{dir}");
        }
    }

    #[test]
    fn a_yes_goes_through_no_link_and_no_rule_tells_a_path() {
        let scratch = portcullis_testkit::Scratch::in_memory(
            "
            w/src/a.txt = a
            w/build -> ..
            ",
        );
        let at = |path: &str| scratch.at(path).display().to_string();
        let written = serde_json::json!({"filesystemWrite": {
            "allow": [at("w/build"), at("w/src"), at("w/build/w")],
            "deny": [at("w/build")],
        }});
        let root = plain_root(RootKind::Workspace, "workspace", scratch.at("w")).unwrap();
        let by_path: ByPath = serde_json::from_value(written).unwrap();
        let rules = by_path.rules(&[root], "settings.json");
        let said = |rule: &Rule| format!("{} {}", rule.effect.as_str(), rule.pattern);
        let said: Vec<String> = rules.iter().map(said).collect();
        assert_eq!(said, ["allow /src", "deny /build", "deny **"]);
        for rule in rules {
            assert!(!rule.source.contains('/'), "{}", rule.source);
        }
    }

    #[test]
    fn what_is_no_whole_path_is_told() {
        for bad in ["a", "", "~/a", "/a/../b"] {
            let written = serde_json::json!({"filesystemRead": {"deny": [bad]}});
            let error = serde_json::from_value::<ByPath>(written).unwrap_err();
            assert!(error.to_string().contains("whole path"), "{error}");
        }
    }
}
