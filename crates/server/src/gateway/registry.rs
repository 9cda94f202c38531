//! Every link there is: who is linked, with what, and who is told of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use portcullis_gate::{Clock, Gate};
use portcullis_link::{Dialect, Event, bounds};
use portcullis_proto::{Failure, Reason};
use portcullis_store::{Lent, LinkKey, LinkKeyKind, LinkedMachine, Pairing, Store, StoreError};
use ring::digest::{Digest, SHA256, digest};
use tokio::sync::{broadcast, mpsc};

use super::link::{About, Link, Outgoing};
use super::offers::Offers;
use super::seed::Tree;
use super::surface::{Offer, is_within};

/// How many daemons listen before they have introduced themselves.
const MAX_EARLY: usize = 1_024;
/// How many changes wait for who listens to them; who misses some looks anew.
const BACKLOG: usize = 64;

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
    fixed: Option<Fixed>,
    /// Who listens before it has introduced itself, by its pairing token.
    early: Mutex<HashMap<String, Early>>,
    offers: Offers,
    number: AtomicU64,
    /// Whose machines changed.
    changes: broadcast::Sender<Arc<str>>,
    /// The [`Store::version`] that was looked at last.
    looked_at: AtomicU64,
}

/// A key that needs no pairing.
struct Fixed {
    digest: Digest,
    user: Arc<str>,
    /// The machine that came with it last.
    machine: Mutex<Option<String>>,
}

impl Fixed {
    /// Whether `presented` is it, in the time it takes for any.
    fn is(&self, presented: &str) -> bool {
        let digest = digest(&SHA256, presented.as_bytes());
        let pairs = digest.as_ref().iter().zip(self.digest.as_ref());
        pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
    }

    fn machine(&self) -> MutexGuard<'_, Option<String>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The link of a stream and which stream of it that is, once both are known.
pub(super) type Claimed = Arc<OnceLock<(Arc<Link>, u64)>>;

/// A stream whose daemon has not introduced itself yet: the seed's dialect.
struct Early {
    send: mpsc::Sender<Outgoing>,
    claimed: Claimed,
}

/// Links by whose they are: who has one looks through their own.
#[derive(Default)]
struct Links {
    of: HashMap<Arc<str>, Vec<Arc<Link>>>,
    all: usize,
}

impl Links {
    fn get(&self, user: &str, machine: &str) -> Option<&Arc<Link>> {
        let own = self.of.get(user)?;
        own.iter().find(|link| &*link.id == machine)
    }

    /// Puts a link in; the one it takes the place of.
    fn put(&mut self, link: Arc<Link>) -> Option<Arc<Link>> {
        let before = self.take(&link.user, &link.id);
        let own = self.of.entry(Arc::clone(&link.user)).or_default();
        own.push(link);
        self.all += 1;
        before
    }

    fn take(&mut self, user: &str, machine: &str) -> Option<Arc<Link>> {
        let own = self.of.get_mut(user)?;
        let at = own.iter().position(|link| &*link.id == machine)?;
        self.all -= 1;
        Some(own.swap_remove(at))
    }

    fn every(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.of.values().flatten()
    }

