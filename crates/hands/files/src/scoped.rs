//! The whole of it for callers: attempt, enter, act, in one place.

use std::sync::Arc;

use portcullis_gate::{Attempt, Caller, Deed, Gate, Permit};
use portcullis_policy::{Class, Terms};
use portcullis_proto::{Access, Failure, Reason, RelPath, Verb};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::authority::Declared;
use crate::deeds::{
    ByteWindow, BytesPage, Found, FoundLines, GlobRequest, Globbing, ListRequest, Listed, Listing,
    Looking, Pinned, Reading, RedactedReply, SearchRequest, Searching, Sighted, SnapshotReply,
    SnapshotRequest, StatReply, TextReply, TextRequest, Tree, TreeRequest, Treeing, Watch,
    WatchRequest, Watching, ends, glob, list, read_bytes, read_json, read_redacted, read_snapshot,
    read_text, search, stat, tree, watch,
};
use crate::hiding::Hiding;
use crate::ignores::MatchedBy;
use crate::meta::Meta;
use crate::options::NewModes;
use crate::undo::UndoStore;
use crate::writing::{Tickets, Version};

/// What one caller may do in one root. Every method is attempt, enter, act.
#[derive(Clone, Debug)]
pub struct ScopedFs {
    gate: Arc<Gate>,
    caller: Caller,
    declared: Arc<Declared>,
}

/// Up to here a deed runs on the thread that asked: a hop to another costs as
/// much as ten small reads.
pub(crate) const INLINE_BYTES: u64 = 1024 * 1024;
/// A directory larger than this on disk is listed elsewhere.
const INLINE_DIRECTORY: u64 = 256 * 1024;

impl ScopedFs {
    pub(crate) fn new(gate: Arc<Gate>, caller: Caller, declared: Arc<Declared>) -> Self {
        Self {
            gate,
            caller,
            declared,
        }
    }

    /// The root it is a scope of.
    pub fn declared(&self) -> &Arc<Declared> {
        &self.declared
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Who acts in it.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Reads bytes.
    pub async fn read_bytes(&self, path: &str, window: ByteWindow) -> Result<BytesPage, Failure> {
        let (permit, size) = self.reading(path).await?;
        let wanted = match window {
            ByteWindow::Whole => size,
            ByteWindow::Part { max, .. } => size.min(max as u64),
        };
        let page = if wanted <= INLINE_BYTES {
            read_bytes(permit, window)?
        } else {
            elsewhere(move || read_bytes(permit, window)).await?
        };
        self.saw(&page.path, &page.meta);
        Ok(page)
    }

    /// Reads a page of text.
    pub async fn read_text(&self, path: &str, request: TextRequest) -> Result<TextReply, Failure> {
        let (permit, size) = self.reading(path).await?;
        let matched = request
            .classify
            .then(|| self.matched_ignore(&permit))
            .flatten();
        let reply = if size <= INLINE_BYTES {
            read_text(permit, &request, matched)?
        } else {
            elsewhere(move || read_text(permit, &request, matched)).await?
        };
        self.saw(&reply.path, &reply.meta);
        Ok(reply)
    }

    /// Reads a small file whole, with its hash, or a window of a large one.
    pub async fn read_snapshot(
        &self,
        path: &str,
        request: SnapshotRequest,
    ) -> Result<SnapshotReply, Failure> {
        let (permit, size) = self.reading(path).await?;
        let ignored_by = self.ignored_by(&permit.deed().path, permit.terms());
        let snapshot = if size <= INLINE_BYTES {
            read_snapshot(permit, &request, ignored_by, &self.declared.hashes)?
        } else {
            let declared = Arc::clone(&self.declared);
            elsewhere(move || read_snapshot(permit, &request, ignored_by, &declared.hashes)).await?
        };
        self.saw(&snapshot.path, &snapshot.meta);
        Ok(snapshot)
    }

    /// Reads a secret file with its values hidden: names and structure stay, each
    /// value is a keyed hash. Nobody is asked, since nothing secret is told.
    pub async fn read_redacted(&self, path: &str) -> Result<RedactedReply, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let permit = self
            .enter(Verb::ReadRedacted, path, |path, terms| {
                // Hashes of a file an agent can write would tell what a guess
                // hashes to.
                let classed = entry.policy().classed(path);
                if Class::of(&classed, Access::Read) != Some(Class::Secret) {
                    return Err(Failure::new(
                        Reason::BadArguments,
                        "Only a secret file is shown with its values hidden.",
                    )
                    .hint("Read it as any other file."));
                }
                let mut reading = Reading::resolve(entry, root, path, terms)?;
                reading.verb = Verb::ReadRedacted;
                Ok(reading)
            })
            .await?;
        let declared = Arc::clone(&self.declared);
        elsewhere(move || {
            let key = declared.redaction_key(&permit.deed().path);
            read_redacted(permit, key)
        })
        .await
    }

