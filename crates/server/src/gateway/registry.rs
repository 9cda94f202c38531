//! Every link there is: who is linked, with what, and who is told of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use portcullis_gate::{Clock, Gate};
use portcullis_link::{Chunk, Dialect, Event, bounds};
use portcullis_proto::Failure;
use portcullis_store::{LinkKey, Pairing, Store, StoreError};
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::again::Waiters;
use super::bindings::{Bindings, Conversation};
use super::expected::Expected;
use super::failing::away;
use super::fixed::Fixed;
use super::link::{Link, MAX_GATHERED, Taken};
use super::offers::Offers;
use super::queue::{Hearing, Teller, queue};

/// How many daemons listen before they have introduced themselves.
const MAX_EARLY: usize = 1_024;
/// Bytes of pieces of replies of all of one person's machines that are held at once.
const MAX_GATHERED_OF_ONE: usize = 2 * MAX_GATHERED;
/// How many changes wait for who listens to them; who misses some looks anew.
const BACKLOG: usize = 64;

/// How long replies that are on their way have when the server ends: less than
/// streams to callers have, which have to be told.
const REPLIES_LAST: Duration = Duration::from_secs(1);

/// How often is looked whether calls still wait for a machine that is gone: less
/// than it is waited for when it comes back, so that it is not lost unseen.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The links of one server.
pub struct Gateway {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) gate: Arc<Gate>,
    /// How long a call may take at most, whatever its dialect gives it.
    pub(super) answers_within: Duration,
    links: Mutex<Links>,
    /// Pairing tokens that were made here: the same one while it counts.
    pairings: Mutex<HashMap<Arc<str>, Pairing>>,
    /// The key that needs no pairing, where there is one.
    pub(super) fixed: Option<Fixed>,
    /// Who listens before it has introduced itself, by what it came with.
    early: Mutex<HashMap<String, Early>>,
    pub(super) offers: Offers,
    pub(super) number: AtomicU64,
    /// Whose machines changed.
    changes: broadcast::Sender<Arc<str>>,
    /// The [`Store::version`] that was looked at last.
    looked_at: AtomicU64,
    /// Who waits for calls that have a name.
    pub(super) waiters: Waiters,
    /// Which conversation stays with which machine.
    pub(super) bindings: Bindings,
    /// Who was linked when the server before this one ended.
    pub(super) expected: Expected,
    /// Who tells the owner of a machine that it was lost.
    losses: OnceLock<TellsLoss>,
    /// Raised when the server ends: who waits for a machine does so in vain.
    pub(super) leaving: CancellationToken,
}

/// What is done about a machine that was lost.
type TellsLoss = Box<dyn Fn(&Link) + Send + Sync>;

/// The link of a stream and which stream of it that is, once both are known.
pub(super) type Claimed = Arc<OnceLock<(Arc<Link>, u64)>>;

/// A stream whose daemon has not introduced itself yet: the seed's dialect.
struct Early {
    send: Teller,
    claimed: Claimed,
    since: Instant,
}

/// Links by whose they are: who has one looks through their own.
#[derive(Default)]
pub(super) struct Links {
    of: HashMap<Arc<str>, Vec<Arc<Link>>>,
    pub(super) all: usize,
}

impl Links {
    pub(super) fn get(&self, user: &str, machine: &str) -> Option<&Arc<Link>> {
        let own = self.of.get(user)?;
        own.iter().find(|link| &*link.id == machine)
    }

    /// Puts a link in; the one it takes the place of.
    pub(super) fn put(&mut self, link: Arc<Link>) -> Option<Arc<Link>> {
        let before = self.get(&link.user, &link.id).cloned();
        if let Some(before) = &before {
            self.take(before);
        }
        let own = self.of.entry(Arc::clone(&link.user)).or_default();
        own.push(link);
        self.all += 1;
        before
    }

    /// Takes out this very link, and none that stands for its machine since.
    pub(super) fn take(&mut self, link: &Arc<Link>) {
        let Some(own) = self.of.get_mut(&link.user) else {
            return;
        };
        if let Some(at) = own.iter().position(|one| Arc::ptr_eq(one, link)) {
            own.swap_remove(at);
            self.all -= 1;
        }
    }

    fn every(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.of.values().flatten()
    }

