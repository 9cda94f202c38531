//! A root that begins inside a protected directory, such as `~/.aws` or `.git`.
//!
//! Classes are decided by names, and the names that make `credentials` a secret then
//! stand above the root. The tables' own names at the end of the root's path count as
//! if they stood inside it, and no others: a directory called after nothing in the
//! tables protects nothing.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use portcullis_proto::{Access, RelPath};

use crate::{Class, RootPolicy, class, trigger};

impl RootPolicy {
    /// With the protected directories that `root`, the path of the root itself,
    /// ends in.
    #[must_use]
    pub fn beginning_at(mut self, root: &Path) -> Self {
        let names = root
            .components()
            .rev()
            .map(|name| name.as_os_str().to_str());
        let mut above: Vec<&str> = names
            .map_while(|name| name.filter(|name| is_of_a_table(name)))
            .collect();
        above.reverse();
        self.above = RelPath::parse(&above.join("/"))
            .ok()
            .filter(|above| !above.is_root())
            .map(Arc::new);
        self
    }

    /// `path` as the tables of protected names see it. For names alone: it leads
    /// nowhere in the root.
    pub fn classed<'a>(&self, path: &'a RelPath) -> Cow<'a, RelPath> {
        path.below_names(self.above.as_deref())
    }

    /// The class that changing `path` is asked about for.
    pub fn class_of_change(&self, path: &RelPath) -> Option<Class> {
        Class::of_change(&self.classed(path))
    }

    /// Whether what stands at `path` is a secret.
    pub fn is_secret(&self, path: &RelPath) -> bool {
        Class::of(&self.classed(path), Access::Read) == Some(Class::Secret)
    }
}

fn is_of_a_table(name: &str) -> bool {
    class::is_of_the_table(name) || trigger::is_of_the_table(name)
}

#[cfg(test)]
mod tests {
    use portcullis_proto::RootKind;

    use super::*;

    #[track_caller]
    fn check(root: &str, path: &str, want: Option<Class>) {
        let policy = RootPolicy::of(RootKind::Workspace).beginning_at(Path::new(root));
        let path = RelPath::parse(path).unwrap();
        let class = Class::of(&policy.classed(&path), Access::Write);
        assert_eq!(class, want, "{} in {root}", path.as_str());
    }

    #[test]
    fn the_tables_names_at_the_end_of_a_root_count_and_no_others() {
        check("/home/me/.aws", "credentials", Some(Class::Secret));
        check("/home/me/.AWS", "credentials", Some(Class::Secret));
        check("/home/me/.ssh", "anything/below", Some(Class::Secret));
        check("/home/me/.kube", "config", Some(Class::Secret));
        check("/home/me/.config/gcloud", "x.db", Some(Class::Secret));
        check("/srv/repo/.git", "hooks/pre-commit", Some(Class::AutoExec));
        check("/srv/repo/.git/hooks", "pre-commit", Some(Class::AutoExec));
        check("/r/.github/workflows", "ci.yml", Some(Class::AutoExec));
        check("/srv/repo", "hooks/pre-commit", None);
        check("/srv/workflows", "ci.yml", None);
        check("/srv/.aws/copy", "notes.txt", None);
        check("/", "notes.txt", None);
        check("/srv/repo", ".env", Some(Class::Secret));
    }
}