    /// Reads a whole file as JSON.
    pub async fn read_json(&self, path: &str) -> Result<serde_json::Value, Failure> {
        let (permit, size) = self.reading(path).await?;
        if size <= INLINE_BYTES {
            return read_json(permit);
        }
        elsewhere(move || read_json(permit)).await
    }

    /// Lists a directory.
    pub async fn list(&self, path: &str, request: ListRequest) -> Result<Listed, Failure> {
        let permit = self.on_directory(Verb::List, path, Listing).await?;
        // The directory's own size on disk, a hint of how long it takes.
        if permit.deed().0.meta.size <= INLINE_DIRECTORY {
            return list(permit, &request);
        }
        elsewhere(move || list(permit, &request)).await
    }

    /// Looks at one entry.
    pub async fn stat(&self, path: &str) -> Result<StatReply, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let permit = self
            .enter(Verb::Stat, path, |path, terms| {
                Looking::resolve(entry, root, path, terms)
            })
            .await?;
        stat(permit)
    }

    /// Finds names below a directory.
    pub async fn glob(&self, path: &str, request: GlobRequest) -> Result<Found, Failure> {
        let asked_us = self.gate.clock().monotonic_us();
        let doing = |pinned| Globbing(Sighted::from(pinned));
        let permit = self.on_directory(Verb::Glob, path, doing).await?;
        in_turn(move || glob(permit, &request, asked_us)).await
    }

    /// Finds lines in the files below a directory, or in one file.
    pub async fn search(&self, path: &str, request: SearchRequest) -> Result<FoundLines, Failure> {
        let asked_us = self.gate.clock().monotonic_us();
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let query = request.digest();
        let attempt = self.attempt(Verb::Search, path)?;
        let attempt = attempt.and(entry, path, Access::List)?;
        let path = attempt.path();
        let permit = attempt
            .enter(|terms| {
                let at = Sighted::resolve(entry, root, &path, terms)?;
                Ok(Searching { at, query })
            })
            .await?;
        in_turn(move || search(permit, &request, asked_us)).await
    }

    /// Shows a shallow tree.
    pub async fn tree(&self, path: &str, request: TreeRequest) -> Result<Tree, Failure> {
        let permit = self.on_directory(Verb::Tree, path, Treeing).await?;
        elsewhere(move || tree(permit, &request)).await
    }

    /// Tells what changes below a directory, or of one file, for as long as the
    /// watch is kept.
    pub async fn watch(&self, path: &str, request: WatchRequest) -> Result<Watch, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let attempt = self.attempt(Verb::Watch, path)?;
        let (teller, listener) = match ends() {
            Ok(ends) => ends,
            Err(why) => return Err(attempt.refuse(why)),
        };
        let path = attempt.path();
        let permit = attempt
            .enter(|terms| Sighted::resolve(entry, root, &path, terms).map(Watching))
            .await?;
        tokio::task::spawn_blocking(move || watch(permit, &request, teller));
        listener.begun().await
    }

    /// Remembers what was read, for the write that may follow. Where nothing can
    /// be changed anyway, there is nothing to remember.
    fn saw(&self, path: &RelPath, meta: &Meta) {
        if self.caller.session.is_some() && self.declared.entry.trusted() {
            self.note_seen(path, &meta.version());
        }
    }

    /// The ignore file that names the file about to be read.
    fn matched_ignore(&self, permit: &Permit<Reading>) -> Option<String> {
        let path = &permit.deed().path;
        Hiding::at(&self.declared.root, &path.parent()?, permit.terms()).named_by(path)
    }

    /// Whether an ignore rule names what stands, or will stand, at `path`.
    pub(crate) fn ignored_by(&self, path: &RelPath, terms: &Terms) -> Option<MatchedBy> {
        let above = path.parent()?;
        Hiding::at(&self.declared.root, &above, terms).named(path)
    }

    async fn reading(&self, path: &str) -> Result<(Permit<Reading>, u64), Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let permit = self
            .enter(Verb::Read, path, |path, terms| {
                Reading::resolve(entry, root, path, terms)
            })
            .await?;
        let size = permit.deed().meta.size;
        Ok((permit, size))
    }

    /// Pins the directory at `path` for the deed that `doing` makes of it.
    async fn on_directory<D: Deed>(
        &self,
        verb: Verb,
        path: &str,
        doing: impl Fn(Pinned) -> D,
    ) -> Result<Permit<D>, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        self.enter(verb, path, |path, terms| {
            Pinned::resolve(entry, root, path, terms).map(&doing)
        })
        .await
    }

    pub(crate) async fn enter<D: Deed>(
        &self,
        verb: Verb,
        alleged: &str,
        resolve: impl Fn(&RelPath, &Terms) -> Result<D, Failure>,
    ) -> Result<Permit<D>, Failure> {
        let attempt = self.attempt(verb, alleged)?;
        let path = attempt.path();
        attempt.enter(|terms| resolve(&path, terms)).await
    }

    pub(crate) fn attempt(&self, verb: Verb, alleged: &str) -> Result<Attempt, Failure> {
        self.gate
            .attempt(&self.caller, verb, &self.declared.entry, alleged)
    }

    /// Whether this caller may be told what is in a file as part of another
    /// deed: a live grant lets it read here at all, and no hook wants to be
    /// asked first.
    pub(crate) fn may_be_shown(&self) -> bool {
        !self.is_hooked() && self.may_read()
    }

    /// Whether hooks are asked about every deed.
    pub(crate) fn is_hooked(&self) -> bool {
        self.gate.has_hooks()
    }

    /// Whether a reply may depend on what is in the file at `path`. Where hooks
    /// are asked about reads, only of what this session has seen already.
    pub(crate) fn tells(&self, path: &RelPath, terms: &Terms) -> bool {
        let may_read = terms.reads_unasked(path) && self.may_read();
        may_read && (!self.is_hooked() || self.last_seen(path).is_some())
    }

    pub(crate) fn may_read(&self) -> bool {
        let (principal, root) = (&self.caller.subject.principal, self.declared.entry.id());
        let now = self.gate.clock().now_ms();
        let granted = self.gate.grants().find(principal, root, Access::Read, now);
        matches!(granted, portcullis_gate::Granted::By(_))
    }

    pub(crate) fn tickets(&self) -> &Tickets {
        &self.declared.tickets
    }

    /// Where this root's displaced files are kept.
    pub(crate) fn undo(&self) -> Result<Option<Arc<UndoStore>>, Failure> {
        self.declared.undo()
    }

    /// Sees to it that it is known how full the store is, before anything is
    /// judged by it.
    pub(crate) async fn look_at_undo(&self) {
        if self.declared.undo_needs_look() {
            let declared = Arc::clone(&self.declared);
            let look = move || {
                declared.look_at_undo();
                Ok(())
            };
            let _told_when_it_is_used = elsewhere(look).await;
        }
    }

    pub(crate) fn modes(&self) -> NewModes {
        self.declared.modes
    }

    pub(crate) fn last_seen(&self, path: &RelPath) -> Option<Version> {
        let root = self.declared.entry.id();
        self.declared.seen.last(&self.caller, root, path)
    }

    pub(crate) fn note_seen(&self, path: &RelPath, version: &str) {
        let root = self.declared.entry.id();
        let version = version.to_owned();
        self.declared.seen.note(&self.caller, root, path, version);
    }

    pub(crate) fn forget_seen(&self, path: &RelPath) {
        let root = self.declared.entry.id();
        self.declared.seen.forget(&self.caller, root, path);
    }

    pub(crate) fn carry_seen(&self, from: &RelPath, to: &RelPath) {
        let root = self.declared.entry.id();
        self.declared.seen.carry(&self.caller, root, from, to);
    }
}

