//! Every system call of every change failed in turn: a target is unchanged or
//! wholly changed, the failure is told as what it is, and nothing is left.
//!
//! `PORTCULLIS_STEPS=1` fails every file call of every verb with every error;
//! otherwise each third call, with one error after the other.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use portcullis_proto::Reason;
use portcullis_testkit::{Scratch, World, is_superuser};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::course::{course, every};
use crate::support::{Calls, snapshot};
use crate::victim::{LONG, Mounts, Trial, VERBS, threads};

/// The calls worth failing: those that touch files.
const FILE_CALLS: [&str; 27] = [
    "openat",
    "openat2",
    "fstat",
    "statx",
    "newfstatat",
    "flock",
    "pread64",
    "pwrite64",
    "read",
    "write",
    "fchmod",
    "fchown",
    "ftruncate",
    "flistxattr",
    "fgetxattr",
    "fsetxattr",
    "fdatasync",
    "fsync",
    "renameat2",
    "renameat",
    "linkat",
    "unlinkat",
    "mkdirat",
    "getdents64",
    "readlinkat",
    "lseek",
    "fstatfs",
];
/// Those a signal can interrupt.
const INTERRUPTIBLE: [&str; 10] = [
    "openat",
    "openat2",
    "flock",
    "pread64",
    "pwrite64",
    "read",
    "write",
    "ftruncate",
    "fdatasync",
    "fsync",
];
const ERRORS: [(&str, &str); 5] = [
    ("ENOSPC", "io_error no_space"),
    ("EIO", "io_error io"),
    ("EDQUOT", "io_error quota"),
    ("EACCES", "permission_denied os"),
    ("EINTR", ""),
];

/// Whether it is one of the directories that changes make on their way.
fn is_made(path: &str) -> bool {
    matches!(path, "n" | "n/e" | "m" | "m/o")
}

/// Fails each call of these verbs; says how many failures were told.
fn fail_at_steps(mounts: Mounts, verbs: &[&str]) -> Option<(usize, usize)> {
    let (mut turn, mut failed) = (0, 0);
    let mut odd: BTreeMap<String, usize> = BTreeMap::new();
    for verb in verbs {
        let course = course(mounts, verb)?;
        let steps = course
            .steps
            .iter()
            .filter(|step| FILE_CALLS.contains(&step.name.as_str()));
        for (at, step) in steps.enumerate() {
            for (which, (error, right)) in ERRORS.into_iter().enumerate() {
                let in_turn = every() == 1 || (at % 3 == 0 && at / 3 % ERRORS.len() == which);
                if !in_turn || (error == "EINTR" && !INTERRUPTIBLE.contains(&step.name.as_str())) {
                    continue;
                }
                turn += 1;
                let trial = Trial::on(mounts, verb)?;
                let inject = step.inject(&format!("error={error}"));
                let ran = trial.run(verb, step.thread, &[inject]);
                let context = format!("{verb} failed with {error} at {step}");
                assert!(
                    ran.log.contains("(INJECTED)"),
                    "{context}: never came to it"
                );
                let told = ran.told.unwrap_or_else(|| panic!("{context}: died"));
                let mut now = trial.tree();
                if verb.starts_with("undo_") && told == "done" {
                    // A directory that the undone change had made on its way,
                    // and that could not be removed: it stays, empty.
                    now.retain(|path, _| course.after.contains_key(path) || !is_made(path));
                }
                let whole = now == course.before || now == course.after;
                assert!(whole, "{context} ({told}): {now:#?}");
                // The names in the line are another process's.
                let refused = if step.name == "unlinkat" {
                    ran.log.lines().find(|line| line.contains("(INJECTED)"))
                } else {
                    None
                };
                trial.nothing_is_left_but(refused.unwrap_or_default());
                let first = told.lines().next().unwrap_or_default();
                // What is told to be kept can be undone by the next process, and
                // what was not done has left nothing to undo.
                if refused.is_none()
                    && (ran.undo.is_some() || now == course.before)
                    && let Some(wrong) = trial.what_cannot_be_undone(verb)
                {
                    *odd.entry(format!("{context} ({told}): {wrong}"))
                        .or_default() += 1;
                }
                if first == "done" {
                    assert_eq!(now, course.after, "{context}");
                    continue;
                }
                failed += 1;
                // What is told as failed was not done.
                if now != course.before {
                    *odd.entry(format!("{context} ({told}): told as failed, and done"))
                        .or_default() += 1;
                }
                // The audit's own lines are told as the audit's.
                let fits = if step.line.contains("/data/audit/") {
                    first == "io_error audit_unavailable"
                } else {
                    first == right
                };
                if !fits {
                    let told = format!("{verb} {error} -> {told} at {step}");
                    *odd.entry(told).or_default() += 1;
                }
            }
        }
    }
    assert!(
        odd.is_empty(),
        "told as something else than it is: {odd:#?}"
    );
    Some((turn, failed))
}

