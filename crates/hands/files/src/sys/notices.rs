//! What the kernel tells of changes in directories, through inotify.
//!
//! Invariant: a directory is watched by its handle, so what is watched is what
//! was opened under the root, whatever its path names by then.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use inotify::{ReadFlags, WatchFlags};

/// What is asked of every directory: names that come and go, content and
/// permissions that change. Not what is only looked at, and nothing of a file
/// that has lost its name.
const ASKED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// What one read fills at most: some two hundred notices with long names.
const BUFFER: usize = 64 * 1024;

/// What the kernel told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Something stands at the name that did not, or another thing than did.
    Appeared,
    /// What stands at the name has other content or other permissions.
    Changed,
    /// Nothing stands at the name any more, or another thing than did.
    Gone,
    /// The watched directory itself was removed or moved.
    SelfGone,
    /// The directory is watched no more: its number may be given out again.
    Unwatched,
    /// Some notices were lost.
    Overflow,
}

/// One notice.
#[derive(Debug)]
pub(crate) struct Notice<'a> {
    /// Of which watched directory; of none for an overflow.
    pub(crate) number: i32,
    pub(crate) told: Told,
    /// Of which name in it; empty where it is the directory itself.
    pub(crate) name: &'a [u8],
    pub(crate) is_directory: bool,
}

/// Wakes whoever waits for notices.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(eventfd(0, flags)?)))
    }

    pub(crate) fn wake(&self) {
        // It cannot fail but by being full, and then whoever waits wakes anyway.
        let _full = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// A queue of notices.
#[derive(Debug)]
pub(crate) struct Notices {
    queue: OwnedFd,
    pub(crate) waker: Waker,
}

impl Notices {
    pub(crate) fn new(waker: Waker) -> Result<Self, Errno> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Self {
            queue: inotify::init(flags)?,
            waker,
        })
    }

    /// Watches the directory behind `dir`, and returns the number its notices
    /// carry. One that is watched already keeps its number.
    pub(crate) fn add(&self, dir: BorrowedFd<'_>) -> Result<i32, Errno> {
        // The kernel follows this link to the handle, not to a path.
        let handle = format!("/proc/self/fd/{}", dir.as_raw_fd());
        inotify::add_watch(&self.queue, handle, ASKED)
    }

    pub(crate) fn remove(&self, number: i32) {
        // It fails only where the directory is gone, and its watch with it.
        let _gone = inotify::remove_watch(&self.queue, number);
    }

    /// Waits for a notice, for the waker, or for as long as this.
    pub(crate) fn wait(&self, patience: Duration) -> Result<(), Errno> {
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut both = [
            PollFd::new(&self.queue, PollFlags::IN),
            PollFd::new(&*self.waker.0, PollFlags::IN),
        ];
        match poll(&mut both, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Calls `each` with at most `most` notices that are there; whether there
    /// may be more.
    pub(crate) fn read(
        &self,
        most: usize,
        mut each: impl FnMut(&Notice<'_>),
    ) -> Result<bool, Errno> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(self.queue.as_fd(), &mut buffer);
        let mut count = 0;
        // What one read brought is gone through to its end: it is nowhere else.
        while count < most || !reader.is_buffer_empty() {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            };
            count += 1;
            let flags = event.events();
            if let Some(told) = told(flags) {
                each(&Notice {
                    number: event.wd(),
                    told,
                    name: event.file_name().map_or(&[], |name| name.to_bytes()),
                    is_directory: flags.contains(ReadFlags::ISDIR),
                });
            }
        }
        Ok(true)
    }
}

fn told(flags: ReadFlags) -> Option<Told> {
    let has = |any: ReadFlags| flags.intersects(any);
    // What is behind a mount that is gone is not told of any more, nor that.
    Some(if has(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
        Told::Overflow
    } else if has(ReadFlags::IGNORED) {
        Told::Unwatched
    } else if has(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
        Told::SelfGone
    } else if has(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        Told::Appeared
    } else if has(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        Told::Gone
    } else if has(ReadFlags::MODIFY | ReadFlags::ATTRIB) {
        Told::Changed
    } else {
        return None;
    })
}
