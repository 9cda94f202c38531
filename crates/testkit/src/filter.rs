//! A kernel that refuses: a seccomp filter around the thread that asks for it.
//!
//! This is what an old container runtime does to us, and what somebody who wants
//! the weaker way of resolving paths would do.

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The number of `openat2`, which is the same on every architecture.
const OPENAT2: i64 = 437;
/// The number of `renameat2`, which is not.
const RENAMEAT2: i64 = if cfg!(target_arch = "x86_64") {
    316
} else {
    276
};

/// What a system call is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Forbidden, as by a filter.
    Eperm,
    /// Not there, as by an older kernel.
    Enosys,
    /// Not for this file system, as some answer to flags.
    Einval,
}

/// From now on the kernel gives this answer to `openat2` of this thread, and of
/// every thread and process it starts. Cannot be taken back.
pub fn answer_openat2_with(answer: Answer) {
    answer_with(OPENAT2, answer);
}

/// The same, for `renameat2`: as a file system that cannot swap two names.
pub fn answer_renameat2_with(answer: Answer) {
    answer_with(RENAMEAT2, answer);
}

fn answer_with(call: i64, answer: Answer) {
    let errno = match answer {
        Answer::Eperm => Errno::PERM,
        Answer::Enosys => Errno::NOSYS,
        Answer::Einval => Errno::INVAL,
    };
    let refused = BTreeMap::from([(call, Vec::new())]);
    let answer = SeccompAction::Errno(errno.raw_os_error().unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().expect("a known machine");
    let program: BpfProgram = SeccompFilter::new(refused, SeccompAction::Allow, answer, arch)
        .and_then(TryInto::try_into)
        .expect("a filter that compiles");
    seccompiler::apply_filter(&program).expect("a kernel that takes filters");
}
