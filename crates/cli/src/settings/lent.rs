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
pub(super) fn lent(path: PathBuf, listed: &[Listed]) -> Result<RootSetting, Problem> {
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
        (None, None) => {
            let mut ids = listed.iter().map(|one| one.root.spec.id.as_str());
            let name = if ids.any(|id| id == "workspace") {
                "dir"
            } else {
                "workspace"
            };
            plain_root(RootKind::Workspace, name, path)
        }
    }
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
        let mut roots = vec![lent(path, &self.listed)?];
        self.writing.open(&mut roots);
        self.roots = roots;
        Ok(())
    }
}
