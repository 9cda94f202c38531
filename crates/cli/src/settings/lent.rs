//! The one directory `connect` lends, beside the roots the settings list: what
//! is written about a root is not lost by lending its directory.

use std::path::PathBuf;

use portcullis_files::{Nesting, nesting};
use portcullis_policy::Rule;
use portcullis_proto::RootKind;

use super::file::{Written, WrittenRoot};
use super::{RootSetting, Settings, plain_root, written_root};
use crate::environment::Environment;
use crate::problem::Problem;

/// A root the settings list.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    root: RootSetting,
    has_own_policy: bool,
}

/// The roots the settings list.
pub(super) fn listed(env: &Environment, written: &Written) -> Result<Vec<Listed>, Problem> {
    let roots = written.roots.iter();
    roots
        .map(|root| {
            Ok(Listed {
                has_own_policy: has_own_policy(root, &written.rules),
                root: written_root(env, root)?,
            })
        })
        .collect()
}

/// Whether anything is written about a root that a plain workspace has not.
fn has_own_policy(root: &WrittenRoot, rules: &[Rule]) -> bool {
    root.kind != RootKind::Workspace
        || root.symlinks.is_some()
        || root.hardlinks.is_some()
        || root.max_file_bytes.is_some()
        || root.containment.is_some()
        || root.owner.is_some()
        || !root.allowed_globs.is_empty()
        || !root.denied_globs.is_empty()
        || !root.mounts.is_empty()
        || rules
            .iter()
            .any(|rule| rule.root.as_ref() == Some(&root.id))
}

/// The root that is lent at `path`: the listed one, where it is that one.
pub(super) fn lent(
    path: PathBuf,
    listed: &[Listed],
    rules: &[Rule],
) -> Result<RootSetting, Problem> {
    let mut same: Option<&Listed> = None;
    let mut around = None;
    for one in listed {
        match nesting(&path, &one.root.path) {
            Nesting::Same => same = same.filter(|same| same.has_own_policy).or(Some(one)),
            Nesting::Contains if one.has_own_policy => {
                return Err(refused(&path, "contains", &one.root));
            }
            Nesting::LiesIn if one.has_own_policy => around = Some(&one.root),
            Nesting::Contains | Nesting::LiesIn | Nesting::Apart => {}
        }
    }
    match (same, around) {
        (Some(same), _) => Ok(RootSetting {
            path,
            ..same.root.clone()
        }),
        (None, Some(root)) => Err(refused(&path, "lies in", root)),
        (None, None) => plain_root(RootKind::Workspace, &free_name(listed, rules), path),
    }
}

/// What a directory is called that is listed nowhere: as a server calls the one it
/// is given, so that what is written about that name holds, unless a listed root has
/// the name. One that had to be made up is in no rule: those are about other roots.
fn free_name(listed: &[Listed], rules: &[Rule]) -> String {
    let is_listed = |name: &str| listed.iter().any(|one| one.root.spec.id.as_str() == name);
    let is_ruled = |name: &str| {
        let mut named = rules.iter().filter_map(|rule| rule.root.as_ref());
        named.any(|root| root.as_str() == name)
    };
    let plain = ["workspace", "dir"].into_iter();
    let plain = plain.map(str::to_owned).find(|name| !is_listed(name));
    let mut made = (2_u32..).map(|n| format!("dir-{n}"));
    plain
        .or_else(|| made.find(|name| !is_listed(name) && !is_ruled(name)))
        .unwrap_or_default()
}

fn refused(path: &std::path::Path, how: &str, root: &RootSetting) -> Problem {
    let (id, place) = (root.spec.id.as_str(), root.path.display());
    Problem::usage(format!(
        "{} {how} the root {id} ({place}), and what settings.json says about that root would not hold. Nothing was lent.",
        path.display()
    ))
    .hint(format!(
        "Lend {place} itself, under its own policy, or a directory apart from it."
    ))
}

impl Settings {
    /// Lends another directory instead.
    pub(crate) fn lend(&mut self, path: PathBuf) -> Result<(), Problem> {
        let mut roots = vec![lent(path, &self.listed, &self.rules)?];
        self.writing.open(&mut roots);
        self.roots = roots;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use portcullis_policy::Effect;
    use portcullis_proto::{Group, RootId};

    use super::*;

    #[track_caller]
    fn check(listed: &[&str], ruled: &[&str], want: &str) {
        let listed: Vec<Listed> = listed
            .iter()
            .map(|id| Listed {
                root: plain_root(RootKind::Workspace, id, "/x".into()).unwrap(),
                has_own_policy: false,
            })
            .collect();
        let rules: Vec<Rule> = ruled
            .iter()
            .map(|id| Rule {
                effect: Effect::Allow,
                group: Group::FilesystemRead,
                root: RootId::parse(id),
                pattern: "**".to_owned(),
                covers_protected: false,
                exact_path: false,
                source: "settings".into(),
            })
            .collect();
        assert_eq!(free_name(&listed, &rules), want);
    }

    #[test]
    fn a_lent_directory_has_the_name_of_no_other_root() {
        check(&[], &[], "workspace");
        check(&["notes"], &["notes"], "workspace");
        check(&["workspace"], &[], "dir");
        check(&["workspace", "dir"], &[], "dir-2");
        check(&["workspace", "dir", "dir-2"], &["dir-3"], "dir-4");
        // What is written about a directory that is only named holds for this one.
        check(&[], &["workspace"], "workspace");
    }
}
