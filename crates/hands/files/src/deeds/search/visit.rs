//! Searching the files of a walk, each through the handle it was judged by.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
use portcullis_gate::Headway;
use portcullis_proto::{Entity, Failure, Reason, RelPath};
use rustix::fs::{OFlags, fstat};
use rustix::io::{pread, retry_on_intr};

use super::lines::{Taken, Taker};
use super::query::FileFilter;
use super::{FoundIn, SearchRequest};
use crate::deeds::below;
use crate::deeds::walk::{Dir, Find, Gather, Tally, Visit, Walk, Weight};
use crate::dirs::Name;
use crate::errno::failure;
use crate::meta::Meta;
use crate::sys;

/// A file up to here is read in one go, and searched where it lies.
const SMALL: usize = 64 * 1024;

/// So much of a long line is tried before the clock is looked at again.
const WINDOW: usize = 8 * 1024;

/// How often a long line is gone through once it is known how long that takes:
/// for a match, and for where it begins.
const PASSES: u64 = 2;

/// So many lines are handed on at once at most: what is not among those wanted
/// is let go then.
const HELD: usize = 4 * 1024;

/// Searches what a walk comes across.
pub(super) struct Searches<'a> {
    pub(super) walk: &'a Walk<'a>,
    pub(super) request: &'a SearchRequest,
    pub(super) matcher: RegexMatcher,
    pub(super) filter: Option<FileFilter>,
    /// The directory the search began at.
    pub(super) top: RelPath,
    pub(super) found: Gather<FoundIn>,
    pub(super) told: Told,
}

/// What was told of how far the search is.
#[derive(Default)]
pub(super) struct Told {
    searched: AtomicU64,
    matches: AtomicU64,
}

/// What one worker searches with.
pub(super) struct Hand {
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
}

/// How the search of one file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With the file.
    Whole,
    /// Before its end: something in it cannot be read.
    Unread,
    /// Before its end: time is up.
    Late,
}

impl Find for FoundIn {
    fn name(&self) -> &[u8] {
        self.path.name().unwrap_or_default().as_bytes()
    }

    fn weight(&self) -> Weight {
        Weight {
            count: self.matches,
            bytes: self.lines.iter().map(|line| line.text.len()).sum(),
        }
    }
}

impl Visit for Searches<'_> {
    // Few enough that the others get a share of a wide directory.
    const PIECE: usize = 64;
    type Hand = Hand;

    fn hand(&self) -> Hand {
        Hand {
            matcher: self.matcher.clone(),
            searcher: self.request.searcher(),
            buffer: vec![0; SMALL],
        }
    }

    fn is_beyond(&self, dir: &RelPath) -> bool {
        self.found.is_beyond(dir)
    }

    fn visit(
        &self,
        hand: &mut Hand,
        dir: &Dir,
        names: Vec<Name>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let (mut found, mut held) = (Vec::new(), 0);
        for name in names {
            if name.entity != Entity::File {
                continue;
            }
            let Some(path) = &name.path else {
                // No path can ask for it, so no reply can name it.
                tally.counts.unread += 1;
                continue;
            };
            let wanted = |filter: &FileFilter| filter.takes(below(&self.top, path), path);
            if !self.filter.as_ref().is_none_or(wanted) {
                continue;
            }
            if self.walk.is_late()? {
                tally.complete = false;
                break;
            }
            match self.open(dir, &name.shown, path) {
                Ok((handle, meta)) => {
                    let lines = self.look(hand, &handle, &meta, path, tally)?;
                    let lines = lines.filter(|_| self.stands(path, &meta, tally));
                    // What does not stand in the root is not counted either.
                    self.tell(lines.as_ref().map_or(0, |lines| lines.matches as u64));
                    held += lines.as_ref().map_or(0, |lines| lines.lines.len());
                    found.extend(lines);
                    if held >= HELD {
                        self.found.put(&dir.path, std::mem::take(&mut found));
                        held = 0;
                    }
                }
                Err(failure) => self.pass_over(&failure, tally)?,
            }
        }
        self.found.put(&dir.path, found);
        Ok(())
    }
}

