//! Letting a daemon in: with what key, as which machine, and with no more than
//! its owner was shown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_link::{Dialect, Event, bounds};
use portcullis_proto::{Failure, Reason};
use portcullis_store::{Lent, LinkKey, LinkKeyKind, LinkedMachine, StoreError, Wider};

use super::about::{About, Lends};
use super::fixed::Unlinked;
use super::link::Link;
use super::queue::Outgoing;
use super::registry::Gateway;
use super::seed::Tree;
use super::surface::{Offer, is_within};
use crate::http::Rate;

/// How often a second a daemon may introduce itself; each time is written down.
const INITS_PER_SECOND: u32 = 10;

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
    /// Its files, in our own dialect.
    pub(crate) files: Option<Lends>,
    /// What remembers the calls it is sent; empty where it says nothing of it.
    pub(crate) instance: String,
}

impl Welcome {
    /// What it is held to from now on, as it is stored: its tools, and its files
    /// where it lends them beside those.
    fn pin(&self) -> String {
        let mut pin = self.offer.pin();
        pin.extend(self.files.as_ref().map(Lends::pin));
        serde_json::to_string(&pin).unwrap_or_default()
    }

    fn lent<'a>(&'a self, pin: &'a str) -> Lent<'a> {
        Lent {
            named: self.named.as_deref(),
            host: &self.host,
            root: &self.root,
            surface: pin,
        }
    }
}

/// A daemon that was let in.
pub(crate) struct Admitted {
    pub(crate) machine: LinkedMachine,
    /// Its key from now on, where a pairing token was used up.
    pub(crate) session: Option<String>,
    /// The host of the daemon whose place it took.
    pub(crate) replaced: Option<String>,
    /// The machine that had the fixed key before, and is linked no more.
    pub(crate) put_out: Option<String>,
}

/// Why a daemon is not let in.
pub(crate) enum NotAdmitted {
    /// Its key is nobody's any more.
    Key,
    /// It offers what its owner was never shown: these tools, or another root.
    Wider(String),
    /// It does so all the time, and may again after so long.
    TooOften(Duration),
    /// Something else stands in the way.
    Failed(Failure),
}

impl From<StoreError> for NotAdmitted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Gateway {
    /// Lets the daemon in that came with `presented`, which is `key`. Waits for
    /// the disk.
    pub(crate) fn admit(
        self: &Arc<Self>,
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
        self.pace(key)?;
        match (key.kind, key.machine.as_deref()) {
            (LinkKeyKind::Session, Some(id)) => {
                let Some(machine) = self.store.machine(id)? else {
                    return Err(NotAdmitted::Key);
                };
                // Once more: it may have been ended while the body was on its way.
                let counts = || Ok(self.store.link_key(presented, now)?.as_ref() == Some(key));
                self.come_back(machine, welcome, now, counts)
            }
            (LinkKeyKind::Pairing, _) | (LinkKeyKind::Session, None) => {
                self.pair(presented, welcome, now)
            }
            (LinkKeyKind::Fixed, _) => {
                let _alone = self.one_with_fixed();
                let mut admitted = self.come_unpaired(&key.user, welcome, now)?;
                let id = &admitted.machine.id;
                // Who stood there when the request began may have been put out since.
                if let Some(before) = self.came_with_fixed(id) {
                    let last = Some(&Event::GatewayDisconnect);
                    let ended = self.disconnect_unpaired(&key.user, &before, last)?;
                    admitted.put_out = (ended == Unlinked::Linked).then_some(before);
                }
                let id = &admitted.machine.id;
                if let Some(link) = self.link(&key.user, id) {
                    self.claim_early(presented, &link);
                }
                Ok(admitted)
            }
        }
    }

    /// Whether a daemon that comes back may do so now. A pairing token counts
    /// once, and needs no pace.
    fn pace(&self, key: &LinkKey) -> Result<(), NotAdmitted> {
        let rate = Rate::per_second(INITS_PER_SECOND);
        let now_us = self.clock.monotonic_us();
        let paced = match (key.kind, key.machine.as_deref()) {
            (LinkKeyKind::Session, Some(id)) => match self.link(&key.user, id) {
                Some(link) => link.inits.step(rate, now_us),
                None => Ok(()),
            },
            (LinkKeyKind::Fixed, _) => self.pace_fixed(rate, now_us),
            (LinkKeyKind::Pairing, _) | (LinkKeyKind::Session, None) => Ok(()),
        };
        paced.map_err(NotAdmitted::TooOften)
    }

