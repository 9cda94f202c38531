//! Being told what changes, for as long as somebody listens.
//!
//! One deed that lasts: judged when it begins, with an opening line, and judged
//! again before anything is told. What is told are names, never content, and
//! only of directories that still stand where they were watched. A name that
//! was lost, here or in the kernel, is told as an overflow, never passed over.

mod ends;
mod ground;
mod heard;
mod pending;

use std::time::{Duration, Instant};

use portcullis_gate::{Deed, Live, Permit, Settled};
use portcullis_policy::{Admit, Terms};
use portcullis_proto::{Counts, Entity, Facts, Failure, Reason, RelPath, Verb};
use tokio::sync::mpsc;

pub use self::ends::Watch;
pub(crate) use self::ends::ends;
use self::ends::turn;
use self::ends::{Began, Teller};
use self::ground::{Eyes, Ground, no_room};
use self::heard::{Stale, Taken};
use self::pending::Pending;
use super::Key;
use super::pinned::{Pinned, Sighted};
use crate::ignores::IgnoreKind;
use crate::sys::{Notices, Told};

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
/// How many times as long as a look took it rests before the next one, and so
/// with telling: it costs as much as a tree is large, and whoever moves one or
/// changes an ignore file can do that all the time.
const REST: u32 = 4;
/// The longest such rest.
const LONGEST_REST: Duration = Duration::from_secs(10);
/// How many notices are taken at once; as many as the kernel queues, and some
/// that come while they are read.
const AT_ONCE: usize = 32_768;
/// After how many of them it is looked whether the deed may go on.
const LOOK_EVERY: usize = 1024;

/// Watches, until nobody listens or it may not go on.
pub(crate) fn watch(permit: Permit<Watching>, request: &WatchRequest, mut teller: Teller) {
    let done = permit.spend(Key::turn(), |Watching(at), terms, live| {
        let _turn = turn()?;
        let at = at.pin(terms)?;
        let notices = Notices::new(teller.waker.clone()).map_err(no_room)?;
        let mut watcher = Watcher {
            live,
            include_ignored: request.include_ignored,
            terms: terms.clone(),
            ground: Ground::new(notices, at.root.is_local()),
            pending: Pending::default(),
            stale: Stale::default(),
            was_away: false,
            top: None,
            told_complete: true,
            rests_until: Instant::now(),
            tells_after: Instant::now(),
            at: &at,
        };
        watcher.begin()?;
        watcher.told_complete = watcher.ground.complete;
        if let Some(began) = teller.began.take() {
            let told = Began {
                path: at.path.clone(),
                directories: watcher.ground.len(),
                complete: watcher.ground.complete,
            };
            // Nobody waits any more: the first look ends it.
            let _nobody = began.send(told);
        }
        let ended = watcher.run(request.gather, &teller.batches);
        let counts = watcher.pending.counts;
        match ended {
            // Its listener, or the whole process, came to its end.
            Err(failure) if failure.reason() == Reason::Cancelled => Ok(()),
            ended => ended,
        }
        .map(|()| ((), Settled::counts(counts)))
    });
    // The batches end first: what is told of the end comes behind them, and
    // whoever hears that finds nothing of it left.
    let Teller {
        batches,
        waker,
        ended,
        ..
    } = teller;
    drop((batches, waker));
    let _nobody = ended.send(done);
}

