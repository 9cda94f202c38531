//! Whose files a server serves: a directory that was named, none in a
//! container, the working directory on bare metal.
//!
//! The evidence is an argument, and is shown to whoever asks why.

use std::path::{Path, PathBuf};

/// What is known when it is decided.
#[derive(Clone, Debug)]
pub(crate) struct Evidence<'a> {
    /// Roots that were named, by flag, environment or settings.
    pub(crate) named: usize,
    /// What says that this is a container.
    pub(crate) container: &'a [String],
    /// Where the server was started.
    pub(crate) working_dir: Option<&'a Path>,
}

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// What was named.
    Named,
    /// The directory the server was started in.
    Working(PathBuf),
    /// Nothing of this machine: files come through the gateway.
    Gateway,
}

/// Decides, and says on what.
pub(crate) fn decide(evidence: &Evidence<'_>) -> (Choice, Vec<String>) {
    if evidence.named > 0 {
        let mut why = vec!["a directory was named, so it is served".to_owned()];
        why.extend(evidence.container.iter().cloned());
        return (Choice::Named, why);
    }
    if !evidence.container.is_empty() {
        let mut why: Vec<String> = evidence.container.to_vec();
        why.push("so this is a container, and its own files are not served".to_owned());
        return (Choice::Gateway, why);
    }
    let bare = "nothing says that this is a container".to_owned();
    if let Some(dir) = evidence.working_dir {
        let why = "so the working directory is served".to_owned();
        return (Choice::Working(dir.to_owned()), vec![bare, why]);
    }
    let why = "but there is no working directory".to_owned();
    (Choice::Gateway, vec![bare, why])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(named: usize, container: &[&str], working: Option<&str>, want: &Choice) {
        let container: Vec<String> = container.iter().map(|mark| (*mark).to_owned()).collect();
        let (choice, why) = decide(&Evidence {
            named,
            container: &container,
            working_dir: working.map(Path::new),
        });
        assert_eq!(choice, *want);
        assert!(!why.is_empty());
        for mark in &container {
            assert!(why.contains(mark), "{why:?} does not say {mark:?}");
        }
    }

    #[test]
    fn what_was_named_wins_and_a_container_serves_nothing_by_itself() {
        let dir = Choice::Working("/srv".into());
        check(1, &["a mark"], Some("/srv"), &Choice::Named);
        check(0, &["a mark"], Some("/srv"), &Choice::Gateway);
        check(0, &[], Some("/srv"), &dir);
        check(0, &[], None, &Choice::Gateway);
    }
}