/// How many walks go on at once. Each has as many workers as there are
/// processors, and what waits for its turn holds neither a thread nor a handle.
const AT_ONCE: usize = 4;
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// How many archives are looked into, unpacked or made at once: each may hold a
/// decoder's window.
const ARCHIVES_AT_ONCE: usize = 2;

static ARCHIVE_TURNS: Semaphore = Semaphore::const_new(ARCHIVES_AT_ONCE);

/// Runs the whole of what is done with an archive, when it is its turn.
pub(crate) async fn in_archive_turn<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    in_turn_of(&ARCHIVE_TURNS, act).await
}

/// A turn that lasts until it is dropped, for what is done with an archive in
/// more than one step.
pub(crate) type ArchiveTurn = Option<SemaphorePermit<'static>>;

/// Waits for it.
pub(crate) async fn archive_turn() -> ArchiveTurn {
    ARCHIVE_TURNS.acquire().await.ok()
}

/// Runs a whole walk, when it is its turn, on a thread that may block.
pub(crate) async fn in_turn<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    in_turn_of(&TURNS, act).await
}

pub(crate) async fn in_turn_of<T: Send + 'static>(
    turns: &'static Semaphore,
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    // Nobody closes it; and if somebody did, a walk more is no harm.
    let turn = turns.acquire().await.ok();
    elsewhere(move || {
        let done = act();
        drop(turn);
        done
    })
    .await
}

/// Runs a whole act on a thread that may block. The permit travels with it: if
/// the caller goes away the act still ends with its line.
pub(crate) async fn elsewhere<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(act)
        .await
        .unwrap_or_else(|panicked| Err(Failure::from(Reason::Bug).detail(panicked)))
}