struct Watcher<'a> {
    at: &'a Pinned,
    live: &'a Live<'a>,
    include_ignored: bool,
    terms: Terms,
    ground: Ground,
    pending: Pending,
    stale: Stale,
    /// Whether what is watched was moved out of its place, if only for a moment.
    was_away: bool,
    /// Which very directory has to stand for the watch to go on.
    top: Option<(u64, u64)>,
    /// What was last told of whether all is watched.
    told_complete: bool,
    /// Until when nothing is looked at again.
    rests_until: Instant,
    /// Until when nothing more is told, though there be something.
    tells_after: Instant,
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
        let is_file = self.is_file();
        // The way to it too, from the root down: what happens in a directory
        // while it is away from its place is nobody's business here, though it
        // be back by the time we look.
        let mut way: Vec<RelPath> = std::iter::successors(top.parent(), RelPath::parent).collect();
        way.reverse();
        let (eyes, ground, _) = self.parts();
        for dir in &way {
            ground.watch_one(&eyes, dir)?;
        }
        if is_file {
            ground.watch_one(&eyes, &top)?;
        } else {
            ground.look(&eyes, &top, None)?;
        }
        let found = self.ground.meta(&top).map(|meta| (meta.dev, meta.ino));
        let wanted = if is_file {
            self.top.or(found)
        } else {
            Some((self.at.meta.dev, self.at.meta.ino))
        };
        self.was_away |= found != wanted;
        self.top = wanted;
        self.stands()
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
            let wake = if self.stale.is_empty() {
                due
            } else {
                Some(self.rests_until)
            };
            let nap = wake.map_or(NAP, |at| at.saturating_duration_since(Instant::now()));
            self.ground.notices.wait(nap.min(NAP)).map_err(no_room)?;
            self.live.still()?;
            if batches.is_closed() {
                return Ok(());
            }
            let heard = self.notices()?;
            self.hear_all(&heard)?;
            let now = Instant::now();
            if !self.stale.is_empty() && now >= self.rests_until {
                self.look_again()?;
                self.rests_until = Instant::now() + rest(now.elapsed());
            }
            if self.pending.is_empty() && self.told_complete == self.ground.complete {
                self.judge_again()?;
                self.stands()?;
                due = None;
                continue;
            }
            // Nothing is told before everything stale was looked at: what comes
            // in directories that are not watched yet would never be.
            let soonest = (now + gather).max(self.tells_after);
            if *due.get_or_insert(soonest) > now || !self.stale.is_empty() {
                continue;
            }
            let told = self.tell(batches)?;
            self.tells_after = Instant::now() + rest(now.elapsed());
            // Whoever listens is slow: more is gathered until there is room.
            let later = now + gather.max(Duration::from_millis(10));
            due = (!told || !self.pending.is_empty()).then(|| later.max(self.tells_after));
        }
    }

    /// Goes by the rules of this moment: what denies it by now wins over the yes
    /// it began with. What they let be seen that they did not is looked for.
    fn judge_again(&mut self) -> Result<(), Failure> {
        let terms = self.live.judged_again(&self.at.entry)?;
        self.stale.all |= !terms.are_by_the_rules_of(&self.terms);
        self.terms = terms;
        Ok(())
    }

    /// Whether what is watched is still in its place.
    fn stands(&self) -> Result<(), Failure> {
        let top = self.top();
        let root = &self.at.root;
        let was = self.ground.meta(&top);
        if !self.was_away && was.is_some_and(|was| root.is_still(&top, was)) {
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

    fn hear_all(&mut self, notices: &[Taken]) -> Result<(), Failure> {
        for some in notices.chunks(LOOK_EVERY) {
            self.live.still()?;
            for notice in some {
                self.hear(notice);
            }
        }
        Ok(())
    }

    fn hear(&mut self, notice: &Taken) {
        match notice.told {
            Told::Overflow => {
                self.pending.overflowed();
                self.stale.lost = true;
                return;
            }
            Told::Unwatched => {
                let place = self.ground.unwatched(notice.number);
                // Another may stand there.
                if let Some(place) = place.filter(|place| *place != self.top()) {
                    self.pending.forget(&place);
                    self.stale.add(place);
                }
                return;
            }
            // The directory above tells it by name, and the top is looked at.
            Told::SelfGone => return,
            Told::Appeared | Told::Changed | Told::Gone => {}
        }
        let Some(dir) = self.ground.place(notice.number).cloned() else {
            // Of a directory that was let go meanwhile.
            return;
        };
        let name = std::str::from_utf8(&notice.name).ok();
        let top = self.top();
        let is_ignore_file = name.is_some_and(|name| IgnoreKind::of_file_name(name).is_some());
        if !dir.is_under(&top) {
            // On the way to it. Once it was away, it is not what was watched;
            // and what is ignored here is ignored below.
            let at = name.and_then(|name| dir.join(name).ok());
            let is_way = at.is_some_and(|at| top.is_under(&at));
            self.was_away |= is_way && notice.told == Told::Gone;
            self.stale.all |= is_ignore_file;
            return;
        }
        if self.is_file() {
            if name == self.at.path.name() {
                self.pending.add(&dir, &notice.name, false, notice.told);
            }
            return;
        }
        // A change of the directory's own permissions has no name; and where
        // notices were lost, everything is looked at anew.
        if notice.name.is_empty() || self.stale.lost {
            return;
        }
        self.pending
            .add(&dir, &notice.name, notice.is_directory, notice.told);
        if is_ignore_file {
            self.stale.add(dir.clone());
        }
        if !notice.is_directory {
            return;
        }
        let Some(at) = name.and_then(|name| dir.join(name).ok()) else {
            // What happens in a directory that no path can ask for is not told.
            self.ground.complete = false;
            return;
        };
        let root = &self.at.root;
        let was = self.ground.meta(&at);
        // One that was put in the place of another leaves no word of that one.
        let is_other = was.is_some_and(|was| !root.is_still(&at, was));
        if notice.told == Told::Gone || is_other {
            self.ground.forget(&at);
            // What was found in it may have been found while it was out.
            self.pending.forget(&at);
        }
        // Gone, too: another may stand there, as where two are exchanged. And
        // one that was closed to us may be open now.
        if self.ground.meta(&at).is_none() {
            self.stale.add(at);
        }
    }

    /// Looks again where notices were lost, at directories that came, and where
    /// other names are ignored now.
    fn look_again(&mut self) -> Result<(), Failure> {
        let stale = std::mem::take(&mut self.stale);
        if stale.lost {
            let waker = self.ground.notices.waker.clone();
            let notices = Notices::new(waker).map_err(no_room)?;
            self.ground = Ground::new(notices, self.at.root.is_local());
            return self.begin();
        }
        if self.is_file() {
            return Ok(());
        }
        let top = self.top();
        let is_local = self.at.root.is_local();
        for dir in stale.outermost(&top) {
            self.live.still()?;
            let (eyes, ground, pending) = self.parts();
            if dir == top {
                ground.complete = is_local;
            }
            if dir != top && !is_shown(&eyes, &dir) {
                ground.forget(&dir);
                continue;
            }
            if let Err(failure) = ground.look(&eyes, &dir, Some(pending)) {
                // Gone again, or closed to us; what ends the deed ends the watch.
                eyes.live.still()?;
                ground.complete &= is_gone(&failure);
            }
        }
        Ok(())
    }

    /// Tells what waits; whether there was room for it.
    fn tell(&mut self, batches: &mpsc::Sender<Changes>) -> Result<bool, Failure> {
        let Ok(room) = batches.try_reserve() else {
            return Ok(false);
        };
        self.judge_again()?;
        let (eyes, ground, pending) = self.parts();
        let changes = pending.take(&eyes, ground)?;
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
        self.hear_all(&later)?;
        let terms = self.live.judged_again(&self.at.entry)?;
        if !terms.are_by_the_rules_of(&self.terms) {
            // What was found was found by other rules: whoever listens looks again.
            self.pending.overflowed();
            self.stale.all = true;
            self.terms = terms;
            return Ok(true);
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

/// How long it rests after what took so long.
fn rest(took: Duration) -> Duration {
    took.saturating_mul(REST).min(LONGEST_REST)
}

/// Whether a directory is not there, or another thing is.
fn is_gone(failure: &Failure) -> bool {
    let gone = [Reason::NotFound, Reason::NotDirectory, Reason::Symlink];
    gone.contains(&failure.reason())
}

/// Whether a directory below the top may be shown.
fn is_shown(eyes: &Eyes<'_>, dir: &RelPath) -> bool {
    let above = dir.parent().unwrap_or_else(RelPath::root);
    eyes.terms.admits(dir, Entity::Directory) == Admit::Yes
        && !eyes.hiding(&above).hides(dir, Entity::Directory)
}