    pub(super) fn sweep(&mut self) {
        self.of.retain(|_, own| {
            own.retain(|link| !link.end_if_spent());
            !own.is_empty()
        });
        self.all = self.of.values().map(Vec::len).sum();
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway")
            .field("links", &self.links().all)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Nobody is linked yet.
    pub fn new(store: Store, clock: Arc<dyn Clock>, gate: Arc<Gate>) -> Self {
        // What cannot be marked now is sent once more, and to nobody's use.
        drop(store.fail_nameless_link_calls());
        let looked_at = AtomicU64::new(store.version().unwrap_or_default());
        let bindings = Bindings::load(&store, clock.now_ms());
        let expected = Expected::of(&store.machines(None).unwrap_or_default());
        Self {
            store,
            clock,
            gate,
            answers_within: Duration::MAX,
            links: Mutex::default(),
            pairings: Mutex::default(),
            fixed: None,
            early: Mutex::default(),
            offers: Offers::default(),
            number: AtomicU64::new(0),
            changes: broadcast::channel(BACKLOG).0,
            looked_at,
            waiters: Waiters::default(),
            bindings,
            expected,
            losses: OnceLock::new(),
            leaving: CancellationToken::new(),
        }
    }

    /// With less time for a call than its dialect gives it.
    #[must_use]
    pub fn answering_within(mut self, most: Duration) -> Self {
        self.answers_within = most;
        self
    }

    /// With a key that needs no pairing, for one machine of `user` at a time.
    #[must_use]
    pub fn with_fixed_key(mut self, key: &[u8], user: &str) -> Self {
        self.fixed = Some(Fixed::new(key, user));
        self
    }

    pub(super) fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machines of `user` that are linked, the newest link first.
    pub(crate) fn of(&self, user: &str) -> Vec<Arc<Link>> {
        let own = self.links().of.get(user).cloned().unwrap_or_default();
        let mut own: Vec<(u64, Arc<Link>)> = own
            .into_iter()
            .filter(|link| link.is_live())
            .map(|link| (link.about().number, link))
            .collect();
        own.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        own.into_iter().map(|(_, link)| link).collect()
    }

    /// The link of a machine, where its daemon has introduced itself.
    pub(crate) fn link(&self, user: &str, machine: &str) -> Option<Arc<Link>> {
        self.links().get(user, machine).cloned()
    }

    /// Takes a piece of a reply; the whole text, when it was the last.
    pub(crate) fn gather(
        &self,
        link: &Link,
        request: &str,
        chunk: &Chunk,
    ) -> Result<Option<String>, Taken> {
        let own = self.links().of.get(&link.user).cloned();
        let held: usize = own.iter().flatten().map(|link| link.held()).sum();
        if held.saturating_add(chunk.text.len()) > MAX_GATHERED_OF_ONE {
            let why = "Too many pieces of this person's machines are held already.";
            return Err(Taken::Bad(why.to_owned()));
        }
        link.gather(request, chunk)
    }

    /// Lets go of what is held for calls whose time is over.
    pub fn let_go(&self) {
        let links: Vec<Arc<Link>> = self.links().every().cloned().collect();
        for link in links {
            link.held();
        }
    }

    /// The link that stands for the machine of `link` now: that one was let go of
    /// if its daemon stayed away while a person was asked.
    pub(super) fn current(&self, link: &Arc<Link>) -> Result<Arc<Link>, Failure> {
        let now = self.link(&link.user, &link.id);
        // In another dialect it would not understand what is asked.
        now.filter(|now| now.is_live() && now.about().dialect == link.about().dialect)
            .ok_or_else(away)
    }

    /// Whether a conversation stays with a machine already.
    pub(crate) fn stays(&self, who: &Conversation) -> bool {
        self.bindings.look(who, self.clock.now_ms()).is_some()
    }

    /// A session began; `is_open` tells which others are open.
    pub(crate) async fn begin_session(
        &self,
        who: &Conversation,
        is_open: &(dyn Fn(&str) -> bool + Sync),
    ) {
        let now = self.clock.now_ms();
        let note = self.bindings.begin_session(who, is_open, now);
        note.keep(&self.store).await;
    }

    /// A session was ended by who had it.
    pub(crate) async fn end_session(&self, who: &Conversation) {
        self.bindings.end_session(who).keep(&self.store).await;
    }

    /// Waits a moment for machines of `user` that were linked when the server
    /// before this one ended.
    pub(crate) async fn settle_in(&self, user: &str) {
        self.expected.wait(user).await;
    }

    /// Hears whose machines change.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Arc<str>> {
        self.changes.subscribe()
    }

    /// Tells whoever works with what is `user`'s that it looks different now.
    pub(crate) fn tell_changed(&self, user: &Arc<str>) {
        self.changed(user);
    }

