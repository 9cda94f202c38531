//! Takes over the settings of n8n's daemon.
//!
//! Its rules name files by their whole path, and so do those that are made of
//! them: they hold whichever directory is lent later. A yes that cannot be taken
//! over is left out and said, a no that cannot be is a reason to import nothing.

use portcullis_proto::{Extent, Group};
use serde::Deserialize;
use serde_json::{Map, json};

use super::by_path::is_whole;
use super::file::{self, Permissions};
use super::template::NAME;

/// n8n's own settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Theirs {
    #[serde(default)]
    log_level: Option<Level>,
    #[serde(default)]
    permissions: Permissions,
    #[serde(default)]
    filesystem_dir: Option<String>,
    #[serde(default)]
    resource_permissions: Resources,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Silent,
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    /// The same in ours.
    const fn word(self) -> &'static str {
        match self {
            Self::Silent => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Resources {
    filesystem_read: Lists,
    filesystem_write: Lists,
    shell: Lists,
    computer: Lists,
    browser: Lists,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Lists {
    allow: Vec<String>,
    deny: Vec<String>,
}

/// What an import comes to.
#[derive(Debug)]
pub(crate) struct Imported {
    /// The settings file.
    pub(crate) text: String,
    /// What was left out, each in words.
    pub(crate) left_out: Vec<String>,
}

/// Where the file is wrong, or why it cannot be taken over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotImported {
    /// It is no such file: line, column and what is wrong.
    Damaged(usize, usize, String),
    /// A denial would be lost.
    LosesDenial(String),
}

/// Reads n8n's settings and says them in ours.
pub(crate) fn import(text: &str) -> Result<Imported, NotImported> {
    let damaged = |error: serde_json::Error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        NotImported::Damaged(error.line(), error.column(), what.to_owned())
    };
    Extent::of(text.as_bytes()).map_err(|why| NotImported::Damaged(1, 1, why.to_string()))?;
    let theirs: Theirs = serde_json::from_str(text).map_err(damaged)?;
    let dir = theirs.filesystem_dir.filter(|dir| !dir.is_empty());
    let mut left_out = Vec::new();
    let mut rules = Map::new();
    for (group, lists) in [
        (
            Group::FilesystemRead,
            &theirs.resource_permissions.filesystem_read,
        ),
        (
            Group::FilesystemWrite,
            &theirs.resource_permissions.filesystem_write,
        ),
        (Group::Shell, &theirs.resource_permissions.shell),
        (Group::Computer, &theirs.resource_permissions.computer),
        (Group::Browser, &theirs.resource_permissions.browser),
    ] {
        let is_files = matches!(group, Group::FilesystemRead | Group::FilesystemWrite);
        let said = |resource: &str| {
            let can_be_said = is_files && is_whole(resource);
            can_be_said
                .then(|| resource.to_owned())
                .ok_or_else(|| format!("{group}: {resource}"))
        };
        let mut allow = Vec::new();
        for resource in &lists.allow {
            match said(resource) {
                Ok(path) => allow.push(path),
                Err(what) => left_out.push(what),
            }
        }
        let deny: Result<Vec<String>, String> = lists.deny.iter().map(|one| said(one)).collect();
        let deny = deny.map_err(NotImported::LosesDenial)?;
        if !allow.is_empty() || !deny.is_empty() {
            rules.insert(group.as_str().into(), json!({"allow": allow, "deny": deny}));
        }
    }
    let modes = theirs.permissions.said();
    let modes = modes.map(|(group, mode)| (group.as_str().to_owned(), mode.as_str().into()));
    let mut ours = json!({
        "permissions": modes.collect::<Map<_, _>>(),
        "resourcePaths": rules,
    });
    if let (Some(ours), Some(dir)) = (ours.as_object_mut(), &dir) {
        ours.insert("filesystemDir".into(), dir.as_str().into());
    }
    if let (Some(ours), Some(level)) = (ours.as_object_mut(), theirs.log_level) {
        ours.insert("logLevel".into(), level.word().into());
    }
    let mut text = serde_json::to_string_pretty(&ours).map_err(damaged)?;
    text.push('\n');
    // Whatever is odd in it is told now, and not at the next start.
    file::parse(NAME, &text)
        .map_err(|wrong| NotImported::Damaged(wrong.line, wrong.column, wrong.what))?;
    Ok(Imported { text, left_out })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn modes_the_directory_and_rules_about_files_are_taken_over() {
        let theirs = r#"{"logLevel": "silent", "filesystemDir": "/home/ada/work",
          "permissions": {"filesystemRead": "allow", "shell": "deny"},
          "resourcePermissions": {
            "filesystemWrite": {"allow": ["/home/ada/work/a [1].txt", "notes"],
                                "deny": ["/home/ada/work/src"]},
            "shell": {"allow": ["/: ls"]}}}"#;
        let imported = import(theirs).unwrap();
        let ours: Value = serde_json::from_str(&imported.text).unwrap();
        assert_eq!(ours["filesystemDir"], "/home/ada/work");
        assert_eq!(ours["logLevel"], "off");
        assert_eq!(ours["permissions"]["shell"], "deny");
        let rules = &ours["resourcePaths"]["filesystemWrite"];
        assert_eq!(rules["deny"], json!(["/home/ada/work/src"]));
        assert_eq!(rules["allow"], json!(["/home/ada/work/a [1].txt"]));
        assert_eq!(
            imported.left_out,
            ["filesystemWrite: notes", "shell: /: ls"]
        );
        file::parse(NAME, &imported.text).unwrap();
    }

    #[test]
    fn a_denial_that_would_be_lost_and_a_damaged_file_stop_it() {
        let lost = |text: &str| import(text).unwrap_err();
        for odd in ["secrets", "/w/../etc/shadow", ""] {
            let odd = json!({"filesystemDir": "/w", "resourcePermissions":
                {"filesystemRead": {"deny": [odd]}}});
            assert!(matches!(
                lost(&odd.to_string()),
                NotImported::LosesDenial(_)
            ));
        }
        let shell = r#"{"resourcePermissions": {"shell": {"deny": ["rm"]}}}"#;
        assert!(matches!(lost(shell), NotImported::LosesDenial(_)));
        assert!(matches!(
            lost("{\n  \"permissions\": {,}\n}"),
            NotImported::Damaged(2, _, _)
        ));
        for (bad, place) in [
            ("{\n \"permissions\": {\"shell\": \"maybe\"}}", (2, 33)),
            ("{\n\n \"logLevel\": \"loud\"}", (3, 19)),
        ] {
            let NotImported::Damaged(line, column, what) = lost(bad) else {
                panic!("{bad} was taken for a lost denial");
            };
            assert_eq!((line, column), place, "{what}");
        }
    }
}
