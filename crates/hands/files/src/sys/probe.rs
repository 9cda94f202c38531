//! What this kernel offers, asked once.

use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, openat2};
use rustix::io::Errno;

use super::BENEATH;

/// What `openat2` answered when asked about a directory that must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It works: resolution and check are one system call.
    KernelAtomic,
    /// The kernel does not have it (older than 5.6).
    Missing,
    /// A filter forbids it (an old container runtime, usually). No reason to do
    /// without it: nothing is served unless the operator names the walk.
    Forbidden,
}

/// Asks the kernel, once per process. Only what it answers to this harmless
/// probe counts; what a real path answers never does.
pub fn probe() -> Probe {
    static ANSWER: OnceLock<Probe> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        match openat2(
            CWD,
            ".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            BENEATH,
        ) {
            Err(Errno::NOSYS) => Probe::Missing,
            Err(Errno::PERM) => Probe::Forbidden,
            Ok(_) | Err(_) => Probe::KernelAtomic,
        }
    })
}
