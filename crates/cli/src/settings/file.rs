//! The settings file as it is written: a superset of the schema daemons of
//! this kind have shipped. Unknown keys are errors, and every error has its
//! line and column.

use portcullis_gate::{GrantSource, ManifestPermission};
use portcullis_policy::{
    Containment, Hardlinks, Misplaced, PatternSet, Rule, Symlinks, parse_rules, read_part,
};
use portcullis_proto::{
    Access, AccessSet, Extent, Group, Mode, Principal, RelPath, RootId, RootKind,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::by_path::ByPath;
use crate::args::LogLevel;

/// What the file says. What it does not say is `None` or empty.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) permissions: Permissions,
    pub(crate) filesystem_dir: Option<String>,
    pub(crate) filesystem_write_access: Option<bool>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) by_path: ByPath,
    pub(crate) roots: Vec<WrittenRoot>,
    pub(crate) hooks: Vec<WrittenHook>,
    pub(crate) log_level: Option<LogLevel>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct File<'a> {
    permissions: Permissions,
    filesystem_dir: Option<String>,
    filesystem_write_access: Option<bool>,
    #[serde(borrow)]
    resource_permissions: Option<&'a RawValue>,
    resource_paths: ByPath,
    #[serde(borrow)]
    roots: Vec<&'a RawValue>,
    #[serde(borrow)]
    hooks: Vec<&'a RawValue>,
    log_level: Option<LogLevel>,
}

#[derive(Clone, Copy, Debug, Deserialize, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Permissions {
    pub(crate) filesystem_read: Option<Mode>,
    pub(crate) filesystem_write: Option<Mode>,
    pub(crate) shell: Option<Mode>,
    pub(crate) computer: Option<Mode>,
    pub(crate) browser: Option<Mode>,
}

impl Permissions {
    /// What is said of each group of which something is said.
    pub(crate) fn said(self) -> impl Iterator<Item = (Group, Mode)> {
        [
            (Group::FilesystemRead, self.filesystem_read),
            (Group::FilesystemWrite, self.filesystem_write),
            (Group::Shell, self.shell),
            (Group::Computer, self.computer),
            (Group::Browser, self.browser),
        ]
        .into_iter()
        .filter_map(|(group, mode)| Some((group, mode?)))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WrittenRoot {
    pub(crate) kind: RootKind,
    pub(crate) id: RootId,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) display_name: Option<String>,
    #[serde(default)]
    pub(crate) symlinks: Option<Symlinks>,
    #[serde(default)]
    pub(crate) hardlinks: Option<Hardlinks>,
    #[serde(default)]
    pub(crate) max_file_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) allowed_globs: Vec<Glob>,
    #[serde(default)]
    pub(crate) denied_globs: Vec<Glob>,
    #[serde(default)]
    pub(crate) mounts: Vec<RelPath>,
    #[serde(default)]
    pub(crate) containment: Option<Containment>,
    #[serde(default)]
    pub(crate) owner: Option<Principal>,
    #[serde(default)]
    pub(crate) trusted: bool,
    #[serde(default)]
    pub(crate) grants: Vec<WrittenGrant>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WrittenGrant {
    pub(crate) to: Principal,
    pub(crate) access: Vec<AccessWord>,
    #[serde(default)]
    pub(crate) expires_at: Option<Moment>,
    #[serde(default)]
    pub(crate) source: Option<GrantSource>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WrittenHook {
    pub(crate) id: String,
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) events: Option<Vec<HookEvent>>,
}

/// When a hook program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HookEvent {
    Before,
    After,
}

/// A glob that compiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(pub(crate) String);

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        PatternSet::compile(&[&text]).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

/// A moment, in milliseconds since 1970; written as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) u64);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment: jiff::Timestamp = text.parse().map_err(|_| {
            D::Error::custom(format!(
                "{text:?} is not a time; write it as 2026-12-31T18:00:00Z"
            ))
        })?;
        Ok(Self(u64::try_from(moment.as_millisecond()).unwrap_or(0)))
    }
}

/// `read`, or `filesystem:knowledge:read` as an extension's manifest has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessWord {
    One(Access),
    Manifest(ManifestPermission),
}

impl<'de> Deserialize<'de> for AccessWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        if let Some(access) = Access::parse(&word) {
            return Ok(Self::One(access));
        }
        if word.contains(':') {
            return ManifestPermission::parse(&word)
                .map(Self::Manifest)
                .map_err(D::Error::custom);
        }
        Err(D::Error::custom(format!(
            "{word:?} is not an access; write one of {}, or a manifest string such as filesystem:knowledge:read",
            Access::ALL.map(Access::as_str).join(", ")
        )))
    }
}

impl WrittenGrant {
    /// What it allows on a root of `kind`.
    pub(crate) fn access_on(&self, kind: RootKind) -> Result<AccessSet, String> {
        self.access.iter().try_fold(AccessSet::NONE, |set, word| {
            Ok(set.union(match word {
                AccessWord::One(access) => AccessSet::of(&[*access]),
                AccessWord::Manifest(asked) if asked.kind == kind => asked.access,
                AccessWord::Manifest(asked) => {
                    return Err(format!(
                        "a grant for {} roots stands on a {kind} root",
                        asked.kind
                    ));
                }
            }))
        })
    }
}