    fn sweep(&mut self) {
        self.of.retain(|_, own| {
            own.retain(|link| !link.is_spent());
            !own.is_empty()
        });
        self.all = self.of.values().map(Vec::len).sum();
    }
}

/// What a daemon says of itself, checked.
pub(crate) struct Welcome {
    pub(crate) dialect: Dialect,
    /// The name its owner chose, in our own dialect.
    pub(crate) named: Option<String>,
    pub(crate) host: String,
    pub(crate) root: String,
    pub(crate) offer: Offer,
    /// What the seed's dialect uploads.
    pub(crate) tree: Tree,
}

/// A daemon that was let in.
pub(crate) struct Admitted {
    pub(crate) machine: LinkedMachine,
    /// Its key from now on, where a pairing token was used up.
    pub(crate) session: Option<String>,
}

/// Why a daemon is not let in.
pub(crate) enum NotAdmitted {
    /// Its key is nobody's any more.
    Key,
    /// It offers what its owner was never shown: these tools, or another root.
    Wider(String),
    /// Something else stands in the way.
    Failed(Failure),
}

impl From<StoreError> for NotAdmitted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
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
        let looked_at = AtomicU64::new(store.version().unwrap_or_default());
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
        self.fixed = Some(Fixed {
            digest: digest(&SHA256, key),
            user: user.into(),
            machine: Mutex::default(),
        });
        self
    }

    fn links(&self) -> MutexGuard<'_, Links> {
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

    /// Hears whose machines change.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Arc<str>> {
        self.changes.subscribe()
    }

    /// Tells whoever works with what is `user`'s that it looks different now.
    pub(crate) fn tell_changed(&self, user: &Arc<str>) {
        self.changed(user);
    }

    fn changed(&self, user: &Arc<str>) {
        // Nobody may listen.
        let _heard = self.changes.send(Arc::clone(user));
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
        let fixed = fixed.map(|fixed| LinkKey {
            user: fixed.user.as_ref().to_owned(),
            machine: fixed.machine().clone(),
            kind: LinkKeyKind::Fixed,
        });
        Ok(kept.or(fixed))
    }

    /// Lets the daemon in that came with `presented`, which is `key`. Waits for
    /// the disk.
    pub(crate) fn admit(
        &self,
        presented: &str,
        key: &LinkKey,
        welcome: Welcome,
    ) -> Result<Admitted, NotAdmitted> {
        let now = self.clock.now_ms();
        if self.links().all >= bounds::MAX_LINKS {
            self.links().sweep();
            if self.links().all >= bounds::MAX_LINKS {
                let full = Failure::new(Reason::Overload, "Too many machines are linked already.");
                return Err(NotAdmitted::Failed(full));
            }
        }
        match (key.kind, key.machine.as_deref()) {
            // Once more: it may have been ended while the body was on its way.
            (LinkKeyKind::Session, Some(_))
                if self.store.link_key(presented, now)?.as_ref() != Some(key) =>
            {
                Err(NotAdmitted::Key)
            }
            (LinkKeyKind::Session, Some(id)) => match self.store.machine(id)? {
                Some(machine) => self.come_back(machine, welcome, now),
                None => Err(NotAdmitted::Key),
            },
            (LinkKeyKind::Pairing, _) | (LinkKeyKind::Session, None) => {
                self.pair(presented, welcome, now)
            }
            (LinkKeyKind::Fixed, before) => {
                let admitted = self.come_unpaired(&key.user, welcome, now)?;
                let id = &admitted.machine.id;
                if let Some(before) = before.filter(|before| before != id) {
                    self.disconnect(&key.user, before, Some(&Event::GatewayDisconnect))?;
                }
                if let Some(fixed) = &self.fixed {
                    *fixed.machine() = Some(id.clone());
                }
                Ok(admitted)
            }
        }
    }

    /// A pairing: the owner wants this very machine, as it is now. Whoever stood
    /// for it before is told and let go.
    fn pair(&self, presented: &str, welcome: Welcome, now: u64) -> Result<Admitted, NotAdmitted> {
        let pin = serde_json::to_string(&welcome.offer.pin()).unwrap_or_default();
        let lent = Lent {
            named: welcome.named.as_deref(),
            host: &welcome.host,
            root: &welcome.root,
            surface: &pin,
        };
        let Some(paired) = self.store.pair(presented, lent, now)? else {
            return Err(NotAdmitted::Key);
        };
        let host = welcome.host.clone();
        let link = Link::new(
            &paired.machine.id,
            &paired.machine.user,
            self.about(&paired.machine, welcome, now),
        );
        let link = Arc::new(link);
        if let Some(early) = self.early().remove(presented) {
            let number = link.adopt(early.send);
            // A stream is claimed once: its token is used up.
            let _first = early.claimed.set((Arc::clone(&link), number));
        }
        let before = self.links().put(Arc::clone(&link));
        if let Some(before) = before {
            let last = if before.about().dialect.is_ours() {
                Event::Replaced { by: host }
            } else {
                Event::GatewayDisconnect
            };
            self.end(&before, Some(&last));
        }
        self.changed(&link.user);
        Ok(Admitted {
            machine: paired.machine,
            session: Some(paired.session.expose().to_owned()),
        })
    }

    fn early(&self) -> MutexGuard<'_, HashMap<String, Early>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody listens with a pairing token, and introduces itself later;
    /// nothing where too many do.
    pub(super) fn listen_early(&self, token: &str) -> Option<(mpsc::Receiver<Outgoing>, Claimed)> {
        let mut early = self.early();
        early.retain(|_, one| !one.send.is_closed());
        if early.len() >= MAX_EARLY {
            return None;
        }
        let (send, receive) = mpsc::channel(bounds::MAX_QUEUED);
        let claimed = Claimed::default();
        let one = Early {
            send,
            claimed: Arc::clone(&claimed),
        };
        early.insert(token.to_owned(), one);
        Some((receive, claimed))
    }

    /// A daemon with the fixed key: what it offers first is what it is held to.
    fn come_unpaired(
        &self,
        user: &str,
        welcome: Welcome,
        now: u64,
    ) -> Result<Admitted, NotAdmitted> {
        let pin = serde_json::to_string(&welcome.offer.pin()).unwrap_or_default();
        let lent = Lent {
            named: welcome.named.as_deref(),
            host: &welcome.host,
            root: &welcome.root,
            surface: &pin,
        };
        let machine = self.store.adopt(user, lent, now)?;
        self.come_back(machine, welcome, now)
    }

    /// A daemon that comes back: held to what its owner was shown.
    fn come_back(
        &self,
        machine: LinkedMachine,
        welcome: Welcome,
        now: u64,
    ) -> Result<Admitted, NotAdmitted> {
        let id = &machine.id;
        let beyond = welcome.offer.beyond(&machine.surface);
        let mut wider = Vec::new();
        if !beyond.is_empty() {
            wider.push(format!("tools it did not offer so: {}", beyond.join(", ")));
        }
        if !is_within(&welcome.root, &machine.root) {
            wider.push("another directory".to_owned());
        }
        if !wider.is_empty() {
            return Err(NotAdmitted::Wider(wider.join("; ")));
        }
        self.store.machine_seen(id, now)?;
        let about = self.about(&machine, welcome, now);
        let mut links = self.links();
        let known = links.get(&machine.user, id);
        let user = if let Some(link) = known.filter(|link| !link.has_ended()) {
            link.renew(about);
            Arc::clone(&link.user)
        } else {
            let link = Arc::new(Link::new(id, &machine.user, about));
            let user = Arc::clone(&link.user);
            links.put(link);
            user
        };
        drop(links);
        self.changed(&user);
        Ok(Admitted {
            machine,
            session: None,
        })
    }

    fn about(&self, machine: &LinkedMachine, welcome: Welcome, now: u64) -> About {
        About {
            name: machine.name.clone(),
            host: welcome.host,
            root: welcome.root,
            dialect: welcome.dialect,
            offer: self.offers.share(welcome.offer),
            tree: welcome.tree,
            since_ms: now,
            number: self.number.fetch_add(1, Ordering::Relaxed),
            keyed: machine.paired,
        }
    }

    /// Who listened does no more: the link is waited for a moment, and when it
    /// stays away, those who care are told.
    pub(super) fn unlistened(self: &Arc<Self>, link: &Arc<Link>, number: u64) {
        if !link.unlisten(number) {
            return;
        }
        let (gateway, link) = (Arc::downgrade(self), Arc::downgrade(link));
        let waiting = async move {
            tokio::time::sleep(bounds::GRACE).await;
            let (Some(gateway), Some(link)) = (gateway.upgrade(), link.upgrade()) else {
                return;
            };
            if !link.is_live() {
                gateway.changed(&link.user);
                gateway.links().sweep();
            }
        };
        // A stream is dropped on a runtime, except where that itself ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(waiting);
        }
    }

    /// Ends the session of a machine: its key counts no more, whoever listens is
    /// told `last`, and every call that waits fails at once. Waits for the disk.
    pub(crate) fn disconnect(
        &self,
        user: &str,
        machine: &str,
        last: Option<&Event>,
    ) -> Result<bool, StoreError> {
        let known = self.store.end_link_session(machine)?;
        let link = self.links().take(user, machine);
        let linked = link.is_some();
        if let Some(link) = link {
            self.end(&link, last);
            self.changed(&link.user);
        }
        Ok(known || linked)
    }

    fn end(&self, link: &Link, last: Option<&Event>) {
        for request in link.end(last) {
            // What is not marked now is forgotten when its time is over.
            drop(self.store.fail_link_call(&request));
        }
    }

    /// Ends the links of machines whose key is gone: another process removed
    /// them. Called as often as credentials are looked at; waits for the disk.
    pub fn refresh(&self) -> Result<(), StoreError> {
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
            self.links().take(&link.user, &link.id);
        }
        for link in gone {
            self.end(&link, Some(&Event::GatewayDisconnect));
            self.changed(&link.user);
        }
        // Only now: what could not be read is looked at again.
        self.looked_at.store(version, Ordering::Release);
        Ok(())
    }

    /// Lets go of every stream: the server ends, and daemons come back to the next.
    pub(crate) fn hang_up(&self) {
        self.early().clear();
        for link in self.links().every() {
            link.hang_up();
        }
    }
}