#[test]
fn failed_at_every_step_a_target_is_whole_and_nothing_is_left() {
    let (turn, failed) = fail_at_steps(Mounts::One, &VERBS[..14]).unwrap();
    assert!(failed > 20, "{failed} failures");
    eprintln!("{turn} errors injected, {failed} told as failures, each as what it is");
}

#[test]
fn failed_at_every_step_of_undoing_it_is_undone_or_not_and_nothing_is_left() {
    let (turn, failed) = fail_at_steps(Mounts::One, &VERBS[14..]).unwrap();
    assert!(failed > 20, "{failed} failures");
    eprintln!("{turn} errors injected into undoing, {failed} told as failures, each as what it is");
}

#[test]
fn failed_where_a_copy_is_made_for_undo_or_a_file_is_written_in_place_nothing_is_left() {
    let copied = fail_at_steps(
        Mounts::StoreElsewhere,
        &[
            "write",
            "move_over",
            "remove_tree",
            "undo_write",
            "undo_remove",
        ],
    );
    let in_place = fail_at_steps(Mounts::FileIsMount, &["write", "undo_write"]);
    let (Some(copied), Some(in_place)) = (copied, in_place) else {
        eprintln!("NOT TRIED: stores on other mounts, since mounting is refused");
        return;
    };
    eprintln!("errors injected, told: {copied:?} with a copy, {in_place:?} in place");
}

/// It went to another store, which no later process would have looked into.
#[test]
fn r009_a_store_that_cannot_be_looked_at_is_no_reason_to_keep_elsewhere() {
    let course = course(Mounts::One, "write").unwrap();
    let look = course.find("statx", &["/data/undo/", "AT_EMPTY_PATH"]);
    let trial = Trial::new("write");
    let ran = trial.run("write", look.thread, &[look.inject("error=EIO")]);
    let told = ran.told.unwrap();
    assert!(told.starts_with("io_error io\n"), "{told}");
    assert_eq!(trial.tree(), course.before);
    trial.nothing_is_left();
    trial.everything_can_be_undone("write");
}

/// It was told as failed, and done; or a redo was named that could not be done.
#[test]
fn r010_what_fails_after_something_is_back_costs_the_redo_and_nothing_else() {
    for (verb, back) in [("undo_move_over", "g"), ("undo_remove", "d")] {
        let course = course(Mounts::One, verb).unwrap();
        let looks_at_it = format!("root>, \"{back}\"");
        let last = course
            .steps
            .iter()
            .rfind(|step| step.name == "statx" && step.line.contains(&looks_at_it))
            .unwrap();
        let trial = Trial::new(verb);
        let ran = trial.run(verb, last.thread, &[last.inject("error=EIO")]);
        assert_eq!(ran.told.as_deref(), Some("done"), "{verb} at {last}");
        assert_eq!(ran.undo, None, "{verb} at {last}");
        assert_eq!(trial.tree(), course.after, "{verb} at {last}");
        trial.nothing_is_left();
        trial.everything_can_be_undone(verb);
    }
}