    pub(super) fn changed(&self, user: &Arc<str>) {
        // Nobody may listen.
        let _heard = self.changes.send(Arc::clone(user));
    }

    /// From now on `tell` is called for every machine that is lost: its daemon
    /// stayed away, or its key is gone.
    pub(crate) fn tell_losses(&self, tell: impl Fn(&Link) + Send + Sync + 'static) {
        // A gateway is one server's.
        let _first = self.losses.set(Box::new(tell));
    }

    fn lost(&self, link: &Link) {
        if let Some(tell) = self.losses.get() {
            tell(link);
        }
    }

    /// A pairing token of `user`: the same one while it counts. Waits for the disk.
    pub(crate) fn pairing(&self, user: &Arc<str>) -> Result<Pairing, StoreError> {
        let now = self.clock.now_ms();
        let mut pairings = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
        pairings.retain(|_, pairing| pairing.expires_at > now);
        if let Some(pairing) = pairings.get(user) {
            let token = pairing.token.expose();
            // It may have been used up since.
            if self.store.link_key(token, now)?.is_some() {
                return Ok(pairing.clone());
            }
        }
        let made = self.store.create_pairing(user, now)?;
        pairings.insert(Arc::clone(user), made.clone());
        Ok(made)
    }

    /// Whose `presented` is, if anybody's.
    pub(crate) fn key(&self, presented: &str) -> Result<Option<LinkKey>, StoreError> {
        let fixed = self.fixed.as_ref().filter(|fixed| fixed.is(presented));
        let kept = self.store.link_key(presented, self.clock.now_ms())?;
        Ok(kept.or_else(|| fixed.map(Fixed::key)))
    }

    fn early(&self) -> MutexGuard<'_, HashMap<String, Early>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who listened with the key that the daemon of `link` came with goes on doing
    /// so. Other dialects than the seed's introduce themselves first: whoever listens
    /// there is not who came, and hears nothing.
    pub(super) fn claim_early(&self, token: &str, link: &Arc<Link>) {
        let early = self.early().remove(token);
        if let Some(early) = early.filter(|_| link.about().dialect == Dialect::Seed) {
            link.adopt(early.send, |number| {
                // A stream is claimed once: nobody else finds it.
                let _first = early.claimed.set((Arc::clone(link), number));
            });
        }
    }

    /// Somebody listens with a pairing token or the fixed key, and introduces
    /// itself later; nothing where too many do.
    pub(super) fn listen_early(&self, token: &str) -> Option<(Hearing, Claimed)> {
        let mut early = self.early();
        early.retain(|_, one| !one.send.is_closed() && one.since.elapsed() < bounds::PAIRING);
        if early.len() >= MAX_EARLY {
            return None;
        }
        let (send, hearing) = queue();
        let claimed = Claimed::default();
        let one = Early {
            send,
            claimed: Arc::clone(&claimed),
            since: Instant::now(),
        };
        early.insert(token.to_owned(), one);
        Some((hearing, claimed))
    }

    /// Who listened does no more.
    pub(super) fn unlistened(self: &Arc<Self>, link: &Arc<Link>, number: u64) {
        if link.unlisten(number) {
            self.watch_over(link);
        }
    }

