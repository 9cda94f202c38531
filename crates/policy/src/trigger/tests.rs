//! The table in itself, and how it is matched. What stands in it is tried path
//! by path, verb by verb, where files are changed.

use std::collections::HashSet;

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn runs(text: &str) -> Option<&'static str> {
    Trigger::of(&path(text)).map(|trigger| trigger.runs)
}

#[test]
fn no_place_stands_twice_and_each_is_found_by_its_own_name() {
    let mut seen = HashSet::new();
    for (words, places) in PROJECT.iter().chain(HOME) {
        assert!(!words.ends_with('.') && !words.is_empty(), "{words}");
        for place in *places {
            assert!(seen.insert(place), "{place} stands twice");
            let example = place.replace('*', "x");
            assert!(runs(&example).is_some(), "{place}");
        }
    }
}

#[test]
fn the_place_that_says_most_is_told() {
    let before = Some("git runs it before every commit");
    assert_eq!(runs(".git/hooks/pre-commit"), before);
    assert_eq!(runs("vendor/x/.git/hooks/pre-commit"), before);
    assert!(
        runs(".git/hooks/post-rewrite")
            .unwrap()
            .contains("its name says")
    );
    assert!(runs(".git/config").unwrap().contains("every command"));
    assert!(runs(".git/HEAD").unwrap().contains("next command"));
    assert_eq!(runs("src/main.rs"), None);
    assert_eq!(runs(""), None);
}

#[test]
fn a_name_is_known_however_a_file_system_folds_it() {
    for name in [
        ".GIT/hooks/pre-commit",
        ".Git/HOOKS/Pre-Commit",
        ".g\u{200c}it/hooks/pre-commit",
        ".git/hoo\u{212a}s/pre-commit",
        ".git/hook\u{17f}/pre-commit",
        "\u{feff}.git/hooks/pre-commit",
    ] {
        assert_eq!(
            runs(name),
            Some("git runs it before every commit"),
            "{name:?}"
        );
    }
    assert_eq!(runs(".gité/hooks/x"), None);
}

#[test]
fn the_ends_of_a_name_can_be_anything_where_the_table_says_so() {
    for (name, is_there) in [
        ("lib/site-packages/x.pth", true),
        ("lib/site-packages/x.py", false),
        ("models/x.pth", false),
        ("Jenkinsfile.release", true),
        ("my.code-workspace", true),
        ("bin/activate.fish", true),
        ("bin/deactivate", false),
    ] {
        assert_eq!(runs(name).is_some(), is_there, "{name}");
    }
}

#[track_caller]
fn check(from: &str, to: &str, below: &str, along: bool) {
    assert_eq!(
        moves_along(&path(from), &path(to), below),
        along,
        "{from}/{below} to {to}/{below}"
    );
}

#[test]
fn what_is_run_for_the_directory_that_moves_moves_along_and_nothing_else() {
    check("p", "q", ".vscode/tasks.json", true);
    check("p", "q", "sub/.git/hooks/pre-commit", true);
    check("p", "q", ".env", true);
    check("p", "q", "src/main.rs", true);
    // It comes into a place, goes out of one, or is run for others than before.
    check("d", ".vscode", "tasks.json", false);
    check(".vscode", "d", "tasks.json", false);
    check("vendor/x/.vscode", ".vscode", "tasks.json", false);
    check("vendor/x/.github", ".github", "workflows/ci.yml", false);
    check(".vscode", ".zed", "tasks.json", false);
    check("k/.kube", "k/plain", "config", false);
}