impl Searches<'_> {
    /// Opens a file by its name in its directory, and looks whether a read of
    /// its own would be let through.
    fn open(&self, dir: &Dir, name: &str, path: &RelPath) -> Result<(OwnedFd, Meta), Failure> {
        let walk = self.walk;
        let handle = walk
            .root
            .open_child(dir.handle.as_fd(), &dir.path, name, OFlags::RDONLY)?;
        let meta = Meta::of_stat(&fstat(&handle).map_err(failure)?);
        meta.admit_file(walk.policy, || sys::is_named(handle.as_fd(), path))?;
        Ok((handle, meta))
    }

    /// One more file was searched, and had so many matches.
    pub(super) fn tell(&self, matches: u64) {
        let add = |count: &AtomicU64, more| count.fetch_add(more, Ordering::Relaxed) + more;
        self.walk.live.progress(Headway {
            searched: add(&self.told.searched, 1),
            matches: add(&self.told.matches, matches),
            ..Headway::default()
        });
    }

    /// Whether the file that was read is the one in the root: asked of the file
    /// and not of its directory, which may have been away while it was read, and
    /// back by now without what stood in it there.
    fn stands(&self, path: &RelPath, meta: &Meta, tally: &mut Tally) -> bool {
        let stands = self.walk.root.is_still_file(path, meta);
        tally.counts.moved += u64::from(!stands);
        stands
    }

    /// What could not be opened: gone since, refused as a read of it would be,
    /// or not to be read by us.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "of all reasons, few are other than that it cannot be read"
    )]
    fn pass_over(&self, failure: &Failure, tally: &mut Tally) -> Result<(), Failure> {
        self.walk.live.still()?;
        match failure.reason() {
            Reason::NotFound => {}
            Reason::Hardlink | Reason::NotOwned | Reason::InsecurePermissions => {
                tally.counts.denied += 1;
            }
            _ => {
                tally.counts.unread += 1;
                tally.complete = false;
            }
        }
        Ok(())
    }

    /// Searches one open file.
    pub(super) fn look(
        &self,
        hand: &mut Hand,
        handle: &OwnedFd,
        meta: &Meta,
        path: &RelPath,
        tally: &mut Tally,
    ) -> Result<Option<FoundIn>, Failure> {
        tally.counts.searched += 1;
        let request = self.request;
        let mut taker = Taker {
            matcher: &self.matcher,
            max_matches: request
                .max_per_file
                .min(request.max_matches.saturating_add(1)),
            max_bytes: request.max_bytes,
            max_line: request.max_line_bytes,
            taken: Taken::default(),
        };
        let ended = hand.search(self.walk, handle, meta, &mut taker)?;
        let taken = taker.taken;
        tally.counts.binary += u64::from(taken.binary);
        match ended {
            Ended::Whole => {}
            Ended::Unread => {
                tally.counts.unread += 1;
                tally.complete = false;
            }
            Ended::Late => tally.complete = false,
        }
        Ok((taken.matches > 0).then(|| FoundIn {
            path: path.clone(),
            lines: taken.lines,
            matches: taken.matches,
            more: taken.more,
        }))
    }
}

impl Hand {
    fn search(
        &mut self,
        walk: &Walk<'_>,
        handle: &OwnedFd,
        meta: &Meta,
        taker: &mut Taker<'_>,
    ) -> Result<Ended, Failure> {
        let reads = Cell::new(0);
        let mut reader = Watched {
            walk,
            handle,
            offset: 0,
            reads: &reads,
            stopped: None,
        };
        let small = usize::try_from(meta.size).is_ok_and(|size| size < SMALL);
        let over_lines = self.searcher.multi_line();
        let timed = Timed {
            matcher: &self.matcher,
            over_lines,
            walk,
            reads: &reads,
            tried: Cell::default(),
            stopped: RefCell::new(None),
        };
        let searched = match small.then(|| fill(handle, meta, &mut self.buffer)) {
            Some(Ok(Some(length))) => {
                let content = self.buffer.get(..length).unwrap_or_default();
                if over_lines {
                    self.searcher.search_slice(&timed, content, taker)
                } else {
                    self.searcher.search_slice(&self.matcher, content, taker)
                }
            }
            // Large, or grown since it was looked at.
            None | Some(Ok(None)) => self.searcher.search_reader(&timed, &mut reader, taker),
            Some(Err(error)) => Err(error),
        };
        match (reader.stopped.or(timed.stopped.into_inner()), searched) {
            (Some(Err(failure)), _) => Err(failure),
            (Some(Ok(())), _) => Ok(Ended::Late),
            (None, Ok(())) => Ok(Ended::Whole),
            (None, Err(_)) => Ok(Ended::Unread),
        }
    }
}