    /// Nobody listens: the link is waited for a moment, and when it stays away,
    /// those who care are told. It is let go of when no call waits for it.
    pub(super) fn watch_over(self: &Arc<Self>, link: &Arc<Link>) {
        if link.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut left = link.grace_left();
        let (gateway, link) = (Arc::downgrade(self), Arc::downgrade(link));
        let waiting = async move {
            let mut is_gone = false;
            loop {
                tokio::time::sleep(left).await;
                let (Some(gateway), Some(link)) = (gateway.upgrade(), link.upgrade()) else {
                    return;
                };
                // Before the look: who stops listening right after it is watched anew.
                link.watched.store(false, Ordering::Release);
                let was_gone = std::mem::replace(&mut is_gone, !link.is_live());
                if is_gone && !was_gone {
                    gateway.gone(&link).await;
                } else if is_gone {
                    gateway.links().sweep();
                }
                let is_over = link.has_ended() || link.listener().is_some();
                if is_over || link.watched.swap(true, Ordering::AcqRel) {
                    return;
                }
                left = if is_gone {
                    LOOK_AGAIN
                } else {
                    link.grace_left()
                };
            }
        };
        // A stream is dropped on a runtime, except where that itself ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(waiting);
        }
    }

    /// The daemon behind `link` stayed away.
    async fn gone(&self, link: &Arc<Link>) {
        self.changed(&link.user);
        self.links().sweep();
        // Another one may stand for the machine by now, or this one again.
        let is_back = || {
            let now = self.link(&link.user, &link.id);
            now.is_some_and(|one| one.is_live())
        };
        if is_back() || link.has_left() {
            return;
        }
        self.lost(link);
        let (store, id) = (self.store.clone(), Arc::clone(&link.id));
        // What is not noted costs the next server a moment's wait.
        let noted = tokio::task::spawn_blocking(move || drop(store.machine_gone(&id)));
        drop(noted.await);
        if is_back() {
            let (store, id) = (self.store.clone(), Arc::clone(&link.id));
            let now = self.clock.now_ms();
            let noted = tokio::task::spawn_blocking(move || drop(store.machine_seen(&id, now)));
            drop(noted.await);
        }
    }

    /// Ends the session of a machine, if it is that of who has the key `held`: its
    /// daemon leaves. Whether it was. Waits for the disk.
    pub(crate) fn leave(&self, user: &str, machine: &str, held: &str) -> Result<bool, StoreError> {
        let link = self.link(user, machine);
        if !self.store.end_link_session(machine, Some(held))? {
            return Ok(false);
        }
        // The one that was there before the key was looked at: no later pairing's.
        if let Some(link) = link {
            self.links().take(&link);
            self.end(&link, None);
            self.changed(&link.user);
        }
        Ok(true)
    }

    /// Ends the session of a machine: its key counts no more, whoever listens is
    /// told `last`, and every call that waits fails at once. Waits for the disk.
    pub(crate) fn disconnect(
        &self,
        user: &str,
        machine: &str,
        last: Option<&Event>,
    ) -> Result<bool, StoreError> {
        let known = self.store.end_link_session(machine, None)?;
        let mut links = self.links();
        let link = links.get(user, machine).cloned();
        if let Some(link) = &link {
            links.take(link);
        }
        drop(links);
        let linked = link.is_some();
        if let Some(link) = link {
            self.end(&link, last);
            self.changed(&link.user);
        }
        Ok(known || linked)
    }

    pub(super) fn end(&self, link: &Link, last: Option<&Event>) {
        for request in link.end(last) {
            // What is not marked now is forgotten when its time is over.
            drop(self.store.fail_link_call(&request));
            self.waiters.wake(&request);
        }
    }

    /// Tells who waits for calls that were ended in the journal.
    pub(super) fn lose(&self, link: &Link, ended: &[String]) {
        link.lose(ended);
        for request in ended {
            self.waiters.wake(request);
        }
    }

    /// Ends the links of machines whose key is gone: another process removed
    /// them. Called as often as credentials are looked at; waits for the disk.
    pub fn refresh(&self) -> Result<(), StoreError> {
        for machine in self.expected.given_up() {
            self.store.machine_gone(&machine)?;
        }
        let version = self.store.version()?;
        if self.looked_at.load(Ordering::Acquire) == version {
            return Ok(());
        }
        let kept = self.store.machines(None)?;
        let kept: HashMap<&str, bool> = kept.iter().map(|one| (&*one.id, one.paired)).collect();
        let mut gone: Vec<Arc<Link>> = Vec::new();
        for link in self.links().every() {
            let known = kept.get(&*link.id);
            if known.is_none_or(|paired| link.about().keyed && !paired) {
                gone.push(Arc::clone(link));
            }
        }
        // One may have been paired since the list was read: each is looked at alone.
        let mut left = Vec::new();
        for link in gone {
            let machine = self.store.machine(&link.id)?;
            if machine.is_none_or(|machine| link.about().keyed && !machine.paired) {
                left.push(link);
            }
        }
        let gone = left;
        for link in &gone {
            self.links().take(link);
        }
        for link in gone {
            self.end(&link, Some(&Event::GatewayDisconnect));
            self.changed(&link.user);
            self.lost(&link);
        }
        // Only now: what could not be read is looked at again.
        self.looked_at.store(version, Ordering::Release);
        Ok(())
    }

    /// Lets go of every stream: the server ends, and daemons come back to the next.
    /// Replies that are on their way have a moment; then whoever waits for one is told.
    pub(crate) fn hang_up(&self) {
        self.early().clear();
        for link in self.links().every() {
            link.hang_up();
        }
        let leaving = self.leaving.clone();
        tokio::spawn(async move {
            tokio::time::sleep(REPLIES_LAST).await;
            leaving.cancel();
        });
    }
}
