//! Being told what changes, for as long as somebody listens.
//!
//! One deed that lasts: judged when it begins, with an opening line, and judged
//! again before anything is told. What is told are names, never content, and
//! only of directories that still stand where they were watched. A name that
//! was lost, here or in the kernel, is told as an overflow, never passed over.

mod ends;
mod ground;
mod pending;

use std::time::{Duration, Instant};

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_proto::{Counts, Entity, Facts, Failure, Reason, RelPath, Verb};
use tokio::sync::mpsc;

pub use self::ends::Watch;
pub(crate) use self::ends::ends;
use self::ends::{Began, Teller};
use self::ground::{Eyes, Ground, no_room};
use self::pending::Pending;
use super::Key;
use super::pinned::{Pinned, Sighted};
use crate::ignores::IgnoreKind;
use crate::sys::{Notice, Notices, Told};

/// A directory or file about to be watched.
#[derive(Debug)]
pub struct Watching(pub(crate) Sighted);

impl Deed for Watching {
    type Key = Key;

    fn facts(&self) -> Facts {
        self.0.facts(Verb::Watch)
    }
}

/// How to be told.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// For how long changes are gathered before they are told together.
    pub gather: Duration,
    /// With what ignore files and the built-in exclusions hide.
    pub include_ignored: bool,
}

impl Default for WatchRequest {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(50),
            include_ignored: false,
        }
    }
}

/// What became of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Something stands there that did not.
    Created,
    /// What stands there changed, or is another thing than before.
    Modified,
    /// Nothing stands there any more.
    Removed,
}

impl ChangeKind {
    /// The kind as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Removed => "removed",
        }
    }
}

/// One name, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: RelPath,
    /// What became of it.
    pub kind: ChangeKind,
    /// Whether it is a directory, or was one.
    pub directory: bool,
}

/// What changed since the batch before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Each name once, in the order of the tree.
    pub names: Vec<Change>,
    /// Whether some were lost: look again at all that is watched.
    pub overflow: bool,
    /// Whether every directory that may be shown is watched. Of what happens in
    /// one that is not, nothing is told.
    pub complete: bool,
    /// What was left out so far.
    pub counts: Counts,
}

/// How long a watch with nothing to tell sleeps before it looks whether it may
/// go on: a grant that is revoked ends it by then.
const NAP: Duration = Duration::from_secs(1);
/// How many times as long as a whole look took it rests before the next one.
const REST: u32 = 10;
/// Of how many ignore files is remembered where they changed; of more, all is
/// looked at again.
const MAX_STALE: usize = 64;
/// The shortest such rest.
const LEAST_REST: Duration = Duration::from_millis(100);
/// How many notices are taken at once; as many as the kernel queues, and some
/// that come while they are read.
const AT_ONCE: usize = 32_768;

/// Watches, until nobody listens or it may not go on.
pub(crate) fn watch(permit: Permit<Watching>, request: &WatchRequest, mut teller: Teller) {
    let done = permit.spend(Key::turn(), |Watching(at), terms, live| {
        let at = at.pin(terms)?;
        let notices = Notices::new(teller.waker.clone()).map_err(no_room)?;
        let mut watcher = Watcher {
            at: &at,
            live,
            include_ignored: request.include_ignored,
            terms: terms.clone(),
            ground: Ground::new(notices),
            pending: Pending::default(),
            stale: Stale::default(),
            was_away: false,
            told_complete: true,
            rests_until: Instant::now(),
        };
        watcher.begin()?;
        if let Some(began) = teller.began.take() {
            let told = Began {
                path: at.path.clone(),
                directories: watcher.ground.len(),
                complete: watcher.ground.complete,
            };
            // Nobody waits any more: the first look ends it.
            let _nobody = began.send(told);
        }
        watcher.told_complete = watcher.ground.complete;
        let ended = watcher.run(request.gather, &teller.batches);
        let counts = watcher.pending.counts;
        match ended {
            // Its listener, or the whole process, came to its end.
            Err(failure) if failure.reason() == Reason::Cancelled => Ok(()),
            ended => ended,
        }
        .map(|()| ((), Settled::counts(counts)))
    });
    // The batches end first: what is told of the end comes behind them.
    drop(teller.batches);
    let _nobody = teller.ended.send(done);
}