/// Looks at the clock before it looks through much: one line may be as long as
/// many buffers, and over several lines a match may be looked for from every
/// character to the end.
///
/// Nobody can stop an engine that has begun. So what is long is tried first, part
/// by part, for the time it takes; what would end too late is not begun.
struct Timed<'a> {
    matcher: &'a RegexMatcher,
    over_lines: bool,
    walk: &'a Walk<'a>,
    /// How often more of the file was read: what was tried is another text then.
    reads: &'a Cell<u64>,
    tried: Cell<Tried>,
    /// Set when it stopped: time was up, or it may not go on.
    stopped: RefCell<Option<Result<(), Failure>>>,
}

/// How far a text was tried, so that no part of it is tried twice.
#[derive(Clone, Copy, Default)]
struct Tried {
    /// After how many reads.
    reads: u64,
    /// Up to which address.
    end: usize,
}

impl Timed<'_> {
    /// Whether all of `text` from `at` can be looked through.
    fn begin(&self, text: &[u8], at: usize) -> Result<(), &'static str> {
        let left = text.len().saturating_sub(at);
        if left > SMALL {
            let began = self.walk.live.monotonic_us();
            let (here, reads) = (text.as_ptr().addr(), self.reads.get());
            let tried = Some(self.tried.get()).filter(|tried| tried.reads == reads);
            let from = tried.map_or(0, |tried| tried.end.saturating_sub(here));
            for start in (from.max(at)..text.len()).step_by(WINDOW) {
                self.has_time_for(0)?;
                // With all before it, for what looks behind; that more follows
                // is not seen, which may end a part with a match, at its end.
                let end = (start + WINDOW).min(text.len());
                let part = text.get(..end).unwrap_or_default();
                let found = self.matcher.shortest_match_at(part, start);
                let end_of_it = here + end;
                self.tried.set(Tried {
                    reads,
                    end: end_of_it,
                });
                if found.is_ok_and(|found| found.is_some_and(|found| found < end)) {
                    break;
                }
            }
            let took = self.walk.live.monotonic_us().saturating_sub(began);
            self.has_time_for(took.saturating_mul(PASSES))
        } else if self.over_lines {
            self.has_time_for(0)
        } else {
            Ok(())
        }
    }

    fn has_time_for(&self, us: u64) -> Result<(), &'static str> {
        let stopped = match self.walk.has_time_for(us) {
            Ok(true) => return Ok(()),
            Ok(false) => Ok(()),
            Err(failure) => Err(failure),
        };
        *self.stopped.borrow_mut() = Some(stopped);
        Err("time is up")
    }
}

impl Matcher for Timed<'_> {
    type Captures = NoCaptures;
    type Error = &'static str;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, Self::Error> {
        self.begin(text, at)?;
        self.matcher.find_at(text, at).map_err(|_| NEVER)
    }

    fn new_captures(&self) -> Result<NoCaptures, Self::Error> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, Self::Error> {
        self.begin(text, at)?;
        self.matcher.shortest_match_at(text, at).map_err(|_| NEVER)
    }

    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, Self::Error> {
        self.begin(text, 0)?;
        self.matcher.find_candidate_line(text).map_err(|_| NEVER)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }
}

/// An expression that was compiled has no way to fail.
const NEVER: &str = "no match";

/// Reads all of a small file into `buffer`; `None` where it is not small.
fn fill(handle: &OwnedFd, meta: &Meta, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut filled = 0;
    loop {
        let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) else {
            return Ok(None);
        };
        let count = retry_on_intr(|| pread(handle, &mut *room, filled as u64))?;
        filled += count;
        // All that was there when we looked: one more read would only say so.
        if count == 0 || filled as u64 == meta.size {
            return Ok(Some(filled));
        }
    }
}

/// Reads a file from its beginning, and looks at the clock before every part.
struct Watched<'a> {
    walk: &'a Walk<'a>,
    handle: &'a OwnedFd,
    offset: u64,
    reads: &'a Cell<u64>,
    /// Set when it stopped before the end: time was up, or it may not go on.
    stopped: Option<Result<(), Failure>>,
}

impl io::Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads.set(self.reads.get() + 1);
        self.stopped = match self.walk.is_late() {
            Ok(false) => {
                let count = retry_on_intr(|| pread(self.handle, &mut *buffer, self.offset))?;
                self.offset += count as u64;
                return Ok(count);
            }
            Ok(true) => Some(Ok(())),
            Err(failure) => Some(Err(failure)),
        };
        Err(io::ErrorKind::TimedOut.into())
    }
}