    /// A pairing: the owner wants this very machine, as it is now. Whoever stood
    /// for it before is told and let go.
    fn pair(
        self: &Arc<Self>,
        presented: &str,
        welcome: Welcome,
        now: u64,
    ) -> Result<Admitted, NotAdmitted> {
        let pin = welcome.pin();
        let lent = welcome.lent(&pin);
        let Some(paired) = self.store.pair(presented, lent, now)? else {
            return Err(NotAdmitted::Key);
        };
        self.not_with_fixed(&paired.machine.id);
        let host = welcome.host.clone();
        let link = Link::new(
            &paired.machine.id,
            &paired.machine.user,
            self.about(&paired.machine, welcome, now),
        );
        let link = Arc::new(link);
        self.claim_early(presented, &link);
        let before = self.links().put(Arc::clone(&link));
        let before = before.filter(|before| !before.has_ended());
        let replaced = before
            .as_ref()
            .filter(|before| before.listener().is_some())
            .map(|before| before.about().host.clone());
        if let Some(before) = before {
            let last = if before.about().dialect.is_ours() {
                Event::Replaced { by: host }
            } else {
                Event::GatewayDisconnect
            };
            self.end(&before, Some(&last));
        }
        self.expected.came(&link.user, &link.id);
        self.changed(&link.user);
        self.watch_over(&link);
        Ok(Admitted {
            machine: paired.machine,
            session: Some(paired.session.expose().to_owned()),
            replaced,
            put_out: None,
        })
    }

    /// A daemon with the fixed key: what it offers first is what it is held to.
    fn come_unpaired(
        self: &Arc<Self>,
        user: &str,
        welcome: Welcome,
        now: u64,
    ) -> Result<Admitted, NotAdmitted> {
        let pin = welcome.pin();
        let lent = welcome.lent(&pin);
        let machine = self.store.adopt(user, lent, now)?;
        self.come_back(machine, welcome, now, || Ok(true))
    }

    /// A daemon that comes back, while its key `counts`: held to what its owner was
    /// shown.
    fn come_back(
        self: &Arc<Self>,
        machine: LinkedMachine,
        welcome: Welcome,
        now: u64,
        counts: impl Fn() -> Result<bool, StoreError>,
    ) -> Result<Admitted, NotAdmitted> {
        if !counts()? {
            return Err(NotAdmitted::Key);
        }
        let id = &machine.id;
        let beyond = welcome.offer.beyond(&machine.surface);
        let mut wider = Vec::new();
        if !beyond.is_empty() {
            wider.push(format!("tools it did not offer so: {}", beyond.join(", ")));
        }
        if welcome
            .files
            .as_ref()
            .is_some_and(|files| !files.is_in(&machine.surface))
        {
            wider.push("files beside its tools, which it did not lend so".to_owned());
        }
        if !is_within(&welcome.root, &machine.root) {
            wider.push(format!("another directory: {}", welcome.root));
        }
        if welcome.host != machine.host {
            wider.push(format!("another host: {}", welcome.host));
        }
        if !wider.is_empty() {
            let how = wider.join("; ");
            let pin = welcome.pin();
            let offered = Wider {
                how: &how,
                host: &welcome.host,
                root: &welcome.root,
                surface: &pin,
            };
            self.store.offer_wider(id, offered)?;
            return Err(NotAdmitted::Wider(how));
        }
        self.store.machine_seen(id, now)?;
        let host = welcome.host.clone();
        let about = self.about(&machine, welcome, now);
        let (instance, is_ours) = (Arc::clone(&about.instance), about.dialect.is_ours());
        let mut links = loop {
            let seen = self.link(&machine.user, id);
            if !counts()? {
                return Err(NotAdmitted::Key);
            }
            let links = self.links();
            let stands = links.get(&machine.user, id);
            // If not, it may have been paired anew between the two looks.
            if stands.map(Arc::as_ptr) == seen.as_ref().map(Arc::as_ptr) {
                break links;
            }
        };
        let known = links.get(&machine.user, id);
        let known = known.filter(|link| !link.has_ended());
        if known.is_some_and(|link| link.about().keyed && !machine.paired) {
            // It was paired while this one came: it is the other's.
            return Err(NotAdmitted::Key);
        }
        let mut replaced = None;
        let link = if let Some(link) = known {
            let link = Arc::clone(link);
            let before = link.about();
            if before.dialect.is_ours() && before.instance != instance {
                let told = link.tell(Outgoing::last(&Event::Replaced { by: host }));
                replaced = told.then(|| before.host.clone());
            }
            link.renew(about);
            link
        } else {
            let link = Arc::new(Link::new(id, &machine.user, about));
            links.put(Arc::clone(&link));
            link
        };
        drop(links);
        if is_ours {
            // After it is known: what is written down from now on is for this one.
            let ended = self.store.fail_link_calls_of_others(id, &instance)?;
            self.lose(&link, &ended);
        }
        self.expected.came(&link.user, id);
        self.changed(&link.user);
        self.watch_over(&link);
        Ok(Admitted {
            machine,
            session: None,
            replaced,
            put_out: None,
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
            files: welcome.files,
            since_ms: now,
            number: self.number.fetch_add(1, Ordering::Relaxed),
            keyed: machine.paired,
            instance: welcome.instance.into(),
        }
    }
}