/// What has to be looked at again.
#[derive(Debug, Default)]
struct Stale {
    /// Everything, from scratch: notices were lost, and those left in the queue
    /// may be of directories that are out of the root by now.
    lost: bool,
    /// Everything.
    all: bool,
    /// Below these, ignore files changed.
    ignores: Vec<RelPath>,
}

impl Stale {
    fn is_empty(&self) -> bool {
        !self.lost && !self.all && self.ignores.is_empty()
    }
}

struct Watcher<'a> {
    at: &'a Pinned,
    live: &'a Live<'a>,
    include_ignored: bool,
    terms: portcullis_policy::Terms,
    ground: Ground,
    pending: Pending,
    stale: Stale,
    /// Whether what is watched was moved out of its place, if only for a moment.
    was_away: bool,
    /// What was last told of whether all is watched.
    told_complete: bool,
    /// Until when nothing is looked at again: looking costs as much as the tree
    /// is large, and whoever changes an ignore file can do that all the time.
    rests_until: Instant,
}

impl Watcher<'_> {
    /// Whether one file is watched, not a directory.
    fn is_file(&self) -> bool {
        self.at.meta.entity != Entity::Directory
    }

    /// The directory that has to stand for the watch to go on.
    fn top(&self) -> RelPath {
        if self.is_file() {
            self.at.path.parent().unwrap_or_else(RelPath::root)
        } else {
            self.at.path.clone()
        }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let top = self.top();
        let (eyes, ground, _) = self.parts();
        // The way to it too: what happens in a directory while it is away from
        // its place is nobody's business here, though it be back by the time we
        // look.
        let mut above = top.parent();
        while let Some(dir) = above {
            ground.watch_one(&eyes, &dir)?;
            above = dir.parent();
        }
        if eyes.at.meta.entity == Entity::Directory {
            ground.look(&eyes, &top, None)
        } else {
            ground.watch_one(&eyes, &top)
        }
    }

    /// What to look with, what is watched, and what waits.
    fn parts(&mut self) -> (Eyes<'_>, &mut Ground, &mut Pending) {
        let eyes = Eyes {
            at: self.at,
            terms: &self.terms,
            live: self.live,
            // A file asked for by name is told of, ignored or not.
            include_ignored: self.include_ignored || self.is_file(),
        };
        (eyes, &mut self.ground, &mut self.pending)
    }

    fn run(&mut self, gather: Duration, batches: &mpsc::Sender<Changes>) -> Result<(), Failure> {
        // When what waits is to be told.
        let mut due: Option<Instant> = None;
        loop {
            let nap = due.map_or(NAP, |due| due.saturating_duration_since(Instant::now()));
            self.ground.notices.wait(nap.min(NAP)).map_err(no_room)?;
            self.live.still()?;
            if batches.is_closed() {
                return Ok(());
            }
            for notice in self.notices()? {
                self.hear(&notice)?;
            }
            let now = Instant::now();
            if !self.stale.is_empty() {
                // Nothing is told before: what comes in directories that are
                // not watched yet would never be.
                if now < self.rests_until {
                    due = Some(self.rests_until);
                    continue;
                }
                self.look_again()?;
                self.rests_until = now + now.elapsed().saturating_mul(REST).max(LEAST_REST);
            }
            if self.pending.is_empty() && self.told_complete == self.ground.complete {
                self.stands()?;
                due = None;
                continue;
            }
            if *due.get_or_insert(now + gather) > now {
                continue;
            }
            // Whoever listens is slow: more is gathered until there is room.
            due = if self.tell(batches)? {
                None
            } else {
                Some(now + gather.max(Duration::from_millis(10)))
            };
        }
    }

    /// Whether what is watched is still in its place.
    fn stands(&self) -> Result<(), Failure> {
        let top = self.top();
        let root = &self.at.root;
        let stands = self
            .ground
            .meta(&top)
            .is_some_and(|was| root.is_still(&top, was));
        if stands && !self.was_away {
            return Ok(());
        }
        Err(Failure::new(
            Reason::NotFound,
            "What was watched is not there any more, so there is nothing more to tell.",
        )
        .hint("Watch what stands there now, or a directory above it."))
    }

    /// Takes what the kernel has told by now.
    fn notices(&self) -> Result<Vec<Taken>, Failure> {
        let mut taken = Vec::new();
        let notices = &self.ground.notices;
        let more = notices.read(AT_ONCE, |notice| taken.push(Taken::of(notice)));
        if more.map_err(no_room)? {
            // It comes faster than it is read, and what it says is not known:
            // all that waits may be of directories that are out by now.
            taken.push(Taken::LOST);
        }
        Ok(taken)
    }

    fn hear(&mut self, notice: &Taken) -> Result<(), Failure> {
        match notice.told {
            Told::Overflow => {
                self.pending.overflowed();
                self.stale.lost = true;
                return Ok(());
            }
            Told::Unwatched => {
                self.ground.unwatched(notice.number);
                return Ok(());
            }
            // The directory above tells it by name, and the top is looked at.
            Told::SelfGone => return Ok(()),
            Told::Appeared | Told::Changed | Told::Gone => {}
        }
        let Some(dir) = self.ground.place(notice.number).cloned() else {
            // Of a directory that was let go meanwhile.
            return Ok(());
        };
        let name = std::str::from_utf8(&notice.name).ok();
        let top = self.top();
        if !dir.is_under(&top) {
            // On the way to it. Once it was away, it is not what was watched.
            let at = name.and_then(|name| dir.join(name).ok());
            let is_way = at.is_some_and(|at| top.is_under(&at));
            self.was_away |= is_way && notice.told == Told::Gone;
            return Ok(());
        }
        if self.is_file() {
            if name == self.at.path.name() {
                let (eyes, _, pending) = self.parts();
                pending.add(&eyes, &dir, &notice.name, false, notice.told);
            }
            return Ok(());
        }
        // A change of the directory's own permissions has no name.
        if notice.name.is_empty() {
            return Ok(());
        }
        let is_ignore_file = name.is_some_and(|name| IgnoreKind::of_file_name(name).is_some());
        if is_ignore_file && !self.stale.ignores.contains(&dir) {
            if self.stale.ignores.len() < MAX_STALE {
                self.stale.ignores.push(dir.clone());
            } else {
                self.stale.all = true;
            }
        }
        let (eyes, ground, pending) = self.parts();
        pending.add(&eyes, &dir, &notice.name, notice.is_directory, notice.told);
        let at = name.and_then(|name| dir.join(name).ok());
        let Some(at) = at.filter(|_| notice.is_directory) else {
            return Ok(());
        };
        match notice.told {
            Told::Appeared => self.enter(&dir, &at),
            Told::Gone => {
                ground.forget(&at);
                // What was found in it may have been found while it was out.
                pending.forget(&at);
                Ok(())
            }
            Told::Changed | Told::SelfGone | Told::Unwatched | Told::Overflow => Ok(()),
        }
    }

    /// Watches a directory that came: what is in it by now came with it.
    fn enter(&mut self, dir: &RelPath, at: &RelPath) -> Result<(), Failure> {
        let (eyes, ground, pending) = self.parts();
        let admitted = eyes.terms.admits(at, Entity::Directory) == portcullis_policy::Admit::Yes;
        if !admitted || eyes.hiding(dir).hides(at, Entity::Directory) {
            return Ok(());
        }
        match ground.look(&eyes, at, Some(pending)) {
            Ok(()) => Ok(()),
            Err(failure) => {
                // Gone again, or closed to us; what ends the deed ends the watch.
                eyes.live.still()?;
                ground.complete &= failure.reason() == Reason::NotFound;
                Ok(())
            }
        }
    }

    /// Looks again where notices were lost, or where other names are ignored now.
    fn look_again(&mut self) -> Result<(), Failure> {
        let Stale { lost, all, ignores } = std::mem::take(&mut self.stale);
        if lost {
            let waker = self.ground.notices.waker.clone();
            self.ground = Ground::new(Notices::new(waker).map_err(no_room)?);
            return self.begin();
        }
        if self.is_file() {
            return Ok(());
        }
        let top = self.top();
        let below: Vec<RelPath> = if all { vec![top] } else { outermost(ignores) };
        for dir in &below {
            let (eyes, ground, pending) = self.parts();
            pending.look_again(&eyes);
            if let Err(failure) = ground.look(&eyes, dir, None) {
                eyes.live.still()?;
                if all {
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Tells what waits; whether there was room for it.
    fn tell(&mut self, batches: &mpsc::Sender<Changes>) -> Result<bool, Failure> {
        let Ok(room) = batches.try_reserve() else {
            return Ok(false);
        };
        // What denies it by now wins over the yes it began with.
        self.terms = self.live.judged_again(&self.at.entry)?;
        let (eyes, ground, pending) = self.parts();
        let changes = pending.take(&eyes, ground);
        let overflow = std::mem::take(&mut pending.overflow);
        // What was found was found before this: a directory that was out of the
        // root meanwhile, and is back, has left a notice.
        let later = self.notices()?;
        let mut batch = Changes {
            names: self.undisturbed(changes, &later),
            overflow,
            complete: self.ground.complete,
            counts: self.pending.counts,
        };
        for notice in &later {
            self.hear(notice)?;
        }
        let stands = self.stands();
        if stands.is_err() {
            batch.names.clear();
            if self.is_file() {
                // Its directory is gone or another, and so the file is.
                batch.names.push(Change {
                    path: self.at.path.clone(),
                    kind: ChangeKind::Removed,
                    directory: false,
                });
            }
        }
        let told = std::mem::replace(&mut self.told_complete, batch.complete);
        if !batch.names.is_empty() || batch.overflow || told != batch.complete {
            self.pending.counts.entries += batch.names.len() as u64;
            batch.counts.entries = self.pending.counts.entries;
            room.send(batch);
        }
        stands.map(|()| true)
    }

    /// Those of `changes` that are below no directory that `later` notices say
    /// is gone, or was.
    fn undisturbed(&self, mut changes: Vec<Change>, later: &[Taken]) -> Vec<Change> {
        for notice in later {
            match notice.told {
                Told::Overflow => changes.clear(),
                Told::Gone if notice.is_directory => {
                    let dir = self.ground.place(notice.number);
                    let name = std::str::from_utf8(&notice.name).ok();
                    let gone = dir.zip(name).and_then(|(dir, name)| dir.join(name).ok());
                    if let Some(gone) = gone {
                        changes.retain(|one| one.path == gone || !one.path.is_under(&gone));
                    }
                }
                Told::Gone | Told::Appeared | Told::Changed | Told::SelfGone | Told::Unwatched => {}
            }
        }
        changes
    }
}

/// Those of `dirs` that are below no other of them.
fn outermost(mut dirs: Vec<RelPath>) -> Vec<RelPath> {
    dirs.sort_unstable_by(|a, b| a.components().cmp(b.components()));
    let mut kept: Vec<RelPath> = Vec::new();
    for dir in dirs {
        if !kept.last().is_some_and(|above| dir.is_under(above)) {
            kept.push(dir);
        }
    }
    kept
}

/// A notice, kept until the queue is read.
#[derive(Debug)]
struct Taken {
    number: i32,
    told: Told,
    name: Vec<u8>,
    is_directory: bool,
}

impl Taken {
    const LOST: Self = Self {
        number: -1,
        told: Told::Overflow,
        name: Vec::new(),
        is_directory: false,
    };

    fn of(notice: &Notice<'_>) -> Self {
        Self {
            number: notice.number,
            told: notice.told,
            name: notice.name.into(),
            is_directory: notice.is_directory,
        }
    }
}