/// A disk with room for part of the content: the kernel takes what fits of a
/// write and refuses the rest.
#[test]
fn a_disk_that_takes_only_part_of_a_write_leaves_the_target_as_it_was() {
    if !is_superuser() {
        eprintln!("NOT TRIED: a small disk, since mounting needs the superuser");
        return;
    }
    let mut refused = 0;
    for free in (0..=140).step_by(4) {
        let scratch = Scratch::of("");
        if !scratch.tmpfs_of(".", 512) {
            eprintln!("NOT TRIED: a small disk, since mounting is refused");
            return;
        }
        scratch.add("f = one\n g = two");
        let world = World::workspace().writable().over(scratch);
        let root = world.scratch.root();
        let calls = Calls::of(&world);
        calls.write("g", "three").unwrap();
        let room = rustix::fs::statvfs(&root).unwrap();
        let room = usize::try_from(room.f_bavail * room.f_bsize).unwrap();
        fs::write(root.join("ballast"), vec![0; room - free * 1024]).unwrap();
        let before = snapshot(&root);
        let long = "long ".repeat(LONG / 5);
        for done in [
            calls.write("f", &long).map(drop),
            calls.append("g", &long).map(drop),
            calls.edit("f", "one", &long).map(drop),
        ] {
            let Err(why) = done else { continue };
            if why.reason() == Reason::TextNotFound {
                // The write before went through.
                continue;
            }
            refused += 1;
            assert_eq!(why.reason(), Reason::NoSpace, "{free} KiB: {why:?}");
        }
        let after = snapshot(&root);
        for (path, (mode, text)) in &before {
            let now = &after[path];
            let whole = now.1 == *text || now.1.ends_with(long.as_bytes());
            assert!(whole && now.0 == *mode, "{path} with {free} KiB");
        }
        let left = after
            .keys()
            .filter(|path| matches!(path.rsplit_once('.'), Some((_, "tmp" | "part"))))
            .count();
        assert_eq!(left, 0, "{free} KiB: {:?}", after.keys());
    }
    assert!(refused > 40, "{refused} refused");
    eprintln!("{refused} changes refused by a disk that took part of them");
}

/// A write that takes part of the bytes and then the rest: the limit on the
/// size of files cuts the first one short, and is lifted before the next.
#[test]
fn a_write_that_takes_part_of_the_bytes_is_completed() {
    const CUT: u64 = 40_960;
    let course = course(Mounts::One, "write").unwrap();
    let trial = Trial::new("write");
    // The draft's own write is the one beside the target.
    let write = course.find("write", &[".portcullis-"]);
    let inject = write.inject("delay_exit=700000");
    let started = trial.start(&format!("short_{CUT}"), Some(write.thread), &[inject]);
    let patience = Instant::now() + portcullis_testkit::PATIENCE;
    let draft = loop {
        let drafts = fs::read_dir(trial.scratch.root()).unwrap();
        let sizes = drafts.filter_map(|entry| {
            let entry = entry.unwrap();
            let ours = entry
                .file_name()
                .to_string_lossy()
                .starts_with(".portcullis");
            ours.then(|| entry.metadata().map_or(0, |meta| meta.len()))
        });
        // It grows while the kernel is at it: looked at when it took all it takes.
        if let Some(size) = sizes.max().filter(|size| *size >= CUT) {
            break size;
        }
        assert!(Instant::now() < patience, "no draft was written");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(draft, CUT, "the kernel took so much of the first write");
    let pid = Pid::from_raw(threads(trial.scratch.base()).0).unwrap();
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    prlimit(Some(pid), Resource::Fsize, unlimited).unwrap();
    let ran = started.end(&trial);
    assert_eq!(ran.told.as_deref(), Some("done"), "{}", ran.log);
    assert!(
        ran.log.contains(&format!("= {CUT} (DELAYED)")),
        "{}",
        ran.log
    );
    let now = fs::read(trial.scratch.root().join("f")).unwrap();
    assert_eq!(now, "long ".repeat(LONG / 5).as_bytes());
    trial.nothing_is_left();
}
