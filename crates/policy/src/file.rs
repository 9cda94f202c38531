//! Rules as people write them, with examples that are checked when they load.
//!
//! `{"filesystemRead": {"allow": [...], "deny": [...]}}`, where a rule is a
//! pattern, or `{"pattern", "root", "coversProtected", "examples": {"match",
//! "notMatch"}}`. A rule whose example disagrees does not load; the error names
//! its line and column.

use portcullis_proto::{Group, RelPath, RootId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::place::{Misplaced, begins, read_part};
use crate::{Effect, PatternSet, Rule};

/// One field per group and no map: a group named twice is an error, where a map
/// would drop the first one's denies without a word.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Groups<'a> {
    #[serde(borrow)]
    filesystem_read: Option<&'a RawValue>,
    #[serde(borrow)]
    filesystem_write: Option<&'a RawValue>,
    #[serde(borrow)]
    shell: Option<&'a RawValue>,
    #[serde(borrow)]
    computer: Option<&'a RawValue>,
    #[serde(borrow)]
    browser: Option<&'a RawValue>,
}

impl<'a> Groups<'a> {
    fn in_order(&self) -> impl Iterator<Item = (Group, &'a RawValue)> {
        let lists = Group::ALL.map(|group| match group {
            Group::FilesystemRead => (group, self.filesystem_read),
            Group::FilesystemWrite => (group, self.filesystem_write),
            Group::Shell => (group, self.shell),
            Group::Computer => (group, self.computer),
            Group::Browser => (group, self.browser),
        });
        lists
            .into_iter()
            .filter_map(|(group, lists)| Some((group, lists?)))
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Lists<'a> {
    #[serde(borrow)]
    allow: Vec<&'a RawValue>,
    #[serde(borrow)]
    deny: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Pattern(String),
    Rule(WrittenRule),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WrittenRule {
    pattern: String,
    #[serde(default)]
    root: Option<RootId>,
    #[serde(default)]
    covers_protected: bool,
    #[serde(default)]
    examples: Examples,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Examples {
    r#match: Vec<String>,
    not_match: Vec<String>,
}

/// Reads the rules in `section`, which is a part of `whole`, the text of the
/// file called `name`.
pub fn parse_rules(name: &str, whole: &str, section: &RawValue) -> Result<Vec<Rule>, Misplaced> {
    let groups: Groups<'_> = read_part(whole, section)?;
    let mut rules = Vec::new();
    for (group, lists) in groups.in_order() {
        let lists: Lists<'_> = read_part(whole, lists)?;
        for (effect, list) in [(Effect::Allow, lists.allow), (Effect::Deny, lists.deny)] {
            for raw in list {
                let (line, _) = begins(whole, raw.get());
                let source = format!("{name}:{line}");
                let rule = parse_rule(source, effect, group, raw)
                    .map_err(|what| Misplaced::at(whole, raw.get(), what))?;
                rules.push(rule);
            }
        }
    }
    Ok(rules)
}

fn parse_rule(
    source: String,
    effect: Effect,
    group: Group,
    raw: &RawValue,
) -> Result<Rule, String> {
    let written = serde_json::from_str(raw.get())
        .map_err(|_| "a rule is a pattern, or an object with `pattern`, `root`, `coversProtected` and `examples`".to_owned())?;
    let written = match written {
        Written::Pattern(pattern) => WrittenRule {
            pattern,
            root: None,
            covers_protected: false,
            examples: Examples::default(),
        },
        Written::Rule(rule) => rule,
    };
    let compiled = PatternSet::compile(&[&written.pattern]).map_err(|bad| bad.to_string())?;
    let covers = |example: &str| {
        RelPath::parse(example)
            .map(|path| compiled.covers(&path))
            .map_err(|_| format!("the example {example:?} is not a path inside a root"))
    };
    for example in &written.examples.r#match {
        if !covers(example)? {
            return Err(format!(
                "{:?} does not match its own example {example:?}",
                written.pattern
            ));
        }
    }
    for example in &written.examples.not_match {
        if covers(example)? {
            return Err(format!(
                "{:?} matches {example:?}, which its examples say it must not",
                written.pattern
            ));
        }
    }
    Ok(Rule {
        effect,
        group,
        root: written.root,
        pattern: written.pattern,
        covers_protected: written.covers_protected,
        exact_path: false,
        source: source.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File<'a> {
        #[serde(borrow)]
        rules: &'a RawValue,
    }

    fn load(text: &str) -> Result<Vec<Rule>, Misplaced> {
        let file: File<'_> = serde_json::from_str(text).unwrap();
        parse_rules("settings.json", text, file.rules)
    }

    #[test]
    fn a_rule_remembers_its_line() {
        let rules = load("{\"rules\": {\n \"filesystemRead\": {\n  \"deny\": [\n   \"*.log\",\n   {\"pattern\": \"/x\"}]}}}").unwrap();
        let sources: Vec<_> = rules.iter().map(|rule| &*rule.source).collect();
        assert_eq!(sources, ["settings.json:4", "settings.json:5"]);
    }

    #[test]
    fn a_rule_whose_example_disagrees_does_not_load_and_says_where() {
        let error = load("{\"rules\": {\"filesystemRead\": {\"deny\": [\n  {\"pattern\": \"/src\", \"examples\": {\"match\": [\"lib/src\"]}}]}}}")
            .unwrap_err();
        assert_eq!((error.line, error.column), (2, 3));
        assert!(error.what.contains("lib/src"), "{error}");
        let error = load(
            "{\"rules\": {\"shell\": {\"deny\": [{\"pattern\": \"*\", \"examples\": {\"notMatch\": [\"a\"]}}]}}}",
        );
        assert!(error.is_err());
    }

    #[test]
    fn a_group_named_twice_is_an_error_and_not_the_loss_of_its_first_denies() {
        let error = load(
            "{\"rules\": {\"filesystemRead\": {\"deny\": [\"/a\"]},\n \"filesystemRead\": {}}}",
        )
        .unwrap_err();
        assert_eq!(error.line, 2);
        assert!(load("{\"rules\": {\"filesystemReed\": {}}}").is_err());
    }

    #[test]
    fn a_misspelt_key_is_an_error_with_its_place() {
        let error = load("{\"rules\": {\"filesystemRead\": {\n\"denny\": []}}}").unwrap_err();
        assert_eq!(error.line, 2);
    }
}