/// Reads the settings file called `name`.
pub(crate) fn parse(name: &str, text: &str) -> Result<Written, Misplaced> {
    Extent::of(text.as_bytes()).map_err(|why| Misplaced::at(text, text, why.to_string()))?;
    let file: File<'_> =
        serde_json::from_str(text).map_err(|error| Misplaced::inside(text, text, &error))?;
    let rules = match file.resource_permissions {
        None => Vec::new(),
        Some(section) => parse_rules(name, text, section)?,
    };
    let mut roots: Vec<WrittenRoot> = Vec::new();
    for raw in file.roots {
        let root: WrittenRoot = read_part(text, raw)?;
        let wrong = |what: String| Misplaced::at(text, raw.get(), what);
        if roots.iter().any(|other| other.id == root.id) {
            return Err(wrong(format!(
                "two roots are called {:?}",
                root.id.as_str()
            )));
        }
        for grant in &root.grants {
            grant.access_on(root.kind).map_err(wrong)?;
        }
        roots.push(root);
    }
    let mut hooks: Vec<WrittenHook> = Vec::new();
    for raw in file.hooks {
        let hook: WrittenHook = read_part(text, raw)?;
        let wrong = |what: String| Err(Misplaced::at(text, raw.get(), what));
        if hook.id.is_empty() || hook.id.len() > 64 {
            return wrong("a hook's id has 1 to 64 characters".to_owned());
        }
        if hooks.iter().any(|other| other.id == hook.id) {
            return wrong(format!("two hooks are called {:?}", hook.id));
        }
        if hook.command.is_empty() {
            return wrong(format!("the hook {:?} has no command", hook.id));
        }
        hooks.push(hook);
    }
    Ok(Written {
        permissions: file.permissions,
        filesystem_dir: file.filesystem_dir,
        filesystem_write_access: file.filesystem_write_access,
        rules,
        by_path: file.resource_paths,
        roots,
        hooks,
        log_level: file.log_level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wrong(text: &str, line: usize, column: usize, says: &str) {
        let wrong = parse("settings.json", text).unwrap_err();
        assert!(wrong.what.contains(says), "{wrong:?}");
        assert!(!wrong.what.contains(" at line "), "{wrong:?}");
        assert_eq!((wrong.line, wrong.column), (line, column), "{wrong:?}");
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = r#"{
          "permissions": {"filesystemRead": "ask", "computer": "deny"},
          "filesystemDir": "~/work",
          "resourcePermissions": {"filesystemRead": {"deny": ["*.log"]}},
          "roots": [{"kind": "knowledge", "id": "notes", "path": "/srv/notes",
            "symlinks": "allow-in-root", "hardlinks": "allow-own", "maxFileBytes": 1000,
            "allowedGlobs": ["*.md"], "deniedGlobs": ["/private"], "mounts": ["big"],
            "containment": "kernel_atomic", "owner": {"type": "user", "id": "ada"},
            "grants": [{"to": {"type": "extension", "id": "search"},
              "access": ["stat"], "source": "manifest"}]}],
          "logLevel": "info"
        }"#;
        // `stat` is a verb, not an access.
        check_wrong(text, 10, 32, "\"stat\" is not an access");
        let text = text.replace("\"stat\"", "\"read\", \"filesystem:knowledge:read\"");
        let written = parse("settings.json", &text).unwrap();
        assert_eq!(written.permissions.filesystem_read, Some(Mode::Ask));
        assert_eq!(written.rules.len(), 1);
        let root = written.roots.first().unwrap();
        let access = root.grants[0].access_on(root.kind).unwrap();
        assert!(access.has(Access::Read) && access.has(Access::List));
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        check_wrong("{\n  \"permisions\": {}\n}", 2, 14, "permisions");
        check_wrong(
            "{\n \"permissions\": {\"shell\": \"maybe\"}}",
            2,
            33,
            "maybe",
        );
        check_wrong("{\"roots\": [\n {\"kind\": \"home\"}]}", 2, 16, "home");
        check_wrong("{", 1, 1, "EOF");
        let rules = "{\"resourcePermissions\": {\"filesystemRead\":\n {\"denny\": []}}}";
        check_wrong(rules, 2, 9, "denny");
        let two = r#"{"roots": [
          {"kind": "temp", "id": "a", "path": "/x"},
          {"kind": "temp", "id": "a", "path": "/y"}]}"#;
        check_wrong(two, 3, 11, "two roots");
        let kinds = "{\"roots\": [{\"kind\": \"temp\", \"id\": \"a\", \"path\": \"/x\",\n\"grants\": [{\"to\": {\"type\": \"user\", \"id\": \"a\"}, \"access\": [\"filesystem:secret:read\"]}]}]}";
        check_wrong(kinds, 1, 12, "secret roots stands on a temp root");
    }
}
