//! The course of a change where nothing goes wrong: every system call of it, by
//! the thread that makes it, so that each can be hit.

use std::collections::BTreeMap;

use crate::victim::{Mounts, Tree, Trial, threads};

/// A thread of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// The one that resolves and asks.
    Asking,
    /// The one that acts.
    Acting,
}

/// One system call of a change.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) thread: Thread,
    pub(crate) name: String,
    /// Which of its name in its thread.
    pub(crate) nth: usize,
    pub(crate) line: String,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} ({:?}): {}",
            self.name, self.nth, self.thread, self.line
        )
    }
}

impl Step {
    /// To have this call end so.
    pub(crate) fn inject(&self, how: &str) -> String {
        format!("inject={}:{how}:when={}", self.name, self.nth)
    }
}

/// Calls that are none of a change: waiting, and keeping threads.
const NOT_OURS: [&str; 14] = [
    "access",
    "clock_nanosleep",
    "restart_syscall",
    "rt_sigprocmask",
    "sigaltstack",
    "sched_yield",
    "sched_getaffinity",
    "clone3",
    "clone",
    "gettid",
    "set_robust_list",
    "rseq",
    "prctl",
    "epoll_wait",
];

/// The system calls of a change, from a log of both threads.
fn steps_of(log: &str, asking: i32) -> Vec<Step> {
    let mut counts: BTreeMap<(bool, String), usize> = BTreeMap::new();
    let mut steps = Vec::new();
    for line in log.lines() {
        let Some((id, call)) = line.split_once(' ') else {
            continue;
        };
        let Some((name, _)) = call.trim_start().split_once('(') else {
            continue;
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        if call.contains("portcullis-test-ends") {
            break;
        }
        let is_asking = id == asking.to_string();
        let count = counts.entry((is_asking, name.to_owned())).or_default();
        *count += 1;
        // What is done until a tracer is there, and what a runtime does.
        if call.contains("/portcullis-test-") || NOT_OURS.contains(&name) {
            continue;
        }
        steps.push(Step {
            thread: if is_asking {
                Thread::Asking
            } else {
                Thread::Acting
            },
            name: name.to_owned(),
            nth: *count,
            line: call.to_owned(),
        });
    }
    steps
}

/// A change where nothing goes wrong: the tree before and after, and the calls
/// on the way.
pub(crate) struct Course {
    pub(crate) before: Tree,
    pub(crate) after: Tree,
    pub(crate) steps: Vec<Step>,
}

impl Course {
    /// The first call of this name whose line holds all of `marks`.
    pub(crate) fn find(&self, name: &str, marks: &[&str]) -> &Step {
        let found = self
            .steps
            .iter()
            .find(|step| step.name == name && marks.iter().all(|mark| step.line.contains(mark)));
        found.unwrap_or_else(|| panic!("{name} {marks:?} in {:#?}", self.steps))
    }

    /// The first call after `step` in its thread, of this name if one is given.
    pub(crate) fn after(&self, step: &Step, name: Option<&str>) -> &Step {
        self.steps
            .iter()
            .skip_while(|one| {
                (one.name.as_str(), one.nth) != (step.name.as_str(), step.nth)
                    || one.thread != step.thread
            })
            .skip(1)
            .find(|one| one.thread == step.thread && name.is_none_or(|name| one.name == name))
            .unwrap()
    }
}

/// Runs `verb` once, undisturbed; `None` where the kernel lets nobody mount.
pub(crate) fn course(mounts: Mounts, verb: &str) -> Option<Course> {
    let trial = Trial::on(mounts, verb)?;
    let before = trial.tree();
    let ran = trial.start(verb, None, &[]).end(&trial);
    assert_eq!(ran.told.as_deref(), Some("done"), "{verb}");
    let (_, asking, _) = threads(trial.scratch.base());
    let steps = steps_of(&ran.log, asking);
    assert!(steps.len() > 20, "{verb}: {}", ran.log);
    let after = trial.tree();
    assert_ne!(before, after, "{verb} changes something");
    trial.nothing_is_left();
    trial.everything_can_be_undone(verb);
    Some(Course {
        before,
        after,
        steps,
    })
}

/// `PORTCULLIS_STEPS=1` tries every step of every verb; otherwise each third.
pub(crate) fn every() -> usize {
    if std::env::var_os("PORTCULLIS_STEPS").is_some() {
        1
    } else {
        3
    }
}
