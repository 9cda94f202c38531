//! The oracle: asks the kernel, by other means, where a handle really is.
//!
//! Built only with `PORTCULLIS_ORACLE=1`. A directory can be renamed out of the
//! root and back while we look, so one look outside proves nothing; a handle
//! that is never once seen inside is an escape, and the process says so.

use std::os::fd::BorrowedFd;

use crate::sys::where_is;

/// How often to look before crying escape. The hammer swaps every few
/// microseconds, so an inode that belongs inside is seen there within these.
const LOOKS: usize = 4096;

pub(crate) fn check(root: BorrowedFd<'_>, handle: BorrowedFd<'_>) {
    for look in 0..LOOKS {
        let (Some(root), Some(place)) = (where_is(root), where_is(handle)) else {
            // Unlinked while open: it had a name when it was opened.
            return;
        };
        let below = place.strip_prefix(root.trim_end_matches('/'));
        if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return;
        }
        if look > 64 {
            std::thread::yield_now();
        }
    }
    // Not a panic: unwinding would turn an escape into an ordinary failed call.
    tracing_escape();
}

#[expect(
    clippy::print_stderr,
    clippy::exit,
    reason = "the oracle ends the process, loudly: nothing may catch it"
)]
fn tracing_escape() {
    eprintln!("portcullis oracle: escape");
    std::process::exit(86);
}
